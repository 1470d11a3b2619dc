"""The machine alone: what the loading screen shows from the first frame."""

from __future__ import annotations

from tui_profiler.formatting.canvas import UNICODE, Glyphs
from tui_profiler.session import EMPTY, Session

from .lines import LinesWidget
from .machine_lines import machine_lines
from .rows import Look, finished


class Machine(LinesWidget):
    """Shows the hardware counters."""

    DEFAULT_CSS = """
    Machine { width: 1fr; height: 6; }
    """

    def __init__(
        self, glyphs: Glyphs = UNICODE, *, id: str | None = None, classes: str | None = None
    ) -> None:
        super().__init__(id=id, classes=classes)
        self.glyphs = glyphs
        self._shown: tuple[Session, float] = (EMPTY, 0.0)

    def show(self, session: Session, now: float) -> None:
        """Show the newest sample as it is at ``now``, seconds on the probe's clock."""
        self._shown = (session, now)
        self._draw()

    def on_resize(self) -> None:
        """Lay the panel out anew."""
        self._draw()

    def _draw(self) -> None:
        session, now = self._shown
        cells, rows = self.size
        if cells > 2 and rows > 0:
            look = Look(session, 0, now, cells, self.glyphs)
            self.lines = finished(machine_lines(look), look, rows)
