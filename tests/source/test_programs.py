"""Who else uses this machine: of a folder like /proc, and of the real one."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tui_profiler.messages import Ended, Heartbeat, ProgramsSeen, Request, Step, Unknown
from tui_profiler.source import Told
from tui_profiler.source.programs import Programs, WithPrograms

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


def write(proc: Path, pid: int, name: str, ticks: int, pages: int = 3) -> None:
    """Write a line as proc_pid_stat(5) has it; of the ticks a third in the kernel."""
    folder = proc / str(pid)
    folder.mkdir(exist_ok=True)
    kernel = ticks // 3
    fields = ["S", *["0"] * 10, str(ticks - kernel), str(kernel), *["7"] * 8, str(pages), "1"]
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
    assert looked(programs).programs == ()


def test_pressure_is_that_of_the_kernel_or_unknown(tmp_path: Path) -> None:
    (tmp_path / "pressure").mkdir()
    (tmp_path / "pressure" / "cpu").write_text("some avg10=12.50 avg60=1 avg300=0 total=9\n")
    programs = Programs(tmp_path)
    programs.look()
    pressure = looked(programs).pressure
    assert pressure.cpu == pytest.approx(0.125)
    assert isinstance(pressure.memory, Unknown)
    assert isinstance(pressure.io, Unknown)


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
