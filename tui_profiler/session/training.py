"""Training as a session keeps it: columns read by node without unpacking them."""

import math
from bisect import bisect_left
from collections.abc import Iterator
from copy import copy
from functools import cached_property
from itertools import accumulate

from msgspec import Struct

from tui_profiler.messages import (
    TENSOR_USES,
    BackwardOperators,
    ModelValues,
    TrainingCost,
    TrainingMemory,
    TrainingStep,
)
from tui_profiler.session.columns import CalledOperator, agree, called_agree, called_operators

_FLOATS = (*("forward", "own_forward", "backward", "own_backward", "recomputed", "own_recomputed"),)


class NodeStep(Struct, frozen=True):
    """Seconds per step in one node, all its calls together."""

    forward: float
    own_forward: float
    """Without modules called inside."""
    backward: float
    own_backward: float
    recomputed: float
    """In which checkpointing ran it again, inside of the backward."""
    own_recomputed: float

    @property
    def total(self) -> float:
        """Forward, backward and recomputation."""
        return self.forward + self.backward + self.recomputed

    @property
    def own(self) -> float:
        """The same without modules called inside."""
        return self.own_forward + self.own_backward + self.own_recomputed


class StepColumns:
    """The columns of a message, with the position of each node in them."""

    def __init__(self, step: TrainingStep) -> None:
        self.step = step
        indexes = memoryview(step.nodes).cast("I")
        self._position = {node: position for position, node in enumerate(indexes)}
        self._columns = [memoryview(getattr(step, name)).cast("f") for name in _FLOATS]

    def with_step(self, step: TrainingStep) -> "StepColumns":
        """Return these columns with other figures of the whole step."""
        other = copy(self)
        other.step = step
        return other

    def of(self, node: int) -> NodeStep | None:
        """Return the times of a node, None where it was not called in the set of steps."""
        position = self._position.get(node)
        if position is None:
            return None
        return NodeStep(*(column[position] for column in self._columns))

    def directions_of(self, node: int) -> tuple[float, float] | None:
        """Return its seconds in the forward and in the backward, as ``of`` does but faster."""
        position = self._position.get(node)
        if position is None:
            return None
        return self._columns[0][position], self._columns[2][position]

    def own_backward(self) -> Iterator[tuple[int, float]]:
        """Yield every node that was called, and the seconds of its own operators' backward."""
        return zip(self._position, self._columns[3], strict=True)

    @cached_property
    def has_recomputed(self) -> bool:
        """Whether checkpointing ran anything again."""
        return any(self._columns[5])

    def recomputed_in(self, first: int, stop: int) -> float:
        """Return the seconds in which checkpointing ran nodes of a range again, their own added up.

        A module around what is run again was not run again itself: its own column has nothing.
        """
        nodes, sums = self._recomputed_sums
        return sums[bisect_left(nodes, stop)] - sums[bisect_left(nodes, first)]

    @cached_property
    def _recomputed_sums(self) -> tuple[list[int], list[float]]:
        nodes = sorted(self._position)
        own = self._columns[_FLOATS.index("own_recomputed")]
        return nodes, [*accumulate((own[self._position[node]] for node in nodes), initial=0.0)]


def step_columns_agree(step: TrainingStep) -> bool:
    """Tell whether all columns have an entry for each node: a probe may send anything."""
    return agree(step.nodes, [getattr(step, name) for name in _FLOATS])


class NodeCost(Struct, frozen=True):
    """What the backward of a node costs in one pass, everything below it included."""

    macs: int
    flops: int
    input_bytes: int
    weight_bytes: int
    output_bytes: int
    ops: int
    uncosted: int
    again_macs: int
    """Computed again, by checkpointing and by fused attention."""
    again_flops: int
    again_bytes: int
    gradient_bytes: int
    """Of the gradients of its parameters."""
    saved_bytes: int
    """Of what was made in it and is alive when the backward begins."""

    @property
    def bytes_moved(self) -> int:
        """Inputs, weights and outputs."""
        return self.input_bytes + self.weight_bytes + self.output_bytes


_COSTS = (
    *("macs", "flops", "input_bytes", "weight_bytes", "output_bytes", "ops", "uncosted_ops"),
    *("again_macs", "again_flops", "again_bytes", "gradients", "saved"),
)
NO_COST = NodeCost(*(0 for _ in _COSTS))


class CostColumns:
    """What a training step costs on paper, by node."""

    def __init__(self, cost: TrainingCost) -> None:
        self.cost = cost
        indexes = memoryview(cost.nodes).cast("I")
        self._position = {node: position for position, node in enumerate(indexes)}
        self._columns = [memoryview(getattr(cost, name)).cast("Q") for name in _COSTS]

    def of(self, node: int) -> NodeCost | None:
        """Return what the backward of a node costs; None where nothing is known of any node."""
        if self.cost.why:
            return None
        position = self._position.get(node)
        if position is None:
            return NO_COST
        return NodeCost(*(column[position] for column in self._columns))


def cost_columns_agree(cost: TrainingCost) -> bool:
    """Tell whether all columns have an entry for each node: a probe may send anything."""
    return agree(cost.nodes, (), [getattr(cost, name) for name in _COSTS])


_USES = ("gradient", "saved_bytes", "recomputed", "temporary")
_OF_POINTS = {"nodes": 4, "ordinals": 4, "scratch": 8, **dict.fromkeys(_USES, 8)}
"""Columns, and bytes of an entry."""
_OF_TENSORS = {"makers": 4, "sizes": 8, "first": 4, "last": 4, "kinds": 1}


class MemoryColumns:
    """Who is alive over a training step, on paper."""

    def __init__(self, memory: TrainingMemory) -> None:
        self.memory = memory
        self.nodes = memoryview(memory.nodes).cast("i")
        """Of each point, as the next three."""
        self.ordinals = memoryview(memory.ordinals).cast("I")
        self.scratch = memoryview(memory.scratch).cast("q")
        self.by_use = tuple(memoryview(getattr(memory, name)).cast("Q") for name in _USES)
        """Bytes alive after a point, in the order of ``TENSOR_USES``."""
        self.makers = memoryview(memory.makers).cast("i")
        """Of each tensor, as the next four."""
        self.sizes = memoryview(memory.sizes).cast("Q")
        self.first = memoryview(memory.first).cast("I")
        self.last = memoryview(memory.last).cast("I")
        self.kinds = memory.kinds

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def constant_bytes(self) -> int:
        """Alive all along."""
        memory = self.memory
        return memory.parameters + memory.buffers + memory.inputs + memory.optimizer_state

    def alive(self, point: int) -> int:
        """Return all that is alive after a point, but for scratch memory."""
        return self.constant_bytes + sum(column[point] for column in self.by_use)


def memory_columns_agree(memory: TrainingMemory) -> bool:
    """Tell whether the columns of points agree, and those of tensors."""
    for columns in (_OF_POINTS, _OF_TENSORS):
        counts = {divmod(len(getattr(memory, name)), size) for name, size in columns.items()}
        if len(counts) != 1 or any(rest for _, rest in counts):
            return False
    return all(kind < len(TENSOR_USES) for kind in memory.kinds)


class BackwardColumns:
    """Operators of the backward, by node, without unpacking them before someone asks."""

    def __init__(self, operators: BackwardOperators) -> None:
        self.operators = operators

    @cached_property
    def _by_node(self) -> tuple[dict[int, list[CalledOperator]], ...]:
        found: tuple[dict[int, list[CalledOperator]], ...] = ({}, {})
        columns = (self.operators.operators, self.operators.recomputed)
        for by_node, column in zip(found, columns, strict=True):
            for one in called_operators(column):
                by_node.setdefault(one.node, []).append(one)
        return found

    def of(self, node: int) -> list[CalledOperator]:
        """Return what the backward of a module's own calls ran, in any order."""
        return self._by_node[0].get(node, [])

    def recomputed(self, node: int) -> list[CalledOperator]:
        """Return what its own calls ran that checkpointing repeated."""
        return self._by_node[1].get(node, [])


def backward_agrees(operators: BackwardOperators) -> bool:
    """Tell whether all columns have an entry for each row: a probe may send anything."""
    return called_agree(operators.operators) and called_agree(operators.recomputed)


class ValueStatistics(Struct, frozen=True):
    """What some values of a module are like; None: not known."""

    largest: float | None
    """Absolute maximum of the finite ones."""
    rms: float | None
    """Of the finite ones."""
    zeros: float | None
    """Share of elements, 0 to 1, as the next two."""
    nans: float | None
    infs: float | None


class NodeValues(Struct, frozen=True):
    """The values of one module in a step; None: not known."""

    activation: ValueStatistics | None
    """What it returns."""
    gradient: ValueStatistics | None
    """The gradient of that."""
    parameters: ValueStatistics | None
    """The gradients of its own parameters."""
    weight_rms: float | None
    update_ratio: float | None
    """Norm of what the optimizer added to its own parameters, over theirs."""


_STATISTICS = tuple(ValueStatistics.__struct_fields__)
_VALUES = (
    *(group + name for group in ("", "gradient_", "parameter_") for name in _STATISTICS),
    *("weight_rms", "update_ratio"),
)


class ValueColumns:
    """What values are like, by node."""

    def __init__(self, values: ModelValues) -> None:
        self.values = values
        self.nodes = memoryview(values.nodes).cast("I")
        self._position = {node: position for position, node in enumerate(self.nodes)}
        self._columns = {name: memoryview(getattr(values, name)).cast("f") for name in _VALUES}
        self.norms = tuple(
            zip(
                memoryview(values.norm_steps).cast("I"),
                memoryview(values.norms).cast("f"),
                strict=True,
            )
        )
        """Step and gradient norm of the last ones; NaN where it is not finite or not known."""

    def of(self, node: int) -> NodeValues | None:
        """Return the values of a node, None where none were read."""
        position = self._position.get(node)
        if position is None:
            return None
        return NodeValues(
            self._statistics("", position),
            self._statistics("gradient_", position),
            self._statistics("parameter_", position),
            self._figure("weight_rms", position),
            self._figure("update_ratio", position),
        )

    def _statistics(self, group: str, position: int) -> ValueStatistics | None:
        found = [self._figure(group + name, position) for name in _STATISTICS]
        return None if found[2] is None else ValueStatistics(*found)

    def _figure(self, name: str, position: int) -> float | None:
        found = self._columns[name][position]
        return None if math.isnan(found) else found


def value_columns_agree(values: ModelValues) -> bool:
    """Tell whether all columns have an entry for each node: a probe may send anything."""
    of_nodes = agree(values.nodes, [getattr(values, name) for name in _VALUES])
    return of_nodes and agree(values.norm_steps, [values.norms])
