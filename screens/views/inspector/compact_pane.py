"""The panel below the tree, where there is no room for one beside it."""

from __future__ import annotations

from tui_profiler.formatting.canvas import UNICODE, Glyphs
from tui_profiler.queries.panel.state import is_stale
from tui_profiler.session import EMPTY, Session

from ...widgets.lines import LinesWidget
from ...widgets.rows import Look
from .compact_lines import compact_lines, one_line


class Compact(LinesWidget):
    """Shows the selected node in a few lines, in one line where that is all there is."""

    DEFAULT_CSS = """
    Compact { width: 1fr; height: 5; }
    """

    def __init__(
        self, glyphs: Glyphs = UNICODE, *, id: str | None = None, classes: str | None = None
    ) -> None:
        super().__init__(id=id, classes=classes)
        self.glyphs = glyphs
        self._shown: tuple[Session, int, float, str | None] = (EMPTY, 0, 0.0, None)
        self._drawn: tuple[object, ...] = ()

    def show(self, session: Session, node: int, now: float, section: str | None = None) -> None:
        """Show a node of a session as it is at ``now``, seconds on the probe's clock.

        Args:
            session: what is known.
            node: index of the selected node.
            now: tells whether the figures are old.
            section: ``work``, ``timing``, ``bound`` or ``machine`` in full; None is all in short.
        """
        self._shown = (session, node, now, section)
        self._draw()

    def on_resize(self) -> None:
        """Lay the panel out anew."""
        self._draw()

    def _draw(self) -> None:
        session, node, now, section = self._shown
        cells, rows = self.size
        # The clock alone changes nothing here, until what is known becomes old.
        wanted = (session, node, section, is_stale(session, now), cells, rows)
        if cells <= 2 or rows <= 0 or wanted == self._drawn:
            return
        self._drawn = wanted
        look = Look(session, node, now, cells, self.glyphs)
        self.lines = (one_line(look),) if rows == 1 else compact_lines(look, rows, section)
