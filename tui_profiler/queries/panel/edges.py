"""Where a node's tensors come from and go to, and which nodes are like it."""

from __future__ import annotations

from msgspec import Struct

from tui_profiler.session import Tree


class Neighbours(Struct, frozen=True):
    """Nodes at the other ends of a node's edges, each once, in the order of the edges."""

    sources: tuple[int, ...]
    """What it reads was written there."""
    targets: tuple[int, ...]
    """What it writes is read there."""


def neighbours(tree: Tree, node: int) -> Neighbours:
    """Lift the edges between operators to the modules that own them.

    An operator's own edges are not lifted: its neighbours are operators.
    """
    stop = tree.ends[node]
    lift = tree.nodes[node].kind == "module"
    sources: dict[int, None] = {}
    targets: dict[int, None] = {}
    for writer, reader in tree.edges:
        # Edges come from outside: one that names no node is passed over.
        if max(writer, reader) >= len(tree) or min(writer, reader) < 0:
            continue
        writes, reads = node <= writer < stop, node <= reader < stop
        if reads and not writes:
            sources[_owner(tree, writer) if lift else writer] = None
        elif writes and not reads:
            targets[_owner(tree, reader) if lift else reader] = None
    return Neighbours(tuple(sources), tuple(targets))


def _owner(tree: Tree, operator: int) -> int:
    parent = tree.nodes[operator].parent
    return parent if tree.nodes[operator].kind == "op" and parent >= 0 else operator


def same_shape(tree: Tree, node: int, most: int = 6) -> tuple[int, ...]:
    """Give the modules of the same type, settings and shapes, the nearest ones, in order.

    Returns:
        At most ``most`` indexes with ``node`` among them; empty where it is the only one.
    """
    wanted = tree.nodes[node]
    if wanted.kind != "module":
        return ()
    # Compared by what a tensor is, not by its name: that is only how forward calls it.
    alike = [
        index
        for index, other in enumerate(tree.nodes)
        if other.kind == "module"
        and other.type == wanted.type
        and other.detail == wanted.detail
        and [t.shape for t in other.inputs] == [t.shape for t in wanted.inputs]
        and [t.shape for t in other.outputs] == [t.shape for t in wanted.outputs]
    ]
    if len(alike) < 2:
        return ()
    at = alike.index(node)
    first = max(0, min(at - most // 2, len(alike) - most))
    return tuple(alike[first : first + most])


def sibling(tree: Tree, node: int, step: int) -> int:
    """Give the next or former module below the same parent; the node itself at the ends."""
    parent = tree.nodes[node].parent
    if parent < 0:
        return node
    kind = tree.nodes[node].kind
    children = [child for child in tree.children(parent) if tree.nodes[child].kind == kind]
    return children[max(0, min(children.index(node) + step, len(children) - 1))]


def short_names(paths: tuple[str, ...]) -> tuple[str, ...]:
    """Leave out the leading parts that all paths share; the last part always stays."""
    parts = [path.split(".") for path in paths]
    shared = 0
    while all(len(p) > shared + 1 for p in parts) and len({p[shared] for p in parts}) == 1:
        shared += 1
    return tuple(".".join(p[shared:]) for p in parts)
