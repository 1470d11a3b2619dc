"""The explorer's last row: the keys that matter to what is on screen."""

from tui_profiler.formatting.canvas import UNICODE, Glyphs
from tui_profiler.queries.panel.failure import trouble
from tui_profiler.queries.time.forward_kinds import other_phase
from tui_profiler.session import Session

from ..widgets.key_bar import Keys, key_bar
from ..widgets.lines import Line
from .table import Key, footer, refusal, shown


def explorer_bar(
    keys: tuple[Key, ...],
    session: Session,
    cells: int,
    *,
    narrow: bool = False,
    glyphs: Glyphs = UNICODE,
) -> Line:
    """Return the row, of ``cells``; ``keys`` are those of the explorer as the user has them."""
    left = footer(keys, "left", narrow=narrow)
    if other_phase(session):
        left = ((_key_of(keys, "phase"), other_phase(session)), *left)
    if session.playback is not None:
        play = footer(keys, "play", narrow=narrow)
        if not session.playback.is_playing:
            play = tuple((key, "play" if label == "pause" else label) for key, label in play)
        taken = [key for key, _ in play]
        left = (*play, *((key, label) for key, label in left if key not in taken))
    elif trouble(session) is not None:
        ended = session.ended
        is_users = ended is not None and (ended.is_script or ended.attached)
        left = _restarts(keys, "try", *(() if is_users else ("restart",)), "log")
    elif session.tree is None and refusal(session, "Start"):
        left = ()  # A program that was attached to cannot be restarted.
    elif session.tree is None:
        left = _restarts(keys, "restart")
    return key_bar(left, footer(keys, "right", narrow=narrow), cells, glyphs)


def _restarts(keys: tuple[Key, ...], *actions: str) -> Keys:
    labels = {"try": "try this", "restart": "restart", "log": "traceback and log"}
    return tuple((_key_of(keys, action), labels[action]) for action in actions)


def _key_of(keys: tuple[Key, ...], action: str) -> str:
    return next((shown(key) for key in keys if key.action == action), "")
