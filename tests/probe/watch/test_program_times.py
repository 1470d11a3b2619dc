"""What is measured of a model that its own program runs: on a device, and the energy of it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from time import perf_counter

import pytest
import torch

from tests.probe.measure.clock.module_nodes import module_nodes
from tests.probe.measure.clock.simulated_device import SimulatedDevice
from tests.probe.measure.clock.test_device_clock import Kernel
from tests.probe.measure.clock.test_graph_marks import Hostile
from tests.probe.measure.energy.moving_counter import WATTS, moving_counter
from tests.probe.watch.watched_model import assert_nothing_is_left
from tests.probe.watch.watched_program import sockets_folder
from tests.viewer import Viewer, place_of, wait_until
from tui_profiler import watch
from tui_profiler.messages import Node, Overhead, TrainingStep
from tui_profiler.messages.windows import DeviceTimes
from tui_profiler.probe.measure.clock.clock import ModuleClock
from tui_profiler.probe.measure.clock.device_clock import DeviceClock
from tui_profiler.probe.measure.clock.overhead_budget import LEAST_COMPARED, LEAST_SHARE
from tui_profiler.probe.watch.program_times import MOST_CREDIT_SECONDS, ProgramTimes
from tui_profiler.queries.cost.energy import ForwardEnergy, forward_energy
from tui_profiler.session import Session
from tui_profiler.session.columns import DeviceTimings


def test_kernels_of_a_programs_own_forwards_are_timed_on_its_device() -> None:
    device = SimulatedDevice()
    model = Kernel(device, 0.5, Kernel(device, 1.0), Kernel(device, 4.0))
    clock = ModuleClock(model, device=DeviceClock(device))
    times = ProgramTimes(model, module_nodes(model), 0.02, clock)
    try:
        for _ in range(40):
            model(0)
            device.run()
        times.take()
        told = [one for one in times.messages(1.0, 0) if isinstance(one, DeviceTimes)]
    finally:
        times.close()
    assert [one.forwards for one in told] == [40]
    timings = DeviceTimings(told[0])
    assert [timings.per_forward(node) for node in (0, 2, 4)] == [5.5, 1.0, 4.0]


def test_forwards_that_come_seldom_are_recorded_though_few_may_be() -> None:
    model = torch.nn.Sequential(*(torch.nn.Identity() for _ in range(200)))
    x = torch.zeros(1)
    times = ProgramTimes(model, module_nodes(model), 1e-6, ModuleClock(model))
    try:
        wait_until(lambda: too_much_is_recorded(times, model, x), seconds=60)
        recorded = [True]

        def run() -> list[bool]:
            before = times.forwards
            model(x)
            times.take()
            times.record_next()
            recorded.append(times.forwards > before)
            return recorded

        wait_until(lambda: not run()[-1], seconds=60)
        recorded.clear()
        wait_until(lambda: sum(run()) >= 3, seconds=60)
        assert not all(recorded)

        looks = len(recorded)
        wait_until(lambda: not run()[-1], seconds=60)
        before = times.forwards
        for _ in range(2 * looks):  # Adding up alone lets none in: they would wait for it.
            model(x)
            times.take()
        assert times.forwards <= before + 1
    finally:
        times.close()


def test_what_was_recorded_before_a_share_was_is_not_charged_to_it() -> None:
    model = torch.nn.Sequential(*(torch.nn.Identity() for _ in range(20)))
    x = torch.zeros(1)
    times = ProgramTimes(model, module_nodes(model), 1e-6, ModuleClock(model))

    def figures() -> bool:
        model(x)
        times.take()
        list(times.messages(1.0, 0))
        return not times.records_all

    try:
        wait_until(figures, seconds=60)
        began = perf_counter()
        while perf_counter() - began < 3 * MOST_CREDIT_SECONDS:
            model(x)
        times.record_next()
        times.take()
        times.record_next()
        before = times.forwards
        model(x)
        times.take()
        assert times.forwards == before + 1
    finally:
        times.close()


def test_a_program_that_is_called_seldom_is_told_what_recording_every_forward_costs() -> None:
    """A share of the time may be recorded, and its forwards take less of it."""
    model = torch.nn.Sequential(*(torch.nn.Identity() for _ in range(200)))
    x = torch.zeros(1)
    times = ProgramTimes(model, module_nodes(model), 0.02, ModuleClock(model))
    told: list[Overhead] = []
    seen: list[bool] = []
    try:
        wait_until(lambda: too_much_is_recorded(times, model, x), seconds=60)

        def is_told() -> bool:
            called, before = perf_counter() + 0.02, times.forwards
            wait_until(lambda: perf_counter() > called)
            model(x)
            times.take()
            told.extend(one for one in times.messages(1.0, 0) if isinstance(one, Overhead))
            times.record_next()
            seen.append(times.forwards > before)
            return len(seen) > 80 and all(seen[-60:])

        wait_until(is_told, seconds=60)
        share = times._recorder.governor.share
    finally:
        times.close()
    assert share < 1.0
    assert told[-1].share == 1.0
    assert told[-1].ratio > 0.02, "the budget is of all time"


def test_reading_the_machines_counters_is_in_what_watching_costs() -> None:
    model, x, began = torch.nn.Sequential(torch.nn.Identity()), torch.zeros(1), perf_counter()
    times = ProgramTimes(model, module_nodes(model), 0.02, ModuleClock(model))
    told: list[Overhead] = []

    def is_told() -> bool:
        model(x)
        times.take()
        told.extend(one for one in times.messages(1.0, 0) if isinstance(one, Overhead))
        return bool(told)

    try:
        wait_until(is_told, seconds=60)
        told.clear()
        times.sampling_seconds += 1_000.0  # As the thread that reads them does.
        wait_until(is_told, seconds=60)
    finally:
        times.close()
    assert told[-1].ratio > 1_000.0 / (perf_counter() - began)


def test_of_short_steps_fewer_are_recorded_where_the_budget_is_used_up() -> None:
    model, x = torch.nn.Sequential(torch.nn.Linear(2, 2)), torch.zeros(1, 2)
    sgd = torch.optim.SGD(model.parameters(), lr=1e-3)
    times = ProgramTimes(model, module_nodes(model), 0.02, ModuleClock(model))

    def is_cut() -> bool:
        for _ in range(50):
            model(x).sum().backward()
            sgd.step()
        times.take()  # On this thread: its CPU time is that of the training.
        told = list(times.messages(1.0, 0))
        times.record_next()
        return bool(told) and times._recorder.governor.share < LEAST_SHARE

    try:
        wait_until(is_cut, seconds=60)
    finally:
        times.close()


def too_much_is_recorded(times: ProgramTimes, model: torch.nn.Module, x: torch.Tensor) -> bool:
    """Run a forward; tells whether a share of them is recorded from now on."""
    model(x)
    times.take()
    list(times.messages(1.0, 0))
    times.record_next()
    return not times.records_all


def test_energy_of_a_programs_own_forwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOST_SYS", str(tmp_path))
    # Long beside what watching it takes: a forward must be recorded to have its energy, and all are
    # only where that costs less than 0.6 of the budget.
    model, x = torch.nn.Linear(2048, 4096), torch.randn(1024, 2048)

    def is_measured(session: Session) -> bool:
        # On a busy machine energy may be known before the rate.
        has_rate = session.tick is not None and session.tick.per_second > 0
        return has_rate and isinstance(forward_energy(session), ForwardEnergy)

    def run() -> None:
        with torch.no_grad():
            model(x)

    with sockets_folder() as folder, moving_counter(tmp_path):
        monkeypatch.setenv("TUI_PROFILER_DIR", str(folder))
        with watch(model, "counted", grace_seconds=0.0), Viewer(place_of("counted")) as viewer:
            session = viewer.until(is_measured, run)
        assert_nothing_is_left()
    found, tick = forward_energy(session), session.tick
    assert isinstance(found, ForwardEnergy)
    assert tick is not None
    assert found.watts == pytest.approx(WATTS, rel=0.05)
    assert WATTS * tick.latency_p50 * 0.5 < found.joules < WATTS / tick.per_second * 2


class SlowWhereRecorded(torch.nn.Sequential):
    """Takes longer in a step that is recorded: what recording itself costs is not known so well."""

    longer = 5e-4

    def __init__(self) -> None:
        super().__init__(*(torch.nn.Linear(4, 4) for _ in range(40)))
        self.clock: list[ModuleClock] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = super().forward(x)
        ends = perf_counter() + (self.longer if self.clock[0].is_step_recorded else 0.0)
        while perf_counter() < ends:
            pass
        return found


def test_what_a_recorded_step_costs_is_learned_from_the_program() -> None:
    model = SlowWhereRecorded()
    clock = ModuleClock(model)
    model.clock.append(clock)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
    nodes: tuple[Node, ...] = module_nodes(model)
    times = ProgramTimes(model, nodes, 100.0, clock)  # So all steps are within the budget.
    overheads, steps = [], []

    def train() -> int:
        for _ in range(64):
            optimizer.zero_grad()
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()
        times.take()
        told = [*times.messages(1.0, 0)]
        # Of two of a kind the newer one replaces the other, which then counts as dropped.
        assert max(Counter(map(type, told)).values(), default=0) <= 1
        for message in told:
            match message:
                case Overhead():
                    overheads.append(message)
                case TrainingStep():
                    steps.append(message)
        times.record_next()
        cost = times._training.cost
        return 0 if cost is None else len(cost._added)

    try:
        wait_until(lambda: train() >= LEAST_COMPARED, seconds=60)
        for _ in range(4):
            train()
        cost = times._training.cost
        assert cost is not None
        per_step = cost.call.seconds * len(nodes)
    finally:
        times.close()
    assert 0.8 * model.longer < per_step, "beside what recording costs itself"
    assert steps[-1].recorded_so_far < steps[-1].steps, "some are left out to compare with"
    assert overheads[-1].share == 1.0
    assert overheads[-1].ratio > 1.0, "far above what marks cost by themselves"


class MadeOfHostile(torch.nn.Sequential):
    """Returns what marking raises for, as long as that is wanted."""

    is_hostile = True

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, object]:
        found: torch.Tensor = super().forward(x)
        return found, Hostile() if self.is_hostile else None


def test_what_could_not_be_marked_once_is_not_said_for_ever() -> None:
    model = MadeOfHostile(torch.nn.Linear(4, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
    times = ProgramTimes(model, module_nodes(model), 100.0, ModuleClock(model))

    def why_no_backward() -> str:
        for _ in range(20):
            optimizer.zero_grad()
            model(torch.ones(2, 4))[0].sum().backward()
            optimizer.step()
        times.take()
        told = [one for one in times.messages(1.0, 0) if isinstance(one, TrainingStep)]
        return told[-1].why_no_backward

    try:
        why_no_backward()  # Steps are recorded from here on.
        assert why_no_backward() == "ValueError: of the program's class"
        model.is_hostile = False
        why_no_backward()
        assert why_no_backward() == ""
    finally:
        times.close()
