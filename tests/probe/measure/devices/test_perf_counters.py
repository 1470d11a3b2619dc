"""Performance counters: the kernel's own software events, which every machine has, count the same
way as those of the processor, which virtual machines mostly lack."""

from __future__ import annotations

import functools
import mmap
import os
import threading
import time
import traceback
from collections.abc import Callable

import pytest

from tui_profiler.messages import Unknown
from tui_profiler.probe.measure.devices import perf_counters

TASK_CLOCK, PAGE_FAULTS = (perf_counters.SOFTWARE, 1), (perf_counters.SOFTWARE, 2)
NO_SUCH_EVENT = (perf_counters.HARDWARE, 10_000)


def alone(test: Callable[[], None]) -> Callable[[], None]:
    """Run a test in a forked process, which has one thread.

    Threads that other tests left are counted too, and more than 16 cannot be.
    """

    @functools.wraps(test)
    def run() -> None:
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            try:
                test()
            except pytest.skip.Exception as skipped:
                os.write(writer, f"skipped: {skipped}".encode())
            except BaseException:
                os.write(writer, traceback.format_exc().encode()[-4096:])
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as said:
            outcome = said.read()
        _, status = os.waitpid(child, 0)
        if outcome.startswith("skipped: "):
            pytest.skip(outcome.removeprefix("skipped: "))
        assert (outcome, status) == ("", 0)

    return run


def spin(cpu_seconds: float) -> None:
    end = time.thread_time() + cpu_seconds
    while time.thread_time() < end:
        pass


def counted(counters: perf_counters.EventCounters) -> list[perf_counters.Count]:
    found = counters.counts()
    for one in found:
        if isinstance(one, Unknown):
            counters.close()
            pytest.skip(f"not even software events here: {one.reason}")
    return [one for one in found if isinstance(one, perf_counters.Count)]


@alone
def test_the_task_clock_counts_this_process_s_cpu_time() -> None:
    counters = perf_counters.EventCounters([TASK_CLOCK])
    [before] = counted(counters)
    began = time.process_time()
    spin(0.1)
    spent = time.process_time() - began
    [after] = counted(counters)
    counters.close()

    assert (after.value - before.value) / 1e9 == pytest.approx(spent, rel=0.1)
    assert after.share == pytest.approx(1.0)


@alone
def test_what_the_program_opens_under_their_numbers_is_let_alone() -> None:
    counters = perf_counters.EventCounters([TASK_CLOCK])
    counted(counters)
    [files] = counters._files
    assert isinstance(files, list)
    ends = os.pipe()
    os.write(ends[1], b"x" * 24)
    for file in files:
        os.dup2(ends[0], file)
    assert counters.counts() == (Unknown("the program closed the counters"),)
    counters.close()
    assert os.read(files[0], 24) == b"x" * 24
    for file in (*files, *ends):
        os.close(file)


@alone
def test_threads_that_were_there_and_threads_that_came_later_are_counted() -> None:
    go = threading.Event()
    early = threading.Thread(target=lambda: (go.wait(), spin(0.05)))
    early.start()
    counters = perf_counters.EventCounters([TASK_CLOCK])
    counted(counters)
    late = threading.Thread(target=spin, args=(0.05,))
    late.start()
    go.set()
    early.join()
    late.join()
    [after] = counted(counters)
    counters.close()

    # Both threads: what is asked for, less what the two clocks may differ by.
    assert after.value / 1e9 >= 0.095


@alone
def test_a_process_that_is_forked_is_not_this_one() -> None:
    counters = perf_counters.EventCounters([TASK_CLOCK])
    [before] = counted(counters)
    began = time.process_time()
    child = os.fork()
    if not child:
        spin(0.2)
        os._exit(0)
    os.waitpid(child, 0)
    spent = time.process_time() - began
    [after] = counted(counters)
    counters.close()

    assert (after.value - before.value) / 1e9 < spent + 0.1


@alone
def test_several_events_are_told_in_the_order_of_the_question() -> None:
    counters = perf_counters.EventCounters([TASK_CLOCK, PAGE_FAULTS])
    _, before = counted(counters)
    with mmap.mmap(-1, 1000 * mmap.PAGESIZE) as taken:
        for page in range(1000):
            taken[page * mmap.PAGESIZE] = 1
    _, after = counted(counters)
    counters.close()

    # The kernel may give several pages at one fault.
    assert 1 <= after.value - before.value <= 1500


@alone
def test_an_event_that_does_not_exist_says_so_and_leaves_the_others() -> None:
    counters = perf_counters.EventCounters([NO_SUCH_EVENT, TASK_CLOCK])
    absent, present = counters.counts()
    counters.close()

    assert isinstance(absent, Unknown)
    if isinstance(present, Unknown):
        pytest.skip(present.reason)
    assert absent.reason == "this processor, or virtual machine, offers no such counter"


@alone
def test_the_files_are_given_back() -> None:
    before = len(os.listdir("/proc/self/fd"))
    counters = perf_counters.EventCounters([TASK_CLOCK, PAGE_FAULTS])
    counters.close()

    assert len(os.listdir("/proc/self/fd")) == before
    assert counters.counts() == (Unknown("the counters are closed"),) * 2


@alone
def test_this_machine_counts_instructions_or_says_why_not() -> None:
    meter = perf_counters.PerfMeter(0.0)
    spin(0.05)
    found = meter.counters(1.0)
    meter.close()

    assert len(perf_counters.EVENTS) == 6
    if isinstance(found.instructions, Unknown):
        assert found.instructions.reason
        assert found.instructions.reason != "needs a second sample"
    else:
        assert found.instructions > 1e6  # 50 ms of Python
