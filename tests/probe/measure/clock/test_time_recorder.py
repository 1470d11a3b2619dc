"""What our own loop and a watched program share: the clock, its totals, and their governor."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from torch import nn

from tests.probe.measure.clock.module_nodes import module_nodes
from tests.probe.measure.clock.simulated_device import SimulatedDevice
from tests.probe.measure.clock.test_device_clock import Kernel
from tui_profiler.messages import Message, ModeSeen, Tick
from tui_profiler.messages.program import Compilations
from tui_profiler.messages.windows import DeviceTimes
from tui_profiler.probe.measure.clock.clock import ModuleClock
from tui_profiler.probe.measure.clock.device_clock import DeviceClock
from tui_profiler.probe.measure.clock.overhead_budget import MeasuredCost
from tui_profiler.probe.measure.clock.time_recorder import TimeRecorder

TORCHS_OWN = nn.Module.__call__


@contextmanager
def recorder_of(
    clock: ModuleClock, model: nn.Module, cost: MeasuredCost, *, device_warms_up: bool = False
) -> Iterator[TimeRecorder]:
    nodes = module_nodes(model)
    times = TimeRecorder(clock, nodes, model, cost, 0.02, device_warms_up=device_warms_up)
    times.start()
    try:
        yield times
    finally:
        times.close()
    assert nn.Module.__call__ is TORCHS_OWN


def told(times: TimeRecorder, clock: ModuleClock, dropped: int = 0) -> list[Message]:
    forwards = clock.take()
    times.add(forwards)
    times.look_at(forwards)
    return [*times.modes(1.0), *times.figures(1.0, dropped)]


@pytest.mark.parametrize(("device_warms_up", "counted"), [(True, 20), (False, 21)])
def test_what_a_gpu_ran_before_the_steady_state_counts_where_it_does_not_warm_up(
    device_warms_up: bool, counted: int
) -> None:
    device = SimulatedDevice()
    model = Kernel(device, 0.5, Kernel(device, 1.0))
    clock = ModuleClock(model, device=DeviceClock(device))
    found: list[Message] = []
    with recorder_of(clock, model, MeasuredCost(), device_warms_up=device_warms_up) as times:
        for forwards in (1, 20):  # The first is warm-up, and most of the others are not.
            for _ in range(forwards):
                model(0)
            device.run()
            found = told(times, clock)
    (seen,) = (one for one in found if isinstance(one, DeviceTimes))
    assert seen.forwards == counted


def test_figures_say_how_forwards_ran_and_what_was_dropped_by_all() -> None:
    model = nn.Sequential(nn.Identity())
    clock = ModuleClock(model, pending_events=4)  # Of one forward, and no more.
    with recorder_of(clock, model, MeasuredCost()) as times:
        for _ in range(3):
            model(0)
        found = told(times, clock, dropped=7)
        again = told(times, clock)
    # What other tests have compiled in this process may be told first.
    found = [one for one in found if not isinstance(one, Compilations)]
    assert [type(one) for one in found] == [ModeSeen, Tick]
    assert [type(one) for one in again] == [Tick]  # How they ran is not new.
    (tick,) = (one for one in found if isinstance(one, Tick))
    assert clock.dropped > 0
    assert tick.dropped == 7 + clock.dropped


def test_the_share_follows_what_the_meter_says() -> None:
    model = nn.Sequential(nn.Identity())
    cost = MeasuredCost()
    with recorder_of(ModuleClock(model), model, cost) as times:
        assert times.govern() is None
        assert times.governor.share == 1.0
        for _ in range(6):
            cost.add(1.10, 1.0)
        found = times.govern()
        assert found is not None
        assert found.share == times.governor.share < 1.0
        assert found.ratio == pytest.approx(0.10 * found.share)

        cost.windows_share = 1.0  # Beside what is recorded: as little of that as may be.
        before = times.governor.share
        times.govern()
        assert times.governor.share < before
