"""The backward of modules on a device, a simulated one; nothing here ran on hardware."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from benchmarks.training.recorded_steps import RecordedSteps, seconds
from tests.probe.measure.clock.module_nodes import module_nodes
from tests.probe.measure.clock.simulated_device import SimulatedDevice
from tui_profiler.probe.measure.clock.clock import ModuleClock
from tui_profiler.probe.measure.clock.device_clock import DeviceClock
from tui_profiler.probe.measure.step.backward_calls import StepTimes
from tui_profiler.probe.measure.step.recorder import StepRecorder
from tui_profiler.probe.measure.step.steps import LEAST_STEPS, TrainingSteps


class Launches(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, device: SimulatedDevice, forward: float, back: float
    ) -> Tensor:
        ctx.device, ctx.back = device, back
        device.launch(forward)
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        ctx.device.launch(ctx.back)
        return gradient, None, None, None


class Kernel(nn.Module):
    """Launches one kernel, calls its parts, and launches another; likewise in the backward."""

    def __init__(
        self, device: SimulatedDevice, forward: float, back: float, *parts: nn.Module
    ) -> None:
        super().__init__()
        self.device, self.launched = device, (forward, back)
        self.weight = nn.Parameter(torch.ones(1))
        self.parts = nn.ModuleList(parts)

    def forward(self, x: Tensor) -> Tensor:
        x = Launches.apply(x * self.weight, self.device, *self.launched)
        for part in self.parts:
            x = part(x)
        found: Tensor = Launches.apply(x, self.device, *self.launched) * self.weight
        return found


class Again(nn.Module):
    def __init__(self, inner: nn.Module, *, use_reentrant: bool) -> None:
        super().__init__()
        self.inner, self.use_reentrant = inner, use_reentrant

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = checkpoint(self.inner, x, use_reentrant=self.use_reentrant)
        return found


@pytest.fixture
def device() -> SimulatedDevice:
    return SimulatedDevice()


def backward(model: nn.Module) -> None:
    model(torch.ones(1, requires_grad=True)).sum().backward()


def step_on(
    device: SimulatedDevice,
    model: nn.Module,
    run: Callable[[nn.Module], None] = backward,
    clock: DeviceClock | None = None,
) -> tuple[StepTimes, str]:
    clock = DeviceClock(device) if clock is None else clock
    with RecordedSteps(model, module_nodes(model), clock) as steps:
        run(model)
        device.run()
        return steps.take(), steps.trouble


def test_the_backward_takes_what_it_took_on_the_device(device: SimulatedDevice) -> None:
    inner = Kernel(device, 1.0, 8.0)
    model = Kernel(device, 0.5, 2.0, inner, Kernel(device, 4.0, 16.0))
    times, trouble = step_on(device, model)
    assert trouble == ""
    assert seconds(times, "forward", 0) == (11.0, 1.0)
    assert seconds(times, "forward", 2) == (2.0, 2.0)
    whole, own = seconds(times, "backward", 0)
    assert (round(whole, 9), round(own, 9)) == (52.0, 4.0)
    assert [round(seconds(times, "backward", node)[0], 9) for node in (2, 4)] == [16.0, 32.0]


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_what_is_run_again_is_apart_on_the_device(
    device: SimulatedDevice, use_reentrant: bool
) -> None:
    model = Again(Kernel(device, 1.0, 8.0), use_reentrant=use_reentrant)
    times, trouble = step_on(device, model)
    assert trouble == ""
    assert seconds(times, "recomputed", 1)[0] == 2.0
    assert round(seconds(times, "backward", 1)[0], 9) == 16.0
    assert round(seconds(times, "backward", 0)[1], 9) == 0.0
    assert times.recompute == 2.0


def test_nothing_is_said_before_the_device_has_come_to_it(device: SimulatedDevice) -> None:
    model = Kernel(device, 1.0, 8.0)
    clock = DeviceClock(device)
    module_clock = ModuleClock(model, device=clock)
    module_clock.install()
    recorder = StepRecorder(module_clock, lambda: True)
    steps = TrainingSteps(module_nodes(model), model, module_clock, recorder, 0.02)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    steps.start()
    try:
        told = []
        for _ in range(3 * LEAST_STEPS):
            backward(model)
            optimizer.step()
            clock.read()
            steps.take(module_clock.take(), (), 0.0)
            told += steps.messages(1.0)
        assert told == []
        device.run()
        clock.read()
        steps.take(module_clock.take(), (), 0.0)
        (message,) = steps.messages(1.0)
    finally:
        steps.close()
        module_clock.uninstall()
    assert message.recorded > LEAST_STEPS
    assert message.on_device
    assert memoryview(message.backward).cast("f").tolist() == pytest.approx([16.0])
    assert memoryview(message.forward).cast("f").tolist() == pytest.approx([2.0])


def test_marks_are_used_again(device: SimulatedDevice) -> None:
    model, clock = Again(Kernel(device, 1.0, 8.0), use_reentrant=True), DeviceClock(device)
    with RecordedSteps(model, module_nodes(model), clock) as steps:
        for made in range(4):
            backward(model)
            device.run()
            assert seconds(steps.take(), "backward", 0)[0] > 0
            if not made:
                first = device.made
    assert device.made == first


def test_without_marks_left_a_step_is_not_timed_and_says_so(device: SimulatedDevice) -> None:
    model = Kernel(device, 1.0, 8.0, Kernel(device, 1.0, 8.0))
    times, trouble = step_on(device, model, clock=DeviceClock(device, most_events=6))
    assert trouble == "the device did not time a backward pass"
    assert times.columns["backward"] == []


def test_an_error_of_the_device_does_not_reach_the_program(device: SimulatedDevice) -> None:
    model, clock = Kernel(device, 1.0, 8.0), DeviceClock(device)

    def run(model: nn.Module) -> None:
        out = model(torch.ones(1, requires_grad=True)).sum()
        device.fails_with = "CUDA error: out of luck"
        out.backward()

    times, trouble = step_on(device, model, run, clock)
    assert clock.why_none == "CUDA error: out of luck"
    assert trouble
    assert times.columns["backward"] == []
    assert model.weight.grad is not None


def test_nothing_is_marked_in_a_graph_that_is_captured(device: SimulatedDevice) -> None:
    model = Kernel(device, 1.0, 8.0)

    def run(model: nn.Module) -> None:
        device.capturing = True
        backward(model)
        device.capturing = False

    times, trouble = step_on(device, model, run)
    assert trouble
    assert times.columns["backward"] == []
    assert device.recorded_while_capturing == 0
