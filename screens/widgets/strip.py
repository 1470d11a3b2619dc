"""One forward from left to right, above the tree: where the time goes, before anything is read."""

from __future__ import annotations

from typing import ClassVar, TypeAlias

from textual import events
from textual.message import Message

from tui_profiler.formatting.canvas import UNICODE, Glyphs
from tui_profiler.queries.cost.bound import mixes_of
from tui_profiler.queries.forward import strip as strips
from tui_profiler.queries.time.hysteresis import Hysteresis
from tui_profiler.session import EMPTY, Session

from . import strip_lines
from .lines import LinesWidget

HOLD_SECONDS = 2.0
MARGIN = 1

_Drawn: TypeAlias = tuple[strips.Strip, tuple[tuple[int, ...], ...]]
"""Segments, and how many cells of each belong to each bound."""


class ForwardStrip(LinesWidget):
    """Three rows; set ``session`` and ``selected``. A click says which node it is on."""

    class Clicked(Message):
        """A block was clicked."""

        def __init__(self, node: int) -> None:
            super().__init__()
            self.node = node

    DEFAULT_CSS: ClassVar[str] = "ForwardStrip { width: 1fr; height: 3; }"

    def __init__(
        self, session: Session = EMPTY, *, glyphs: Glyphs = UNICODE, id: str | None = None
    ) -> None:
        super().__init__(id=id)
        self._session = session
        self._selected = 0
        self._glyphs = glyphs
        self._widths: Hysteresis[_Drawn] = Hysteresis(HOLD_SECONDS)
        self._drawn: _Drawn = (strips.Strip((), measured=False), ())

    @property
    def session(self) -> Session:
        """What is known; segments move only when their shares have been other for two seconds."""
        return self._session

    @session.setter
    def session(self, session: Session) -> None:
        if session is self._session:
            return
        before, self._session = self._session, session
        if session.tree is not before.tree or (session.timings is None) != (before.timings is None):
            self._widths.clear()
        self._lay()

    @property
    def selected(self) -> int:
        """The node whose place is marked."""
        return self._selected

    @selected.setter
    def selected(self, node: int) -> None:
        if node != self._selected:
            self._selected = node
            self._draw()

    @property
    def glyphs(self) -> Glyphs:
        """The characters to draw with."""
        return self._glyphs

    @glyphs.setter
    def glyphs(self, glyphs: Glyphs) -> None:
        self._glyphs = glyphs
        self._draw()

    def on_resize(self) -> None:
        """Share out the new width at once."""
        self._widths.clear()
        self._lay()

    def on_click(self, event: events.Click) -> None:
        """Say which module the block under the mouse is; of several narrow ones the first."""
        for segment in self._drawn[0].segments:
            is_here = segment.start <= event.x < segment.start + segment.cells
            if is_here and segment.first != strips.ELSEWHERE:
                event.stop()
                self.post_message(self.Clicked(segment.first))

    def _lay(self) -> None:
        cells = self.size.width - 2 * MARGIN
        if cells <= 0:
            return
        session = self._session
        wanted = strips.moved(strips.strip(session, cells), MARGIN)
        colours = strips.colours(wanted, mixes_of(session))
        self._drawn = self._widths.show(cells, (wanted, colours), session.heard_at)
        self._draw()

    def _draw(self) -> None:
        cells, tree = self.size.width, self._session.tree
        shown, colours = self._drawn
        if tree is None or not shown.segments:
            self.lines = ()
            return
        at = strips.place(self._session, shown, self._selected)
        self.lines = (
            strip_lines.labels(shown, tree, self._selected, cells),
            strip_lines.bars(shown, colours, cells, self._glyphs),
            strip_lines.marker(at, cells, self._glyphs),
        )
