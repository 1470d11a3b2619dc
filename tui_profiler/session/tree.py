"""The tree of nodes as preorder arrays.

1. Nodes lie in preorder: a node's subtree is ``index .. ends[index] - 1``.
2. A parent's index is lower than its children's; the root is 0.
3. A tree is grown by parts and is looked at only when it is complete.
4. Nodes come from outside: a tree that breaks 1 or 2 is never complete.
5. Equal texts and equal tensors are held once: a model of 100,000 nodes repeats a few of each.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from sys import intern

from msgspec import Struct
from msgspec.structs import replace

from tui_profiler import messages
from tui_profiler.messages import Method, Phase
from tui_profiler.session.columns import Memory, memory_columns_agree
from tui_profiler.session.data_dependence import Bounded, reach


class Tree(Struct, frozen=True, eq=False):
    """Nodes and what each costs on paper."""

    method: Method
    expected: int
    """How many nodes were announced."""
    nodes: tuple[messages.Node, ...] = ()
    costs: tuple[messages.Cost, ...] = ()
    ends: array[int] = array("I")
    """One past the last node of each subtree."""
    depths: array[int] = array("H")
    """0 for the root."""
    edges: tuple[tuple[int, int], ...] = ()
    """(writer, reader), operators only."""
    done: messages.TraceDone | None = None
    bounded: dict[int, Bounded] = {}
    """Nodes whose figures depend on the data, of a complete tree."""
    is_confirmed: bool = False
    """A real forward on the same inputs cost the same: for these, ``bounded`` figures are right."""
    phase: Phase = ""
    """Which of the two forwards of a model that generates; empty where there is only one."""
    inputs: tuple[messages.InputSpec, ...] = ()
    """What that phase was given; empty where there is only one."""
    memory: Memory | None = None
    """Live memory after each operator; None if not known."""

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def has_forward(self) -> bool:
        """False where there are only parameters: no figure of a forward pass is known."""
        return self.method != "parameters"

    def depends(self, index: int) -> Bounded | None:
        """Return how the work of a node depends on the data; None also where it is confirmed."""
        return None if self.is_confirmed else self.bounded.get(index)

    def weight_on_paper(self, index: int) -> int:
        """Return what shares are of before anything is measured: MACs, else parameters."""
        return self.weight_of(self.costs[index])

    def weight_of(self, cost: messages.Cost) -> int:
        """Return the same of any cost."""
        return cost.macs if self.has_forward else cost.parameters

    def children(self, index: int) -> Iterator[int]:
        """Yield the children of a node, in order."""
        child, stop = index + 1, self.ends[index]
        while child < stop:
            yield child
            child = self.ends[child]

    def modules_in(self, index: int) -> list[int]:
        """Return the modules directly inside a node, in order."""
        return [child for child in self.children(index) if self.nodes[child].kind == "module"]

    def ancestors(self, index: int) -> Iterator[int]:
        """Yield the parent, its parent and so on to the root."""
        index = self.nodes[index].parent
        while index >= 0:
            yield index
            index = self.nodes[index].parent

    def find(self, path: str) -> int | None:
        """Return the first node with that path."""
        return next((i for i, node in enumerate(self.nodes) if node.path == path), None)


def weight_name(node: messages.Node, weight: messages.Weight) -> str:
    """Return the full name of a parameter or buffer, as in the state dict."""
    return f"{node.path}.{weight.name}" if node.path else weight.name


def started(message: messages.TraceStarted) -> Tree:
    """Begin an empty tree."""
    return Tree(
        method=message.method,
        expected=message.nodes,
        phase=message.phase,
        inputs=message.inputs,
    )


def grown(tree: Tree, part: messages.Nodes) -> Tree:
    """Add the next nodes in preorder."""
    nodes = tree.nodes + _sharing(part.nodes)
    return replace(tree, nodes=nodes, costs=tree.costs + part.costs)


def connected(tree: Tree, pairs: tuple[tuple[int, int], ...]) -> Tree:
    """Add edges."""
    return replace(tree, edges=tree.edges + pairs)


def filled(tree: Tree, steps: messages.MemorySteps) -> Tree:
    """Add what was alive while it ran; columns that do not fit the nodes are left out."""
    fits = memory_columns_agree(steps, len(tree.nodes))
    return replace(tree, memory=Memory(steps)) if fits else tree


def completed(tree: Tree, done: messages.TraceDone) -> Tree | None:
    """Close the tree: subtrees and depths become known; None where it is not a tree in preorder."""
    parents = [node.parent for node in tree.nodes]
    if not _is_preorder(parents) or len(tree.costs) != len(parents):
        return None
    depths = array("H", bytes(2 * len(parents)))
    for index, parent in enumerate(parents):
        if parent >= 0:
            depths[index] = min(depths[parent] + 1, 65535)
    ends = array("I", range(1, len(parents) + 1))
    for index in range(len(parents) - 1, 0, -1):
        parent = parents[index]
        ends[parent] = max(ends[parent], ends[index])
    calls = tree.memory.nodes if tree.memory is not None else ()
    bounded = reach(tree.nodes, tree.edges, done.bounded, calls)
    return replace(tree, ends=ends, depths=depths, done=done, bounded=bounded)


def confirmed(tree: Tree, real: messages.Cost) -> Tree:
    """Return a tree, confirmed where a real forward did the same work."""
    is_same = bool(len(tree) and tree.bounded) and all(
        getattr(tree.costs[0], name) == getattr(real, name) for name in _WORK
    )
    return replace(tree, is_confirmed=True) if is_same else tree


_WORK = ("macs", "flops", "input_bytes", "weight_bytes", "output_bytes", "ops", "uncosted")


def _is_preorder(parents: list[int]) -> bool:
    for index, parent in enumerate(parents):
        if index == 0:
            if parent != -1:
                return False
            continue
        if not 0 <= parent < index:
            return False
        # In preorder a parent is the node before, or one above that.
        above = index - 1
        while above > parent:
            above = parents[above]
        if above != parent:
            return False
    return True


def _sharing(nodes: tuple[messages.Node, ...]) -> tuple[messages.Node, ...]:
    """Return the same nodes, holding one of each equal text and of each equal run of tensors."""
    tensors: dict[tuple[messages.Tensor, ...], tuple[messages.Tensor, ...]] = {}
    weights: dict[tuple[messages.Weight, ...], tuple[messages.Weight, ...]] = {}
    callers: dict[tuple[messages.Caller, ...], tuple[messages.Caller, ...]] = {}
    # Paths are left as they are: no two are equal. Written out, because ``replace`` is slower.
    return tuple(
        messages.Node(
            node.parent,
            node.kind,
            intern(node.name),
            node.path,
            intern(node.type),
            node.calls,
            tensors.setdefault(node.inputs, node.inputs),
            tensors.setdefault(node.outputs, node.outputs),
            weights.setdefault(node.weights, node.weights),
            intern(node.detail),
            intern(node.source),
            intern(node.called_from),
            intern(node.note),
            node.is_opaque,
            callers.setdefault(node.callers, node.callers),
        )
        for node in nodes
    )
