"""Which nodes a filter finds; what is typed is read by ``filter_terms``.

1. All terms hold together.
2. A figure that is not known satisfies no term, and no negated one either.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TypeAlias

from tui_profiler.messages import Cost
from tui_profiler.queries.cost.bound import BoundKind, kinds_of
from tui_profiler.queries.time.node_seconds import node_seconds, part_of, root_seconds
from tui_profiler.queries.tree.filter_terms import LIVE, Relation, Term, read
from tui_profiler.session import Session, Tree

_Test: TypeAlias = Callable[[int], bool]
_COMPARE: dict[Relation, Callable[[float, float], bool]] = {
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
    "=": operator.eq,
}


def matches(session: Session, text: str, *, operators: bool) -> list[int]:
    """Give the nodes found, in order; a text without a term finds none.

    Args:
        session: with a complete tree.
        text: what to look for; words that are no term are left out.
        operators: look at operators as well as at modules.
    """
    tree, terms = session.tree, read(text).terms
    if tree is None or not terms:
        return []
    nodes = tree.nodes
    found: list[int] = [i for i, n in enumerate(nodes) if operators or n.kind == "module"]
    # The cheap ones first: what they leave out need not be looked at by those that cost.
    for term in sorted(terms, key=lambda term: (term.field in LIVE, term.field == "bound")):
        test = _test(session, tree, term)
        found = [index for index in found if test(index)]
    return found


def is_live(text: str) -> bool:
    """Say whether what a text finds changes as the model runs."""
    return read(text).is_live


def why_none(session: Session, text: str) -> str:
    """Give why a filter can find nothing yet; empty where it could."""
    fields = {term.field for term in read(text).terms}
    if fields & {"time", "share"} and root_seconds(session) is None:
        return "needs times"
    return ""


def with_ancestors(tree: Tree, found: list[int]) -> bytes:
    """Mark what is found and everything above it, one byte for each node; the root always."""
    kept = bytearray(len(tree))
    nodes = tree.nodes
    if kept:
        kept[0] = 1
    for match in found:
        index = match
        while not kept[index]:
            kept[index] = 1
            index = nodes[index].parent
    return bytes(kept)


def _test(session: Session, tree: Tree, term: Term) -> _Test:
    wanted = not term.negated
    if term.relation == "has":
        if term.field == "bound":
            kind_of = kinds_of(session)
            return lambda node: _has_bound(kind_of(node), term)
        has = _holds(tree, term)
        return lambda node: has(node) == wanted
    figure = _figure(session, tree, term)
    compare = _COMPARE[term.relation]

    def test(node: int) -> bool:
        value = figure(node)
        return value is not None and compare(value, term.number) == wanted

    return test


def _holds(tree: Tree, term: Term) -> _Test:
    nodes, needle = tree.nodes, term.word
    match term.field:
        case "name":
            return lambda node: needle in nodes[node].name.casefold()
        case "type":
            return lambda node: needle in nodes[node].type.casefold()
        case _:
            return lambda node: (
                needle in nodes[node].path.casefold()
                or needle in nodes[node].type.casefold()
                or needle in nodes[node].name.casefold()
            )


def _has_bound(kind: BoundKind | None, term: Term) -> bool:
    return kind is not None and (kind == term.word) != term.negated


def _figure(session: Session, tree: Tree, term: Term) -> Callable[[int], float | None]:
    costs, depths = tree.costs, tree.depths
    match term.field:
        case "time":
            return lambda node: node_seconds(session, node)
        case "share":
            whole = root_seconds(session)
            return lambda node: part_of(node_seconds(session, node), whole)
        case "params":
            return lambda node: costs[node].parameters
        case "mac":
            return lambda node: _macs(costs[node])
        case _:
            return lambda node: depths[node]


def _macs(cost: Cost) -> int | None:
    """Give the multiply-accumulates; None where no operator inside has a formula."""
    return None if cost.ops and cost.uncosted == cost.ops and not cost.macs else cost.macs
