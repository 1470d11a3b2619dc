"""The mix of bounds of any node at once: sums over the preorder, so that a subtree is two look-ups.

``bound.mix`` answers the same for one node by walking all that is inside it; a tree with live bars
asks for every visible row at every tick, so the walk is made once for all of them.

1. What holds back a module's own operators depends on its time only in one respect: above
   ``limit`` seconds even the largest least time explains too little of it, and it is overhead.
2. Kind and limit are therefore found once for a tree and its ceilings; a tick only adds up.
"""

from __future__ import annotations

from array import array
from collections.abc import Generator

from msgspec import Struct

from tui_profiler.messages import Ceilings, Cost, known
from tui_profiler.queries.bound import (
    KINDS,
    UNEXPLAINED_BELOW,
    BoundKind,
    bytes_moved,
    node_dtype,
    on_paper,
)
from tui_profiler.queries.in_steps import STEP, InSteps, sums_in_steps
from tui_profiler.queries.runs import Steps, summed
from tui_profiler.queries.sorts import times_fit_costs
from tui_profiler.session import Session, Timings, Tree

REFRESH_SECONDS = 1.0
_COMPUTE, _MEMORY, _OVERHEAD = range(3)
_CODES: dict[BoundKind, int] = {kind: code for code, kind in enumerate(KINDS)}


class Limits(Struct, frozen=True, eq=False):
    """Of every module: what holds back its own operators, and up to which time that explains it."""

    kinds: bytes
    """Position in ``KINDS``, one byte for each node."""
    seconds: array[float]
    """Above this own time the node is overhead."""


class Mixes:
    """Seconds by bound of every subtree, of one tick."""

    def __init__(self, tree: Tree, sums: tuple[array[float], ...]) -> None:
        self._ends = tree.ends
        self._runs: dict[tuple[int, Steps], tuple[float, ...]] = {}
        self._sums = sums

    def of(self, node: int) -> tuple[float, ...]:
        """Give the seconds of a node and all inside it, in the order of ``KINDS``."""
        return self.between(node, self._ends[node])

    def of_run(self, node: int, steps: Steps) -> tuple[float, ...]:
        """Give the seconds of all the nodes that a node stands for, in the order of ``KINDS``."""
        found = self._runs.get((node, steps))
        if found is None:
            ends = (summed(sums, self._ends[node], steps) for sums in self._sums)
            starts = (summed(sums, node, steps) for sums in self._sums)
            found = tuple(max(end - start, 0.0) for end, start in zip(ends, starts, strict=True))
            self._runs[node, steps] = found
        return found

    def between(self, start: int, stop: int) -> tuple[float, ...]:
        """Give the seconds of a run of nodes in preorder, in the order of ``KINDS``."""
        # Differences of long sums may come out a hair below 0.
        return tuple(max(sums[stop] - sums[start], 0.0) for sums in self._sums)


class NewestMixes:
    """The mixes of the session that is looked at, made anew at most once a second."""

    def __init__(self) -> None:
        self._of: tuple[Tree | None, Ceilings | None] = (None, None)
        self._limits: Limits | None = None
        self._mixes: Mixes | None = None
        self._at = 0.0

    def follow(self, session: Session) -> None:
        """Look at a session, an older one or a newer."""
        tree, timings, ceilings = session.tree, session.timings, session.ceilings
        if self._of[0] is not tree or self._of[1] is not ceilings:
            self._of, self._limits, self._mixes = (tree, ceilings), None, None
        if tree is None or timings is None or ceilings is None or not times_fit_costs(session):
            self._mixes = None
            return
        if self._mixes is not None and 0 <= timings.tick.at - self._at < REFRESH_SECONDS:
            return
        if self._limits is None:
            self._limits = limits(tree, ceilings)
        self._mixes, self._at = mixes(tree, self._limits, timings), timings.tick.at

    def between(self, start: int, stop: int) -> tuple[float, ...]:
        """Give the seconds of a run of nodes in preorder, in the order of ``KINDS``."""
        return self._mixes.between(start, stop) if self._mixes is not None else (0.0, 0.0, 0.0)


@InSteps
def mixes(tree: Tree, limits: Limits, timings: Timings) -> Generator[None, None, Mixes]:
    """Give the mixes of a tick."""
    own = tuple(array("d", bytes(8 * (len(tree) + 1))) for _ in KINDS)
    nodes = memoryview(timings.tick.nodes).cast("I")
    seconds = memoryview(timings.tick.own_per_forward).cast("f")
    kinds, limit, count = limits.kinds, limits.seconds, len(tree)
    for start in range(0, len(nodes), STEP):
        part = slice(start, start + STEP)
        for node, spent in zip(nodes[part], seconds[part], strict=True):
            if node < count:
                kind = kinds[node] if spent <= limit[node] else _OVERHEAD
                own[kind][node + 1] = spent
        yield
    sums: tuple[array[float], ...] = ()
    for column in own:
        sums = (*sums, (yield from sums_in_steps(column)))
    return Mixes(tree, sums)


@InSteps
def limits(tree: Tree, ceilings: Ceilings) -> Generator[None, None, Limits]:
    """Find what holds back every module's own operators, by the same rules as ``bound``."""
    roofs = {
        ceiling.dtype: roof
        for ceiling in ceilings.compute
        if (roof := known(ceiling.flops_per_second))
    }
    bytes_roof = known(ceilings.bytes_per_second)
    op_seconds = known(ceilings.op_seconds)
    flops, moved, ops = yield from _own_columns(tree)
    kinds = bytearray(len(tree))
    limit = array("d", bytes(8 * len(tree)))
    for index, node in enumerate(tree.nodes):
        if index % STEP == 0:
            yield
        if node.kind == "op":
            continue
        roof = roofs.get(node_dtype(tree, index)) if flops[index] else None
        least = (
            flops[index] / roof if roof else 0.0,
            moved[index] / bytes_roof if bytes_roof else 0.0,
            ops[index] * op_seconds if op_seconds is not None else 0.0,
        )
        largest = max(least)
        if largest > 0:
            kinds[index] = least.index(largest)
            limit[index] = largest / UNEXPLAINED_BELOW
        else:
            nothing_known = not bytes_roof and op_seconds is None and not roofs
            kinds[index] = _paper_kind(flops[index], moved[index]) if nothing_known else _OVERHEAD
            limit[index] = float("inf") if nothing_known else 0.0
    return Limits(bytes(kinds), limit)


def _own_columns(
    tree: Tree,
) -> Generator[None, None, tuple[array[float], array[float], array[int]]]:
    """Give FLOPs, bytes and calls of each module's own operators, of an opaque one's all."""
    flops = array("d", bytes(8 * len(tree)))
    moved = array("d", bytes(8 * len(tree)))
    ops = array("q", bytes(8 * len(tree)))
    for index, (node, cost) in enumerate(zip(tree.nodes, tree.costs, strict=True)):
        if index % STEP == 0:
            yield
        if node.kind == "op" and node.parent >= 0:
            flops[node.parent] += cost.flops
            moved[node.parent] += bytes_moved(cost)
            ops[node.parent] += cost.ops
    for index, (node, cost) in enumerate(zip(tree.nodes, tree.costs, strict=True)):
        if index % STEP == 0:
            yield
        if node.is_opaque:
            flops[index], moved[index], ops[index] = cost.flops, bytes_moved(cost), cost.ops
    return flops, moved, ops


def _paper_kind(flops: float, moved: float) -> int:
    cost = Cost(0, 0, 0, int(flops), int(moved), 0, 0, 0, 0)
    found = on_paper(cost)
    return _CODES[found.kind] if found is not None else _OVERHEAD
