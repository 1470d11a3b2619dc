"""The order of siblings: by a column, those without a figure last either way."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from tui_profiler.queries.time.repeated_siblings import Steps
from tui_profiler.queries.tree.columns import summed_figure
from tui_profiler.queries.tree.focus import Focus
from tui_profiler.session import Session

_Key: TypeAlias = Callable[[int], float | tuple[bool, int, str] | None]


def sorted_siblings(
    session: Session, focus: Focus, steps: Callable[[int], Steps] = lambda node: ()
) -> Callable[[list[int]], list[int]]:
    """Give the function that puts the children of one node in the order of the focus.

    Args:
        session: whose figures are compared.
        focus: says by which.
        steps: gives the run that a node stands for: their sum is compared.
    """
    key = _key(session, focus, steps)

    def order(siblings: list[int]) -> list[int]:
        keys = {node: key(node) for node in siblings}
        with_figure = [node for node in siblings if keys[node] is not None]
        without = [node for node in siblings if keys[node] is None]
        # The sort is stable either way: equal figures stay in the order of the model.
        with_figure.sort(key=lambda node: keys[node], reverse=focus.descending)  # type: ignore[arg-type, return-value]  # None was left out above
        return with_figure + without

    return order


def _key(session: Session, focus: Focus, steps: Callable[[int], Steps]) -> _Key:
    tree = session.tree
    assert tree is not None
    match focus.sort:
        case "name":
            return lambda node: _by_name(tree.nodes[node].name)
        case "order":
            return lambda node: node
        case column:
            return lambda node: summed_figure(session, node, column, steps(node))


def _by_name(name: str) -> tuple[bool, int, str]:
    """Put numbers in their own order before words: 2 before 10; Python refuses 5,000 digits."""
    number = int(name) if name.isdecimal() and len(name) < 19 else 0
    return (not name.isdecimal(), number, name.casefold())
