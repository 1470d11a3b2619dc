"""Operators whose work a lower precision, another layout or a larger batch changes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from msgspec import Struct

from tui_profiler.messages import Ceilings, Cost
from tui_profiler.queries.cost.bound import bytes_moved, node_dtype
from tui_profiler.queries.cost.breakdown import OpType, op_type
from tui_profiler.queries.cost.ceilings import usable_roofs
from tui_profiler.queries.cost.roofline import part_nodes
from tui_profiler.queries.time.node_seconds import node_seconds
from tui_profiler.session import Session, Tree

CONVOLUTION: frozenset[OpType] = frozenset({"Conv1d", "Conv2d", "Conv3d"})
MATRIX: frozenset[OpType] = CONVOLUTION | {
    "Linear",
    "matmul",
    "attention",
    "transformer layer",
    "recurrent",
}
"""What tensor cores, AMX and the like speed up, and autocast runs in 16 bits."""


class Part(Struct, frozen=True):
    """A leaf of the forward with the matrix operators in it."""

    node: int
    operators: tuple[int, ...]
    seconds: float | None
    """Measured, of one forward; None where it was not."""


def matrix_parts(session: Session, tree: Tree, types: frozenset[OpType] = MATRIX) -> Iterator[Part]:
    """Yield the leaves that hold operators of these types."""
    for node, operators in _leaves(tree, types):
        yield Part(node, operators, node_seconds(session, node))


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
    """Return the FLOP/s of a dtype, None where they are not known or not good enough."""
    return usable_roofs(ceilings).compute.get(dtype) if ceilings is not None else None


def memory_roof(ceilings: Ceilings | None) -> float | None:
    """Return the bytes per second of a copy, None where they are not known or not good enough."""
    levels = usable_roofs(ceilings).levels if ceilings is not None else ()
    return levels[-1].bytes_per_second if levels else None


def call_seconds(ceilings: Ceilings | None) -> float | None:
    """Return the least time of an operator, None where it is not known or not good enough."""
    return usable_roofs(ceilings).op_seconds if ceilings is not None else None


def roof_seconds(flops: float, moved: float, compute: float, memory: float) -> float:
    """Return the least seconds by two roofs: FLOP/s and bytes a second."""
    return max(flops / compute, moved / memory)


def in_dtype(tree: Tree, nodes: tuple[int, ...], dtype: str) -> tuple[int, ...]:
    """Keep the operators that compute in a dtype."""
    return tuple(node for node in nodes if node_dtype(tree, node) == dtype)


def moved(cost: Cost) -> int:
    """Return the bytes that an operator reads and writes."""
    return bytes_moved(cost)
