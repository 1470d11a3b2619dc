"""One forward from left to right, above the tree: where the time goes, before anything is read.

In training its backward stands right of it. Names and shares are of the session that is set, as
those of the tree are; cells are held still.
"""

from functools import partial
from typing import ClassVar, TypeAlias

from textual import events
from textual.message import Message
from textual.reactive import var

from tui_profiler.formatting.canvas import UNICODE, Glyphs
from tui_profiler.queries.cost.bound import ClassSeconds, mixes_of
from tui_profiler.queries.forward import strip as strips
from tui_profiler.queries.time.base import forward_share
from tui_profiler.queries.time.hysteresis import Hysteresis
from tui_profiler.queries.training.backward_bound import backward_mixes
from tui_profiler.queries.training.passes_strip import (
    PassesStrip,
    direction_share,
    passes_strip,
    places,
)
from tui_profiler.session import EMPTY, Session

from . import strip_lines
from .line_widgets import LinesWidget
from .rows import without_colour

HOLD_SECONDS = 2.0
MARGIN = 1

BETWEEN = 5
"""Cells before each direction, with its name."""

_Drawn: TypeAlias = tuple[strips.Strip, tuple[tuple[int, ...], ...]]
"""Segments, and how many cells of each belong to each bound."""
_NOTHING: _Drawn = (strips.Strip((), measured=False), ())


class ForwardStrip(LinesWidget):
    """Three rows; set ``session`` and ``selected``. A click says which node it is on."""

    class Clicked(Message):
        """A block was clicked."""

        def __init__(self, node: int) -> None:
            super().__init__()
            self.node = node

    DEFAULT_CSS: ClassVar[str] = "ForwardStrip { width: 1fr; height: 3; }"

    selected: var[int] = var(0, init=False)
    """The node whose place is marked."""
    stale: var[bool] = var(False, init=False)
    """Whether nothing was heard for a while: old shares have no colour."""

    def __init__(
        self, session: Session = EMPTY, *, glyphs: Glyphs = UNICODE, id: str | None = None
    ) -> None:
        super().__init__(id=id)
        self._session = session
        self._glyphs = glyphs
        self._widths: Hysteresis[tuple[_Drawn, _Drawn]] = Hysteresis(HOLD_SECONDS)
        self._drawn: tuple[_Drawn, _Drawn] = (_NOTHING, _NOTHING)
        """Of the forward and of the backward."""

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

    def watch_stale(self) -> None:
        """Draw with or without colour."""
        self._draw()

    def watch_selected(self) -> None:
        """Mark its place."""
        self._draw()

    def on_resize(self) -> None:
        """Share out the new width at once."""
        self._widths.clear()
        self._lay()

    def on_click(self, event: events.Click) -> None:
        """Say which module the block under the mouse is; of several narrow ones the first."""
        for segment in (one for shown, _ in self._drawn for one in shown.segments):
            is_here = segment.start <= event.x < segment.start + segment.cells
            if is_here and segment.first != strips.ELSEWHERE:
                event.stop()
                self.post_message(self.Clicked(segment.first))

    def _lay(self) -> None:
        cells = self.size.width - 2 * MARGIN
        if cells <= 0:
            return
        session = self._session
        passes = passes_strip(session, cells, BETWEEN)
        if passes is None:
            wanted = (_drawn(strips.strip(session, cells), mixes_of(session)), _NOTHING)
        else:
            forward = _drawn(passes.forward, mixes_of(session))
            wanted = (forward, _drawn(passes.backward, backward_mixes(session)))
        kind = cells * 2 + (passes is not None)
        self._drawn = self._widths.show(kind, wanted, session.heard_at)
        self._draw()

    def _draw(self) -> None:
        cells, tree = self.size.width, self._session.tree
        (forward, colours), (backward, backward_colours) = self._drawn
        if tree is None or not forward.segments:
            self.lines = ()
            return
        session = self._session
        if backward.segments:
            of_passes = (
                partial(direction_share, session, is_backward=way) for way in (False, True)
            )
            forward, backward = map(strips.with_shares, (forward, backward), of_passes)
        else:
            forward = strips.with_shares(forward, partial(forward_share, session))
        shown = strips.Strip((*forward.segments, *backward.segments), forward.measured)
        bars = strip_lines.bars(shown, (*colours, *backward_colours), cells, self._glyphs)
        if backward.segments:
            found = places(session, PassesStrip(forward, backward), self.selected)
            starts = (forward.segments[0].start, backward.segments[0].start)
            bars = strip_lines.named(bars, dict(zip(starts, ("fwd", "bwd"), strict=True)))
        else:
            place = strips.place(session, forward, self.selected)
            found = () if place is None else (place,)
        lines = (
            strip_lines.labels(shown, tree, self.selected, cells),
            bars,
            strip_lines.marker(found, cells, self._glyphs),
        )
        self.lines = without_colour(lines) if self.stale else lines


def _drawn(shown: strips.Strip, found: ClassSeconds | None) -> _Drawn:
    moved = strips.moved(shown, MARGIN)
    return moved, strips.colours(moved, found)
