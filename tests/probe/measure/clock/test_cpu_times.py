"""CPU time by module, against work of known CPU time and against the kernel's own count."""

from __future__ import annotations

import math
import mmap
import os
import subprocess
import sys
import threading
import time
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from tests.probe.measure.clock.module_nodes import module_nodes
from tests.probe.measure.clock.simulated_device import SimulatedDevice
from tests.probe.measure.clock.test_aggregate import UNIT, WARM, forward
from tui_profiler.messages import Tick
from tui_profiler.probe.measure.clock.aggregate import LEAST_LATENCIES, Aggregator
from tui_profiler.probe.measure.clock.call_readings import FIGURES
from tui_profiler.probe.measure.clock.clock import Forward, ModuleClock
from tui_profiler.probe.measure.clock.cpu_times import LEAST_BETWEEN, PART, CpuReadings
from tui_profiler.probe.measure.clock.device_clock import DeviceClock
from tui_profiler.probe.measure.clock.overhead_budget import MeasuredCost, total_overhead
from tui_profiler.probe.measure.clock.time_recorder import TimeRecorder

X = torch.ones(1)


class Spin(nn.Module):
    """On a core for so many seconds of the CPU clock, then off it for others."""

    def __init__(self, on_core: float, asleep: float = 0.0) -> None:
        super().__init__()
        self.on_core, self.asleep = on_core, asleep
        self.used = 0.0
        """By its own reading, of the last forward."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        began = time.thread_time()
        while time.thread_time() < began + self.on_core:
            pass
        if self.asleep:
            time.sleep(self.asleep)
        self.used = time.thread_time() - began
        return x


class Leaf(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


def model_of_known_work() -> nn.Sequential:
    inner = nn.Sequential(Spin(1e-3, asleep=3e-3), *(Leaf() for _ in range(50)))
    return nn.Sequential(Spin(2e-3), inner, Spin(4e-3)).eval()


def read(model: nn.Module, clock: ModuleClock) -> Forward:
    """A forward in which every call reads."""
    clock.read_calls_next()
    model(X)
    *_, found = clock.take()
    assert found.used
    return found


@contextmanager
def watched(model: nn.Module) -> Iterator[ModuleClock]:
    clock = ModuleClock(model)
    clock.install()
    try:
        yield clock
    finally:
        clock.uninstall()


def figures(model: nn.Module, found: Forward) -> dict[str, tuple[float, float, float]]:
    """On a core, waiting for one, wall: by path, of modules that are called once."""
    return {path: (one[0], one[1], one[4]) for path, one in readings(model, found).items()}


def readings(model: nn.Module, found: Forward) -> dict[str, list[float]]:
    """What each call read, by path, of modules that are called once."""
    names = {id(module): path for path, module in model.named_modules()}
    used = np.frombuffer(found.used).reshape(-1, FIGURES).tolist()
    return {names[id(one)]: each for one, each in zip(found.modules, used, strict=True)}


def test_each_module_has_its_own_cpu_time() -> None:
    model = model_of_known_work()
    modules = {"0": model[0], "1.0": model[1][0], "2": model[2]}
    found, apart, others = [], [], []
    with watched(model) as clock:
        for _ in range(21):
            one = read(model, clock)
            found.append(figures(model, one))
            cpu = {path: found[-1][path][0] for path in modules}
            apart.append({path: cpu[path] - each.used for path, each in modules.items()})
            model(X)
            (plain,) = clock.take()
            starts, ends = np.frombuffer(plain.times).reshape(2, -1)
            took = dict(zip(plain.modules, (ends - starts).tolist(), strict=True))
            rest = took[model] - sum(took[each] for each in modules.values())
            others.append((found[-1][""][0] - sum(cpu.values()) - rest) / one.reading_seconds)
    for path in modules:  # What torch's own call takes is above a module's own reading.
        assert -2e-5 < sorted(one[path] for one in apart)[5] < 1e-4
    # What the readings of 55 calls take is in no figure: the short calls take what they do else.
    assert sorted(others)[5] < 0.6
    # Asleep, and not waiting for a core. Who waits between two readings has it in one of them.
    asleep = [wall - cpu - waiting for cpu, waiting, wall in (one["1.0"] for one in found)]
    assert sorted(asleep)[5] >= 2.8e-3


class Touches(nn.Module):
    """Writes to so many fresh pages of memory."""

    def __init__(self, pages: int) -> None:
        super().__init__()
        self.pages = pages

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with mmap.mmap(-1, self.pages * mmap.PAGESIZE) as fresh:
            if hasattr(mmap, "MADV_NOHUGEPAGE"):
                fresh.madvise(mmap.MADV_NOHUGEPAGE)
            for page in range(self.pages):
                fresh[page * mmap.PAGESIZE] = 1
        return x


def test_sleep_and_page_faults_are_those_of_the_module_in_which_they_are() -> None:
    inner = nn.Sequential(Touches(700), Spin(1e-3, asleep=5e-3))
    model = nn.Sequential(Spin(2e-3), inner, Touches(300)).eval()
    with watched(model) as clock:
        found = [readings(model, read(model, clock)) for _ in range(5)]
    asleep = {path: sorted(one[path][2] for one in found) for path in found[0]}
    assert asleep["1.1"][0] > 4.9e-3
    assert asleep["1.1"][2] < 7e-3
    for path in ("0", "1.0", "2"):
        assert asleep[path][2] == 0.0
    for path in ("1", ""):
        assert asleep[path][2] == pytest.approx(asleep["1.1"][2], rel=0.3)
    faults = {path: sorted(one[path][3] for one in found)[2] for path in found[0]}
    assert faults["1.0"] == pytest.approx(700, abs=20)
    assert faults["2"] == pytest.approx(300, abs=20)
    assert faults["1.1"] < 20
    assert faults["1"] == pytest.approx(700, abs=40)
    assert faults[""] == pytest.approx(1000, abs=60)


def test_what_a_module_waits_for_a_core_is_its_own() -> None:
    """A busy process on the same core: all of the wait is where the time on a core is."""
    allowed = os.sched_getaffinity(0)
    model = model_of_known_work()
    code = "import os\nprint(os.sched_getaffinity(0), flush=True)\nwhile True: pass"
    os.sched_setaffinity(0, {min(allowed)})
    try:
        with (
            subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as busy,
            watched(model) as clock,
        ):
            assert busy.stdout is not None
            busy.stdout.readline()
            task = threading.get_native_id()
            file = Path(f"/proc/self/task/{task}/schedstat")
            before = int(file.read_text().split()[1])
            found = [figures(model, read(model, clock)) for _ in range(40)]
            told = (int(file.read_text().split()[1]) - before) / 1e9
            busy.kill()
    finally:
        os.sched_setaffinity(0, allowed)
    waited = {path: sum(one[path][1] for one in found) for path in found[0]}
    assert waited[""] > 0.05
    assert waited[""] == pytest.approx(told, rel=0.1, abs=0.02)
    assert waited["0"] + waited["1.0"] + waited["2"] >= 0.8 * waited[""]
    # Each has its CPU time, however long it waits. Caches that another program used add to it.
    for path, expected in {"0": 2e-3, "1.0": 1e-3, "2": 4e-3}.items():
        assert sorted(one[path][0] for one in found)[4] == pytest.approx(expected, rel=0.1)


def test_other_forwards_read_nothing_and_the_gate_is_as_before() -> None:
    model = model_of_known_work()
    with watched(model) as clock:
        call = type(model).__call__
        model(X)
        plain = call.__code__
        read(model, clock)
        assert call.__code__ is plain
        model(X)
        (after,) = clock.take()
        assert not after.used
        clock.recording = False
        shut = call.__code__
        clock.recording = True
        clock.read_calls_next()
        clock.run_next_in(lambda forward: forward())
        model(X)
        (in_window,) = clock.take()
        assert not in_window.used  # What runs in a window is not slowed down by more.
        model(X)
        (late,) = clock.take()
        assert late.used
        clock.recording = False
        assert call.__code__ is shut


def test_a_forward_that_raises_while_it_reads_leaves_nothing_behind() -> None:
    class Raises(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise ValueError("as asked")

    model = nn.Sequential(Leaf(), Raises())
    with watched(model) as clock:
        clock.read_calls_next()
        plain = type(model).__call__.__code__
        with pytest.raises(ValueError, match="as asked"):
            model(X)
        (found,) = clock.take()
        assert len(found.used) == FIGURES * 8 * found.calls
        assert type(model).__call__.__code__ is plain


def test_a_forward_on_another_thread_reads_nothing_meanwhile() -> None:
    class Meets(nn.Module):
        """Two forwards are inside of it at once."""

        def __init__(self) -> None:
            super().__init__()
            self.barrier = threading.Barrier(2)
            self.leaf = Leaf()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.barrier.wait()
            found: torch.Tensor = self.leaf(x)
            self.barrier.wait()
            return found

    model = Meets()
    with watched(model) as clock:
        clock.read_calls_next()
        other = threading.Thread(target=model, args=(X,))
        other.start()
        model(X)
        other.join()
        found = clock.take()
    assert sorted(bool(one.used) for one in found) == [False, True]
    assert all(one.calls == 2 for one in found)


def test_a_forward_that_reads_is_in_no_figure_of_a_gpu_and_keeps_none_of_its_events() -> None:
    device = SimulatedDevice()
    model = nn.Sequential(Leaf())
    clock = ModuleClock(model, device=DeviceClock(device))
    clock.install()
    try:
        found = read(model, clock)
        device.run()
        assert clock.device is not None
        assert clock.device.read() == []
        made = device.made
        model(X)
        assert device.made <= made
    finally:
        clock.uninstall()
    assert len(found.used) == FIGURES * 8 * 2


def test_a_forward_of_training_that_reads_is_marked_as_any_other() -> None:
    model = nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1))
    with watched(model) as clock:
        clock.record_step(is_recorded=True)
        numbers = []
        for reads in (False, True):
            if reads:
                clock.read_calls_next()
            model(X).backward()
            (found,) = clock.take()
            assert bool(found.used) == reads
            assert found.numbers is not None
            numbers.append([number - found.numbers[0] for number in found.numbers])
        _, trouble = clock.take_marks()
        clock.record_step(is_recorded=False)
    assert numbers[0] == numbers[1]
    assert not trouble


def with_used(one: Forward, *calls: tuple[float, float, float]) -> Forward:
    """The same as one that read: units on a core, waiting, wall of each call by its end.

    Each call slept for half of its CPU time, and had as many page faults as units of wall time.
    """
    used = array("d")
    for cpu, waiting, wall in calls:
        used.extend((cpu * UNIT, waiting * UNIT, cpu * UNIT / 2, wall, wall * UNIT))
    return one._replace(used=used.tobytes())


def columns(tick: Tick) -> dict[int, tuple[float, ...]]:
    names = ("cpu_per_forward", "own_cpu_per_forward")
    names += ("unwaited_per_forward", "own_unwaited_per_forward")
    found = [np.frombuffer(getattr(tick, name), np.float32) / UNIT for name in names]
    nodes = np.frombuffer(tick.nodes, np.uint32).tolist()
    return {node: tuple(float(each[row]) for each in found) for row, node in enumerate(nodes)}


@pytest.mark.parametrize("knows_waiting", [True, False])
def test_means_are_of_forwards_that_read_and_of_no_others(knows_waiting: bool) -> None:
    model = nn.Sequential(Leaf(), Leaf())
    aggregator = Aggregator(module_nodes(model), model)
    usual = forward((model[0], 1, 4), (model[1], 4, 6), (model, 0, 8))
    slower = forward((model[0], 2, 7), (model[1], 8, 12), (model, 0, 14))
    only_one = forward((model[0], 2, 7), (model, 0, 9))
    waiting = 1.0 if knows_waiting else math.nan
    aggregator.add([usual] * (WARM + LEAST_LATENCIES))
    before = aggregator.tick(1.0)
    assert before.cpu_per_forward == b""
    aggregator.add(
        [
            with_used(slower, (2, waiting, 4), (2, waiting - 1, 2), (5, waiting, 8)),
            with_used(slower, (4, waiting, 5), (1, waiting - 1, 1), (7, waiting, 9)),
        ]
    )
    tick = aggregator.tick(2.0)
    assert (tick.forwards, tick.cpu_forwards) == (before.forwards + 2, 2)
    for name in ("calls", "total", "p95", "maximum", "mean_per_forward"):
        assert getattr(tick, name) == getattr(before, name)
    found = columns(tick)
    assert [each[:2] for each in found.values()] == [(6.0, 1.5), (3.0, 3.0), (1.5, 1.5)]
    asleep, faults = (
        [
            np.frombuffer(getattr(tick, f"{own}{name}_per_forward"), np.float32).tolist()
            for own in ("", "own_")
        ]
        for name in ("asleep", "faults")
    )
    assert (np.array(asleep) / UNIT).tolist() == [[3.0, 1.5, 0.75], [0.75, 1.5, 0.75]]
    assert faults == [[8.5, 4.5, 1.5], [2.5, 4.5, 1.5]]
    unwaited = [each[2:] for each in found.values()]
    if knows_waiting:
        assert unwaited == [(7.5, 2.5), (3.5, 3.5), (1.5, 1.5)]
    else:
        assert all(math.isnan(one) for each in unwaited for one in each)
    # One that calls less counts with 0 there.
    aggregator.add([with_used(only_one, (3, 0, 3), (4, 0, 4))])
    found = columns(aggregator.tick(3.0))
    assert found[2][0] == pytest.approx(1.0)
    # What is far slower than others is left out here as well.
    stalled = forward((model[0], 2, 700), (model[1], 700, 702), (model, 0, 999))
    aggregator.add([with_used(stalled, (300, 0, 698), (1, 0, 2), (400, 0, 999))])
    assert aggregator.tick(4.0).cpu_forwards == 3


def test_nodes_that_no_forward_called_that_read_have_no_figure() -> None:
    model = nn.Sequential(Leaf(), Leaf())
    aggregator = Aggregator(module_nodes(model), model)
    aggregator.add([forward((model[0], 1, 4), (model[1], 4, 6), (model, 0, 8))] * (WARM + 10))
    only_one = forward((model[0], 2, 5), (model, 0, 6))
    aggregator.add([with_used(only_one, (3, 0, 3), (4, 0, 4))])
    found = columns(aggregator.tick(1.0))
    assert math.isnan(found[2][0])
    assert found[1][0] == pytest.approx(3.0)


def test_readings_take_their_part_of_the_budget_at_most() -> None:
    now = [0.0]
    readings = CpuReadings(0.02, lambda: now[0])
    readings.count(LEAST_BETWEEN)
    assert readings.is_due
    reads = spent = 0.0
    while now[0] < 100:
        if readings.is_due:
            readings.note(1e-3)
            reads, spent = reads + 1, spent + 1e-3
        else:
            readings.count(1)
        now[0] += 0.01
    assert reads > 50
    assert spent / now[0] <= PART * 0.02 * 1.05
    assert readings.share == pytest.approx(PART * 0.02)


def test_most_forwards_are_timed_as_they_are_and_without_a_budget_all() -> None:
    free = CpuReadings(0.02, lambda: 0.0)
    free.count(LEAST_BETWEEN - 1)
    assert not free.is_due
    free.count(1)
    assert free.is_due
    free.note(0.0)
    assert not free.is_due
    none = CpuReadings(0.0, lambda: 0.0)
    none.count(1000)
    assert not none.is_due


def test_a_recorder_reads_now_and_then_and_says_what_it_costs() -> None:
    model = nn.Sequential(*(Leaf() for _ in range(20)))
    clock, cost = ModuleClock(model), MeasuredCost()
    times = TimeRecorder(clock, module_nodes(model), model, cost, 0.02)
    times.start()
    taken: list[Forward] = []
    try:
        for _ in range(30):
            for _ in range(10):
                model(X)
            taken += (finished := clock.take())
            times.add(finished)
        (tick,) = (one for one in times.figures(1.0, 0) if isinstance(one, Tick))
        for _ in range(6):
            cost.add(1.001, 1.0)
        alone = total_overhead(cost, 1.0)
        with_readings = times.govern()
    finally:
        times.close()
    reads = sum(bool(one.used) for one in taken)
    assert 1 <= reads <= len(taken) / (LEAST_BETWEEN + 1)
    assert 1 <= tick.cpu_forwards <= reads
    assert alone is not None
    assert with_readings is not None
    assert 0 < with_readings.ratio - alone.ratio <= PART * 0.02 * 1.001
