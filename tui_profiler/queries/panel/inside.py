"""What is inside a node: its operators, or the modules in it that take the most."""

from __future__ import annotations

from heapq import nlargest

from msgspec import Struct

from tui_profiler.queries.cost.bound import BoundKind, bound, bytes_moved
from tui_profiler.queries.time.node_seconds import node_seconds, part_of
from tui_profiler.session import Session, Tree


class Inside(Struct, frozen=True):
    """One node inside another one."""

    node: int
    name: str
    """As the model gave it: not safe yet."""
    seconds: float | None
    """Per forward; None where it is not measured."""
    macs: int
    bytes: int
    share: float | None
    """Of the node around it: of its time where that is measured, else of its MACs."""
    kind: BoundKind | None
    is_measured: bool
    """The class was measured, as against: on paper."""


def is_block(tree: Tree, node: int) -> bool:
    """Tell whether a node holds modules."""
    return any(tree.nodes[child].kind == "module" for child in tree.children(node))


def slowest_children(session: Session, node: int, most: int = 5) -> tuple[Inside, ...]:
    """Give the modules in a node that take the most time, by MACs before the first times."""
    tree = session.tree
    if tree is None:
        return ()
    modules = [child for child in tree.children(node) if tree.nodes[child].kind == "module"]
    seconds = {child: node_seconds(session, child) for child in modules}
    timed = any(value is not None for value in seconds.values())
    weight = seconds.get if timed else (lambda child: float(tree.weight_on_paper(child)))
    largest = nlargest(most, modules, key=lambda child: weight(child) or 0.0)
    return tuple(_inside(session, tree, child, node) for child in largest)


def operators(session: Session, node: int, most: int | None = None) -> tuple[Inside, ...]:
    """Give a node's own operators in the order in which they run, at most ``most``."""
    tree = session.tree
    if tree is None:
        return ()
    own = [child for child in tree.children(node) if tree.nodes[child].kind == "op"]
    return tuple(_inside(session, tree, child, node) for child in own[:most])


def operator_count(tree: Tree, node: int) -> int:
    """Give how many operator nodes a module has itself."""
    return sum(tree.nodes[child].kind == "op" for child in tree.children(node))


def _inside(session: Session, tree: Tree, child: int, around: int) -> Inside:
    cost = tree.costs[child]
    seconds, whole_seconds = node_seconds(session, child), node_seconds(session, around)
    share = part_of(seconds, whole_seconds)
    if share is None and seconds is None and tree.weight_on_paper(around):
        share = tree.weight_on_paper(child) / tree.weight_on_paper(around)
    found = bound(session, child)
    return Inside(
        node=child,
        name=tree.nodes[child].name,
        seconds=seconds,
        macs=cost.macs,
        bytes=bytes_moved(cost),
        share=share,
        kind=found.kind if found is not None else None,
        is_measured=found is not None and found.measured,
    )
