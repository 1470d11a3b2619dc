"""Gradients that are set to zero between steps, told from those that are let go of or added to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from tests.probe.measure.step.loops import WIDTH, watched
from tui_profiler.messages import KeptGradients
from tui_profiler.probe.measure.step.zero_grad import GradientWatch

STEPS = 12
X = torch.ones(2, WIDTH)


def zero(optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad(set_to_none=False)


def by_hand(optimizer: torch.optim.Optimizer) -> None:
    for group in optimizer.param_groups:
        for one in group["params"]:
            if one.grad is not None:
                one.grad.zero_()


def decay(optimizer: torch.optim.Optimizer) -> None:
    """Gradients with momentum: they are written to, and are not zero."""
    for group in optimizer.param_groups:
        for one in group["params"]:
            if one.grad is not None:
                one.grad.mul_(0.5)


def told(clear: Callable[[torch.optim.Optimizer], None], *, passes: int = 1) -> KeptGradients:
    net = nn.Sequential(nn.Linear(WIDTH, 4), nn.ReLU(), nn.Linear(4, 2))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with watched(net, X) as watching:
        for number in range(STEPS):
            for _ in range(passes):
                net(X).sum().backward()
            optimizer.step()
            clear(optimizer)
            if number == 2:
                watching.take()  # From then on steps are recorded.
        step = watching.take()
    assert step is not None
    assert step.kept_gradients is not None
    return step.kept_gradients


@pytest.mark.parametrize(("clear", "passes"), [(zero, 1), (zero, 3), (by_hand, 1)])
def test_gradients_that_are_set_to_zero_are_seen_in_each_recorded_step(
    clear: Callable[[torch.optim.Optimizer], None], passes: int
) -> None:
    found = told(clear, passes=passes)
    assert found.steps >= STEPS - 5
    assert (found.zeroed, found.read) == (found.steps, found.steps)
    assert found.bytes == 4 * (WIDTH * 4 + 4 + 4 * 2 + 2)


@pytest.mark.parametrize(
    "clear",
    [torch.optim.Optimizer.zero_grad, lambda _: None, decay],
    ids=["to none", "never", "not to zero"],
)
def test_gradients_that_are_let_go_of_added_to_or_something_else_are_not(
    clear: Callable[[torch.optim.Optimizer], None],
) -> None:
    found = told(clear)
    assert found.steps >= STEPS - 5
    assert (found.zeroed, found.read) == (0, 0)


class Passes(TorchDispatchMode):  # type: ignore[no-untyped-call] # torch has no types here
    """A dispatch mode of the program's."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def test_values_are_not_read_under_a_dispatch_mode_and_what_raises_stays_here() -> None:
    nets = [nn.Linear(2, 2)]
    watch = GradientWatch(nets[0])
    assert watch.kept() is None
    for one in nets[0].parameters():
        one.grad = torch.ones_like(one)

    def between() -> KeptGradients | None:
        watch.after_update()
        for one in (one for net in nets for one in net.parameters()):
            assert one.grad is not None
            one.grad.zero_()
        watch.before_pass()
        return watch.kept()

    with Passes():  # type: ignore[no-untyped-call] # torch has no types here
        watch.after_update()
        watch.before_pass()
        assert watch.kept() == KeptGradients(1, 0, 0, 24), "nothing was written"
        assert between() == KeptGradients(2, 1, 0, 24)
    assert between() == KeptGradients(3, 2, 1, 24)
    del one
    nets.clear()
    assert between() == KeptGradients(3, 2, 1, 24)
