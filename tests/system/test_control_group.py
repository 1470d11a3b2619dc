"""What the kernel's out-of-memory counters say of a process that was killed."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from tui_profiler.messages import Ended
from tui_profiler.source.spawned import Spawned
from tui_profiler.system.control_group import OutOfMemoryKills, group_folders

EATS = "bytearray(256 << 20)"
SLEEPS = "import time; time.sleep(600)"


class Counters:
    """A process in a control group, as files."""

    def __init__(self, folder: Path, version: int) -> None:
        group = folder / "mounted" / "job"
        group.mkdir(parents=True)
        self._events = group / ("memory.events" if version == 2 else "memory.oom_control")
        self.vmstat = folder / "vmstat"
        self.process = folder
        line = "0::/job" if version == 2 else "4:memory:/job"
        (folder / "cgroup").write_text(f"{line}\n", encoding="utf-8")
        kind = "cgroup2 none rw" if version == 2 else "cgroup none rw,memory"
        mount = f"1 2 0:3 / {folder}/mounted rw - {kind}\n"
        (folder / "mountinfo").write_text(mount, encoding="utf-8")
        self.count(in_group=3, on_machine=7)

    def count(self, in_group: int | None, on_machine: int | None) -> None:
        for path, kills in ((self._events, in_group), (self.vmstat, on_machine)):
            path.unlink(missing_ok=True)
            if kills is not None:
                path.write_text(f"oom 99\noom_kill {kills}\noom_kill_disable 5\n")


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("in_group", "on_machine", "by_kernel"),
    [
        (4, 8, True),
        (4, None, True),
        (3, 7, False),
        (3, 8, False),  # Another group's process was killed.
        (3, None, False),
        (None, 7, False),
        (None, 8, None),  # Of which process is not known.
        (None, None, None),
    ],
)
def test_a_kill_is_the_kernels_where_its_counters_say_so(
    tmp_path: Path, version: int, in_group: int | None, on_machine: int | None, *, by_kernel: bool
) -> None:
    counters = Counters(tmp_path, version)
    kills = OutOfMemoryKills(counters.process, counters.vmstat)
    counters.count(in_group, on_machine)
    assert kills.verdict().by_kernel is by_kernel
    assert kills.verdict().why


def test_without_counters_nothing_is_known(tmp_path: Path) -> None:
    kills = OutOfMemoryKills(tmp_path / "no process", tmp_path / "no vmstat")
    assert kills.verdict() == (None, "no oom_kill counter can be read")


async def end_of(child: Spawned) -> Ended:
    ended = [message async for message in child.messages()][-1]
    assert isinstance(ended, Ended)
    return ended


async def test_a_worker_killed_by_hand_is_not_out_of_memory() -> None:
    child = Spawned([sys.executable, "-c", SLEEPS])
    ending = asyncio.create_task(end_of(child))
    os.kill(child.pid, signal.SIGKILL)
    ended = await ending
    assert ended.code == -signal.SIGKILL
    is_counted = OutOfMemoryKills(Path(f"/proc/{os.getpid()}")).verdict().by_kernel is not None
    assert ended.out_of_memory is (False if is_counted else None)


@pytest.fixture
def small_group():
    """A control group below this process's, limited to 64 MiB."""
    found = group_folders(Path("/proc/self"), "memory")
    if found is None:
        pytest.skip("no control group accounts for memory here")
    (folder, *_), is_version_2 = found
    group = folder / f"tui-profiler-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error.strerror}")
    try:
        limit = "memory.max" if is_version_2 else "memory.limit_in_bytes"
        (group / limit).write_text(str(64 << 20))
    except OSError as error:
        group.rmdir()
        pytest.skip(f"no memory limit can be set here: {error.strerror}")
    yield group
    until = time.monotonic() + 60
    while group.exists() and time.monotonic() < until:
        try:
            group.rmdir()
        except OSError:  # The process is not gone yet.
            time.sleep(0.01)


async def test_a_worker_above_the_limit_of_its_group_is_out_of_memory(small_group: Path) -> None:
    def enter() -> None:
        (small_group / "cgroup.procs").write_text(str(os.getpid()))

    ended = await end_of(Spawned([sys.executable, "-c", EATS], in_child=enter))
    assert (ended.code, ended.out_of_memory) == (-signal.SIGKILL, True)
    assert ended.why == "oom_kill of its control group, of any processes, rose by 1"
