"""One forward laid out along an axis: where each node begins and how long it is.

1. What a node holds lies inside it, in the order of the calls, one after the other; time of its own
   comes last, because when it was is not known.
2. Measured, the axis is time: lengths are means of a forward, which add up. What does not, medians
   of operator windows, is shortened to fit into its parent, all siblings by the same factor.
3. On paper there is no time: a nanosecond of the axis stands for a FLOP, and an operator without
   any is one long, so that it is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct

from tui_profiler.queries.time.node_seconds import node_seconds, root_seconds
from tui_profiler.session import Session, Tree

_NANOSECONDS = 1e9


class Slice(Struct, frozen=True, gc=False):
    """A node's place."""

    node: int
    start: int
    """In nanoseconds, from the beginning of the forward."""
    stop: int


def forward(session: Session, tree: Tree) -> tuple[Slice, ...]:
    """Return a place to every node that is called, in preorder; none where nothing is."""
    if not tree.has_forward:
        return ()
    measured = root_seconds(session) is not None
    lengths = _in_time(session, tree) if measured else _in_flops(tree)
    return tuple(_placed(tree, lengths.__getitem__))


def _in_time(session: Session, tree: Tree) -> list[float]:
    return [(node_seconds(session, node) or 0.0) * _NANOSECONDS for node in range(len(tree))]


def _in_flops(tree: Tree) -> list[float]:
    lengths = [0.0] * len(tree)
    for node in range(len(tree) - 1, -1, -1):
        if tree.nodes[node].kind == "op":
            lengths[node] = max(float(tree.costs[node].flops), 1.0)
        if node:
            lengths[tree.nodes[node].parent] += lengths[node]
    return lengths


def _placed(tree: Tree, length: Callable[[int], float]) -> Iterator[Slice]:
    """Lay out the tree, parents first; what is shorter than a nanosecond is left out."""
    # By node: where its next child begins, and by what all its children are shortened.
    at, factor = [0.0] * len(tree), [0.0] * len(tree)
    # By node: the nanosecond at which it ends, so that rounding lets no child end after it.
    ends = [0] * len(tree)
    for node in range(len(tree)):
        parent = tree.nodes[node].parent
        wanted = length(node) * (factor[parent] if node else 1.0)
        start = at[parent] if node else 0.0
        stop = start + wanted
        if node:
            at[parent] = stop
        inside = sum(map(length, tree.children(node)))
        own = length(node)
        at[node] = start
        factor[node] = min(1.0, own / inside) * (wanted / own) if own and inside else 0.0
        ends[node] = min(round(stop), ends[parent]) if node else round(stop)
        if ends[node] > round(start):
            yield Slice(node, round(start), ends[node])
