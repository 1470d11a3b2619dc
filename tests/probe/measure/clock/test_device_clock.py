"""The bookkeeping of GPU times, on a simulated device; nothing here ran on hardware."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from torch import nn

from tests.probe.measure.clock.module_nodes import module_nodes
from tests.probe.measure.clock.simulated_device import SimulatedDevice
from tui_profiler.messages.windows import DeviceTimes
from tui_profiler.probe.measure.clock.clock import ModuleClock
from tui_profiler.probe.measure.clock.device_clock import (
    DeviceAggregator,
    DeviceClock,
    device_clock_of,
)
from tui_profiler.session.columns import DeviceTimings, columns_agree


class Kernel(nn.Module):
    """Launches one kernel, then calls its parts."""

    def __init__(self, device: SimulatedDevice, seconds: float, *parts: nn.Module) -> None:
        super().__init__()
        self.device, self.seconds = device, seconds
        self.parts = nn.ModuleList(parts)

    def forward(self, x: int) -> int:
        self.device.launch(self.seconds)
        for part in self.parts:
            x = part(x)
        return x + 1


class Captures(nn.Module):
    """Captures what its part launches."""

    def __init__(self, device: SimulatedDevice, part: nn.Module) -> None:
        super().__init__()
        self.device, self.part = device, part

    def forward(self, x: int) -> int:
        self.device.capturing = True
        try:
            return int(self.part(x))
        finally:
            self.device.capturing = False


class Raises(nn.Module):
    def forward(self, x: int) -> int:
        raise ValueError("as asked")


@pytest.fixture
def device() -> SimulatedDevice:
    return SimulatedDevice()


@pytest.fixture
def model(device: SimulatedDevice) -> Kernel:
    return Kernel(device, 0.5, Kernel(device, 1.0, Kernel(device, 2.0)), Kernel(device, 4.0))


class Watched:
    """A model under both clocks."""

    def __init__(self, model: nn.Module, device: SimulatedDevice, most_events: int = 1000) -> None:
        self.on_device = DeviceClock(device, most_events, details=True)
        self.clock = ModuleClock(model, device=self.on_device)
        self.aggregator = DeviceAggregator(module_nodes(model), model)
        self.clock.install()

    def message(self) -> DeviceTimes:
        self.aggregator.add(self.on_device.read())
        return self.aggregator.message(0.0, self.on_device)


@pytest.fixture
def watched(model: Kernel, device: SimulatedDevice) -> Iterator[Watched]:
    under = Watched(model, device)
    yield under
    under.clock.uninstall()


def test_every_module_has_the_time_of_its_kernels_and_of_those_inside(
    watched: Watched, model: Kernel, device: SimulatedDevice
) -> None:
    for _ in range(3):
        model(0)
    device.run()
    message = watched.message()
    assert message.forwards == 3
    assert columns_agree(message)
    timings = DeviceTimings(message)
    # root, (list), part 0, (list), part 0.0, (list), part 1
    assert [timings.per_forward(node) for node in (0, 2, 4, 6)] == [7.5, 3.0, 2.0, 4.0]
    assert timings.per_forward(1) is None
    own = memoryview(message.own_per_forward).cast("f").tolist()
    assert own == [0.5, 1.0, 2.0, 4.0]
    assert memoryview(message.calls).cast("Q").tolist() == [3] * 4


def test_what_the_device_has_not_run_is_not_asked_for_its_time(
    watched: Watched, model: Kernel, device: SimulatedDevice
) -> None:
    model(0)
    model(0)
    assert watched.message().forwards == 0
    # 4 kernels and 8 marks a forward: all but the last mark of the second one.
    device.run(23)
    assert watched.message().forwards == 1
    device.run()
    assert watched.message().forwards == 2


def test_events_are_used_again_once_they_are_read(
    watched: Watched, model: Kernel, device: SimulatedDevice
) -> None:
    for _ in range(50):
        model(0)
        device.run()
        watched.message()
    assert device.made == 8


def test_with_no_event_left_whole_forwards_are_dropped(
    model: Kernel, device: SimulatedDevice
) -> None:
    under = Watched(model, device, most_events=20)
    for _ in range(5):
        model(0)
    assert device.made == 20
    device.run()
    message = under.message()
    assert (message.forwards, message.dropped) == (2, 3)
    model(0)
    device.run()
    assert (under.message().forwards, len(under.clock.take())) == (3, 6)
    under.clock.uninstall()


def test_nothing_is_recorded_while_a_graph_is_captured(device: SimulatedDevice) -> None:
    inner = Kernel(device, 1.0, Kernel(device, 2.0))
    model = Kernel(device, 0.5, Captures(device, inner))
    under = Watched(model, device)
    model(0)
    device.run()
    message = under.message()
    assert (message.forwards, message.captured, message.dropped) == (0, 1, 0)
    assert device.recorded_while_capturing == 0
    under.clock.uninstall()


def test_what_the_device_raises_ends_the_timing_and_not_the_program(
    watched: Watched, model: Kernel, device: SimulatedDevice
) -> None:
    bare = model(0)
    device.fails_with = "CUDA error: an illegal memory access\nmore"
    assert model(0) == bare
    assert model(0) == bare
    device.fails_with = ""
    device.run()
    message = watched.message()
    assert message.why_none == "CUDA error: an illegal memory access"
    assert message.forwards == 0
    assert len(watched.clock.take()) == 3


def test_a_forward_that_raises_gives_its_times(device: SimulatedDevice) -> None:
    model = Kernel(device, 0.5, Kernel(device, 1.0), Raises())
    under = Watched(model, device)
    with pytest.raises(ValueError, match="as asked"):
        model(0)
    device.run()
    timings = DeviceTimings(under.message())
    assert [timings.per_forward(node) for node in (0, 2)] == [1.5, 1.0]
    under.clock.uninstall()


def test_only_recorded_forwards_set_marks(
    watched: Watched, model: Kernel, device: SimulatedDevice
) -> None:
    watched.clock.recording = False
    model(0)
    assert device.made == 0
    watched.clock.recording = True
    model(0)
    assert device.made == 8


def test_threads_share_the_events_and_lose_none(
    watched: Watched, model: Kernel, device: SimulatedDevice
) -> None:
    threads = [threading.Thread(target=lambda: [model(0) for _ in range(20)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    device.run()
    message = watched.message()
    assert message.forwards + message.dropped == 80
    assert device.made <= 1000


def test_a_new_period_uses_the_events_of_the_one_before(
    watched: Watched, model: Kernel, device: SimulatedDevice
) -> None:
    model(0)
    watched.clock.uninstall()
    watched.clock.install()
    model(0)
    device.run()
    assert watched.message().forwards == 1
    assert device.made == 8


def test_a_model_on_the_processor_has_no_device() -> None:
    assert device_clock_of(nn.Linear(2, 2)) is None
    assert device_clock_of(nn.Module()) is None
    assert device_clock_of(nn.Linear(2, 2, device="meta")) is None


def test_it_is_told_whether_the_device_had_caught_up_with_the_host(
    model: Kernel, device: SimulatedDevice
) -> None:
    """A device that has nothing queued runs at once what is launched."""
    whole = DeviceClock(device, details=False)
    clock = ModuleClock(model, device=whole)
    aggregator = DeviceAggregator(module_nodes(model), model)
    clock.install()
    model(0)
    device.run()
    for wanted in ((2, 1, 0), (3, 2, 1)):
        model(0)
        device.run()
        aggregator.add(whole.read())
        message = aggregator.message(0.0, whole)
        assert (message.forwards, message.asked, message.caught_up) == wanted
        device.is_idle = True
    clock.uninstall()
    assert device.made < 2 * 3 + 2  # Two around the root and one late in it, used again.


def test_what_setting_marks_takes_is_taken_off_where_the_device_waits(
    model: Kernel, device: SimulatedDevice
) -> None:
    """Marks of 0.2 s each: 3 calls inside of the root, 1 inside of its first part."""
    clock = DeviceClock(device, details=True)
    watched = ModuleClock(model, device=clock)
    watched.install()
    device.is_idle, device.mark_seconds = True, 0.2
    model(0)
    forwards = clock.read()
    watched.uninstall()
    figures = {}
    for each in (0.0, 0.4 / 1.5, 99.0):
        aggregator = DeviceAggregator(module_nodes(model), model, each)
        aggregator.add(forwards)
        message = aggregator.message(0.0, clock)
        whole = memoryview(message.mean_per_forward).cast("f").tolist()
        own = memoryview(message.own_mean_per_forward).cast("f").tolist()
        assert whole[0] == pytest.approx(sum(own), rel=1e-5)
        assert min(own) >= -1e-6
        figures[each] = whole
    # root, part 0, part 0.0, part 1; a mark lies in a call for each end of calls inside, and one.
    assert figures[0.0] == pytest.approx([7.5 + 7 * 0.2, 3 + 3 * 0.2, 2.2, 4.2])
    assert figures[0.4 / 1.5] == pytest.approx([7.5, 3.0, 2.0, 4.0])
    assert figures[99.0] != figures[0.0]


def test_a_call_on_a_stream_that_is_behind_costs_its_forward_alone(
    watched: Watched, model: Kernel, device: SimulatedDevice
) -> None:
    model(0)
    device.run()
    device.forget_one_mark()
    model(0)
    device.run()
    message = watched.message()
    assert (message.forwards, message.dropped, message.why_none) == (1, 1, "")


def test_times_of_calls_are_scaled_to_forwards_with_marks_around_the_root_alone(
    model: Kernel, device: SimulatedDevice
) -> None:
    """A forward takes 7.5 s; with marks of 0.5 s around each call 7.5 and 7 times 0.5."""
    device.is_idle, device.mark_seconds = True, 0.5
    aggregator = DeviceAggregator(module_nodes(model), model)
    for details in (False, True):
        on_device = DeviceClock(device, details=details)
        clock = ModuleClock(model, device=on_device)
        clock.install()
        for _ in range(5):
            model(0)
            aggregator.add(on_device.read())
        clock.uninstall()
    message = aggregator.message(0.0, on_device)
    whole = memoryview(message.mean_per_forward).cast("f").tolist()
    alone = 7.5 + 0.5 * 2  # The root's last mark, and the one late in it.
    assert message.latency_p50 == pytest.approx(alone, rel=0.1)
    assert whole[0] == pytest.approx(message.latency_p50)
    assert whole[1] / whole[0] == pytest.approx((3 + 3 * 0.5) / (7.5 + 7 * 0.5))


def test_marks_around_each_call_are_set_as_often_as_their_budget_allows(
    model: Kernel, device: SimulatedDevice
) -> None:
    """Four calls at 1 s each are 4 s; at 0.4 % of all time the next is due in 1,000 s."""
    clock = DeviceClock(device)
    clock.call_seconds = 1.0
    watched = ModuleClock(model, device=clock)
    watched.install()
    for _ in range(50):
        model(0)
        device.run()
    told = clock.read()
    watched.uninstall()
    assert [bool(one.modules) for one in told] == [True, *[False] * (len(told) - 1)]
    assert len(told) == 50
    assert clock.detail_seconds == 4.0


def test_forwards_that_are_looked_into_are_in_no_figure_of_the_device(
    watched: Watched, model: Kernel, device: SimulatedDevice
) -> None:
    """In an operator window, or while each call reads what its thread uses, a forward is longer."""
    model(0)
    watched.clock.run_next_in(lambda forward: forward())
    model(0)
    watched.clock.read_calls_next()
    model(0)
    device.run()
    assert (watched.message().forwards, len(watched.clock.take())) == (1, 3)
    assert watched.message().dropped == 0


def test_a_wrapper_that_has_begun_is_not_caught_up(device: SimulatedDevice) -> None:
    """As DDP around a model: the call inside that ends last is the whole model."""
    model = Kernel(device, 0.0, Kernel(device, 1.0, Kernel(device, 2.0), Kernel(device, 4.0)))
    clock = DeviceClock(device, details=True)
    watched = ModuleClock(model, device=clock)
    watched.install()
    told = []
    for reached in (5, None):
        leaf = model.parts[0].parts[1].forward

        def run_some(x: int, reached: int | None = reached, leaf: Any = leaf) -> int:
            found: int = leaf(x)
            device.run(reached)
            return found

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(model.parts[0].parts[1], "forward", run_some)
            model(0)
        device.run()
        told += [one.has_caught_up for one in clock.read()]
    watched.uninstall()
    assert told == [False, True]
