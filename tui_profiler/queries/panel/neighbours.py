"""Where a node's tensors come from and go to, which nodes are like it, and what is inside it."""

from heapq import nlargest

from msgspec import Struct

from tui_profiler.queries.cost.bound import bound, bytes_moved, known_macs
from tui_profiler.queries.cost.bound_classes import BoundKind
from tui_profiler.queries.time.base import base, base_seconds, share
from tui_profiler.queries.time.node_seconds import node_seconds
from tui_profiler.session import Session, Tree


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
    """Return the modules of the same type, settings and shapes, the nearest ones, in order.

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
    """Return the next or former module below the same parent; the node itself at the ends."""
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


class Inside(Struct, frozen=True):
    """One node inside another one."""

    node: int
    name: str
    """As the model gave it: not safe yet."""
    seconds: float | None
    """Per step of training, else per forward; None where it is not measured."""
    macs: int | None
    bytes: int
    share: float | None
    """Of the base (``queries/time/base.py``)."""
    kind: BoundKind | None
    is_measured: bool
    """The class was measured, as against: on paper."""


def is_block(tree: Tree, node: int) -> bool:
    """Tell whether a node holds modules."""
    return bool(tree.modules_in(node))


def slowest_children(session: Session, node: int, most: int = 5) -> tuple[Inside, ...]:
    """Return the modules in a node that take the most time, by MACs before the first times."""
    tree = session.tree
    if tree is None:
        return ()
    modules = tree.modules_in(node)
    seconds = {child: _seconds(session, child) for child in modules}
    timed = any(value is not None for value in seconds.values())
    weight = seconds.get if timed else (lambda child: float(tree.weight_on_paper(child)))
    largest = nlargest(most, modules, key=lambda child: weight(child) or 0.0)
    return tuple(_inside(session, tree, child) for child in largest)


def operators(session: Session, node: int, most: int | None = None) -> tuple[Inside, ...]:
    """Return a node's own operators in the order in which they run, at most ``most``."""
    tree = session.tree
    if tree is None:
        return ()
    own = [child for child in tree.children(node) if tree.nodes[child].kind == "op"]
    return tuple(_inside(session, tree, child) for child in own[:most])


def operator_count(tree: Tree, node: int) -> int:
    """Return how many operator nodes a module has itself."""
    return sum(tree.nodes[child].kind == "op" for child in tree.children(node))


def _seconds(session: Session, node: int) -> float | None:
    """Return the seconds of a node in a step of training, else in a forward."""
    if base(session).name == "step":
        return base_seconds(session, node)
    return node_seconds(session, node)


def _inside(session: Session, tree: Tree, child: int) -> Inside:
    cost = tree.costs[child]
    seconds = _seconds(session, child)
    found = bound(session, child)
    return Inside(
        node=child,
        name=tree.nodes[child].name,
        seconds=seconds,
        macs=known_macs(cost),
        bytes=bytes_moved(cost),
        share=share(session, child),
        kind=found.kind if found is not None else None,
        is_measured=found is not None and found.measured,
    )
