"""What a thread used, against what the kernel tells others of it, and against known work."""

from __future__ import annotations

import gc
import mmap
import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType

import pytest
import torch
from torch import nn

from tests.probe.measure.clock.module_nodes import module_nodes
from tui_profiler.messages import Unknown
from tui_profiler.probe.measure.clock import thread_usage
from tui_profiler.probe.measure.clock.aggregate import Aggregator
from tui_profiler.probe.measure.clock.clock import Forward, ModuleClock


def used_by(work: Callable[[], object]) -> thread_usage.ThreadUsage:
    reader = thread_usage.ThreadUsageReader()
    before = reader.read_undisturbed()
    work()
    return thread_usage.usage_between(before, reader.read())


def spin(seconds: float) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def test_time_on_a_core_is_that_of_the_work() -> None:
    used = used_by(lambda: spin(0.1))
    assert used.on_core == pytest.approx(0.1, rel=0.03)


def test_sleeping_is_neither_on_a_core_nor_waiting_for_one() -> None:
    event = threading.Event()
    used = used_by(lambda: event.wait(0.1))
    assert used.on_core < 0.01
    assert used.waiting is not None
    assert used.waiting < 0.05
    assert used.voluntary_switches >= 1


def test_waiting_is_what_the_kernel_tells_another_thread_of_this_one() -> None:
    """Two threads of one process on one core: each waits about as long as the other spins."""
    allowed = os.sched_getaffinity(0)
    found: list[tuple[thread_usage.ThreadUsage, float]] = []

    def one_of_two(ready: threading.Barrier) -> None:
        task = threading.get_native_id()
        os.sched_setaffinity(task, {min(allowed)})
        file = Path(f"/proc/self/task/{task}/schedstat")
        ready.wait()
        before = int(file.read_text().split()[1])
        used = used_by(lambda: [torch.mm(BIG, BIG) for _ in range(40)])
        found.append((used, (int(file.read_text().split()[1]) - before) / 1e9))

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    ready = threading.Barrier(2)
    both = [threading.Thread(target=one_of_two, args=(ready,)) for _ in range(2)]
    for each in both:
        each.start()
    for each in both:
        each.join()
    torch.set_num_threads(threads)
    for used, told in found:
        # The other reading is around ours: a slice may be waited for between the two.
        assert used.waiting == pytest.approx(told, rel=0.05, abs=6e-3)
    assert max(used.waiting or 0.0 for used, _ in found) > 0.1


BIG = torch.randn(700, 700)


@pytest.mark.parametrize(
    ("took", "readings"), [((1e-6,), 1), ((4e-3, 1e-6), 2), ((4e-3, 4e-3, 4e-3), 3)]
)
def test_a_reading_that_lost_the_core_is_read_again(took: tuple[float, ...], readings: int) -> None:
    """Where the core is taken away before the forward, it would be the forward that waited."""
    told = iter([second for spent in took for second in (0.0, spent)])

    def clock() -> float:
        spin(0.002)
        return next(told)

    began = time.thread_time()
    found = thread_usage.ThreadUsageReader(clock).read_undisturbed()
    # The clock spins before and after each reading: the last one comes behind so many spins.
    _, on_core, *_ = found
    spins = (on_core - began) / 0.002
    assert int(spins + 0.1) == 2 * readings - 1
    assert next(told, None) is None


def test_no_other_thread_goes_first_because_of_a_reading() -> None:
    """A call that releases the GIL waits for it beside busy threads."""
    is_over = threading.Event()

    def turn() -> None:
        while not is_over.is_set():
            pass

    others = [threading.Thread(target=turn) for _ in range(2)]
    for each in others:
        each.start()
    reader, took = thread_usage.ThreadUsageReader(), []
    try:
        for _ in range(200):
            began = time.perf_counter()
            reader.read()
            took.append(time.perf_counter() - began)
    finally:
        is_over.set()
        for each in others:
            each.join()
    # Between two readings it loses the lock now and then; of those that let it go, a fifth waits.
    assert sum(spent > 1e-3 for spent in took) <= len(took) / 20


def test_garbage_collection_is_counted_and_the_callbacks_are_as_they_were() -> None:
    before = list(gc.callbacks)
    clock = thread_usage.CollectorClock()
    clock.start()
    try:
        garbage = [[number] for number in range(200_000)]
        began = time.perf_counter()
        gc.collect()
        took = time.perf_counter() - began
        garbage.clear()
    finally:
        clock.stop()
    assert clock.seconds >= 0.9 * took
    assert gc.callbacks == before
    clock.stop()
    assert gc.callbacks == before


PAGES = 500


def touch() -> None:
    with mmap.mmap(-1, PAGES * mmap.PAGESIZE) as fresh:
        fresh.madvise(mmap.MADV_NOHUGEPAGE)
        for page in range(PAGES):
            fresh[page * mmap.PAGESIZE] = 1


def test_page_faults_are_counted() -> None:
    assert PAGES <= used_by(touch).minor_faults < PAGES + 200


def test_what_is_noted_at_ends_of_steps_is_what_is_read_there() -> None:
    """Work of each kind between two of them, beside a thread that takes the core away."""
    collector = thread_usage.CollectorClock()
    reader = thread_usage.ThreadUsageReader(collector=collector)
    noted: list[tuple[float, thread_usage.Reading]] = []
    read: list[thread_usage.Reading] = []
    kernels: list[float] = []
    is_over = threading.Event()
    steps = (
        lambda: spin(0.02),
        touch,
        lambda: torch.mm(BIG, BIG),
        gc.collect,
        is_over.set,
        lambda: torch.compile(torch.neg, backend="eager")(BIG),
    )

    def take_turns() -> None:
        os.sched_setaffinity(threading.get_native_id(), {core})
        while not is_over.is_set():
            torch.mm(BIG[:200, :200], BIG[:200, :200])

    def run() -> None:
        task = threading.get_native_id()
        os.sched_setaffinity(task, {core})
        file, note = Path(f"/proc/self/task/{task}/schedstat"), reader.noting(noted.append)
        for step in (int, *steps):
            step()
            read.append(reader.read())
            kernels.append(int(file.read_text().split()[1]) / 1e9)
            note(time.perf_counter())

    core, threads = min(os.sched_getaffinity(0)), torch.get_num_threads()
    torch.set_num_threads(1)
    both = [threading.Thread(target=one) for one in (take_turns, run)]
    collector.start()
    try:
        for each in both:
            each.start()
        both[1].join()
    finally:
        is_over.set()
        both[0].join()
        collector.stop()
        torch.set_num_threads(threads)
    pairs = zip(read, read[1:], noted, noted[1:], strict=False)
    for before, after, (_, was), (_, now) in pairs:
        one, two = (thread_usage.usage_between(*pair) for pair in ((before, after), (was, now)))
        assert two.on_core == pytest.approx(one.on_core, abs=2e-3)
        assert two.minor_faults == pytest.approx(one.minor_faults, abs=50)
        assert two.collecting == pytest.approx(one.collecting, abs=1e-3)
        assert two.compiled == one.compiled
    for kernel, (_, (*_, told, _, _)) in zip(kernels, noted, strict=True):
        assert kernel - thread_usage.MOST_UNREAD <= (thread_usage.waiting_seconds(told) or 0.0)
    assert thread_usage.usage_between(noted[0][1], noted[-1][1]).compiled == 1
    assert kernels[-1] > kernels[0], "the core was taken away"


def test_a_forked_process_reads_its_own_thread() -> None:
    reader = thread_usage.ThreadUsageReader()
    reader.read()
    spin(0.05)
    child = os.fork()
    if not child:
        _, _, told, *_ = reader.read()
        waiting = thread_usage.waiting_seconds(told)
        own = int(Path("/proc/self/schedstat").read_text().split()[1]) / 1e9
        os._exit(0 if waiting is not None and waiting <= own else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_files_of_threads_that_ended_are_closed() -> None:
    reader = thread_usage.ThreadUsageReader()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        thread = threading.Thread(target=reader.read)
        thread.start()
        thread.join()
    assert len(os.listdir("/proc/self/fd")) <= before + 1


def test_files_are_closed_at_the_end_of_a_watching_period_without_garbage_collection() -> None:
    """Of a program that disables it; also where a forward runs at that time."""
    model, x = nn.Linear(4, 4), torch.randn(1, 4)
    runs, may_end = threading.Event(), threading.Event()

    def hold(module: nn.Module, given: object, output: object) -> None:
        runs.set()
        may_end.wait(60)

    gc.disable()
    try:
        with ThreadPoolExecutor(1) as executor:
            executor.submit(model, x).result()
            before = len(os.listdir("/proc/self/fd"))
            for _ in range(5):
                clock = ModuleClock(model)
                clock.install()
                model(x)
                handle = model.register_forward_hook(hold)
                running = executor.submit(model, x)
                runs.wait(60)
                clock.uninstall()
                may_end.set()
                running.result()
                handle.remove()
                runs.clear()
                may_end.clear()
            assert len(os.listdir("/proc/self/fd")) <= before
    finally:
        gc.enable()


class Faulting(nn.Module):
    """Touches 200 new pages in every second forward."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.count = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        if self.count % 2 == 0:
            with mmap.mmap(-1, 200 * mmap.PAGESIZE) as fresh:
                fresh.madvise(mmap.MADV_NOHUGEPAGE)
                for page in range(200):
                    fresh[page * mmap.PAGESIZE] = 1
        out: torch.Tensor = self.fc(x)
        return out


def test_a_tick_says_what_threads_used_in_a_forward() -> None:
    model, x = Faulting().eval(), torch.randn(2, 4)
    clock = ModuleClock(model)
    clock.install()
    try:
        with torch.inference_mode():
            for _ in range(120):
                model(x)
        recorded: list[Forward] = clock.take()
    finally:
        clock.uninstall()
    totals = Aggregator(module_nodes(model), model)
    totals.add(recorded)
    tick = totals.tick(1.0)
    assert tick.thread is not None
    assert not isinstance(tick.thread.minor_faults, Unknown)
    assert tick.thread.minor_faults == pytest.approx(100.0, rel=0.25)
    assert not isinstance(tick.thread.on_core, Unknown)
    # The clocks are read one after the other, around forwards of 0.2 ms.
    assert 0 < tick.thread.on_core <= tick.thread.seconds * 1.05 + 20e-6
    assert not isinstance(tick.thread.waiting, Unknown)
    assert tick.thread.waiting >= 0


def test_forwards_without_usage_have_none_in_their_tick() -> None:
    model, x = Faulting().eval(), torch.randn(2, 4)
    clock = ModuleClock(model)
    clock.install()
    try:
        for _ in range(60):
            model(x)
        recorded = [one._replace(usage=None) for one in clock.take()]
    finally:
        clock.uninstall()
    totals = Aggregator(module_nodes(model), model)
    totals.add(recorded)
    assert totals.tick(1.0).thread is None


def test_what_a_signal_handler_raises_during_a_collection_reaches_the_program() -> None:
    class Alarmed(Exception):
        pass

    def alarm(number: int, frame: FrameType | None) -> None:
        raise Alarmed

    kept = [[] for _ in range(300_000)]  # A collection takes longer than the timer.
    collector = thread_usage.CollectorClock()
    others, gc.callbacks[:] = list(gc.callbacks), []  # Python's own rule holds for theirs.
    before = signal.signal(signal.SIGALRM, alarm)
    arrived = 0
    collector.start()
    try:
        for _ in range(5):
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.001)
                gc.collect()
                sum(range(10_000_000))
            except Alarmed:
                arrived += 1
    finally:
        collector.stop()
        signal.signal(signal.SIGALRM, before)
        gc.callbacks[:] = others
    assert (arrived, len(kept)) == (5, 300_000)
    assert collector.seconds > 0.005
