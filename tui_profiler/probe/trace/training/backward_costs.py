"""What the operators of a backward cost, by the module whose call made their node of the graph.

1. Autograd numbers the nodes of a thread's graph as the forward makes them. What is new when an
   operator is seen belongs to it; where that is more than one, all but the last to the operator
   before, which wrote into a view (``CopySlices``).
2. While the backward runs, ``_current_autograd_node`` says which node it is at. Accumulation into
   a ``.grad`` has no number of its own: it belongs to the owner of the parameter.
3. In a backward, gradients are on only where checkpointing runs modules again: that cost is apart,
   of the module that runs, or of the node that asked for it where none does. So is what attention
   computes again inside of its backward.
4. What belongs to nothing that was recorded is counted as such, never lost.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field

import torch

from tui_profiler.probe.cost.backward import recomputed_macs
from tui_profiler.probe.cost.call import Call
from tui_profiler.probe.cost.cost import CallCosts
from tui_profiler.probe.cost.rollup import SelfCost
from tui_profiler.probe.cost.workspace import kept_bytes
from tui_profiler.probe.torch_compat import internals
from tui_profiler.probe.trace.training.step import Phase
from tui_profiler.probe.trace.training.step_memory import StepMemory
from tui_profiler.probe.trace.tree.growing_tree import Place, Places
from tui_profiler.probe.trace.tree.module_stack import ModuleStack


@dataclass(slots=True)
class BackwardCost:
    """Of one place alone."""

    own: SelfCost = field(default_factory=SelfCost)
    recomputed: SelfCost = field(default_factory=SelfCost)


class StepCosts:
    """Costs of one training step beside those of its forward, while it is recorded."""

    def __init__(self, stack: ModuleStack, memory: StepMemory) -> None:
        self._stack = stack
        self._memory = memory
        self._owners = _owners(stack.places)
        self._next = internals.sequence_number()
        self._numbered: dict[int, Place | None] = {}
        """What made each node; None: the loss."""
        self._before: Place | None = None
        self.phase: Phase = "forward"
        self.is_on = True
        """Whether operators count."""
        self.of_place: dict[int, BackwardCost] = {}
        """By ``id`` of the place."""
        self.loss = BackwardCost()
        """Of the operators outside of the model: forward and backward of the loss."""
        self.forward_of_loss = SelfCost()
        self.optimizer = SelfCost()
        self.elsewhere = SelfCost()
        """Of nodes that were made before, or on another thread."""
        self.uncosted: dict[str, None] = {}
        """Operators of the backward and the optimizer without a formula."""

    @property
    def is_after_model(self) -> bool:
        """Whether operators are no part of the forward of the model any more."""
        return self.phase != "forward"

    def note(self, place: Place, call: Call, scratch: int | None) -> None:
        """Take note of an operator of the forward, which the recorder has counted."""
        self._number(place)
        self._memory.add(place, call.outputs, scratch, kept=kept_bytes(call))

    def record(
        self,
        operator: internals.Operator,
        call: Call,
        costs: CallCosts,
        key: Hashable | None,
    ) -> None:
        """Count an operator that runs after the forward of the model."""
        if not self.is_on:
            return
        cost, scratch = costs.of(operator, call, key)
        place: Place | None = None
        is_again = False
        node = 0
        match self.phase:
            case "optimizer":
                self.optimizer.take(cost)
            case "loss":
                self._number(None)
                self.forward_of_loss.take(cost)
            case _:
                node, place, found = self._found()
                # Before its first node, the engine makes the gradient of the loss.
                is_again = node != 0 and torch.is_grad_enabled()
                if is_again:
                    place, found = self._running(place, found)
                    self._number(place)
                    found.recomputed.take(cost)
                else:
                    found.own.take(cost)
                    again = recomputed_macs(call)
                    found.recomputed.take(SelfCost(macs=again, flops=2 * again))
        if cost.uncosted:
            self.uncosted[call.signature.name] = None
        self._memory.add(
            place, call.outputs, scratch, kept=kept_bytes(call), is_again=is_again, node=node
        )
        if self.phase == "backward" and call.signature.type == "aten.add.Tensor" and not is_again:
            self._memory.note_sum(call.first())

    def _number(self, place: Place | None) -> None:
        now = internals.sequence_number()
        for number in range(self._next, now - 1):
            self._numbered[number] = self._before
        if now > self._next:
            self._numbered[now - 1] = place
        self._next, self._before = now, place

    def _found(self) -> tuple[int, Place | None, BackwardCost]:
        """Return the node that the engine is at, what made it, and the cost to add to."""
        node = internals.current_node()
        if node is None:  # The gradient of the loss itself.
            return 0, None, self.loss
        parameter = getattr(node, "variable", None)
        if parameter is not None:
            place = self._owners.get(id(parameter))
            return id(parameter), place, self._of(place) if place else self._elsewhere()
        number = node._sequence_nr()
        if number not in self._numbered:
            return number, None, self._elsewhere()
        place = self._numbered[number]
        return number, place, self.loss if place is None else self._of(place)

    def _running(
        self, place: Place | None, found: BackwardCost
    ) -> tuple[Place | None, BackwardCost]:
        """Return the module that is run again; what asked for it where none is."""
        frames = self._stack.frames
        if len(frames) > 1:
            return frames[-1].place, self._of(frames[-1].place)
        if place is not None and place.module is None and place.parent is not None:
            return place.parent, self._of(place.parent)
        return place, found

    def _of(self, place: Place) -> BackwardCost:
        found = self.of_place.get(id(place))
        if found is None:
            found = self.of_place[id(place)] = BackwardCost()
        return found

    def _elsewhere(self) -> BackwardCost:
        return BackwardCost(self.elsewhere, self.elsewhere)


def _owners(places: Places) -> dict[int, Place]:
    """Return the first place that owns each parameter, by ``id`` of the parameter."""
    found: dict[int, Place] = {}
    for place in places.in_preorder():
        if place.module is not None:
            for parameter in internals.parameters_of(place.module).values():
                if parameter is not None:
                    found.setdefault(id(parameter), place)
    return found
