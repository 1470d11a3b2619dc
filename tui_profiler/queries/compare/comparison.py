"""Two sides held against each other: totals, settings, nodes, and the worst differences.

1. A difference is the second side less the first; a ratio is the second over the first.
2. A node that only one side has differs by all of it; it has no ratio.
3. A figure that is not known on one side has no difference: it is never taken for 0.
4. Worst are the differences of what a module does by itself, without modules inside: else all that
   hold a slow one would be as far apart. What has appeared or vanished counts whole, once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import lru_cache
from math import isfinite
from typing import Literal, TypeAlias

from msgspec import Struct

from tui_profiler.messages import Figure, Unknown, known
from tui_profiler.queries.compare.alignment import (
    CHANGE_NAMES,
    AlignedNode,
    Alignment,
    Change,
    align,
)
from tui_profiler.queries.compare.side import Side, SideNode, SideTree
from tui_profiler.queries.time.standard_error import doubt, is_noise

FigureName: TypeAlias = Literal["seconds", "flops", "macs", "memory", "parameters"]
Unit: TypeAlias = Literal["seconds", "bytes", "count", "rate", "ratio"]

FIGURES: tuple[FigureName, ...] = ("seconds", "macs", "flops", "memory", "parameters")
UNITS: Mapping[FigureName, Unit] = {
    "seconds": "seconds",
    "macs": "count",
    "flops": "count",
    "memory": "bytes",
    "parameters": "count",
}
TOTALS: tuple[tuple[str, str, Unit], ...] = (
    ("latency.p50_s", "latency p50", "seconds"),
    ("latency_per_item.p50_s", "per item", "seconds"),
    ("latency.p95_s", "latency p95", "seconds"),
    ("throughput.per_s", "throughput", "rate"),
    ("total_parameters", "parameters", "count"),
    ("total_parameter_bytes", "weights", "bytes"),
    ("total_macs", "MAC", "count"),
    ("total_flops", "FLOP", "count"),
    ("total_memory", "bytes moved", "bytes"),
    ("arithmetic_intensity", "FLOP per byte", "ratio"),
    ("peak_memory.activations", "activations", "bytes"),
    ("peak_memory.total", "peak memory", "bytes"),
    ("coverage.ops", "operators", "count"),
)
"""Path in the JSON report, name, unit."""
MEASURED = ("latency.", "latency_per_item.", "throughput.")


class Pair(Struct, frozen=True):
    """One figure on both sides."""

    a: Figure
    b: Figure
    noise: bool | None = None
    """Whether the difference is no more than noise; None where that is not known."""
    doubt: str = ""
    """Why the times are not ranked: they do not add up, or vary too much; empty where sound."""

    @property
    def is_ranked(self) -> bool:
        """Whether the difference says which of two rows is worse."""
        return self.noise is not True and not self.doubt

    @property
    def difference(self) -> float | None:
        """The second less the first."""
        a, b = known(self.a), known(self.b)
        return None if a is None or b is None else b - a

    @property
    def ratio(self) -> float | None:
        """The second over the first."""
        a, b = known(self.a), known(self.b)
        found = None if a is None or b is None or not a else b / a
        return found if found is not None and isfinite(found) else None


class TotalRow(Struct, frozen=True):
    """One figure of the whole."""

    name: str
    """Its path in the JSON report."""
    words: str
    unit: Unit
    pair: Pair

    @property
    def is_measured(self) -> bool:
        """Whether it is no figure on paper."""
        return self.name.startswith(MEASURED)


class Comparison(Struct, frozen=True, eq=False):
    """Two sides and, where both have nodes, their trees as one."""

    a: Side
    b: Side
    alignment: Alignment | None
    why_no_alignment: str
    """Empty where there is one."""


class Worst(Struct, frozen=True):
    """A module that differs by itself."""

    index: int
    """In the alignment."""
    pair: Pair
    is_whole: bool
    """It is only on one side, and all that is in it counts."""
    difference: float


def comparison(a: Side, b: Side) -> Comparison:
    """Hold two sides against each other."""
    for which, side in (("A", a), ("B", b)):
        if side.tree is None:
            return Comparison(a, b, None, f"{which} has no tree: {side.why_no_tree}")
    assert a.tree is not None
    assert b.tree is not None
    return Comparison(a, b, align(a.tree, b.tree), "")


def total_rows(compared: Comparison) -> tuple[TotalRow, ...]:
    """Return the figures of the whole that at least one side has, measured ones first."""
    a, b = _with_items(compared.a), _with_items(compared.b)
    batches = {dict(side.settings).get("batch", "") for side in (compared.a, compared.b)}
    found = []
    for name, words, unit in TOTALS:
        pair = Pair(_total(a, name), _total(b, name), _total_noise(compared, name))
        is_item_of_one = name.startswith("latency_per_item.") and len(batches) < 2
        if not is_item_of_one and not (isinstance(pair.a, Unknown) and isinstance(pair.b, Unknown)):
            found.append(TotalRow(name, words, unit, pair))
    return tuple(found)


def why_no_times(compared: Comparison) -> str:
    """Say which side has no measured times and why; empty where both have some."""
    for which, side in (("A", compared.a), ("B", compared.b)):
        figure = _total(side.totals, "latency.p50_s")
        if isinstance(figure, Unknown):
            return f"{which}: {figure.reason}"
    return ""


def different_settings(compared: Comparison) -> tuple[tuple[str, str, str], ...]:
    """Return the settings that are not the same, by name; empty texts where a side does not say."""
    a, b = dict(compared.a.settings), dict(compared.b.settings)
    names = list(dict.fromkeys([*a, *b]))
    rows = ((name, a.get(name, ""), b.get(name, "")) for name in names)
    return tuple(row for row in rows if row[1] != row[2])


def change_counts(compared: Comparison) -> dict[Change, int]:
    """Count modules by what happened to them; of what appeared or vanished, all that is in it."""
    alignment, a, b = compared.alignment, compared.a.tree, compared.b.tree
    return {} if alignment is None or a is None or b is None else _counts(alignment, a, b)


@lru_cache(maxsize=2)
def _counts(alignment: Alignment, a: SideTree, b: SideTree) -> dict[Change, int]:
    counted = Counter(
        one.change
        for one in alignment.nodes
        if (b.nodes[one.b] if one.b >= 0 else a.nodes[one.a]).kind == "module"
    )
    return {change: counted[change] for change in CHANGE_NAMES}


def node_of(compared: Comparison, one: AlignedNode) -> SideNode:
    """Return the node that names a row: the second side's where that has one."""
    side, index = (compared.b, one.b) if one.b >= 0 else (compared.a, one.a)
    assert side.tree is not None
    return side.tree.nodes[index]


def former_path(compared: Comparison, one: AlignedNode) -> str:
    """Return the path that a moved node had on the first side."""
    assert compared.a.tree is not None
    return compared.a.tree.nodes[one.a].path


def default_figure(compared: Comparison) -> FigureName:
    """Return the figure that says the most: times where both sides have some."""
    if compared.a.is_timed and compared.b.is_timed:
        return "seconds"
    roots = [side.tree.nodes[0] for side in (compared.a, compared.b) if side.tree is not None]
    return "flops" if all(root.flops for root in roots) else "parameters"


def figure_pair(compared: Comparison, one: AlignedNode, name: FigureName) -> Pair:
    """Return one figure of a row, all that is inside included."""
    a, b = _whole(compared.a, one.a, name), _whole(compared.b, one.b, name)
    return _timed_pair(compared, one, a, b) if name == "seconds" else Pair(a, b)


def row_difference(one: AlignedNode, pair: Pair) -> float | None:
    """Return how far a row is apart: by all of it where only one side has it."""
    a, b = known(pair.a), known(pair.b)
    if one.a < 0:
        return b
    if one.b < 0:
        return None if a is None else -a
    return pair.difference


def worst(compared: Comparison, name: FigureName, count: int) -> tuple[Worst, ...]:
    """Return the modules that differ most by themselves, worst first.

    What is no more than noise, and times that do not add up or vary too much, come after the rest
    and are not ranked: they stand in the order of the model.

    Args:
        compared: two sides.
        name: what is compared.
        count: how many at most.
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
    """Tell whether a lone node is inside of one on the same side only, which counts for it."""
    above = alignment.nodes[one.parent]
    return (above.a < 0) == (one.a < 0) and (above.b < 0) == (one.b < 0)


def _own_pair(compared: Comparison, one: AlignedNode, name: FigureName) -> Pair:
    a, b = _own(compared.a, one.a, name), _own(compared.b, one.b, name)
    return _timed_pair(compared, one, a, b) if name == "seconds" else Pair(a, b)


def _timed_pair(compared: Comparison, one: AlignedNode, a: Figure, b: Figure) -> Pair:
    sides = (("A", compared.a, one.a), ("B", compared.b, one.b))
    doubts = (f"{which}: {why}" for which, side, at in sides if (why := _doubt(side, at)))
    return Pair(a, b, _node_noise(compared, one, a, b), next(doubts, ""))


def _doubt(side: Side, index: int) -> str:
    """Return why a side's time of a module is not ranked, empty where it is sound."""
    tree = side.tree
    if index < 0 or tree is None or tree.nodes[index].kind != "module":
        return ""
    seconds, own = side.seconds(index), side.own_seconds(index)
    parts = [each for child in _modules_in(tree)[index] if (each := side.seconds(child))]
    made = (sum(parts) + own) / seconds if parts and own is not None and seconds else None
    # What is never called itself takes what is inside: it has no calls to vary.
    return doubt(seconds if own is not None else None, made, side.error(index))


@lru_cache(maxsize=4)
def _modules_in(tree: SideTree) -> tuple[tuple[int, ...], ...]:
    """Return the modules right inside of each node."""
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


_NO_NODE = Unknown("this side has no such node")
_NO_TIME = Unknown("it has no times")
_NO_COST = Unknown("there are only parameters")


def _whole(side: Side, index: int, name: FigureName) -> Figure:
    if index < 0 or side.tree is None:
        return _NO_NODE
    if name == "seconds":
        return _or_no_time(side.seconds(index))
    value = _cost(side.tree.nodes[index], name)
    return _NO_COST if value is None else value


def _own(side: Side, index: int, name: FigureName) -> Figure:
    if index < 0 or side.tree is None:
        return _NO_NODE
    if name == "seconds":
        return _or_no_time(side.own_seconds(index))
    value = _own_costs(side.tree, name)[index]
    return _NO_COST if value is None else value


@lru_cache(maxsize=16)
def _own_costs(tree: SideTree, name: FigureName) -> tuple[int | None, ...]:
    """Return what each node costs without the modules in it."""
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


def _total(totals: Mapping[str, Figure] | Side, name: str) -> Figure:
    found = totals.totals if isinstance(totals, Side) else totals
    return found.get(name, Unknown("not in this report"))


def _with_items(side: Side) -> Mapping[str, Figure]:
    """Add the time of one item of the batch."""
    batch = dict(side.settings).get("batch", "")
    whole = _total(side, "latency.p50_s")
    if isinstance(whole, Unknown) or not batch.isdecimal() or not int(batch):
        return side.totals
    return {**side.totals, "latency_per_item.p50_s": whole / int(batch)}


def _total_noise(compared: Comparison, name: str) -> bool | None:
    """Tell it of the latency: by the time of the whole in the whole of both runs."""
    alignment = compared.alignment
    if name != "latency.p50_s" or alignment is None:
        return None
    return figure_pair(compared, alignment.nodes[0], "seconds").noise
