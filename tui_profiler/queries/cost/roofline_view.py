"""The roofline as it is looked at: points by cell, axes that keep still, and an order that stays.

1. The order by time is made anew only when the reader has rested for ``REST_SECONDS``: what the
   cursor walks along does not move under it.
2. Many points fall into one cell: they are added up there, so that drawing asks for cells alone.
"""

import math
from collections.abc import Callable, Sequence

from msgspec import Struct

from tui_profiler.figures.units import TimeColumn, fitted_times
from tui_profiler.formatting.plot import Axis, axis_for, keep_axis
from tui_profiler.queries.cost import bound, roofline
from tui_profiler.queries.cost.bound_classes import KINDS, BoundKind
from tui_profiler.queries.time.node_seconds import part_of
from tui_profiler.session import Session, Tree

REST_SECONDS = 5.0
MANY = 5_000
"""Parts of which the seconds are read anew every two seconds at most."""
REFRESH_SECONDS = 2.0
SMALL_SHARE, LARGE_SHARE = 0.005, 0.02
"""Of a forward: what takes less is a small, faint point; what takes more a large one."""
LARGE = 2
"""Size of a large point."""
ABOVE = 1.5
"""Room above the highest roof and beyond the ridge, as a factor: their labels need it."""


class Spot(Struct, frozen=True):
    """The points of one cell."""

    column: int
    row: int
    """From the top."""
    size: int
    """0 faint, 1 small, ``LARGE``: their time together."""
    kind: BoundKind | None
    """Of most of their time."""


class PlotPoints(Struct, frozen=True, eq=False):
    """All points of a plot of one size."""

    spots: tuple[Spot, ...] = ()
    beyond: int = 0
    """Parts that lie outside the axes."""


class Work(Struct, frozen=True):
    """What the points of a roofline are: forwards, or backwards."""

    parts: Callable[[Session], roofline.Parts | None]
    """What there is to reach; None where nothing is known."""
    parts_from: Callable[[Session], tuple[object, ...]]
    """What the parts follow from; they are the same where it is identical."""
    reached: Callable[[Session, roofline.Parts], roofline.Achieved]
    times_from: Callable[[Session], tuple[object, ...]]
    """What the times follow from."""
    at: Callable[[Session], float]
    """When they were taken."""
    node: Callable[
        [Session, roofline.Parts, roofline.Achieved, int],
        roofline.NodeRoofline,
    ]
    """Figures of one node."""


def _parts(session: Session) -> roofline.Parts | None:
    tree = session.tree
    if tree is None or not tree.has_forward or not len(tree):
        return None
    return roofline.parts(tree, bound.ceilings_of(session), bound.beyond(session.timings))


FORWARD = Work(
    parts=_parts,
    parts_from=lambda session: (
        session.tree,
        bound.ceilings_of(session),
        bound.beyond(session.timings),
    ),
    reached=roofline.reached,
    times_from=lambda session: (session.timings, session.operators),
    at=lambda session: -math.inf if session.timings is None else session.timings.tick.at,
    node=roofline.node_roofline,
)


class RooflineView:
    """What is known of a session's parts, kept steady from tick to tick."""

    def __init__(self, work: Work = FORWARD) -> None:
        self.work = work
        self.session = Session()
        self.parts: roofline.Parts | None = None
        """None without a tree of a forward."""
        self.now: roofline.Achieved | None = None
        self.roofs = roofline.Roofs()
        self.order: list[int] = []
        """Places by time, rule 1."""
        self.times = TimeColumn("ms", 2)
        """How the column of times is written."""
        self.x = self.y = Axis(-1.0, 1.0)
        self._axes: tuple[Axis, Axis] | None = None
        self._across: tuple[float, ...] = ()
        self._rates: tuple[float, ...] = ()
        self._ranks: dict[int, int] = {}
        self._top, self._kept = 0, (-1, 0)
        self._by_intensity: list[int] = []
        self._read_at = self._sorted_at = -math.inf
        self._touched_at = -math.inf
        self._columns: tuple[roofline.Parts | None, Axis, int, list[int]] = (None, self.x, 0, [])
        self._spots: tuple[object, ...] = ()
        self._found_spots = PlotPoints()

    @property
    def tree(self) -> Tree | None:
        """The tree that the parts are of."""
        return self.session.tree

    def touch(self, at: float) -> None:
        """Remember that the reader did something at ``at``."""
        self._touched_at = at

    def update(self, session: Session, at: float, beside: Sequence["RooflineView"] = ()) -> None:
        """Take a session.

        Args:
            session: as it is.
            at: when, seconds on a clock that also touches are told by.
            beside: views whose points are in the same plot: their axes are the same.
        """
        before, self.session = self.session, session
        work = self.work
        if not _are_same(work.parts_from(before), work.parts_from(session)):
            self._begin(session)
        elif _are_same(work.times_from(before), work.times_from(session)):
            self._sort_when_rested(at)
            return
        if self.parts is None or not self._is_due(session):
            return
        self.now = now = work.reached(session, self.parts)
        if now.whole is not None:
            self.times = fitted_times(now.whole, self.times if self.order else None)
        if sum(map(bool, now.seconds)) != len(self.order):
            self._sort(at)
        self._sort_when_rested(at)
        self._stretch(now, beside)

    def node(self, node: int) -> roofline.NodeRoofline | None:
        """Return the figures of a node; None without parts."""
        if self.parts is None or self.now is None:
            return None
        return self.work.node(self.session, self.parts, self.now, node)

    def _begin(self, session: Session) -> None:
        self.parts = self.work.parts(session)
        self.roofs, self._across, self._rates = roofline.Roofs(), (), ()
        if self.parts is not None:
            self.roofs = roofline.roofs(self.parts, session.ceilings)
            drawn = [each for each in self.parts.intensities if each > 0]
            self._across = (min(drawn), max(drawn)) if drawn else ()
        self.now, self.order, self._ranks, self._by_intensity = None, [], {}, []
        self._axes, self._read_at = None, -math.inf

    def _is_due(self, session: Session) -> bool:
        assert self.parts is not None
        at = self.work.at(session)
        soon = 0 <= at - self._read_at < REFRESH_SECONDS
        if self.now is not None and soon and len(self.parts.nodes) > MANY:
            return False
        self._read_at = at
        return True

    def _sort_when_rested(self, at: float) -> None:
        is_resting = at - self._touched_at >= REST_SECONDS
        if is_resting and not 0 <= at - self._sorted_at < REST_SECONDS:
            self._sort(at)

    def _sort(self, at: float) -> None:
        if self.parts is None or self.now is None:
            return
        self._sorted_at = at
        self.order = roofline.by_time(self.now)
        self._ranks = {place: rank for rank, place in enumerate(self.order)}
        self._by_intensity = roofline.by_intensity(self.parts, self.now)

    def _stretch(self, now: roofline.Achieved, beside: Sequence["RooflineView"]) -> None:
        """Choose axes that hold the points, the roofs and the ridge."""
        self._rates = now.rates or ()
        views = (self, *beside)
        across = [each for view in views for each in view._across]
        rates = [each for view in views for each in view._rates]
        rates += (roof.flops_per_second for roof in self.roofs.compute)
        if self.roofs.ridge:
            across.append(self.roofs.ridge * ABOVE)
        if not across or not rates:
            return
        x = axis_for(min(across), max(across))
        y = axis_for(min(rates), max(rates) * ABOVE)
        before_x, before_y = self._axes if self._axes is not None else (None, None)
        axes = (keep_axis(before_x, x), keep_axis(before_y, y))
        for view in views:
            view.x, view.y = view._axes = axes

    @property
    def is_placed(self) -> bool:
        """Whether there is anything to draw: axes are known."""
        return self._axes is not None

    def rank(self, node: int) -> int | None:
        """Return a node's position in the order by time, None where it has none."""
        place = self.parts.places.get(node) if self.parts is not None else None
        return self._ranks.get(place) if place is not None else None

    def first_row(self, node: int, rows: int) -> int:
        """Return the first rank of a list of so many rows.

        The selected node is in sight; the list moves no more than that asks for, and where the
        order changed, the node keeps its row.
        """
        rank = self.rank(node)
        if rank is not None:
            kept_node, kept_rank = self._kept
            self._top += rank - kept_rank if node == kept_node else 0
            self._top = max(min(self._top, rank), rank - rows + 1)
            self._kept = (node, rank)
        self._top = max(0, min(self._top, len(self.order) - rows))
        return self._top

    def walked(self, node: int, steps: int) -> int:
        """Return node so many steps further down by time; from a block first its slowest part."""
        rank = self.rank(node)
        if self.parts is None or not self.order:
            return node
        if rank is None:
            return self._entered(node)
        rank = max(0, min(rank + steps, len(self.order) - 1))
        return self.parts.nodes[self.order[rank]]

    def crossed(self, node: int, steps: int) -> int:
        """Return the node so many steps to the right: with more FLOPs per byte."""
        found, places = self.parts, self._by_intensity
        if found is None or not places:
            return node
        place = found.places.get(node)
        if place is None:
            place = found.places[self._entered(node)]
            steps = 0
        position = places.index(place) + steps if place in places else 0
        return found.nodes[places[max(0, min(position, len(places) - 1))]]

    def _entered(self, node: int) -> int:
        assert self.parts is not None
        stop = self.tree.ends[node] if self.tree is not None else node
        nodes = (self.parts.nodes[place] for place in self.order)
        return next((n for n in nodes if node <= n < stop), self.parts.nodes[self.order[0]])

    def spots(self, columns: int, rows: int) -> PlotPoints:
        """Return the points of a plot of so many cells."""
        asked = (self.now, self.x, self.y, columns, rows)
        same = len(self._spots) == len(asked) and all(
            old is new or old == new for old, new in zip(self._spots, asked, strict=True)
        )
        if not same:
            self._spots = asked
            self._found_spots = self._added_up(columns, rows)
        return self._found_spots

    def _column_of(self, columns: int) -> list[int]:
        """Return the column of every part, -1 where it has none; it changes with the axis alone."""
        known, axis, cells, found = self._columns
        if known is not self.parts or axis != self.x or cells != columns:
            assert self.parts is not None
            places = (self.x.cell(i, columns) if i > 0 else -1 for i in self.parts.intensities)
            found = [-2 if place is None else place for place in places]
            self._columns = (self.parts, self.x, columns, found)
        return found

    def _added_up(self, columns: int, rows: int) -> PlotPoints:
        found, now = self.parts, self.now
        if found is None or now is None or not self.is_placed:
            return PlotPoints()
        sums = [[0.0] * (columns * rows) for _ in range(roofline.UNJUDGED + 1)]
        scale = rows / (self.y.high - self.y.low)
        top = self.y.high
        log10, beyond = math.log10, 0
        for place, (column, flops, spent) in enumerate(
            zip(self._column_of(columns), found.flops, now.seconds, strict=True)
        ):
            if spent > 0 and column != -1:
                height = (top - log10(flops / spent)) * scale
                if column < 0 or not 0 <= height < rows:
                    beyond += 1
                    continue
                sums[now.code(found, place)][int(height) * columns + column] += spent
        return PlotPoints(tuple(_spots(sums, columns, now.whole)), beyond)


def _are_same(some: tuple[object, ...], others: tuple[object, ...]) -> bool:
    return all(one is other for one, other in zip(some, others, strict=True))


def _spots(sums: list[list[float]], columns: int, whole: float | None) -> list[Spot]:
    spots = []
    for cell, by_kind in enumerate(zip(*sums, strict=True)):
        spent = sum(by_kind)
        if spent > 0:
            code = by_kind.index(max(by_kind))
            share = part_of(spent, whole) or 0.0
            size = (share >= SMALL_SHARE) + (share >= LARGE_SHARE)
            row, column = divmod(cell, columns)
            spots.append(Spot(column, row, size, KINDS[code] if code < roofline.UNJUDGED else None))
    return spots
