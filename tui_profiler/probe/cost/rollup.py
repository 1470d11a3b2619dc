"""Costs of single nodes, summed up the tree.

1. Everything but parameters adds up: a node is the sum of its children.
2. A parameter counts once in every subtree that holds it. With the occurrences of one parameter in
   preorder, each adds its size where it stands, and the lowest common ancestor of every two
   neighbours takes it off once: above it, one of the two is left.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from msgspec import Struct, structs

from tui_profiler.messages import Cost
from tui_profiler.probe.process.yielding import rest


@dataclass(frozen=True, slots=True)
class ParameterOwners:
    """A parameter and the nodes that hold it, in preorder."""

    scalars: int
    size_bytes: int
    nodes: tuple[int, ...]
    is_trainable: bool = True
    """``requires_grad``."""


class SelfCost(Struct, gc=False):
    """Cost of one node without its children."""

    macs: int = 0
    flops: int = 0
    input_bytes: int = 0
    weight_bytes: int = 0
    output_bytes: int = 0
    ops: int = 0
    uncosted: int = 0

    def take(self, other: SelfCost) -> None:
        """Add another node's cost."""
        self.macs += other.macs
        self.flops += other.flops
        self.input_bytes += other.input_bytes
        self.weight_bytes += other.weight_bytes
        self.output_bytes += other.output_bytes
        self.ops += other.ops
        self.uncosted += other.uncosted


def rolled_up(
    parents: Sequence[int], own: Sequence[SelfCost], held: Iterable[ParameterOwners]
) -> tuple[Cost, ...]:
    """Return every node's cost with everything below it.

    Args:
        parents: index of each node's parent, lower than its own; -1 for the root.
        own: cost of each node alone.
        held: every parameter with the nodes that hold it.
    """
    total = [SelfCost() for _ in own]
    for mine, given in zip(total, own, strict=True):
        mine.take(given)
    scalars, sizes, trainable = _distinct(parents, held)
    for index in range(len(parents) - 1, 0, -1):
        rest()
        parent = parents[index]
        total[parent].take(total[index])
        scalars[parent] += scalars[index]
        sizes[parent] += sizes[index]
        trainable[parent] += trainable[index]
    rows = zip(total, scalars, sizes, trainable, strict=True)
    return tuple(_cost(*row) for row in rows)


def _distinct(
    parents: Sequence[int], held: Iterable[ParameterOwners]
) -> tuple[list[int], list[int], list[int]]:
    """Return scalars, bytes, and scalars that are trained."""
    scalars = [0] * len(parents)
    sizes = [0] * len(parents)
    trainable = [0] * len(parents)
    for parameter in held:
        trained = parameter.scalars * parameter.is_trainable
        for node in parameter.nodes:
            scalars[node] += parameter.scalars
            sizes[node] += parameter.size_bytes
            trainable[node] += trained
        for one, other in zip(parameter.nodes, parameter.nodes[1:], strict=False):
            common = _common_ancestor(parents, one, other)
            scalars[common] -= parameter.scalars
            sizes[common] -= parameter.size_bytes
            trainable[common] -= trained
    return scalars, sizes, trainable


def _common_ancestor(parents: Sequence[int], one: int, other: int) -> int:
    """The higher index cannot be an ancestor of the lower: it climbs until both are one."""
    while one != other:
        if one > other:
            one = parents[one]
        else:
            other = parents[other]
    return one


def _cost(own: SelfCost, parameters: int, parameter_bytes: int, trainable: int) -> Cost:
    return Cost(
        parameters=parameters,
        parameter_bytes=parameter_bytes,
        trainable=trainable,
        **structs.asdict(own),
    )
