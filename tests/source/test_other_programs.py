"""Who else uses this machine: of a folder like /proc, and of the real one."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tui_profiler.messages import Ended, Heartbeat, ProgramsSeen, Request, Step, Unknown
from tui_profiler.source import Told
from tui_profiler.source.other_programs import Programs, WithPrograms

PINNED = """
import os, sys, threading
os.sched_setaffinity(0, {int(sys.argv[1])})
threading.Thread(target=threading.Event().wait, daemon=True).start()
while True: pass
"""
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


def write(
    proc: Path, pid: int, name: str, ticks: int, pages: int = 3, *, threads: int = 1, core: int = 0
) -> None:
    """Write a line as proc_pid_stat(5) has it; of the ticks a third in the kernel."""
    folder = proc / str(pid)
    folder.mkdir(exist_ok=True)
    kernel = ticks // 3
    fields = ["S", *["0"] * 10, str(ticks - kernel), str(kernel), *["7"] * 4, str(threads)]
    fields += ["7", "7", "7", str(pages), *["1"] * 14, str(core), "0"]
    (folder / "stat").write_bytes(f"{pid} ({name}) ".encode() + " ".join(fields).encode() + b"\n")


def looked(programs: Programs) -> ProgramsSeen:
    seen = programs.look()
    assert seen is not None
    return seen


def test_what_each_took_since_the_last_look(tmp_path: Path) -> None:
    programs = Programs(tmp_path)
    write(tmp_path, 10, "quiet", 500)
    write(tmp_path, 11, "busy", 900)
    (tmp_path / "meminfo").write_text("no process")
    assert programs.look() is None
    write(tmp_path, 11, "busy", 900 + 3 * TICKS, pages=9)
    write(tmp_path, 12, "new", TICKS)
    seen = looked(programs)
    assert [(one.pid, one.name, one.memory_bytes) for one in seen.programs] == [
        (11, "busy", 9 * PAGE),
        (12, "new", 3 * PAGE),
    ]
    assert seen.programs[0].cores * seen.seconds == pytest.approx(3.0)
    assert seen.programs[1].cores * seen.seconds == pytest.approx(1.0)
    assert seen.cores * seen.seconds == pytest.approx(4.0)
    assert seen.count == 3


def test_names_that_end_like_the_rest_of_the_line_are_read_whole(tmp_path: Path) -> None:
    programs = Programs(tmp_path)
    for ticks in (0, TICKS):
        write(tmp_path, 7, "a) R 1 (b\x1b[2J", ticks)
        programs.look()
    write(tmp_path, 7, "a) R 1 (b\x1b[2J", 3 * TICKS)
    assert looked(programs).programs[0].name == "a) R 1 (b\x1b[2J"


def test_a_process_id_that_is_given_again_took_nothing_negative(tmp_path: Path) -> None:
    programs = Programs(tmp_path)
    write(tmp_path, 7, "old", 50 * TICKS)
    programs.look()
    write(tmp_path, 7, "new", TICKS)
    seen = looked(programs)
    assert seen.programs == ()
    assert seen.cores == 0


def test_pressure_is_that_of_the_kernel_or_unknown(tmp_path: Path) -> None:
    (tmp_path / "pressure").mkdir()
    (tmp_path / "pressure" / "cpu").write_text("some avg10=12.50 avg60=1 avg300=0 total=9\n")
    programs = Programs(tmp_path)
    programs.look()
    pressure = looked(programs).pressure
    assert pressure.cpu == pytest.approx(0.125)
    assert isinstance(pressure.memory, Unknown)
    assert isinstance(pressure.io, Unknown)


def test_a_program_that_was_seen_on_other_cores_alone_was_elsewhere(tmp_path: Path) -> None:
    programs = Programs(tmp_path)
    own = os.getpid()
    (tmp_path / "5" / "task" / str(own)).mkdir(parents=True)  # May run where the tests may.
    mine, other = min(os.sched_getaffinity(own)), max(os.sched_getaffinity(own)) + 1

    def all_of_them(ticks: int, moved_to: int) -> None:
        write(tmp_path, 5, "model", ticks, core=mine)
        write(tmp_path, 6, "beside", ticks, core=mine)
        write(tmp_path, 7, "elsewhere", ticks, core=other)
        write(tmp_path, 8, "threads", ticks, core=other, threads=2)
        write(tmp_path, 9, "moved", ticks, core=moved_to)

    all_of_them(0, other)
    programs.look(5)
    all_of_them(TICKS, mine)
    write(tmp_path, 10, "new", TICKS, core=other)
    seen = programs.look(5)
    assert seen is not None
    assert {one.name for one in seen.programs if one.elsewhere} == {"elsewhere"}
    all_of_them(2 * TICKS, mine)
    assert len(looked(programs).programs) == 5
    all_of_them(3 * TICKS, mine)
    assert not any(one.elsewhere for one in looked(programs).programs)  # Than what?


def test_a_program_that_may_run_on_none_of_the_cores_was_elsewhere() -> None:
    cores = sorted(os.sched_getaffinity(0))
    with contextlib.ExitStack() as running:
        model, beside, elsewhere = (
            running.enter_context(subprocess.Popen([sys.executable, "-c", PINNED, str(core)]))
            for core in (cores[0], cores[0], cores[-1])
        )
        running.callback(lambda: [each.kill() for each in (model, beside, elsewhere)])
        pids = {beside.pid: False, elsewhere.pid: len(cores) > 1}
        programs = Programs()
        programs.look()
        until = time.monotonic() + 60
        found: dict[int, bool] = {}
        while found != pids and time.monotonic() < until:
            spin(0.3)
            seen = programs.look(model.pid)
            assert seen is not None
            found |= {one.pid: one.elsewhere for one in seen.programs if one.pid in pids}
    assert found == pids


def spin(seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass


def test_a_busy_process_of_this_machine_is_found() -> None:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        try:
            programs = Programs()
            programs.look()
            until = time.monotonic() + 20
            mine = None
            while mine is None and time.monotonic() < until:
                spin(0.3)  # Ticks of the kernel are 10 ms.
                seen = looked(programs)
                mine = next((one for one in seen.programs if one.pid == busy.pid), None)
        finally:
            busy.kill()
    assert mine is not None
    assert mine.name.startswith("python")
    assert 0.05 < mine.cores < 1.1
    assert mine.memory_bytes > 2**20
    assert seen.cores >= mine.cores


class Told3:
    """Says two things and ends; what it was asked is kept."""

    def __init__(self) -> None:
        self.asked: list[Request] = []
        self.is_closed = False
        self.go_on = asyncio.Event()

    async def messages(self) -> AsyncIterator[Told]:
        """Yield one, the other when it may, then the end."""
        yield Heartbeat(1.0, 0.0)
        await self.go_on.wait()
        yield Ended(0, True)

    def send(self, request: Request) -> None:
        """Keep it."""
        self.asked.append(request)

    async def close(self) -> None:
        """Take note."""
        self.is_closed = True


def test_both_are_told_until_the_source_ends() -> None:
    async def all_of_it() -> tuple[list[Told], Told3]:
        source = Told3()
        both = WithPrograms(source, seconds=0.05)
        found: list[Told] = []
        async for message in both.messages():
            found.append(message)
            if sum(isinstance(one, ProgramsSeen) for one in found) == 2:
                source.go_on.set()
        both.send(Step())
        await both.close()
        return found, source

    found, source = asyncio.run(asyncio.wait_for(all_of_it(), 20))
    assert isinstance(found[0], Heartbeat)
    assert isinstance(found[-1], Ended)
    assert sum(isinstance(one, ProgramsSeen) for one in found) >= 2
    assert source.asked == [Step()]
    assert source.is_closed


def test_an_interval_is_dated_by_the_clock_of_the_messages() -> None:
    """A message that comes late dates nothing: the least late of all does."""

    class Late:
        """Tells of a clock that began 100 s ago, all but one time half a second late."""

        def __init__(self) -> None:
            self.began = time.monotonic() - 100.0
            self.go_on = asyncio.Event()

        async def messages(self) -> AsyncIterator[Told]:
            for late in (0.5, 0.0, 0.5):
                yield Heartbeat(time.monotonic() - self.began - late, 0.0)
            await self.go_on.wait()
            yield Ended(0, True)

        def send(self, request: Request) -> None:
            raise AssertionError(request)

        async def close(self) -> None:
            pass

    async def first_seen() -> tuple[ProgramsSeen, float]:
        source = Late()
        async for message in WithPrograms(source, seconds=0.05).messages():
            if isinstance(message, ProgramsSeen):
                return message, time.monotonic() - source.began
        raise AssertionError("it ended")

    seen, now = asyncio.run(asyncio.wait_for(first_seen(), 20))
    assert seen.at is not None
    assert now - 0.4 < seen.at <= now


def test_it_ends_at_once_when_it_is_left() -> None:
    async def left() -> None:
        both = WithPrograms(Told3())
        reading = asyncio.create_task(anext(both.messages()))
        await asyncio.wait_for(reading, 5)
        messages = both.messages()
        waits = asyncio.ensure_future(anext(messages))
        await asyncio.sleep(0)
        waits.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waits

    asyncio.run(left())
