"""Comparison of two sides: totals, settings, nodes, and the largest differences.

1. A difference is B − A; a ratio is B / A.
2. A node of only one side differs by its whole figure; it has no ratio.
3. A figure that is missing on one side has no difference: it does not count as 0.
4. The largest differences are of self figures, without child modules: otherwise all ancestors of a
   slow module would differ as much. Added and removed modules count whole, once.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from functools import lru_cache
from math import isfinite
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from tui_profiler.messages import Figure, Unknown, known
from tui_profiler.queries.compare.alignment import (
    CHANGE_WORDS,
    AlignedNode,
    Alignment,
    Change,
    align,
)
from tui_profiler.queries.compare.side import Side, SideNode, SideTree
from tui_profiler.queries.cost.bound import NO_FORMULA
from tui_profiler.queries.cost.exactness import Reading, of_count, of_difference, of_flops
from tui_profiler.queries.time.standard_error import doubt, is_noise
from tui_profiler.queries.training.step import PARTS
from tui_profiler.session import Bounded

FigureName: TypeAlias = Literal["seconds", "flops", "macs", "memory", "parameters"]
Unit: TypeAlias = Literal["seconds", "bytes", "count", "rate", "ratio", "share", "joules"]
Verdict: TypeAlias = Literal["", "better", "worse"]
"""Empty where no figure is better, or the difference is within its uncertainty."""
Best: TypeAlias = Literal["", "least", "most"]
"""Which figure is better; empty where neither is."""

FIGURES: tuple[FigureName, ...] = ("seconds", "macs", "flops", "memory", "parameters")
UNITS: Mapping[FigureName, Unit] = {
    "seconds": "seconds",
    "macs": "count",
    "flops": "count",
    "memory": "bytes",
    "parameters": "count",
}
PER_ITEM = "latency_per_item.p50_s"
STEP = "step.mean_s"
"""The same as ``train.step_s``, which only steps on paper have."""
TOTALS: tuple[tuple[str, str, Unit, Best], ...] = (
    ("latency.p50_s", "latency p50", "seconds", "least"),
    (PER_ITEM, "p50 per item", "seconds", "least"),
    ("latency.p95_s", "latency p95", "seconds", "least"),
    ("throughput.per_s", "throughput", "rate", "most"),
    ("train.step_s", "training step", "seconds", "least"),
    (STEP, "step mean", "seconds", "least"),
    ("step.p50_s", "step p50", "seconds", "least"),
    *((f"step.parts.{name}.mean_s", f"step {name}", "seconds", "least") for name in PARTS),
    ("train.mfu", "MFU", "share", "most"),
    ("energy.forward.joules", "energy", "joules", "least"),
    ("total_parameters", "parameters", "count", ""),
    ("total_parameter_bytes", "weights", "bytes", ""),
    ("total_macs", "MAC", "count", ""),
    ("total_flops", "FLOP", "count", ""),
    ("total_memory", "bytes moved", "bytes", ""),
    ("arithmetic_intensity", "FLOP per byte", "ratio", ""),
    ("peak_memory.activations", "activations", "bytes", "least"),
    ("peak_memory.total", "peak memory", "bytes", "least"),
    ("train.backward_flops", "backward FLOP", "count", ""),
    ("train.memory.saved_activations", "saved activations", "bytes", "least"),
    ("train.memory.peak", "peak of a step", "bytes", "least"),
    ("coverage.ops", "operators", "count", ""),
)
"""Path in the JSON report, name, unit, and which is better."""
MEASURED = (
    *("latency.", "latency_per_item.", "throughput.", "energy."),
    *("train.step_s", "train.mfu", "step."),
)


class Pair(Struct, frozen=True):
    """One figure on both sides."""

    a: Figure
    b: Figure
    noise: bool | None = None
    """Whether the difference is within noise; None where not known."""
    doubt: str = ""
    """Why the times are not ranked: they do not add up, or vary too much."""
    a_reading: Reading = ""
    """How A is to be read; empty where it is exact or not there."""
    b_reading: Reading = ""

    @property
    def reading(self) -> Reading:
        """How difference and ratio are to be read."""
        return of_difference(self.a_reading, self.b_reading)

    @property
    def is_ranked(self) -> bool:
        """Whether the difference can be ranked."""
        return self.noise is not True and not self.doubt

    @property
    def difference(self) -> float | None:
        """B − A."""
        a, b = known(self.a), known(self.b)
        return None if a is None or b is None else b - a

    @property
    def ratio(self) -> float | None:
        """B / A."""
        a, b = known(self.a), known(self.b)
        found = None if a is None or b is None or not a else b / a
        return found if found is not None and isfinite(found) else None


class TotalRow(Struct, frozen=True):
    """One figure of the whole."""

    name: str
    """Its path in the JSON report."""
    words: str
    unit: Unit
    best: Best
    pair: Pair

    @property
    def is_measured(self) -> bool:
        """Whether it was measured, not computed."""
        return self.name.startswith(MEASURED)

    @property
    def verdict(self) -> Verdict:
        """Whether B is better; computed figures have no uncertainty, but may be bounds."""
        pair = self.pair if self.is_measured else replace(self.pair, noise=False)
        return judged(pair.difference, pair, self.best)


class Comparison(Struct, frozen=True, eq=False):
    """Two sides and, where both have nodes, their trees as one."""

    a: Side
    b: Side
    alignment: Alignment | None
    why_no_alignment: str
    """Empty where there is one."""


class Worst(Struct, frozen=True):
    """A module with a different self figure."""

    index: int
    """In the alignment."""
    pair: Pair
    is_whole: bool
    """It is only on one side, and counts with its content."""
    difference: float


def comparison(a: Side, b: Side) -> Comparison:
    """Compare two sides."""
    for which, side in (("A", a), ("B", b)):
        if side.tree is None:
            return Comparison(a, b, None, f"{which} has no tree: {side.why_no_tree}")
    assert a.tree is not None
    assert b.tree is not None
    return Comparison(a, b, align(a.tree, b.tree), "")


def total_rows(compared: Comparison) -> tuple[TotalRow, ...]:
    """Return the totals that at least one side has, measured ones first."""
    sides = _with_items(compared.a), _with_items(compared.b)
    batches = {dict(side.settings).get("batch", "") for side in sides}
    found = []
    for name, words, unit, best in TOTALS:
        a, b = (_total(side, name) for side in sides)
        if name == "throughput.per_s" and "" in batches and len(batches) > 1:
            b = Unknown("one side counts items per second, the other forwards: no batch axis")
        is_missing = isinstance(a, Unknown) and isinstance(b, Unknown)
        is_repeated = name == STEP and not any(
            isinstance(_total(side, "train.step_s"), Unknown) for side in sides
        )
        if is_missing or is_repeated or (name == PER_ITEM and len(batches) < 2):
            continue
        difference = Pair(a, b).difference
        errors = (side.total_errors.get(name) for side in sides)
        noise = None if difference is None else is_noise(difference, *errors)
        readings = (
            side.readings.get(name, "") if known(_total(side, name)) else "" for side in sides
        )
        found.append(TotalRow(name, words, unit, best, Pair(a, b, noise, "", *readings)))
    return tuple(found)


def judged(difference: float | None, pair: Pair, best: Best) -> Verdict:
    """Return whether B is better or worse; empty within the uncertainty, or where neither is.

    Of bounds only where they decide it: a difference of at most −1 is below 0, whatever it is.
    """
    if not difference or not best or pair.noise is not False or pair.doubt:
        return ""
    if pair.reading and pair.reading != ("at most" if difference < 0 else "at least"):
        return ""
    return "better" if (difference < 0) == (best == "least") else "worse"


def why_no_times(compared: Comparison) -> str:
    """Return which side has no measured times, and why; empty where both have some."""
    for which, side in (("A", compared.a), ("B", compared.b)):
        figure = _total(side, "latency.p50_s")
        if isinstance(figure, Unknown):
            return f"{which}: {figure.reason}"
    return ""


def different_settings(compared: Comparison) -> tuple[tuple[str, str, str], ...]:
    """Return (name, A, B) of the settings that differ; empty where a side has none."""
    a, b = dict(compared.a.settings), dict(compared.b.settings)
    names = list(dict.fromkeys([*a, *b]))
    rows = ((name, a.get(name, ""), b.get(name, "")) for name in names)
    return tuple(row for row in rows if row[1] != row[2])


def change_counts(compared: Comparison) -> dict[Change, int]:
    """Count modules by change; added and removed ones with their content."""
    alignment, a, b = compared.alignment, compared.a.tree, compared.b.tree
    return {} if alignment is None or a is None or b is None else _counts(alignment, a, b)


@lru_cache(maxsize=2)
def _counts(alignment: Alignment, a: SideTree, b: SideTree) -> dict[Change, int]:
    counted = Counter(
        one.change
        for one in alignment.nodes
        if (b.nodes[one.b] if one.b >= 0 else a.nodes[one.a]).kind == "module"
    )
    return {change: counted[change] for change in CHANGE_WORDS}


def node_of(compared: Comparison, one: AlignedNode) -> SideNode:
    """Return B's node of a row, or A's where B has none."""
    side, index = (compared.b, one.b) if one.b >= 0 else (compared.a, one.a)
    assert side.tree is not None
    return side.tree.nodes[index]


def former_path(compared: Comparison, one: AlignedNode) -> str:
    """Return the path of a moved node on side A."""
    assert compared.a.tree is not None
    return compared.a.tree.nodes[one.a].path


def default_figure(compared: Comparison) -> FigureName:
    """Return time where both sides have some, otherwise FLOPs or parameters."""
    if compared.a.is_timed and compared.b.is_timed:
        return "seconds"
    roots = [side.tree.nodes[0] for side in (compared.a, compared.b) if side.tree is not None]
    return "flops" if all(root.flops for root in roots) else "parameters"


def figure_pair(compared: Comparison, one: AlignedNode, name: FigureName) -> Pair:
    """Return one figure of a row, with its content."""
    a, b = _whole(compared.a, one.a, name), _whole(compared.b, one.b, name)
    if name == "seconds":
        return _timed_pair(compared, one, a, b)
    return _read(compared, one, Pair(a, b), _whole_readings(name))


def row_difference(one: AlignedNode, pair: Pair) -> float | None:
    """Return the difference of a row; its whole figure where only one side has it."""
    a, b = known(pair.a), known(pair.b)
    if one.a < 0:
        return b
    if one.b < 0:
        return None if a is None else -a
    return pair.difference


def worst(compared: Comparison, name: FigureName, count: int) -> tuple[Worst, ...]:
    """Return the modules with the largest self differences, largest first.

    Differences within noise, and times that do not add up or vary too much, come last, in the order
    of the model.
    """
    alignment = compared.alignment
    if alignment is None:
        return ()
    found = []
    for index, one in enumerate(alignment.nodes):
        if node_of(compared, one).kind != "module":
            continue
        is_whole = one.a < 0 or one.b < 0
        if is_whole and _is_below_lone(alignment, one):
            continue
        pair = figure_pair(compared, one, name) if is_whole else _own_pair(compared, one, name)
        difference = row_difference(one, pair)
        if difference:
            found.append(Worst(index, pair, is_whole, difference))
    found.sort(key=_rank)
    return tuple(found[:count])


def _rank(one: Worst) -> tuple[bool, float, int]:
    is_ranked = one.pair.is_ranked
    return (not is_ranked, -abs(one.difference) if is_ranked else 0.0, one.index)


def _is_below_lone(alignment: Alignment, one: AlignedNode) -> bool:
    """Return whether a one-sided node is inside another one, which counts it."""
    above = alignment.nodes[one.parent]
    return (above.a < 0) == (one.a < 0) and (above.b < 0) == (one.b < 0)


def _own_pair(compared: Comparison, one: AlignedNode, name: FigureName) -> Pair:
    a, b = _own(compared.a, one.a, name), _own(compared.b, one.b, name)
    if name == "seconds":
        return _timed_pair(compared, one, a, b)
    return _read(compared, one, Pair(a, b), _own_readings(name))


def _read(
    compared: Comparison,
    one: AlignedNode,
    pair: Pair,
    reading: Callable[[SideTree, int], Reading],
) -> Pair:
    """Return a pair of computed figures with how they are to be read; 0 is shown as exact."""
    found: list[Reading] = []
    for side, index, figure in ((compared.a, one.a, pair.a), (compared.b, one.b, pair.b)):
        found.append(reading(side.tree, index) if known(figure) and side.tree is not None else "")
    return replace(pair, a_reading=found[0], b_reading=found[1])


def _whole_readings(name: FigureName) -> Callable[[SideTree, int], Reading]:
    def reading(tree: SideTree, index: int) -> Reading:
        node = tree.nodes[index]
        return _reading(name, node.bounded, is_at_least=node.uncosted > 0)

    return reading


def _own_readings(name: FigureName) -> Callable[[SideTree, int], Reading]:
    def reading(tree: SideTree, index: int) -> Reading:
        bounded, uncosted = _own_quality(tree)[index]
        return _reading(name, bounded, is_at_least=uncosted > 0)

    return reading


def _reading(name: FigureName, bounded: Bounded | None, *, is_at_least: bool) -> Reading:
    if name == "flops":
        return of_flops(bounded, is_at_least=is_at_least)
    return of_count(bounded) if name in ("macs", "memory") else ""


@lru_cache(maxsize=2)
def _own_quality(tree: SideTree) -> tuple[tuple[Bounded | None, int], ...]:
    """Return of each node how its self cost depends on the data, and what in it has no formula."""
    parents = {node.parent for node in tree.nodes}
    bounded = [None if at in parents else node.bounded for at, node in enumerate(tree.nodes)]
    uncosted = [node.uncosted for node in tree.nodes]
    for node in tree.nodes:
        if node.parent >= 0 and node.kind == "module":
            uncosted[node.parent] -= node.uncosted
        elif node.bounded and bounded[node.parent] != "about":
            bounded[node.parent] = node.bounded
    return tuple(zip(bounded, uncosted, strict=True))


def _timed_pair(compared: Comparison, one: AlignedNode, a: Figure, b: Figure) -> Pair:
    sides = (("A", compared.a, one.a), ("B", compared.b, one.b))
    doubts = (f"{which}: {why}" for which, side, at in sides if (why := _doubt(side, at)))
    return Pair(a, b, _node_noise(compared, one, a, b), next(doubts, ""))


def _doubt(side: Side, index: int) -> str:
    """Return why a side's time of a module is not ranked; empty where it is."""
    tree = side.tree
    if index < 0 or tree is None or tree.nodes[index].kind != "module":
        return ""
    seconds, own = side.seconds(index), side.own_seconds(index)
    parts = [each for child in _modules_in(tree)[index] if (each := side.seconds(child))]
    made = (sum(parts) + own) / seconds if parts and own is not None and seconds else None
    # A module that is never called takes the time of its children: it has no calls to vary.
    return doubt(seconds if own is not None else None, made, side.error(index))


@lru_cache(maxsize=4)
def _modules_in(tree: SideTree) -> tuple[tuple[int, ...], ...]:
    """Return the child modules of each node."""
    found: list[list[int]] = [[] for _ in tree.nodes]
    for index, node in enumerate(tree.nodes):
        if node.parent >= 0 and node.kind == "module":
            found[node.parent].append(index)
    return tuple(map(tuple, found))


def _node_noise(compared: Comparison, one: AlignedNode, a: Figure, b: Figure) -> bool | None:
    difference = Pair(a, b).difference
    if difference is None:
        return None
    return is_noise(difference, _error(compared.a, one.a), _error(compared.b, one.b))


def _error(side: Side, index: int) -> float | None:
    return side.error(index) if index >= 0 else None


def _or_no_time(seconds: float | None) -> Figure:
    return _NO_TIME if seconds is None else seconds


NOT_THERE = Unknown("not traced")
_NO_NODE = Unknown("no such node on this side")
_NO_TIME = Unknown("no times")
_NO_COST = Unknown("parameters only")


def _whole(side: Side, index: int, name: FigureName) -> Figure:
    if index < 0 or side.tree is None:
        return _NO_NODE
    if name == "seconds":
        return _or_no_time(side.seconds(index))
    value = _cost(side.tree.nodes[index], name)
    return _why_no_cost(side) if value is None else value


def _own(side: Side, index: int, name: FigureName) -> Figure:
    if index < 0 or side.tree is None:
        return _NO_NODE
    if name == "seconds":
        return _or_no_time(side.own_seconds(index))
    value = _own_costs(side.tree, name)[index]
    return _why_no_cost(side) if value is None else value


def _why_no_cost(side: Side) -> Unknown:
    """Return why a node has no cost: that of the whole model, else of its operators."""
    whole = side.totals.get("total_flops", _NO_COST)
    return whole if isinstance(whole, Unknown) else Unknown(NO_FORMULA)


@lru_cache(maxsize=16)
def _own_costs(tree: SideTree, name: FigureName) -> tuple[int | None, ...]:
    """Return the self cost of each node, without child modules."""
    found = [_cost(node, name) for node in tree.nodes]
    for node in tree.nodes:
        if node.parent >= 0 and node.kind == "module":
            above, inside = found[node.parent], _cost(node, name)
            if above is not None and inside is not None:
                found[node.parent] = above - inside
    return tuple(found)


_COSTS: Mapping[str, Callable[[SideNode], int | None]] = {
    "flops": lambda node: node.flops,
    "macs": lambda node: node.macs,
    "memory": lambda node: node.memory,
    "parameters": lambda node: node.parameters if node.kind == "module" else 0,
}


def _cost(node: SideNode, name: FigureName) -> int | None:
    return _COSTS[name](node)


def _total(side: Side, name: str) -> Figure:
    return side.totals.get(name, NOT_THERE)


def _with_items(side: Side) -> Side:
    """Add the time per item, and its error."""
    batch = dict(side.settings).get("batch", "")
    whole = _total(side, "latency.p50_s")
    if isinstance(whole, Unknown):
        return side
    if not batch.isdecimal() or not int(batch):
        no_items = Unknown("no batch axis is known: no time per item")
        return replace(side, totals={**side.totals, PER_ITEM: no_items})
    errors = side.total_errors
    if (error := errors.get("latency.p50_s")) is not None:
        errors = {**errors, PER_ITEM: error / int(batch)}
    return replace(side, totals={**side.totals, PER_ITEM: whole / int(batch)}, total_errors=errors)
