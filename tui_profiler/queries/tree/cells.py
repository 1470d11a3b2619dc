"""What the columns of the tree say of one node: figures and their meaning, not their look."""

from collections.abc import Callable
from typing import Literal, TypeAlias

from msgspec import Struct

from tui_profiler.figures.units import TimeColumn, fitted_times
from tui_profiler.formatting.canvas import bar_scale, half_cells, split_cells
from tui_profiler.messages import Cost
from tui_profiler.queries.cost.bound import (
    NOT_DECIDED,
    Bound,
    bound,
    bytes_moved,
    intensity,
    is_at_least,
    known_flops,
    known_macs,
)
from tui_profiler.queries.cost.bound_classes import BoundKind
from tui_profiler.queries.cost.energy import replay_of
from tui_profiler.queries.time.base import Base, base, base_seconds
from tui_profiler.queries.time.base import share as share_of_base
from tui_profiler.queries.time.hysteresis import Hysteresis
from tui_profiler.queries.time.node_seconds import node_seconds, root_seconds
from tui_profiler.queries.time.repeated_siblings import Steps, Sums, members
from tui_profiler.queries.time.series import Trend, spaced, trend
from tui_profiler.queries.training.backward_bound import backward_bound
from tui_profiler.queries.training.step_costs import is_at_most
from tui_profiler.queries.training.step_mix import step_parts_by_class
from tui_profiler.queries.tree.columns import MEASURED, ColumnName, summed_figure
from tui_profiler.session import Bounded, Session, Timings, Tree

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
    """Cells of each of ``KINDS``, then of what is not decided; empty where nothing says what
    holds it back: grey."""
    beyond: bool = False
    """It is longer than the scale."""


class Cells(Struct, frozen=True):
    """One row; seconds, bytes, FLOPs per byte."""

    parameters: Value
    macs: Value
    bounded: Bounded | None
    """Whether the work depends on the data."""
    is_at_least: bool
    """Whether FLOPs and intensity are lower bounds."""
    bytes_moved: Value
    """Of the parameters, where there is no forward."""
    intensity: Value
    seconds: Value
    p95: Value
    share: Value
    trend: Trend
    bar: Bar
    bound: BoundKind | None
    """Of most of its time, as the bar shows it."""
    is_bound_measured: bool
    """False: it is on paper, and the bar is grey."""
    measured_share: float | None
    """Share of the base, None before the first times; decides how much weight it gets."""
    failed: bool
    steps: Steps
    """The runs that the node lies in where the row sums over them."""


class Figures:
    """The figures of one session, kept steady from tick to tick."""

    def __init__(self) -> None:
        self.session = Session()
        self.times = TimeColumn("ms", 2)
        """How the columns of times are written."""
        self.base: Base = base(self.session)
        """What shares and bars are of."""
        self.stale = False
        """No data has come for a while."""
        self._scale = 1.0
        self._scales: Hysteresis[float] = Hysteresis(HOLD_BAR_SECONDS)
        self._bars: Hysteresis[Bar] = Hysteresis(HOLD_BAR_SECONDS)
        self._trends: Hysteresis[Trend] = Hysteresis(HOLD_TREND_SECONDS)
        self._ticks: list[Timings] = []
        self._found_trends: dict[int, Trend] = {}
        self._rescaled: tuple[Tree | None, int, str, bool, float] = (None, 0, "", False, 0.0)
        self._types: dict[int, str] = {}
        self._sums = Sums(self.session)

    @property
    def measured(self) -> bool:
        """There are times; before that shares and bars speak of MACs."""
        return self.base.is_measured

    @property
    def scale(self) -> float:
        """The share at which a bar is full."""
        return self._scale

    def update(
        self, session: Session, root: int = 0, run_of: Callable[[int], Steps] | None = None
    ) -> None:
        """Take the next session.

        Args:
            session: whose figures are given from now on.
            root: the node whose children the bars must hold.
            run_of: returns the run that a row stands for; None where rows stand for themselves.
        """
        before, self.session = self.session, session
        tree = session.tree
        self._sums = Sums(session, self._sums)
        if tree is not before.tree:
            self._types.clear()
        former, self.base = self.base, base(session)
        if tree is not before.tree or former.name != self.base.name:
            for steady in (self._scales, self._bars, self._trends):
                steady.clear()
        # Times of a row are of one step, or of one forward.
        is_step = self.base.name == "step"
        whole = base_seconds(session, 0) if is_step else root_seconds(session)
        if whole is not None:
            self.times = fitted_times(whole, self.times if former.is_measured else None)
        if tree is not None and len(tree):
            if session.timings is not before.timings:
                self._follow_trends(session)
            self._rescale(tree, root, run_of)

    def cells(self, node: int, bar_cells: int, steps: Steps = ()) -> Cells:
        """Return the row of a node, its bar drawn in so many cells.

        Args:
            node: its index.
            bar_cells: of the bar.
            steps: the runs that it lies in where its row sums over them.
        """
        session, tree = self.session, self.session.tree
        assert tree is not None
        cost = self._sums.cost(node, steps) if steps else tree.costs[node]
        seconds = self._sums.seconds(node, steps) if steps else node_seconds(session, node)
        share = self._share(node, steps)
        has_timing = session.timings is not None and not steps
        timing = session.timings.of(node) if has_timing and session.timings is not None else None
        missing = self._missing(tree, node)
        has_forward = tree.has_forward
        found = bound(session, node, steps)
        if not seconds and (found is None or not found.measured):
            found = None  # A class on paper stands beside times alone.
        bar = self._bar(
            ~node if steps else node, share or 0.0, bar_cells, self._mix(node, steps, found)
        )
        return Cells(
            parameters=cost.parameters or "zero",
            macs=_macs(cost) if has_forward else "unavailable",
            bounded=tree.bounded.get(node),
            is_at_least=is_at_least(cost),
            bytes_moved=(bytes_moved(cost) if has_forward else cost.parameter_bytes) or "zero",
            intensity=_intensity(cost) if has_forward else "unavailable",
            seconds=missing if seconds is None else seconds,
            # There is no 95th percentile of a sum.
            p95="unavailable" if steps else missing if timing is None else timing.p95,
            share=(missing if self.measured else "zero") if share is None else share or "zero",
            trend=self._trend(node) if not steps else "",
            bar=bar,
            bound=found.kind if found is not None else None,
            is_bound_measured=found is not None and found.measured,
            measured_share=share if self.measured else None,
            failed=self._has_failed(node, steps),
            steps=steps,
        )

    def value(self, node: int, column: ColumnName, steps: Steps = ()) -> Value:
        """Return what a column says that only some users look at, or why it says nothing."""
        tree = self.session.tree
        assert tree is not None
        found = summed_figure(self.session, node, column, steps)
        if found is None:
            return self._missing(tree, node) if column in MEASURED else "unavailable"
        return found or "zero"

    def is_at_most(self, column: ColumnName) -> bool:
        """Say if a column's figures are upper limits."""
        return column == "gradients" and is_at_most(self.session)

    def backward_kind(self, node: int, steps: Steps = ()) -> BoundKind | None:
        """Return what limits the backward of most of a row's time."""
        found = backward_bound(self.session, node, steps)
        return None if found is None else found.kind

    def is_estimate(self, node: int, column: ColumnName) -> bool:
        """Say if a column's figure is an estimate: energy that is not of a node's replays."""
        if column != "energy":
            return False
        replayed = replay_of(self.session, node)
        return replayed is None or not replayed.replays

    def type_of(self, node: int) -> str:
        """Return a node's type; a container of equals is named by them: ``3× Bottleneck``."""
        known = self._types.get(node)
        if known is None:
            assert self.session.tree is not None
            known = self._types[node] = _type(self.session.tree, node)
        return known

    def _has_failed(self, node: int, steps: Steps) -> bool:
        failure, tree = self.session.failure, self.session.tree
        if failure is None or not failure.where or tree is None:
            return False
        return any(tree.nodes[each].path == failure.where for each in members(node, steps))

    def _share(self, node: int, steps: Steps) -> float | None:
        """Return the share of the base that a row takes; of a sum all of its nodes have one."""
        if not steps:
            return share_of_base(self.session, node)
        shares = [share_of_base(self.session, each) for each in members(node, steps)]
        known_shares = [each for each in shares if each is not None]
        return min(sum(known_shares), 1.0) if len(known_shares) == len(shares) else None

    def _mix(self, node: int, steps: Steps, found: Bound | None) -> tuple[float, ...]:
        """Return the parts of a bar by class, then what is not decided; none where it is grey."""
        if self.base.name == "step":
            parts = step_parts_by_class(self.session, node, steps)
            return parts if any(parts) else ()
        return () if found is None or not found.mix else (*found.mix, found.not_decided)

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

    def _follow_trends(self, session: Session) -> None:
        ticks = session.history.ticks
        since = ticks[-1].tick.at - self._ticks[-1].tick.at if ticks and self._ticks else -1.0
        if not 0 <= since < REFRESH_SECONDS:
            self._ticks = spaced(ticks)
            self._found_trends.clear()

    def _rescale(self, tree: Tree, root: int, run_of: Callable[[int], Steps] | None) -> None:
        at = self.session.heard_at
        wanted = (tree, root, self.base.name, run_of is not None)
        *known, known_at = self._rescaled
        if tuple(known) == wanted and 0 <= at - known_at < REFRESH_SECONDS:
            return
        self._rescaled = (*wanted, at)
        shares = (
            self._share(child, run_of(child) if run_of is not None else ()) or 0.0
            for child in tree.children(root)
        )
        # Rows that are sums have a scale of their own, at once.
        key = root if run_of is None else -1 - root
        self._scale = self._scales.show(key, bar_scale(max(shares, default=1.0)), at)

    def _trend(self, node: int) -> Trend:
        if not self.measured:
            return ""
        found = self._found_trends.get(node)
        if found is None:
            found = self._found_trends[node] = trend(self._ticks, node)
        return self._trends.show(node, found, self.session.heard_at)

    def _bar(self, key: int, share: float, cells: int, shares: tuple[float, ...]) -> Bar:
        beyond = share > self._scale
        halves = 2 * (cells - 1) if beyond else half_cells(share, self._scale, cells)
        mix = split_cells(shares, (halves + 1) // 2)
        wanted = Bar(halves, mix if any(mix) else (), beyond)
        # One clock for all bars of one width; another width is another bar. So is another class:
        # the letter beside it is of this tick.
        code = shares.index(max(shares)) if shares else NOT_DECIDED + 1
        return self._bars.show((key * 512 + cells) * 16 + code, wanted, self.session.heard_at)


def _runs(tree: Tree, node: int) -> bool:
    """Say if anything inside a node that is never called itself does work."""
    return tree.costs[node].ops > 0


def _intensity(cost: Cost) -> Value:
    return "unavailable" if known_flops(cost) is None else intensity(cost) or "zero"


def _macs(cost: Cost) -> Value:
    found = known_macs(cost)
    return "unavailable" if found is None else found or "zero"


def _type(tree: Tree, node: int) -> str:
    found = tree.nodes[node]
    if found.kind == "op":
        return found.type
    if found.type in CONTAINERS:
        types = [tree.nodes[child].type for child in tree.modules_in(node)]
        if len(types) > 1 and len(set(types)) == 1:
            return f"{len(types)}× {types[0]}"
    return found.type
