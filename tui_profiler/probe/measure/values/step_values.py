"""The values of one step of training, told on the threads of the program.

1. Nothing here raises in the program, draws a random number or changes what autograd records: all
   is read under ``no_grad``, and nothing is read where the program looks at its operators itself
   (a dispatch mode, a profiler, a transform, a capture).
2. No tensor is kept but samples of the weights, from before the optimizer's step until after it.
3. Gradients of activations are what the engine gives to the node that made them, all of them summed
   up; they are read by the mark that is on the node anyway (``clock/graph_marks.py``).
4. The step is slower than others, so its times are in no mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor
from torch.autograd.graph import Node
from torch.nn import Parameter

from tui_profiler.probe.measure.clock.graph_marks import plain_tensors
from tui_profiler.probe.measure.values.statistics import (
    MOST_ROWS,
    DeviceRows,
    Statistics,
    is_observed,
    statistics_of,
    without_autocast,
)
from tui_profiler.probe.torch_compat.threads import why_not_record, without_torch_function
from tui_profiler.system.real_time import perf_counter

MOST_SAMPLED = 4_096
"""Elements of one parameter that an update is told by."""

Kind: TypeAlias = Literal["input", "activation", "gradient", "parameter gradient", "update"]


class Row(NamedTuple):
    """The statistics of one value, or where they are to be read."""

    kind: Kind
    found: Statistics | int


class ForwardValues:
    """The values of one forward: in the order in which its calls ended."""

    def __init__(self, step: StepValues) -> None:
        self.step = step
        self.inputs: list[int] = []
        """Rows of what the root was given."""
        self.outputs: list[list[int]] = []
        """Rows of what each call returned."""
        self.numbers: list[int] = []
        """Sequence number of the node that made it; -1 where its gradient is not known."""
        self.gradients: dict[int, int] = {}
        """Rows of gradients, by number of the node."""
        self._wanted: set[int] = set()
        self._last: tuple[int, int, int] = (0, 0, -1)
        self._last_rows: list[int] = []

    def given(self, values: Iterable[object]) -> None:
        """Read what the root is given."""
        self.inputs = self.step.read(values, "input")

    def after_call(self, output: object) -> None:
        """Read what a call returned; None where it raised."""
        rows, number = [], -1
        try:
            with without_torch_function():
                number = max(map(_number, plain_tensors(output)), default=-1)
                # What a part returned is often what the whole returns.
                key = (id(output), number, output._version if type(output) is Tensor else -1)
                if number < 0 or key != self._last:
                    rows = self.step.read((output,), "activation")
                    self._last, self._last_rows = key, rows
                rows = self._last_rows
        except Exception as error:  # Ours, whatever it is: it must not reach the program.
            self.step.fail(error)
        self.outputs.append(rows)
        self.numbers.append(number)
        if number >= 0:
            self._wanted.add(number)

    def reached(self, number: int, gradient: object) -> None:
        """Read the gradient that a node is given."""
        if number in self._wanted and number not in self.gradients:
            for row in self.step.read((gradient,), "gradient"):
                self.gradients[number] = row


class StepValues:
    """All values of one step.

    Args:
        parameters: of the model, by ``id``: whose gradients and updates are told.
        device: where values of a GPU are reduced to; None: the model is on a CPU.
    """

    def __init__(self, parameters: frozenset[int], device: DeviceRows | None = None) -> None:
        self._parameters = parameters
        self._device = device
        self.rows: list[Row] = []
        """In the order in which the program came to them."""
        self.gradients: dict[int, int] = {}
        """Rows of the gradients of parameters, by ``id``, when the optimizer stepped last."""
        self.updates: dict[int, tuple[int, int]] = {}
        """Rows of what the optimizer's last step added to a sample of a parameter, and of that
        before, by ``id``."""
        self.seconds = 0.0
        """That reading took."""
        self.trouble = ""
        """Why not all was read; empty where it was."""
        self.why_no_gradients = "no optimizer of torch.optim stepped"
        self._before: dict[int, tuple[Tensor, Tensor]] = {}
        self._is_open = True

    def begin_forward(self) -> ForwardValues:
        """Return what the values of a forward are told to."""
        return ForwardValues(self)

    def close(self) -> None:
        """Read no more: the step has ended."""
        self._is_open = False
        self._before.clear()

    def fail(self, error: Exception) -> None:
        """Read no more, and say why."""
        self.trouble = f"{type(error).__name__}: {error}"
        self.close()

    def read(self, values: Iterable[object], kind: Kind) -> list[int]:
        """Return the rows of the tensors in some values; those that cannot be read have none."""
        if not self._is_open:
            return []
        began = perf_counter()
        found: list[int] = []
        try:
            if why := why_not_record():
                self.trouble = why
                return []
            with _reading():
                for tensor in plain_tensors(tuple(values)):
                    if is_observed(tensor) and len(self.rows) < MOST_ROWS:
                        self._add(tensor, kind, found)
        except Exception as error:  # As above.
            self.fail(error)
        self.seconds += perf_counter() - began
        return found

    def _add(self, tensor: Tensor, kind: Kind, found: list[int]) -> None:
        if tensor.device.type == "cpu":
            self.rows.append(Row(kind, statistics_of(tensor)))
        elif self._device is not None:
            place = self._device.put(tensor)
            if place is None:
                return
            self.rows.append(Row(kind, place))
        else:
            return
        found.append(len(self.rows) - 1)

    def statistics(self, row: int) -> Statistics:
        """Return what a row tells, once the device has come to the end of the step."""
        found = self.rows[row].found
        if isinstance(found, Statistics):
            return found
        assert self._device is not None
        return self._device.read(found)

    def before_update(self, optimizer: torch.optim.Optimizer, *, has_closure: bool) -> None:
        """Read gradients, and samples of the weights, before an optimizer steps."""
        if not self._is_open:
            return
        self.why_no_gradients = ""
        try:
            with without_torch_function():
                own = [one for one in _updated(optimizer) if id(one) in self._parameters]
                for one in own:
                    gradient = None if has_closure else one.grad
                    for row in self.read((gradient,), "parameter gradient"):
                        self.gradients[id(one)] = row
            if not own:
                self.why_no_gradients = "the optimizer steps parameters that are not the model's"
            if has_closure:
                # They are computed inside of the step, and are of another one here.
                self.why_no_gradients = "the optimizer computes them in a closure"
            if not self._is_open or why_not_record():
                return
            began = perf_counter()
            with _reading():
                for one in own:
                    sample = _sample(one)
                    if sample is not None:
                        self._before[id(one)] = sample, sample.clone()
            self.seconds += perf_counter() - began
        except Exception as error:  # As above.
            self.fail(error)

    def after_update(self) -> None:
        """Tell what the step of an optimizer changed, by the samples taken before."""
        before, self._before = self._before, {}
        if not self._is_open or not before or why_not_record():
            return
        began = perf_counter()
        try:
            with _reading():
                for one, (sample, old) in before.items():
                    rows: list[int] = []
                    for values in (sample.float() - old.float(), old):
                        self._add(values, "update", rows)
                    if len(rows) == 2:
                        self.updates[one] = rows[0], rows[1]
        except Exception as error:  # As above.
            self.fail(error)
        self.seconds += perf_counter() - began


@contextmanager
def _reading() -> Iterator[None]:
    """Have nothing of what is done meanwhile seen by autograd, autocast or modes of functions."""
    # First of all: setting the grad mode is told to a mode of functions, too.
    with without_torch_function(), torch.no_grad(), without_autocast():
        yield


def _number(tensor: Tensor) -> int:
    """Return the number of the node whose first output a tensor is; -1 where there is none."""
    # A view that was written to through its base would be given a new node.
    if not tensor.requires_grad or tensor.output_nr or (tensor._version and tensor._is_view()):
        return -1
    node: Node | None = tensor.grad_fn
    return -1 if node is None else node._sequence_nr()


def _updated(optimizer: torch.optim.Optimizer) -> list[Parameter]:
    """Return the parameters that an optimizer steps, but for those of other kinds."""
    found = (one for group in optimizer.param_groups for one in group["params"])
    return [one for one in found if type(one) is Parameter]


def _sample(parameter: Parameter) -> Tensor | None:
    """Return elements of a parameter, evenly over its memory: a view; None where it has gaps."""
    whole = parameter.detach()
    is_dense = whole.is_contiguous() or (
        whole.dim() == 4 and whole.is_contiguous(memory_format=torch.channels_last)
    )
    if not is_dense or not is_observed(whole):
        return None
    stride = -(-whole.numel() // MOST_SAMPLED)
    return whole.as_strided((-(-whole.numel() // stride),), (stride,), whole.storage_offset())
