"""A recorded training step as messages: what each node costs, and who is alive when."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tui_profiler.messages import (
    TENSOR_USES,
    AliveAtPeak,
    Checkpointing,
    PassCost,
    StepPhase,
    TrainingCost,
    TrainingMemory,
    TrainSpec,
    Unknown,
)
from tui_profiler.probe.cost.rollup import ParameterOwners, SelfCost, rolled_up
from tui_profiler.probe.torch_compat.internals import parameters_of
from tui_profiler.probe.torch_compat.modules import each_module
from tui_profiler.probe.trace.training.backward_costs import BackwardCost, StepCosts
from tui_profiler.probe.trace.training.step_memory import SAVED, Integers, StepLives
from tui_profiler.probe.trace.tree.growing_tree import Place, Places

MOST_POINTS = 4_000
MOST_TENSORS = 20_000
MOST_ALIVE = 20
MOST_CHECKPOINTS = 32
LEAST_SAVED = 0.005
"""Of all saved activations, that a module has for checkpointing it to be looked at."""


class Nodes:
    """The places of a tree, by the index of their nodes."""

    def __init__(self, places: Places) -> None:
        self.order = list(places.in_preorder())
        self._index = {id(place): index for index, place in enumerate(self.order)}
        self.parents = [self.of(place.parent) for place in self.order]
        ends = list(range(1, len(self.order) + 1))
        for index in range(len(self.order) - 1, 0, -1):
            parent = self.parents[index]
            ends[parent] = max(ends[parent], ends[index])
        self.ends = ends
        """Of each node, the index after the last one below it: a subtree is contiguous."""

    def of(self, place: Place | None) -> int:
        """Return the node of a place, -1 for none."""
        return -1 if place is None else self._index[id(place)]

    def all_of(self, places: Iterable[Place | None]) -> Integers:
        """Return the nodes of several."""
        return np.array([self.of(place) for place in places], np.int64)

    def summed(self, values: Integers) -> Integers:
        """Return the values of nodes (nodes,) with those of everything below each."""
        total = np.array(values)
        for index in range(len(total) - 1, 0, -1):
            total[self.parents[index]] += total[index]
        return total


def cost_message(
    nodes: Nodes,
    costs: StepCosts,
    saved: Integers,
    trained: frozenset[int],
    *,
    spec: TrainSpec | None,
    optimizer: str,
    loss: str,
) -> TrainingCost:
    """Return what a step costs beside its forward.

    Args:
        nodes: of the tree.
        costs: as they were recorded.
        saved: (nodes,) bytes saved of what each made by itself.
        trained: ``id`` of the parameters that have a gradient.
        spec: of the step; None where a program trains.
        optimizer: class and settings.
        loss: what it is.
    """
    empty = BackwardCost()
    found = [costs.of_place.get(id(place), empty) for place in nodes.order]
    own = rolled_up(nodes.parents, [one.own for one in found], _owners(nodes, trained))
    again = rolled_up(nodes.parents, [one.recomputed for one in found], ())
    total = nodes.summed(saved)
    kept = [
        node
        for node, cost in enumerate(own)
        if cost.ops or again[node].ops or again[node].macs or cost.parameter_bytes or total[node]
    ]

    def column(values: Iterable[int]) -> bytes:
        return np.fromiter(values, np.uint64, len(kept)).tobytes()

    return TrainingCost(
        spec=spec,
        optimizer=optimizer,
        loss=loss,
        why="",
        backward=_pass_cost(own[0]),
        recomputed=_pass_cost(again[0]),
        loss_forward=_pass_cost(costs.forward_of_loss),
        loss_backward=_pass_cost(costs.loss.own),
        elsewhere=_pass_cost(costs.elsewhere),
        optimizer_step=_pass_cost(costs.optimizer) if optimizer else None,
        uncosted=tuple(costs.uncosted),
        nodes=np.array(kept, np.uint32).tobytes(),
        macs=column(own[node].macs for node in kept),
        flops=column(own[node].flops for node in kept),
        input_bytes=column(own[node].input_bytes for node in kept),
        weight_bytes=column(own[node].weight_bytes for node in kept),
        output_bytes=column(own[node].output_bytes for node in kept),
        ops=column(own[node].ops for node in kept),
        uncosted_ops=column(own[node].uncosted for node in kept),
        again_macs=column(again[node].macs for node in kept),
        again_flops=column(again[node].flops for node in kept),
        again_bytes=column(
            again[node].input_bytes + again[node].weight_bytes + again[node].output_bytes
            for node in kept
        ),
        gradients=column(own[node].parameter_bytes for node in kept),
        saved=column(int(total[node]) for node in kept),
    )


def saved_bytes(nodes: Nodes, lives: StepLives) -> Integers:
    """Return, of each node, bytes of what it made itself that is saved: (nodes,)."""
    found = np.zeros(len(nodes.order), np.int64)
    is_saved = lives.kinds == SAVED
    makers = nodes.all_of(lives.makers)
    inside = is_saved & (makers >= 0)
    np.add.at(found, makers[inside], lives.sizes[inside])
    return found


def _owners(nodes: Nodes, trained: frozenset[int]) -> list[ParameterOwners]:
    """Return the parameters with a gradient, and the nodes that hold each."""
    holders: dict[int, tuple[int, int, list[int]]] = {}
    for index, place in enumerate(nodes.order):
        if place.module is None or not place.is_registered:
            continue
        for module in (place.module,) if place.is_expanded else each_module(place.module):
            for parameter in parameters_of(module).values():
                if parameter is None or id(parameter) not in trained:
                    continue
                size = parameter.numel() * parameter.element_size()
                *_, held = holders.setdefault(id(parameter), (parameter.numel(), size, []))
                if not held or held[-1] != index:
                    held.append(index)
    return [ParameterOwners(count, size, tuple(held)) for count, size, held in holders.values()]


def _pass_cost(cost: SelfCost | object) -> PassCost:
    return PassCost(*(getattr(cost, name) for name in PassCost.__struct_fields__))


class Constants(NamedTuple):
    """What lives all along; bytes."""

    parameters: int
    buffers: int
    inputs: int
    optimizer_state: int
    gradients_before: int


def memory_message(
    nodes: Nodes, lives: StepLives, held: Constants, flops: Sequence[int]
) -> TrainingMemory:
    """Return who is alive when.

    Args:
        nodes: of the tree.
        lives: of the step.
        held: what lives all along.
        flops: (nodes,) of the forward, with everything below each.
    """
    curve = Curve(nodes, lives)
    base = sum(held)
    whole, live = curve.whole, curve.live
    backward_at, optimizer_at, calls = lives.phases
    at = int(whole.argmax()) if calls else 0
    peak, top = (int(live.max()), int(whole.max())) if calls else (0, 0)
    phase: StepPhase = "forward"
    if at >= backward_at:
        phase = "backward" if at < optimizer_at else "optimizer"
    makers = nodes.all_of(lives.makers)
    is_alive = (lives.first <= at) & (lives.last >= at)
    uses = [int(lives.sizes[is_alive & (lives.kinds == use)].sum()) for use in range(4)]
    uses[0] += held.gradients_before
    alive = sorted(np.flatnonzero(is_alive), key=lambda one: -lives.sizes[one])[:MOST_ALIVE]
    kept, left_out = _largest(lives.sizes)
    points, each = _points(whole)
    by_use = [curve.of_use(use)[points] for use in range(4)]
    places = nodes.all_of(lives.places)
    return TrainingMemory(
        parameters=held.parameters,
        buffers=held.buffers,
        inputs=held.inputs,
        optimizer_state=held.optimizer_state,
        gradients=held.gradients_before + int(lives.sizes[lives.kinds == 0].sum()),
        gradients_before=held.gradients_before,
        saved=curve.saved_at_backward(),
        peak=base + peak,
        workspace=_workspace(lives, top - peak),
        at=int(places[at]) if calls else -1,
        phase=phase,
        phase_peaks=(
            base + _most(live[:backward_at]),
            base + _most(live[backward_at:optimizer_at]),
            base + _most(live[optimizer_at:]),
        ),
        uses=(uses[0], uses[1], uses[2], uses[3]),
        alive=tuple(
            AliveAtPeak(int(makers[one]), TENSOR_USES[lives.kinds[one]], int(lives.sizes[one]))
            for one in alive
        ),
        checkpointing=tuple(_checkpointing(curve, flops, base)),
        calls=calls,
        each=each,
        backward_at=backward_at,
        optimizer_at=optimizer_at,
        nodes=places[points].astype(np.int32).tobytes(),
        ordinals=points.astype(np.uint32).tobytes(),
        gradient=(by_use[0] + held.gradients_before).astype(np.uint64).tobytes(),
        saved_bytes=by_use[1].astype(np.uint64).tobytes(),
        recomputed=by_use[2].astype(np.uint64).tobytes(),
        temporary=by_use[3].astype(np.uint64).tobytes(),
        scratch=lives.scratch[points].astype(np.int64).tobytes(),
        makers=makers[kept].astype(np.int32).tobytes(),
        sizes=lives.sizes[kept].astype(np.uint64).tobytes(),
        first=lives.first[kept].astype(np.uint32).tobytes(),
        last=lives.last[kept].astype(np.uint32).tobytes(),
        kinds=lives.kinds[kept].astype(np.uint8).tobytes(),
        left_out=left_out,
    )


def _most(live: Integers) -> int:
    return int(live.max()) if len(live) else 0


def _workspace(lives: StepLives, added: int) -> float | Unknown:
    if (lives.scratch < 0).any():
        return Unknown("modelled for the CPU only: other backends choose it at run time")
    return float(max(added, 0))


def _largest(sizes: Integers) -> tuple[Integers, int]:
    """Return the positions of the largest tensors, in order, and how many others there are."""
    if len(sizes) <= MOST_TENSORS:
        return np.arange(len(sizes)), 0
    kept = np.sort(np.argpartition(-sizes, MOST_TENSORS)[:MOST_TENSORS])
    return kept, len(sizes) - MOST_TENSORS


def _points(whole: Integers) -> tuple[Integers, int]:
    """Return the calls that stand for themselves and their neighbours: those with the most."""
    each = max(1, -(-len(whole) // MOST_POINTS))
    if each == 1:
        return np.arange(len(whole)), 1
    starts = range(0, len(whole), each)
    return np.array([start + int(whole[start : start + each].argmax()) for start in starts]), each


class Curve:
    """Bytes alive after each operator call, without what lives all along."""

    def __init__(self, nodes: Nodes, lives: StepLives) -> None:
        self.nodes = nodes
        self.lives = lives
        self.live = self._alive(np.ones(len(lives.sizes), bool)) - lives.corrections
        """In tensors."""
        self.whole = self.live + np.maximum(lives.scratch, 0)
        """With what operators allocate inside."""

    def of_use(self, use: int) -> Integers:
        """Return what is alive of one use."""
        found = self._alive(self.lives.kinds == use)
        return found - self.lives.corrections if use == len(TENSOR_USES) - 1 else found

    def saved_at_backward(self) -> int:
        """Return the bytes saved when the backward begins."""
        lives = self.lives
        first = lives.phases[0]
        is_saved = (lives.kinds == SAVED) & (lives.first < first)
        return int(lives.sizes[is_saved].sum())

    def _alive(self, chosen: np.ndarray) -> Integers:
        lives = self.lives
        change = np.zeros(lives.phases[2] + 1, np.int64)
        np.add.at(change, lives.first[chosen], lives.sizes[chosen])
        np.add.at(change, lives.last[chosen] + 1, -lives.sizes[chosen])
        return np.cumsum(change)[:-1]


def _checkpointing(curve: Curve, flops: Sequence[int], base: int) -> Iterator[Checkpointing]:
    """Yield what checkpointing modules is predicted to do, those that save most first.

    Modules with parts are looked at one by one, and blocks of one class beside each other together.
    """
    nodes, lives = curve.nodes, curve.lives
    saved = nodes.summed(saved_bytes(nodes, lives))
    least = LEAST_SAVED * saved[0] if len(saved) else 0
    single = [
        node
        for node, place in enumerate(nodes.order)
        if place.modules and place.calls and node and saved[node] > least
    ]
    groups: dict[tuple[int, str], list[int]] = {}
    for node in single:
        groups.setdefault((nodes.parents[node], nodes.order[node].type), []).append(node)
    chosen: list[tuple[int, ...]] = [
        (node,) for node in sorted(single, key=lambda one: -saved[one])[:MOST_CHECKPOINTS]
    ]
    chosen += [tuple(group) for group in groups.values() if len(group) > 1]
    calls = _Calls(curve)
    found = [_checkpointed(curve, calls, group, flops, base) for group in chosen]
    yield from sorted(
        (one for one in found if one is not None and one.saved_bytes),
        key=lambda one: (one.peak, one.flops),
    )


class _Calls:
    """From when to when nodes run, forward and backward: positions of operator calls."""

    def __init__(self, curve: Curve) -> None:
        places = curve.nodes.all_of(curve.lives.places)
        before, until, _ = curve.lives.phases
        self.makers = curve.nodes.all_of(curve.lives.makers)
        self._forward, self._backward = places[:before], places[before:until]
        self._before = before

    def of(self, first: int, end: int) -> tuple[int, int, int] | None:
        """Return first and last call in the forward, and the first in the backward, of a subtree.

        None where it has no backward.
        """
        forward = np.flatnonzero((self._forward >= first) & (self._forward < end))
        backward = np.flatnonzero((self._backward >= first) & (self._backward < end))
        if not len(forward) or not len(backward):
            return None
        return int(forward[0]), int(forward[-1]), int(backward[0]) + self._before


def _checkpointed(
    curve: Curve, calls: _Calls, group: tuple[int, ...], flops: Sequence[int], base: int
) -> Checkpointing | None:
    """Predict a step in which some modules keep only what they are given.

    What is made inside of one and alive after it goes until its backward begins, but for the last
    tensor that it makes, which is what it gives. Its backward then begins with its forward: all it
    keeps comes back, and what it makes in passing on top.
    """
    lives = curve.lives
    whole = curve.whole.copy()
    gone = np.zeros(len(lives.sizes), bool)
    backs: list[tuple[int, int]] = []
    for node in group:
        end = curve.nodes.ends[node]
        found = calls.of(node, end)
        if found is None:
            return None
        began, ended, back = found
        inside = (calls.makers >= node) & (calls.makers < end) & (lives.first <= ended)
        living = inside & (lives.last > ended)
        kept = living & (lives.kinds == SAVED) & (lives.last >= back)
        if living.any():
            kept &= lives.first != lives.first[living].max()
        gone |= kept
        whole[ended + 1 : back] -= int(lives.sizes[kept].sum())
        before = curve.live[began - 1] if began else 0
        backs.append((back, int((curve.whole[began : ended + 1] - before).max())))
    peak = int(whole.max())
    for back, passing in backs:
        alive = (lives.first < back) & (lives.last >= back) & ~gone
        peak = max(peak, int(lives.sizes[alive].sum()) + passing)
    saved = int(lives.sizes[gone].sum())
    return Checkpointing(group, saved, base + peak, sum(flops[node] for node in group))
