"""Alignment of two trees: which node of one corresponds to which of the other.

1. Below two corresponding nodes, modules correspond by path, operators by type and order: an added
   operator does not shift the others.
2. The rest is added, removed or moved. Moved: a module with parameters or multiply-accumulates
   that has the same type, shape, cost and content under another path; candidates with the same name
   come first, then the first in order.
3. The result is a tree in preorder, in the order of the second side, with removed nodes in place.
4. It is deterministic, in time linear in the nodes.
"""

from __future__ import annotations

from array import array
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Literal, TypeAlias

from msgspec import Struct

from tui_profiler.queries.compare.side import SideNode, SideTree

Change: TypeAlias = Literal["same", "changed", "moved", "appeared", "vanished"]
CHANGE_WORDS: Mapping[Change, str] = {
    "changed": "changed",
    "moved": "moved",
    "appeared": "added",
    "vanished": "removed",
    "same": "same",
}
"""Text of a change; JSON has the names."""
Nodes: TypeAlias = tuple[SideNode, ...]
Signature: TypeAlias = tuple[object, ...]


class AlignedNode(Struct, frozen=True, gc=False):
    """A node of one side or of both."""

    parent: int
    """Index in the alignment; -1 for the root."""
    depth: int
    a: int
    """Index in the first side's nodes; -1 if it has no such node."""
    b: int
    change: Change


class Alignment(Struct, frozen=True, eq=False):
    """Two trees as one, in preorder."""

    nodes: tuple[AlignedNode, ...]
    ends: array[int]
    """One past the last node of each subtree."""

    def children(self, index: int) -> Iterator[int]:
        """Yield the children of a node, in order."""
        child, stop = index + 1, self.ends[index]
        while child < stop:
            yield child
            child = self.ends[child]


@lru_cache(maxsize=2)
def align(first: SideTree, second: SideTree) -> Alignment:
    """Align two trees, neither empty."""
    pairs = _Pairs(first.nodes, second.nodes)
    pairs.match(0, 0)
    pairs.match_moved()
    return pairs.merged()


class _Pairs:
    """Correspondences, while they are computed."""

    def __init__(self, first: Nodes, second: Nodes) -> None:
        self._sides = (first, second)
        self._children = (_children(first), _children(second))
        self._of_a = array("i", [-1]) * len(first)
        self._of_b = array("i", [-1]) * len(second)
        self._moved: set[int] = set()
        """Of the second side."""

    def match(self, a: int, b: int) -> None:
        """Pair two nodes, and their descendants where they correspond."""
        pending = [(a, b)]
        while pending:
            a, b = pending.pop()
            self._of_a[a], self._of_b[b] = b, a
            theirs = dict(_keyed(self._sides[1], self._children[1][b], self._sides[1][b].path))
            for key, child in _keyed(self._sides[0], self._children[0][a], self._sides[0][a].path):
                other = theirs.get(key)
                if other is not None and self._of_a[child] < 0 and self._of_b[other] < 0:
                    pending.append((child, other))

    def match_moved(self) -> None:
        """Find unpaired modules under other paths, outermost first."""
        numbers: dict[Signature, int] = {}
        mine, theirs = (
            _signatures(nodes, children, numbers)
            for nodes, children in zip(self._sides, self._children, strict=True)
        )
        named: dict[tuple[int, str], deque[int]] = defaultdict(deque)
        any_name: dict[int, deque[int]] = defaultdict(deque)
        for b, node in enumerate(self._sides[1]):
            if self._of_b[b] < 0 and _is_known_again(node):
                named[theirs[b], node.name].append(b)
                any_name[theirs[b]].append(b)
        level = [a for a, partner in enumerate(self._of_a) if partner < 0 and self._is_outermost(a)]
        while level:
            for a in level:
                self._move(a, named[mine[a], self._sides[0][a].name])
            for a in level:
                self._move(a, any_name[mine[a]])
            level = [c for a in level for c in self._children[0][a] if self._of_a[c] < 0]

    def _is_outermost(self, a: int) -> bool:
        return self._of_a[self._sides[0][a].parent] >= 0

    def _move(self, a: int, candidates: deque[int]) -> None:
        """Pair a node with the first unpaired candidate."""
        if self._of_a[a] >= 0:
            return
        while candidates:
            b = candidates.popleft()
            if self._of_b[b] < 0:
                self._moved.add(b)
                self.match(a, b)
                return

    def merged(self) -> Alignment:
        """Return both trees as one."""
        nodes: list[AlignedNode] = []
        pending = [(0, 0, -1, 0)]
        while pending:
            a, b, parent, depth = pending.pop()
            here = len(nodes)
            nodes.append(AlignedNode(parent, depth, a, b, self._change(a, b)))
            below = self._children_of(a, b)
            pending += [(left, right, here, depth + 1) for left, right in reversed(below)]
        ends = array("I", range(1, len(nodes) + 1))
        for index in range(len(nodes) - 1, 0, -1):
            parent = nodes[index].parent
            ends[parent] = max(ends[parent], ends[index])
        return Alignment(tuple(nodes), ends)

    def _children_of(self, a: int, b: int) -> list[tuple[int, int]]:
        """Return the children of a pair: the second side's, and those removed before each."""
        lost = list(self._children[0][a]) if a >= 0 else []
        found: list[tuple[int, int]] = []
        taken = 0
        for child in self._children[1][b] if b >= 0 else ():
            partner = self._of_b[child]
            if partner >= 0 and a >= 0 and self._sides[0][partner].parent == a:
                while taken < len(lost) and lost[taken] <= partner:
                    found += self._vanished(lost[taken])
                    taken += 1
            found.append((partner, child))
        for one in lost[taken:]:
            found += self._vanished(one)
        return found

    def _vanished(self, a: int) -> list[tuple[int, int]]:
        return [(a, -1)] if self._of_a[a] < 0 else []

    def _change(self, a: int, b: int) -> Change:
        if a < 0:
            return "appeared"
        if b < 0:
            return "vanished"
        if b in self._moved:
            return "moved"
        return "same" if _is_same(self._sides[0][a], self._sides[1][b]) else "changed"


def _children(nodes: Nodes) -> tuple[Sequence[int], ...]:
    found: list[list[int]] = [[] for _ in nodes]
    for index, node in enumerate(nodes):
        if node.parent >= 0:
            found[node.parent].append(index)
    return tuple(found)


def _keyed(
    nodes: Nodes, children: Sequence[int], parent: str
) -> Iterator[tuple[tuple[str, str, int], int]]:
    """Yield a key for each child, unique among siblings and equal on both sides."""
    met: dict[tuple[str, str], int] = defaultdict(int)
    for child in children:
        node = nodes[child]
        name = node.type if node.kind == "op" else _below(node.path, parent) or node.name
        key = (node.kind, name)
        yield (*key, met[key]), child
        met[key] += 1


def _below(path: str, parent: str) -> str:
    """Return a path relative to its parent; a shared module elsewhere keeps its own."""
    inside = f"{parent}."
    return path.removeprefix(inside) if parent and path.startswith(inside) else path


def _is_same(one: SideNode, other: SideNode) -> bool:
    return _figures(one) == _figures(other)


def _figures(node: SideNode) -> Signature:
    costs = (node.parameters, node.macs, node.flops, node.memory)
    return (node.kind, node.type, node.calls, node.shape, *costs)


def _is_known_again(node: SideNode) -> bool:
    """Return whether a node has enough cost to be recognised under another path."""
    return node.kind == "module" and bool(node.parameters or node.macs)


def _signatures(
    nodes: Nodes, children: tuple[Sequence[int], ...], numbers: dict[Signature, int]
) -> list[int]:
    """Return a number per node, equal for nodes with equal figures and content, names aside.

    Args:
        nodes: of one side.
        children: of each.
        numbers: assigned so far, for both sides.
    """
    found = [0] * len(nodes)
    for index in range(len(nodes) - 1, -1, -1):
        inside = tuple(found[child] for child in children[index])
        found[index] = numbers.setdefault((_figures(nodes[index]), inside), len(numbers))
    return found
