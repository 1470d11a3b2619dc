"""Who else uses this machine, read from ``/proc`` by the viewer: nothing of it runs in the program.

1. Every 2 s one line of each process is read, on a thread of its own: about 10 us each, so that
   3,000 processes are 1.5 % of a core.
2. Time is of the process with all its threads (proc_pid_stat(5), fields 14 and 15), in ticks of
   10 ms mostly; of one that began since, all of it counts.
3. In a container only its own processes are seen: others take the rest.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from heapq import nlargest
from pathlib import Path

from tui_profiler.messages import Figure, Pressure, ProgramsSeen, ProgramUse, Unknown
from tui_profiler.source import Source, Told

MOST_PROGRAMS = 8
SECONDS = 2.0
FIRST_SECONDS = 0.5
"""Before the first look: the first frame is drawn meanwhile."""
_PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_UTIME, _STIME, _RSS = 11, 12, 21
"""Of the fields after the name in parentheses: 14, 15 and 24 of proc_pid_stat(5)."""


class Programs:
    """Processes of this machine, and what each took since they were looked at before."""

    def __init__(self, proc: Path = _PROC) -> None:
        self._proc = proc
        self._before: dict[int, int] = {}
        self._at = 0.0

    def look(self) -> ProgramsSeen | None:
        """Return who took what since the last look; None at the first one."""
        now, before, since = time.monotonic(), self._before, self._at
        found = self._read()
        self._before, self._at = {pid: ticks for pid, (ticks, _, _) in found.items()}, now
        if not since:
            return None
        seconds = now - since
        used = {
            pid: max(ticks - before.get(pid, 0), 0) / _TICKS / seconds
            for pid, (ticks, _, _) in found.items()
        }
        most = nlargest(MOST_PROGRAMS, used, key=used.__getitem__)
        programs = (ProgramUse(pid, found[pid][1], used[pid], found[pid][2]) for pid in most)
        return ProgramsSeen(
            seconds=seconds,
            programs=tuple(one for one in programs if one.cores > 0),
            cores=sum(used.values()),
            count=len(found),
            pressure=Pressure(*(self._pressure(of) for of in ("cpu", "memory", "io"))),
        )

    def _read(self) -> dict[int, tuple[int, str, int]]:
        """Return ticks, name and resident bytes of every process, by id."""
        found = {}
        for name in os.listdir(self._proc):
            if not name.isdecimal():
                continue
            try:
                text = (self._proc / name / "stat").read_bytes().decode(errors="replace")
                # The name may hold anything, parentheses and blanks too: it ends at the last one.
                head, _, tail = text.rpartition(") ")
                fields = tail.split()
                ticks = int(fields[_UTIME]) + int(fields[_STIME])
                found[int(name)] = ticks, head.partition("(")[2], int(fields[_RSS]) * _PAGE
            except (OSError, ValueError, IndexError):
                continue  # It has ended meanwhile.
        return found

    def _pressure(self, of: str) -> Figure:
        try:
            text = (self._proc / "pressure" / of).read_text(encoding="ascii")
            return float(text.partition("avg10=")[2].split()[0]) / 100
        except (OSError, ValueError, IndexError):
            return Unknown("this kernel tells no pressure (CONFIG_PSI)")


class WithPrograms:
    """Says what a source on this machine says, and every 2 s who else uses the machine.

    Args:
        source: is closed with this one.
        seconds: between two looks.
    """

    def __init__(self, source: Source, seconds: float = SECONDS) -> None:
        self._source = source
        self.send = source.send
        self._seconds = seconds
        self._programs = Programs()

    async def messages(self) -> AsyncIterator[Told]:
        """Yield both, until the other source ends."""
        messages = self._source.messages()
        due = time.monotonic() + min(FIRST_SECONDS, self._seconds)
        waited = asyncio.ensure_future(anext(messages))
        try:
            while True:
                left = max(due - time.monotonic(), 0.0)
                done, _ = await asyncio.wait({waited}, timeout=left)
                if done:
                    try:
                        yield waited.result()
                    except StopAsyncIteration:
                        return
                    waited = asyncio.ensure_future(anext(messages))
                if time.monotonic() >= due:
                    seen = await asyncio.to_thread(self._programs.look)
                    due = time.monotonic() + self._seconds
                    if seen is not None:
                        yield seen
        finally:
            waited.cancel()

    async def close(self) -> None:
        """Close it."""
        await self._source.close()
