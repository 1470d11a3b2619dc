"""What is said of an error in a step of training."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tui_profiler.messages import TrainSpec
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.trace.training.step import TrainingStep
from tui_profiler.probe.worker.failures import failure

TOO_MANY = 1 << 58
"""Bytes that no machine has."""


class _Greedy(torch.autograd.Function):
    """Allocates more than there is, forward or backward."""

    @staticmethod
    def forward(context: Any, x: Tensor, is_forward: bool) -> Tensor:
        context.is_forward = is_forward
        return torch.empty(TOO_MANY, dtype=torch.uint8) if is_forward else x.clone()

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return torch.empty(TOO_MANY, dtype=torch.uint8), None


class Greedy(nn.Module):
    def __init__(self, phase: str) -> None:
        super().__init__()
        self.linear, self.phase = nn.Linear(64, 64, bias=False), phase

    def forward(self, x: Tensor) -> Tensor:
        y = self.linear(x)
        if self.phase == "none":
            return y
        return _Greedy.apply(y, self.phase == "forward or loss")  # type: ignore[no-any-return, no-untyped-call]  # torch


class GreedyAdam(torch.optim.Adam):
    def step(self, closure: Any = None) -> Any:
        torch.empty(TOO_MANY, dtype=torch.uint8)
        return super().step(closure)


@pytest.mark.parametrize("phase", ["forward or loss", "backward", "optimizer"])
def test_out_of_memory_in_a_step_says_where_and_what_is_alive(phase: str) -> None:
    model = Greedy("none")
    adam = torch.optim.Adam(model.parameters())
    spec = TrainSpec()
    step = TrainingStep(model, Inputs((torch.ones(2, 64),)), spec)
    step.run(adam)
    model.phase = phase if phase != "optimizer" else "none"
    optimizer = adam
    if phase == "optimizer":
        optimizer = GreedyAdam(model.parameters())
        optimizer.load_state_dict(adam.state_dict())
        optimizer.zero_grad = lambda set_to_none=True: None  # type: ignore[method-assign]  # not new
    with pytest.raises(RuntimeError) as caught:
        step.run(optimizer)
    found = failure(caught.value, "run", model)
    gradients = "16.0 KiB" if phase == "optimizer" else "0 B"
    # Adam has two moments of 64 x 64 floats and a step count of one.
    assert found.what == (
        f"out of memory: tried to allocate 268,435,456.00 GiB in the {phase} of a training step;"
        f" alive: parameters and buffers 16.0 KiB, gradients {gradients},"
        " optimizer state 32.0 KiB, and activations"
    )


def test_of_a_forward_alone_nothing_is_said_of_a_step() -> None:
    model = Greedy("forward or loss")
    with pytest.raises(RuntimeError) as caught:
        model(torch.ones(2, 64))
    found = failure(caught.value, "run", model)
    assert found.what == "out of memory: tried to allocate 268,435,456.00 GiB"
