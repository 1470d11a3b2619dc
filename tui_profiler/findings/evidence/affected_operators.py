"""Operators that another dtype, layout or batch size changes, and the roofs that bound them."""

from collections.abc import Iterator
from functools import lru_cache

from msgspec import Struct

from tui_profiler.messages import Ceilings
from tui_profiler.queries.cost.bound import node_dtype, own_dependence
from tui_profiler.queries.cost.breakdown import OpType, op_type
from tui_profiler.queries.cost.ceilings import usable_roofs
from tui_profiler.queries.cost.roofline import part_nodes
from tui_profiler.queries.time.node_seconds import unwaited_seconds
from tui_profiler.session import Session, Tree

CONVOLUTION: frozenset[OpType] = frozenset({"Conv1d", "Conv2d", "Conv3d"})
MATRIX: frozenset[OpType] = CONVOLUTION | {
    "Linear",
    "matmul",
    "attention",
    "transformer layer",
    "recurrent",
}
"""Run on tensor cores or AMX, and in 16 bits under autocast."""


ROOF_DOUBT = 1.25
"""Times that work may be faster than a roof that is good: beyond it one is not believed
(``MOST_RAISED`` of ``probe/measure/ceilings/ceilings.py``)."""


class Part(Struct, frozen=True):
    """A leaf of the forward with its matrix operators."""

    node: int
    operators: tuple[int, ...]
    seconds: float | None
    """Per forward, without waiting for a core; None where not measured."""


def matrix_parts(session: Session, tree: Tree, types: frozenset[OpType] = MATRIX) -> Iterator[Part]:
    """Yield the leaves with operators of these types, but those whose work is not even bounded."""
    for node, operators in _leaves(tree, types):
        if own_dependence(tree, node) != "about":
            yield Part(node, operators, unwaited_seconds(session, node))


@lru_cache(maxsize=8)
def _leaves(tree: Tree, types: frozenset[OpType]) -> tuple[tuple[int, tuple[int, ...]], ...]:
    found = []
    for node in part_nodes(tree):
        inside = range(node, tree.ends[node])
        operators = tuple(
            i for i in inside if tree.nodes[i].kind == "op" and op_type(tree.nodes[i]) in types
        )
        if operators:
            found.append((node, operators))
    return tuple(found)


def compute_roof(ceilings: Ceilings | None, dtype: str) -> float | None:
    """Return the roof of a dtype in FLOP/s; None where missing or not good enough."""
    return usable_roofs(ceilings).compute.get(dtype) if ceilings is not None else None


def memory_roof(ceilings: Ceilings | None) -> float | None:
    """Return the bandwidth of a copy in memory; None where missing or not good enough."""
    levels = usable_roofs(ceilings).levels if ceilings is not None else ()
    return levels[-1].bytes_per_second if levels else None


def call_seconds(ceilings: Ceilings | None) -> float | None:
    """Return the minimum seconds of an operator; None where missing or not good enough."""
    return usable_roofs(ceilings).op_seconds if ceilings is not None else None


def roof_seconds(flops: float, moved: float, compute: float, memory: float) -> float:
    """Return the minimum seconds by two roofs: FLOP/s, and bytes per second."""
    return max(flops / compute, moved / memory)


def in_dtype(tree: Tree, nodes: tuple[int, ...], dtype: str) -> tuple[int, ...]:
    """Keep the operators that compute in a dtype."""
    return tuple(node for node in nodes if node_dtype(tree, node) == dtype)
