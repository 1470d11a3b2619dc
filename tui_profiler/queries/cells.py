"""What the columns of the tree say of one node: figures and their meaning, not their look."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from tui_profiler.canvas import bar_scale, half_cells, split_cells
from tui_profiler.messages import Cost
from tui_profiler.queries import mixes, trend
from tui_profiler.queries.bound import BoundKind, bound, bytes_moved, intensity
from tui_profiler.queries.columns import MEASURED, ColumnName, figure
from tui_profiler.queries.energy import replay_of
from tui_profiler.queries.seconds import macs_share, node_seconds, root_seconds
from tui_profiler.queries.steady import Steady
from tui_profiler.session import Bounded, Session, Timings, Tree
from tui_profiler.units import TimeUnit, keep_time_unit

Missing: TypeAlias = Literal["zero", "pending", "unavailable"]
Value: TypeAlias = float | Missing
"""A figure, or why there is none: it does not apply, has not come yet, or cannot be had."""

STRONG_SHARE = 0.10
FAINT_SHARE = 0.005
HOLD_BAR_SECONDS = 2.0
HOLD_TREND_SECONDS = 3.0
REFRESH_SECONDS = 1.0
"""What holds still for seconds need not be found anew at every tick."""
CONTAINERS = frozenset({"Sequential", "ModuleList", "ModuleDict"})
"""Types that say nothing of what is in them."""


class Bar(Struct, frozen=True):
    """A bar in half cells, and how many of its whole cells belong to each bound."""

    halves: int
    mix: tuple[int, ...] = ()
    """Cells of each of ``bound.KINDS``; empty where nothing says what holds it back: grey."""
    beyond: bool = False
    """It is longer than the scale."""


class Cells(Struct, frozen=True):
    """One row; seconds, bytes, FLOPs a byte."""

    parameters: Value
    macs: Value
    bounded: Bounded | None
    """Whether the work depends on the data."""
    bytes_moved: Value
    """Of the parameters, where there is no forward."""
    intensity: Value
    seconds: Value
    p95: Value
    share: Value
    trend: trend.Trend
    bar: Bar
    bound: BoundKind | None
    measured_share: float | None
    """Share of the forward's time, None before the first times; decides how much weight it gets."""
    failed: bool


class Figures:
    """The figures of one session, kept steady from tick to tick."""

    def __init__(self) -> None:
        self.session = Session()
        self.unit: TimeUnit = "ms"
        """Of the time columns."""
        self.whole: float | None = None
        """Seconds of one forward, None before the first times."""
        self.stale = False
        """No data has come for a while."""
        self._scale = 1.0
        self._scales: Steady[float] = Steady(HOLD_BAR_SECONDS)
        self._bars: Steady[Bar] = Steady(HOLD_BAR_SECONDS)
        self._trends: Steady[trend.Trend] = Steady(HOLD_TREND_SECONDS)
        self._ticks: list[Timings] = []
        self._found_trends: dict[int, trend.Trend] = {}
        self._limits: mixes.Limits | None = None
        self._mixes: mixes.Mixes | None = None
        self._mixed_at = -1.0
        self._rescaled: tuple[Tree | None, int, bool, float] = (None, 0, False, 0.0)
        self._types: dict[int, str] = {}

    @property
    def measured(self) -> bool:
        """There are times; before that shares and bars speak of MACs."""
        return self.whole is not None

    @property
    def scale(self) -> float:
        """The share at which a bar is full."""
        return self._scale

    def update(self, session: Session, root: int = 0) -> None:
        """Take the next session; ``root`` is the node whose children the bars must hold."""
        before, self.session = self.session, session
        tree = session.tree
        if tree is not before.tree:
            self._types.clear()
        if tree is not before.tree or session.ceilings is not before.ceilings:
            self._limits = self._mixes = None
        whole = root_seconds(session)
        if tree is not before.tree or (whole is None) != (self.whole is None):
            for steady in (self._scales, self._bars, self._trends):
                steady.clear()
        if whole is not None:
            self.unit = keep_time_unit(self.unit if self.whole is not None else None, whole)
        self.whole = whole
        if tree is not None and len(tree):
            if session.timings is not before.timings:
                self._measure(session, tree)
            self._rescale(tree, root)

    def cells(self, node: int, bar_cells: int) -> Cells:
        """Give the row of a node, its bar drawn in so many cells."""
        session, tree = self.session, self.session.tree
        assert tree is not None
        cost = tree.costs[node]
        seconds = node_seconds(session, node)
        share = self._share(tree, node, seconds)
        timing = session.timings.of(node) if session.timings is not None else None
        failure = session.failure
        found = bound(session, node) if seconds else None
        missing = self._missing(tree, node)
        has_forward = tree.has_forward
        return Cells(
            parameters=cost.parameters or "zero",
            macs=_macs(cost) if has_forward else "unavailable",
            bounded=tree.bounded.get(node),
            bytes_moved=(bytes_moved(cost) if has_forward else cost.parameter_bytes) or "zero",
            intensity=(intensity(cost) or "zero") if has_forward else "unavailable",
            seconds=missing if seconds is None else seconds,
            p95=missing if timing is None else timing.p95,
            share=(missing if self.measured else "zero") if share is None else share or "zero",
            trend=self._trend(node),
            bar=self._bar(node, share or 0.0, bar_cells),
            bound=found.kind if found is not None else None,
            measured_share=share if self.measured else None,
            failed=failure is not None
            and bool(failure.where)
            and failure.where == self._path(node),
        )

    def value(self, node: int, column: ColumnName) -> Value:
        """Give what a column says that only some users look at, or why it says nothing."""
        tree = self.session.tree
        assert tree is not None
        found = figure(self.session, node, column)
        if found is None:
            return self._missing(tree, node) if column in MEASURED else "unavailable"
        return found or "zero"

    def is_estimate(self, node: int, column: ColumnName) -> bool:
        """Say if a column's figure is an estimate: energy that is not of a node's replays."""
        if column != "energy":
            return False
        replayed = replay_of(self.session, node)
        return replayed is None or not replayed.replays

    def type_of(self, node: int) -> str:
        """Give a node's type; a container of equals is named by them: ``3× Bottleneck``."""
        known = self._types.get(node)
        if known is None:
            assert self.session.tree is not None
            known = self._types[node] = _type(self.session.tree, node)
        return known

    def _path(self, node: int) -> str:
        assert self.session.tree is not None
        return self.session.tree.nodes[node].path

    def _share(self, tree: Tree, node: int, seconds: float | None) -> float | None:
        if self.whole is None:
            return macs_share(tree, node)
        return None if seconds is None else seconds / self.whole

    def _missing(self, tree: Tree, node: int) -> Missing:
        session = self.session
        if not tree.has_forward:
            return "unavailable"
        if (
            tree.nodes[node].kind == "module"
            and not tree.nodes[node].calls
            and not _runs(tree, node)
        ):
            return "zero"
        if self.measured or session.failure is not None or session.ended is not None:
            return "unavailable"
        return "pending"

    def _measure(self, session: Session, tree: Tree) -> None:
        timings, ceilings = session.timings, session.ceilings
        ticks = session.history.ticks
        since = ticks[-1].tick.at - self._ticks[-1].tick.at if ticks and self._ticks else -1.0
        if not 0 <= since < REFRESH_SECONDS:
            self._ticks = trend.spaced(ticks)
            self._found_trends.clear()
        if timings is None or ceilings is None:
            self._mixes = None
            return
        since = timings.tick.at - self._mixed_at
        if self._mixes is not None and 0 <= since < REFRESH_SECONDS:
            return
        if self._limits is None:
            self._limits = mixes.limits(tree, ceilings)
        self._mixes = mixes.Mixes(tree, self._limits, timings)
        self._mixed_at = timings.tick.at

    def _rescale(self, tree: Tree, root: int) -> None:
        at = self.session.heard_at
        known_tree, known_root, known_measured, known_at = self._rescaled
        if (known_tree, known_root, known_measured) == (tree, root, self.measured) and (
            0 <= at - known_at < REFRESH_SECONDS
        ):
            return
        self._rescaled = (tree, root, self.measured, at)
        largest = max(
            (
                self._share(tree, child, node_seconds(self.session, child)) or 0.0
                for child in tree.children(root)
            ),
            default=1.0,
        )
        self._scale = self._scales.show(root, bar_scale(largest), at)

    def _trend(self, node: int) -> trend.Trend:
        if not self.measured:
            return ""
        found = self._found_trends.get(node)
        if found is None:
            found = self._found_trends[node] = trend.trend(self._ticks, node)
        return self._trends.show(node, found, self.session.heard_at)

    def _bar(self, node: int, share: float, cells: int) -> Bar:
        beyond = share > self._scale
        halves = 2 * (cells - 1) if beyond else half_cells(share, self._scale, cells)
        mix: tuple[int, ...] = ()
        if self.measured and self._mixes is not None:
            mix = split_cells(self._mixes.of(node), (halves + 1) // 2)
        wanted = Bar(halves, mix if any(mix) else (), beyond)
        # One clock for all bars of one width; another width is another bar.
        return self._bars.show(node * 512 + cells, wanted, self.session.heard_at)


def _runs(tree: Tree, node: int) -> bool:
    """Say if anything inside a node that is never called itself does work."""
    return tree.costs[node].ops > 0


def _macs(cost: Cost) -> Value:
    if cost.macs:
        return cost.macs
    return "unavailable" if cost.ops and cost.uncosted == cost.ops else "zero"


def _type(tree: Tree, node: int) -> str:
    found = tree.nodes[node]
    if found.kind == "op":
        return found.type
    if found.type in CONTAINERS:
        types = [
            tree.nodes[child].type
            for child in tree.children(node)
            if tree.nodes[child].kind == "module"
        ]
        if len(types) > 1 and len(set(types)) == 1:
            return f"{len(types)}× {types[0]}"
    return found.type
