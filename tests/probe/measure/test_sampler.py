"""A sample of this machine: against psutil and /proc, after real work."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psutil
import pytest

from tui_profiler.messages import Sample, Unknown
from tui_profiler.probe.measure.sampler import Sampler


@pytest.fixture
def sampler() -> Iterator[Sampler]:
    made = Sampler(time.time() - 12.5)
    yield made
    made.close()


def spin(cpu_seconds: float) -> None:
    """Keep a core busy for as much CPU time of this process."""
    end = time.process_time() + cpu_seconds
    while time.process_time() < end:
        pass


def test_the_moment_is_counted_from_the_command() -> None:
    began = time.time()
    sampler = Sampler(began - 12.5)
    at = sampler.sample().at
    sampler.close()

    assert 12.5 <= at <= 12.5 + time.time() - began


def test_a_busy_loop_keeps_one_core_of_this_process_busy() -> None:
    # Less than a whole core where others want it too: the interval lies within one of ours, and
    # around another.
    most_cpu, most_seconds = time.process_time(), time.monotonic()
    sampler = Sampler(0.0)
    began = time.monotonic()
    spin(0.3)
    least_seconds = time.monotonic() - began
    found = sampler.sample().process_cpu
    most_cpu, most_seconds = time.process_time() - most_cpu, time.monotonic() - most_seconds
    sampler.close()

    assert not isinstance(found, Unknown)
    # The kernel counts in hundredths of a second.
    assert 0.28 / most_seconds <= found <= (most_cpu + 0.02) / least_seconds


def test_every_interval_begins_at_the_last_sample(sampler: Sampler) -> None:
    spin(0.2)
    busy = sampler.sample().process_cpu
    # Another's work, not ours; as long as ours was, whatever else the machine does.
    code = "import time\nwhile time.process_time() < 0.2: pass"
    subprocess.run([sys.executable, "-c", code], check=True)
    waiting = sampler.sample().process_cpu
    assert not isinstance(busy, Unknown)
    assert not isinstance(waiting, Unknown)

    assert waiting < busy / 2


def test_cores_are_those_this_process_may_use_and_show_the_work(sampler: Sampler) -> None:
    spin(0.3)
    cores = sampler.sample().cores

    assert len(cores) == len(os.sched_getaffinity(0))
    assert all(0 <= core.utilisation <= 1 for core in cores)
    assert sum(core.utilisation for core in cores) > 0.5


def test_memory_is_what_the_kernel_accounts(sampler: Sampler) -> None:
    sample = sampler.sample()
    resident_pages = int(Path("/proc/self/statm").read_text().split()[1])

    assert sample.process_bytes == pytest.approx(
        resident_pages * os.sysconf("SC_PAGE_SIZE"), rel=0.05
    )
    assert 0 < sample.memory_bytes < sample.memory_total_bytes <= psutil.virtual_memory().total


def test_memory_that_is_taken_is_seen(sampler: Sampler) -> None:
    before = sampler.sample()
    # A mapping of its own: malloc would give out what an earlier test freed, resident already.
    with mmap.mmap(-1, 256 << 20) as taken:  # Much more than what else comes and goes meanwhile.
        taken.write(b"x" * len(taken))
        after = sampler.sample()
    assert not isinstance(before.process_bytes, Unknown)
    assert not isinstance(after.process_bytes, Unknown)

    assert after.process_bytes - before.process_bytes == pytest.approx(256 << 20, rel=0.1)


def test_threads_are_counted(sampler: Sampler) -> None:
    sampler.sample()  # starts the thread that asks the GPU driver
    before = sampler.sample().process_threads
    release = threading.Event()
    threads = [threading.Thread(target=release.wait) for _ in range(3)]
    for thread in threads:
        thread.start()
    during = sampler.sample().process_threads
    release.set()
    for thread in threads:
        thread.join()
    assert not isinstance(before, Unknown)

    assert during == before + 3


def test_a_closed_sampler_asks_no_gpu(sampler: Sampler) -> None:
    sampler.close()

    assert sampler.sample().gpus == Unknown("device counters are closed")


def test_a_sample_survives_the_wire(sampler: Sampler) -> None:
    sample = sampler.sample()

    assert msgspec.msgpack.decode(msgspec.msgpack.encode(sample), type=Sample) == sample


def test_a_sample_costs_less_than_three_milliseconds_of_cpu(sampler: Sampler) -> None:
    sampler.sample()
    spent = []
    for _ in range(50):
        began = time.process_time()
        sampler.sample()
        spent.append(time.process_time() - began)

    assert sorted(spent)[len(spent) // 2] < 0.003


def test_sampling_needs_neither_torch_nor_numpy() -> None:
    program = (
        "import sys, time\n"
        "from tui_profiler.probe.measure.sampler import Sampler\n"
        "sampler = Sampler(time.time())\n"
        "sampler.sample()\n"
        "sampler.close()\n"
        "print(*sorted({'torch', 'numpy'} & set(sys.modules)))"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)

    assert (said.stdout, said.stderr) == (b"\n", b"")
