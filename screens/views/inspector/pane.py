"""The right pane: one node in full, and the machine."""

from __future__ import annotations

from tui_profiler.formatting.canvas import UNICODE, Glyphs
from tui_profiler.messages import LoadSpec
from tui_profiler.queries.panel.state import is_stale
from tui_profiler.session import EMPTY, Session

from ...widgets.lines import LinesWidget
from ...widgets.rows import Look
from .lines import inspector_lines
from .request_lines import request_lines


class Inspector(LinesWidget):
    """Shows what is known of the selected node."""

    DEFAULT_CSS = """
    Inspector { width: 48; height: 1fr; }
    """

    def __init__(
        self,
        glyphs: Glyphs = UNICODE,
        spec: LoadSpec | None = None,
        *,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(id=id, classes=classes)
        self.glyphs = glyphs
        self.spec = spec
        """What was asked for: shown until there is a tree."""
        self._shown: tuple[Session, int, float] = (EMPTY, 0, 0.0)
        self._drawn: tuple[object, ...] = ()

    def show(self, session: Session, node: int, now: float) -> None:
        """Show a node of a session as it is at ``now``, seconds on the probe's clock."""
        self._shown = (session, node, now)
        self._draw()

    def on_resize(self) -> None:
        """Lay the panel out anew."""
        self._draw()

    def _draw(self) -> None:
        session, node, now = self._shown
        cells, rows = self.size
        # The clock alone changes nothing here, until what is known becomes old.
        wanted = (session, node, is_stale(session, now), cells, rows)
        if cells > 2 and rows > 0 and wanted != self._drawn:
            self._drawn = wanted
            look = Look(session, node, now, cells, self.glyphs)
            self.lines = (
                request_lines(look, rows, self.spec)
                if session.tree is None
                else inspector_lines(look, rows)
            )
