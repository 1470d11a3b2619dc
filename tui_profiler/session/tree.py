"""The tree of nodes as preorder arrays.

1. Nodes lie in preorder: a node's subtree is ``index .. ends[index] - 1``.
2. A parent's index is lower than its children's; the root is 0.
3. A tree is grown by parts and is looked at only when it is complete.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from msgspec import Struct

from tui_profiler.messages import Cost, Node, Nodes, TraceDone, TraceStarted
from tui_profiler.messages.model import Method


class Tree(Struct, frozen=True, eq=False):
    """Nodes and what each costs on paper."""

    method: Method
    expected: int
    """How many nodes were announced."""
    nodes: tuple[Node, ...] = ()
    costs: tuple[Cost, ...] = ()
    ends: array[int] = array("I")
    """One past the last node of each subtree."""
    depths: array[int] = array("H")
    """0 for the root."""
    edges: tuple[tuple[int, int], ...] = ()
    """(writer, reader), operators only."""
    done: TraceDone | None = None

    def __len__(self) -> int:
        return len(self.nodes)

    def children(self, index: int) -> Iterator[int]:
        """Yield the children of a node, in order."""
        child, stop = index + 1, self.ends[index]
        while child < stop:
            yield child
            child = self.ends[child]

    def ancestors(self, index: int) -> Iterator[int]:
        """Yield the parent, its parent and so on to the root."""
        index = self.nodes[index].parent
        while index >= 0:
            yield index
            index = self.nodes[index].parent

    def find(self, path: str) -> int | None:
        """Give the first node with that path."""
        return next((i for i, node in enumerate(self.nodes) if node.path == path), None)


def started(message: TraceStarted) -> Tree:
    """Begin an empty tree."""
    return Tree(method=message.method, expected=message.nodes)


def grown(tree: Tree, part: Nodes) -> Tree:
    """Add the next nodes in preorder."""
    return Tree(
        method=tree.method,
        expected=tree.expected,
        nodes=tree.nodes + part.nodes,
        costs=tree.costs + part.costs,
        edges=tree.edges,
    )


def connected(tree: Tree, pairs: tuple[tuple[int, int], ...]) -> Tree:
    """Add edges."""
    return Tree(tree.method, tree.expected, tree.nodes, tree.costs, edges=tree.edges + pairs)


def completed(tree: Tree, done: TraceDone) -> Tree:
    """Close the tree: subtrees and depths become known."""
    parents = [node.parent for node in tree.nodes]
    depths = array("H", bytes(2 * len(parents)))
    for index, parent in enumerate(parents):
        if parent >= 0:
            depths[index] = min(depths[parent] + 1, 65535)
    ends = array("I", range(1, len(parents) + 1))
    for index in range(len(parents) - 1, 0, -1):
        parent = parents[index]
        ends[parent] = max(ends[parent], ends[index])
    return Tree(tree.method, tree.expected, tree.nodes, tree.costs, ends, depths, tree.edges, done)
