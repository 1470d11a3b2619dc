"""Every key, once, and why its request is refused.

Bindings, footer, help, palette, the configuration's keys and docs/keys.md are made from this.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from .names import action_name, written

if TYPE_CHECKING:
    from textual.binding import Binding

from tui_profiler.formatting.text import safe
from tui_profiler.messages import NO_FORWARD
from tui_profiler.session import Session


class Key(Struct, frozen=True):
    """A key and what it does."""

    keys: str
    """As Textual names them, comma-separated; the first one is shown."""
    action: str
    label: str
    """One word for the footer."""
    help: str
    """What it does, for the keys screen."""
    group: str
    shown: str = ""
    """How the keys are written; empty: as the first one is."""
    footer: str = ""
    """``left`` or ``right``, ``play`` for a recording's, or not in the footer; ``left!`` also at 80
    columns, ``left-narrow`` only there."""
    request: str = ""
    """The request that the probe must accept for it."""
    on: str = ""
    """Which part of the explorer does it, by the method of that name; empty: the screen itself."""
    asks: bool = False
    """Whether it opens a prompt: what is typed next goes there."""
    needs_tree: bool = False
    """Whether it does nothing until there is a tree on screen; so does all that is on it."""
    explains: bool = False
    """Whether its function says why not, because there is more to say than of the request."""
    at_once: bool = False
    """Whether it changes the tree alone, and is repeated as fast as keys come."""

    @property
    def name(self) -> str:
        """Return the name of the function: that of ``move(1)`` is move."""
        return self.action.partition("(")[0]


_tree = partial(Key, on="tree_widget")
_move = partial(_tree, at_once=True)
_model = partial(Key, group="live", on="requests")
_seek = partial(Key, group="play", request="Seek", on="requests")


def _side(keys: str, label: str, help: str, *, footer: str = "") -> Key:
    return Key(keys, f"side('{label}')", label, help, "screens", footer=footer)


SIDE_SCREENS: tuple[Key, ...] = (
    _side("t", "timeline", "timeline: step, forward, last minutes", footer="right"),
    _side("r", "roofline", "roofline: achieved and attainable, every node", footer="right!"),
    _side("m", "memory", "memory: live bytes over one forward, peak", footer="right!"),
    _side("w", "weights", "weights: statistics, output errors", footer="right"),
    _side("f", "findings", "findings by gain; x runs a trial", footer="right"),
    _side("H", "health", "health: NaN, activations, gradients, updates"),
    _side("A", "flat", "flat tables: modules, classes, operators"),
)
"""Other views of the same session and node; the label is the screen's name."""
EXPLORER: tuple[Key, ...] = (
    _tree(
        "slash",
        "filter",
        "search",
        "filter until esc: conv kernel:7x7 time>1ms",
        "find",
        footer="left!",
        asks=True,
    ),
    _tree("n", "match(1)", "next", "next match of the filter", "find"),
    _tree("N", "match(-1)", "previous", "previous match of the filter", "find"),
    _tree("s", "sort", "sort", "sort siblings by the next column", "find", footer="left!"),
    _tree("S", "reverse", "reverse", "reverse the order; sort live columns again", "find"),
    Key(
        "enter",
        "open",
        "open",
        "block: make it the root; leaf: open it",
        "move",
        shown="↵",
        footer="left!",
        needs_tree=True,
    ),
    Key("o", "node", "node", "open the node screen from anywhere", "move", needs_tree=True),
    _tree(
        "escape,backspace",
        "back",
        "back",
        "back: drop the filter, then one root up",
        "move",
        shown="esc",
    ),
    _tree(
        "z", "hottest", "hottest", "go to the module with the most self time", "find", footer="left"
    ),
    _tree("b", "mark", "mark", "mark the node, or remove its mark", "find"),
    _tree("apostrophe", "next_mark", "next mark", "go to the next mark", "find"),
    _tree("ctrl+o", "jump_back", "jump back", "go back after a jump", "find"),
    Key("p", "pause", "pause", "pause the view; the model keeps running", "live", footer="left"),
    Key("p", "pause", "pause", "pause or play", "play", footer="play!", request="Play"),
    _seek("less_than_sign", "seek(-5)", "back", "5 s back", footer="play!"),
    _seek("greater_than_sign", "seek(5)", "forward", "forward 5 s", footer="play!"),
    _seek("shift+left", "seek(-60)", "back", "back 1 min"),
    _seek("shift+right", "seek(60)", "forward", "forward 1 min"),
    Key(
        "plus,equals_sign",
        "speed(2)",
        "faster",
        "double the speed",
        "play",
        footer="play!",
        request="SetSpeed",
    ),
    Key(
        "minus",
        "speed(0.5)",
        "slower",
        "halve the speed",
        "play",
        footer="play!",
        request="SetSpeed",
    ),
    _seek(
        "at",
        "seek_to",
        "seek",
        "seek: 12.5 or 1:30 from the start, 50%, end",
        footer="play!",
        asks=True,
    ),
    _model(
        "P", "hold", "pause model", "pause the model (press twice) or resume it", request="Pause"
    ),
    _model(
        "full_stop", "step", "step", "run one forward while the model is paused", request="Step"
    ),
    _model(
        "B",
        "batch",
        "batch",
        "new batch size or inputs, and the difference",
        request="SetBatch",
        asks=True,
    ),
    _model(
        "D",
        "device",
        "device",
        "new device or dtype, and the difference",
        request="Start",
        asks=True,
    ),
    _model(
        "V",
        "next_model",
        "model",
        "show the program's next model, and stay on it",
        request="ShowModel",
    ),
    _model(
        "F",
        "phase",
        "phase",
        "run the other forward: prefill or decode",
        request="SetPhase",
        explains=True,
    ),
    Key(
        "E",
        "replay",
        "replay",
        "energy of the node, run alone for 15 s",
        "live",
        request="ReplayNode",
    ),
    _move("down,j", "move(1)", "down", "one row down", "move", shown="↓ j"),
    _move("up,k", "move(-1)", "up", "one row up", "move", shown="↑ k"),
    _move("ctrl+d,pagedown", "page(1)", "page", "half a page down", "move"),
    _move("ctrl+u,pageup", "page(-1)", "page", "half a page up", "move"),
    _move("g,home", "first", "top", "first row", "move"),
    _move("G,end", "last", "bottom", "last row", "move"),
    _move("right_square_bracket", "sibling(1)", "sibling", "next sibling", "move"),
    _move("left_square_bracket", "sibling(-1)", "sibling", "previous sibling", "move"),
    _move("right,l", "unfold", "unfold", "unfold", "fold", shown="→ l"),
    _move("left,h", "fold", "fold", "fold, or go to the parent", "fold", shown="← h"),
    _move("space", "toggle_fold", "fold", "fold or unfold", "fold"),
    _tree("left_curly_bracket", "fold_all", "fold all", "fold all", "fold"),
    _tree("right_curly_bracket", "unfold_all", "unfold all", "unfold all", "fold"),
    _tree("a", "operators", "operators", "show or hide operators in the tree", "fold"),
    _tree("u", "group", "group", "equal blocks as one row of sums, or each", "fold"),
    Key(
        "tab",
        "panels",
        "panels",
        "at 80 columns: the next section of the panel",
        "look",
        footer="left-narrow",
    ),
    Key("i", "why", "why", "where figures come from, or why none", "look", needs_tree=True),
    Key(
        "y",
        "copy",
        "copy",
        "copy, over SSH too: path, row, panel, screen",
        "look",
        on="copying",
        asks=True,
        needs_tree=True,
    ),
    Key(
        "e",
        "export",
        "export",
        "write screen, rows or a report to a file",
        "look",
        on="copying",
        asks=True,
    ),
    Key(
        "c",
        "columns",
        "columns",
        "choose the tree's columns and their order",
        "look",
        on="appearance",
        needs_tree=True,
    ),
    Key("T", "theme", "theme", "next theme", "look", on="appearance"),
    Key(
        "plus,equals_sign",
        "speed(2)",
        "faster",
        "refresh more often, up to 10 times per second",
        "look",
    ),
    Key("minus", "speed(0.5)", "slower", "refresh less often, down to every 2 s", "look"),
    *SIDE_SCREENS,
    Key(
        "C",
        "compare",
        "compare",
        "compare with a model, a recording or a report",
        "live",
        asks=True,
    ),
    Key("M", "machine", "machine", "machine: every counter, energy", "screens"),
    Key("R", "ranks", "ranks", "distributed ranks, or processes of a script", "screens"),
    Key("L", "log", "log", "log: output of the model and the worker", "screens"),
    Key("question_mark", "keys", "keys", "this list", "screens", footer="right!"),
    Key("ctrl+p,colon", "palette", "palette", "every command by name", "screens", shown="ctrl+p :"),
    Key("x", "try", "try", "try a failure's remedy; tab marks the next", "live", request="Start"),
    _model(
        "ctrl+r",
        "restart",
        "restart",
        "restart the worker; attached: trace again",
        request="Start",
        explains=True,
    ),
    Key("ctrl+z", "app.suspend_process", "suspend", "back to the shell; fg returns", "screens"),
    Key("q", "leave", "quit", "quit", "screens"),
)
DEPTHS: tuple[Key, ...] = tuple(
    _tree(str(depth), f"depth({depth})", "depth", f"unfold to depth {depth}", "fold")
    for depth in range(1, 10)
)


BY_NAME: tuple[Key, ...] = (
    _tree("", "sort_by", "sort", "", "find"),
    Key("", "use_theme", "theme", "use this theme", "look", on="appearance"),
    _side("", "compilation", "torch.compile: graph breaks, recompilations, their modules"),
    Key("", "toggle_mouse", "mouse", "turn the mouse off or on", "look", on="appearance"),
)
"""What has no key: the palette alone does it."""
OF_FUNCTION: Mapping[str, Key] = {
    **{key.name: key for key in reversed((*EXPLORER, *DEPTHS))},
    **{key.name: key for key in BY_NAME},
}
"""Name of a function to a row of it, the first one."""


def textual_action(action: str) -> str:
    """Return an action of the explorer as Textual runs it: what a part does, the screen hands on.

    Args:
        action: as its row names it.
    """
    key = OF_FUNCTION.get(action.partition("(")[0])
    return f"do({action!r})" if key is not None and key.on else action


def bindings(keys: tuple[Key, ...]) -> list[Binding]:
    """Return Textual's bindings."""
    from textual.binding import Binding  # noqa: PLC0415 # the footer is drawn before it is there

    return [
        Binding(
            key.keys,
            textual_action(key.action) if key.on else key.action,
            key.label,
            show=False,
            id=action_name(key.action),
        )
        for key in keys
    ]


def remapped(keys: tuple[Key, ...], own: Mapping[str, tuple[str, ...]]) -> tuple[Key, ...]:
    """Return the keys as a user has them; what the user gave to another action is lost.

    Args:
        keys: as they are without a configuration.
        own: name of the action to its keys, as Textual names them.
    """
    if not own:
        return keys
    taken = {key for own_keys in own.values() for key in own_keys}
    found: list[Key] = []
    for key in keys:
        mine = own.get(action_name(key.action))
        if mine is None:
            mine = tuple(one for one in key.keys.split(",") if one not in taken)
            if len(mine) == key.keys.count(",") + 1:
                found.append(key)
                continue
        found.append(replace(key, keys=",".join(mine), shown="" if mine else "none"))
    return tuple(found)


def shown(key: Key) -> str:
    """Return a key as it is written on screen."""
    return key.shown or written(key.keys.split(",", maxsplit=1)[0])


def footer(keys: tuple[Key, ...], side: str, *, narrow: bool) -> tuple[tuple[str, str], ...]:
    """Return (key, label) of one side of the footer."""
    wanted = (f"{side}!", f"{side}-narrow" if narrow else side)
    return tuple((shown(key), key.label) for key in keys if key.footer in wanted and key.keys)


def side_keys(keys: tuple[Key, ...], current: str = "") -> tuple[tuple[str, str], ...]:
    """Return (key, label) of the side screens in the footer, and of the one that is shown."""
    return tuple((shown(key), key.label) for key in keys if key.footer or key.label == current)


_OF_RECORDINGS = ("Play", "Halt", "SetSpeed", "Seek")
_OF_FORWARDS = ("Pause", "Resume", "Step", "SetBatch", "SetPhase", "ReplayNode")
"""What parameters alone cannot be asked for."""


def refusal(session: Session, request: str) -> str:
    """Return why a request is not carried out, empty where it is, or where no one is known to ask.

    Args:
        session: what is known.
        request: name of the request; empty for what needs none.
    """
    hello, tree = session.hello, session.tree
    if request in _OF_FORWARDS and tree is not None and not tree.has_forward:
        return NO_FORWARD
    if not request or hello is None or request in hello.accepts:
        return ""
    if request in _OF_RECORDINGS:
        return "only a recording is played"
    if request == "ShowModel":
        return "only a program runs several models"
    return safe(hello.refusal) or "not possible here"


def why_not_now(session: Session, request: str, key: str = "ctrl+r in the explorer") -> str:
    """Return why nobody would carry a request out now; empty where somebody would.

    Args:
        session: what is known.
        request: name of the request.
        key: what starts a worker, in words.
    """
    if why_not := refusal(session, request):
        return why_not
    is_gone = session.ended is not None and session.playback is None
    return why_gone(session, key) if is_gone else ""


def why_gone(session: Session, key: str = "ctrl+r") -> str:
    """Return why there is no one to ask, and what helps.

    Args:
        session: what is known.
        key: what starts a worker, in words.
    """
    ended = session.ended
    if ended is not None and ended.attached:
        return "the program has ended; tui-profiler attach lists others"
    if ended is not None and ended.is_script:
        return "the script has ended; start it again in a shell"
    return f"no worker; {key} starts one"
