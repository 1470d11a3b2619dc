"""Whose figures depend on the data: what follows on an operator that answered with a bound.

A fake run cannot know how many boxes are kept. It takes the most there could be, or a constant
where there is no most; every operator that reads what came of it has figures to match.
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias

from tui_profiler.messages import Node

Bounded: TypeAlias = Literal["at most", "about"]
"""An upper bound; or from a constant in place of a value, which may be more or less."""

_CONSTANT = frozenset(
    {
        "aten::_local_scalar_dense",
        "aten::_unique",
        "aten::_unique2",
        "aten::bincount",
        "aten::equal",
        "aten::repeat_interleave",
        "aten::unique_consecutive",
        "aten::unique_dim",
        "aten::unique_dim_consecutive",
    }
)
"""Operators whose answer is a constant; that of the others is the most there could be."""
_SCALAR = "aten::_local_scalar_dense"
"""Leaves the tensors: what runs after it may depend on it without an edge."""


def reach(
    nodes: Sequence[Node],
    edges: Sequence[tuple[int, int]],
    names: Sequence[str],
    calls: Sequence[int] = (),
) -> dict[int, Bounded]:
    """Return the nodes whose figures depend on the data.

    Args:
        nodes: in preorder.
        edges: (writer, reader) of operators.
        names: of the operators that answered with a bound, without overload.
        calls: the nodes of operators in the order in which they ran; preorder if it is not known.
    """
    found: dict[int, Bounded] = {}
    if not names:
        return found
    asked = frozenset(names)
    readers: dict[int, list[int]] = {}
    for writer, reader in edges:
        readers.setdefault(writer, []).append(reader)
    _follow([i for i, node in enumerate(nodes) if node.name in asked], readers, "at most", found)
    constants = [i for i, node in enumerate(nodes) if node.name in asked & _CONSTANT]
    _follow(constants, readers, "about", found)
    scalars = frozenset(index for index in constants if nodes[index].name == _SCALAR)
    order = calls if scalars.intersection(calls) else range(len(nodes))
    first = next((at for at, index in enumerate(order) if index in scalars), len(order))
    for index in order[first + 1 :]:
        if nodes[index].kind == "op":
            found[index] = "about"
    _lift(nodes, found)
    return found


def of_whole(names: Sequence[str]) -> Bounded | None:
    """Return how figures of the whole depend on operators that answered with a bound."""
    return None if not names else "about" if _CONSTANT.intersection(names) else "at most"


def _follow(
    starts: list[int], readers: dict[int, list[int]], kind: Bounded, found: dict[int, Bounded]
) -> None:
    # The operators that answer are marked too: their output has the size that they answered.
    waiting = list(starts)
    for start in starts:
        found[start] = kind
    while waiting:
        for reader in readers.get(waiting.pop(), ()):
            if found.get(reader) != kind:
                found[reader] = kind
                waiting.append(reader)


def _lift(nodes: Sequence[Node], found: dict[int, Bounded]) -> None:
    """Mark every module above a marked node; "about" outweighs "at most"."""
    for index in sorted(found, reverse=True):
        kind = found[index]
        above = nodes[index].parent
        while above >= 0 and found.get(above) not in (kind, "about"):
            found[above] = kind
            above = nodes[above].parent
