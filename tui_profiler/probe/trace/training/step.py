"""One step of training of a model that is ours, run the same way on paper and for real.

What a forward returns, and the loss, are held until its backward has ended, as a loop holds them in
its variables; they are gone before the optimizer steps.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Literal, TypeAlias

import torch
from torch.optim import Optimizer

from tui_profiler.messages import TrainSpec
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.trace.training.loss import loss_of

Phase: TypeAlias = Literal["forward", "loss", "backward", "optimizer"]
"""What of a step begins."""

_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


class TrainingStep:
    """A step of one model on one set of inputs.

    Args:
        model: in training mode.
        inputs: of every forward.
        spec: how often, and in which precision.
        become: told what of the step begins.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        inputs: Inputs,
        spec: TrainSpec,
        become: Callable[[Phase], None] = lambda phase: None,
    ) -> None:
        self._model = model
        self._inputs = inputs
        self._spec = spec
        self._become = become
        self.output: object = None
        """Of the forward whose backward has not ended."""
        self.loss = ""
        """What the loss is; empty before the first one."""

    def run(
        self,
        optimizer: Optimizer,
        before_update: Callable[[Sequence[torch.nn.Parameter]], None] | None = None,
    ) -> None:
        """Run a whole step.

        Args:
            optimizer: of the model's parameters.
            before_update: is given the parameters when their gradients are complete.
        """
        optimizer.zero_grad()
        for _ in range(self._spec.accumulate):
            self.run_pass()
        if before_update is not None:
            before_update([one for group in optimizer.param_groups for one in group["params"]])
        self._become("optimizer")
        optimizer.step()

    def run_pass(self) -> None:
        """Run a forward and its backward: one of several, where gradients are accumulated."""
        keywords = self._inputs.keywords()
        self._become("forward")
        with torch.enable_grad(), self._autocast():
            self.output = self._model(*self._inputs.args, **keywords)
            self._become("loss")
            loss, self.loss = loss_of(self.output)
            if self._spec.accumulate > 1:
                loss = loss / self._spec.accumulate
        self._become("backward")
        torch.autograd.backward(loss)
        self.output = None

    def _autocast(self) -> AbstractContextManager[object]:
        dtype = _DTYPES.get(self._spec.autocast)
        if dtype is None:
            return nullcontext()
        device = next((one.device.type for one in self._model.parameters()), "cpu")
        return torch.autocast("cpu" if device == "meta" else device, dtype=dtype)


def are_finite(parameters: Sequence[torch.nn.Parameter]) -> bool:
    """Return whether all gradients are finite."""
    return all(_is_finite(one.grad) for one in parameters if one.grad is not None)


def _is_finite(gradient: torch.Tensor) -> bool:
    values = gradient.coalesce().values() if gradient.is_sparse else gradient
    return values.is_meta or bool(torch.isfinite(values).all())


def clear_infinite(parameters: Sequence[torch.nn.Parameter]) -> None:
    """Set what is not finite in gradients to 0: a learning rate of 0 would not hold weights."""
    for one in parameters:
        if one.grad is not None:
            one.grad.nan_to_num_(0.0, 0.0, 0.0)
