"""The row above the keys: the last thing that happened, and what watching costs."""

from __future__ import annotations

from tui_profiler.figures.units import thousands
from tui_profiler.formatting.canvas import UNICODE, Glyphs
from tui_profiler.formatting.text import safe, width
from tui_profiler.queries.panel.phrases import dropped, last_events, left_out, overhead_text
from tui_profiler.session import EMPTY as NOTHING
from tui_profiler.session import Session

from .lines import EMPTY, Line, LinesWidget, line_width
from .rows import Look, finished, row


def status_lines(look: Look, said: str = "", standing: tuple[str, ...] = ()) -> tuple[Line, ...]:
    """Return the row.

    Args:
        look: what is shown.
        said: what the user was told last; stands before the last event.
        standing: what stands instead of the last event, the longest form first.
    """
    session = look.session
    bad = session.failure is not None or (session.ended is not None and not session.ended.expected)
    if said:
        events: tuple[str, ...] = (safe(said),)
    else:
        events = standing if standing and not bad else last_events(session)
    role = "ink" if bad or said else "muted"
    left = next((e for e in events if width(e) <= look.inner), events[-1])
    for right in _costs(session):
        if width(left) + line_width(right) + 2 <= look.inner:
            return finished((row(((left, role),), right, look),), look)
    # The event matters more: it takes the whole row, and is cut only where that is too short.
    return finished((row(((left, role),), EMPTY, look),), look)


def _costs(session: Session) -> tuple[Line, ...]:
    if session.tree is None or not session.tree.has_forward:
        return ()
    cost: Line = (("profiler overhead ", "muted"), (overhead_text(session), "ink"))
    lost: Line = (("  dropped ", "muted"), (thousands(dropped(session)), "ink"))
    without = left_out(session)
    short: Line = (*cost, ("  left out ", "muted"), (f"{thousands(without)} nodes", "ink"))
    return ((*short, *lost), short, cost) if without else ((*cost, *lost), cost)


class Status(LinesWidget):
    """Shows the row."""

    DEFAULT_CSS = """
    Status { width: 1fr; height: 1; }
    """

    def __init__(
        self, glyphs: Glyphs = UNICODE, *, id: str | None = None, classes: str | None = None
    ) -> None:
        super().__init__(id=id, classes=classes)
        self.glyphs = glyphs
        self._shown: tuple[Session, float, str, tuple[str, ...]] = (NOTHING, 0.0, "", ())

    def show(
        self, session: Session, now: float, said: str = "", standing: tuple[str, ...] = ()
    ) -> None:
        """Show a session as it is at ``now``, seconds on the probe's clock."""
        self._shown = (session, now, said, standing)
        self._draw()

    def on_resize(self) -> None:
        """Lay the row out anew."""
        self._draw()

    def _draw(self) -> None:
        session, now, said, standing = self._shown
        if self.size.width > 2:
            look = Look(session, 0, now, self.size.width, self.glyphs)
            self.lines = status_lines(look, said, standing)
