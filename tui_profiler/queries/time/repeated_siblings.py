"""Runs of equal siblings, and sums over the nodes that stand at the same place in each of them.

1. Two nodes are alike when kind, type, settings, parameters and everything inside are, by name.
2. A run is two or more modules below one parent that are alike and follow one another. Its first
   one stands for all of them.
3. Alike nodes take equally many places in preorder: what lies at a place of the first lies at the
   same place of each other one, so that sums are sums of slices.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from tui_profiler.messages import Cost
from tui_profiler.queries.time.node_seconds import node_seconds
from tui_profiler.session import Session, Tree

Steps: TypeAlias = tuple[tuple[int, int], ...]
"""(how many, nodes from one to the next) of every run that a node lies in; none for one node."""

_COSTS = tuple(name for name in Cost.__struct_fields__ if name != "trainable")


class Runs(Struct, frozen=True, eq=False):
    """All runs of a tree."""

    counts: dict[int, int]
    """First node of a run to how many there are."""
    firsts: dict[int, int]
    """Every other node of a run to its first."""


def runs(tree: Tree) -> Runs:
    """Find the runs of a tree."""
    found = Runs({}, {})
    known: dict[tuple[object, ...], int] = {}
    alike = array("I", bytes(4 * len(tree)))
    below: dict[int, list[int]] = {}
    nodes, costs = tree.nodes, tree.costs
    # Backwards, so that children come before their parent.
    for index in range(len(tree) - 1, -1, -1):
        node = nodes[index]
        inside = below.pop(index, [])
        parts = [part for child in inside for part in (nodes[child].name, alike[child])]
        key = (node.kind, node.type, node.detail, costs[index].parameters, *parts)
        alike[index] = known.setdefault(key, len(known))
        if len(inside) > 1:
            inside.reverse()
            _add_runs(found, tree, inside, alike)
        below.setdefault(node.parent, []).append(index)
    return found


def _add_runs(found: Runs, tree: Tree, siblings: list[int], alike: array[int]) -> None:
    first = siblings[0]
    for former, node in pairwise(siblings):
        if alike[node] != alike[former] or tree.nodes[node].kind != "module":
            first = node
            continue
        found.firsts[node] = first
        found.counts[first] = found.counts.get(first, 1) + 1


def slices(node: int, steps: Steps) -> Iterator[slice]:
    """Yield where the nodes lie that a node stands for, as few slices as there can be."""
    *outer, (count, stride) = sorted(steps) or [(1, 1)]
    starts = [node]
    for number, step in outer:
        starts = [start + at * step for start in starts for at in range(number)]
    for start in starts:
        yield slice(start, start + (count - 1) * stride + 1, stride)


def members(node: int, steps: Steps) -> Iterator[int]:
    """Yield the nodes that a node stands for, itself among them."""
    for part in slices(node, steps):
        yield from range(part.start, part.stop, part.step)


def summed(column: Sequence[float], node: int, steps: Steps) -> float:
    """Return the sum of a column over the nodes that a node stands for."""
    return math.fsum(sum(column[part]) for part in slices(node, steps))


class Sums:
    """Figures of rows that stand for several nodes, of one session."""

    def __init__(self, session: Session, before: Sums | None = None) -> None:
        self._session = session
        self._costs: dict[str, array[float]] = {}
        self._summed: dict[tuple[int, Steps], Cost] = {}
        self._seconds: array[float] | None = None
        self._containers: list[int] | None = None
        if before is None or before._session.tree is not session.tree:
            return
        self._costs, self._containers = before._costs, before._containers
        self._summed = before._summed
        former = before._session
        measured = (session.timings, session.operators, session.windows)
        if (former.timings, former.operators, former.windows) == measured:
            self._seconds = before._seconds

    def cost(self, node: int, steps: Steps) -> Cost:
        """Return the sum of what they cost; a parameter that two of them share counts for each."""
        found = self._summed.get((node, steps))
        if found is None:
            sums = (int(summed(self._column(field), node, steps)) for field in _COSTS)
            found = replace(Cost(*sums), trainable=self._trainable(node, steps))
            self._summed[node, steps] = found
        return found

    def _trainable(self, node: int, steps: Steps) -> int | None:
        """Return the sum, None where one of them is not known."""
        tree = self._session.tree
        assert tree is not None
        told = [tree.costs[member].trainable for member in members(node, steps)]
        known = [one for one in told if one is not None]
        return sum(known) if len(known) == len(told) else None

    def seconds(self, node: int, steps: Steps) -> float | None:
        """Return the sum of the seconds of each; None where one of them has none."""
        if self._seconds is None:
            self._seconds = self._measured()
        found = summed(self._seconds, node, steps)
        return None if math.isnan(found) else found

    def _column(self, field: str) -> array[float]:
        tree = self._session.tree
        assert tree is not None
        column = self._costs.get(field)
        if column is None:
            values = (getattr(cost, field) for cost in tree.costs)
            column = self._costs[field] = array("d", values)
        return column

    def _measured(self) -> array[float]:
        """Return the seconds of every node; not a number where nothing was measured."""
        session = self._session
        tree, timings, operators = session.tree, session.timings, session.operators
        assert tree is not None
        column = array("d", [math.nan]) * len(tree)
        if timings is not None:
            modules = memoryview(timings.tick.nodes).cast("I")
            for node, value in zip(modules, timings.whole, strict=True):
                if node < len(column):
                    column[node] = value
        for node in memoryview(operators.times.nodes).cast("I") if operators is not None else ():
            if node < len(column) and (seconds := node_seconds(session, node)) is not None:
                column[node] = seconds
        if self._containers is None:
            holding = (i for i, stop in enumerate(tree.ends) if stop > i + 1)
            self._containers = [i for i in holding if tree.nodes[i].kind == "module"]
        # A container that is never called itself takes what is inside it.
        for node in self._containers:
            if math.isnan(column[node]):
                column[node] = node_seconds(session, node) or math.nan
        return column
