"""Who else uses this machine, read from ``/proc`` by the viewer: nothing of it runs in the program.

1. Every 2 s one line of each process is read, on a thread of its own: about 10 us each, so that
   3,000 processes are 1.5 % of a core.
2. Time is of the process with all its threads (proc_pid_stat(5), fields 14 and 15), in ticks of
   10 ms mostly; of one that began since, all of it counts.
3. In a container only its own processes are seen: others take the rest.
4. GPUs are asked by the viewer as well, through sessions of its own. The driver tells host
   ids: outside of the host's process namespace they name nothing here.
5. Where the process of the model is confined to some cores, a program is elsewhere that may run on
   none of them, or has one thread, seen on another core at both ends of the interval.
6. When an interval was, on the clock of the probe's messages, follows from when those arrive: the
   one that was least late tells how far the two clocks are apart.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Sequence
from heapq import nlargest
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from tui_profiler.messages import (
    Figure,
    GpuProgramsUnknown,
    GpuProgramUse,
    Heartbeat,
    Hello,
    Pressure,
    ProgramsSeen,
    ProgramUse,
    Sample,
    Tick,
    Unknown,
)
from tui_profiler.source import Source, Told

if TYPE_CHECKING:
    from tui_profiler.gpus.driver import OfProcesses
    from tui_profiler.gpus.watch import GpuWatch

MOST_PROGRAMS = 8
SECONDS = 2.0
FIRST_SECONDS = 0.5
"""Before the first look: the first frame is drawn meanwhile."""
_PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_HOST_NAMESPACE = "pid:[4026531836]"
"""``PROC_PID_INIT_INO`` of linux/proc_ns.h, as ``/proc/self/ns/pid`` has it on the host."""
_UTIME, _STIME, _THREADS, _RSS, _CORE = 11, 12, 17, 21, 36
"""Of the fields after the name in parentheses: 14, 15, 20, 24 and 39 of proc_pid_stat(5)."""


class _Process(NamedTuple):
    name: str
    ticks: int
    """Of CPU time since it began."""
    memory_bytes: int
    core: int | None
    """Core it ran on last; None if it has several threads."""


class Programs:
    """Processes of this machine, and what each took since they were looked at before."""

    def __init__(self, proc: Path = _PROC) -> None:
        self._proc = proc
        self._before: dict[int, _Process] = {}
        self._at = 0.0
        self._gpus: GpuWatch[OfProcesses] | None = None

    def close(self) -> None:
        """Ask GPUs no more."""
        if self._gpus is not None:
            self._gpus.close()

    def look(self, beside: int | None = None) -> ProgramsSeen | None:
        """Return who took what since the last look; None at the first one.

        Args:
            beside: process of the model, None where it is not known or not on this machine.
        """
        now, before, since = time.monotonic(), self._before, self._at
        found = self._before = self._read()
        self._at = now
        if not since:
            return None
        seconds = now - since
        used = {
            pid: max(one.ticks - (before[pid].ticks if pid in before else 0), 0) / _TICKS / seconds
            for pid, one in found.items()
        }
        most = nlargest(MOST_PROGRAMS, used, key=used.__getitem__)
        cores = frozenset[int]() if beside is None else self._allowed_cores(beside)
        on_gpus = self._of_gpus(now)
        programs = (
            ProgramUse(
                pid,
                found[pid].name,
                used[pid],
                found[pid].memory_bytes,
                elsewhere=bool(cores)
                and self._is_elsewhere(pid, cores, (before.get(pid), found[pid])),
            )
            for pid in most
            if used[pid] > 0
        )
        return ProgramsSeen(
            seconds=seconds,
            programs=tuple(programs),
            cores=sum(used.values()),
            count=len(found),
            pressure=Pressure(*(self._pressure(of) for of in ("cpu", "memory", "io"))),
            gpu_programs=self._gpu_programs(on_gpus, found),
            gpu_programs_unknown=_unknown(on_gpus),
        )

    def _of_gpus(self, now: float) -> "tuple[OfProcesses, ...] | Unknown":
        if self._gpus is None:
            # When the first frame was drawn: ctypes and the rest take milliseconds.
            from tui_profiler.gpus.gpus import Gpus  # noqa: PLC0415 # rule 1 of the screens' start
            from tui_profiler.gpus.watch import GpuWatch  # noqa: PLC0415

            self._gpus = GpuWatch(Gpus.processes)
        return self._gpus.answer(now)

    def _gpu_programs(
        self, answers: "tuple[OfProcesses, ...] | Unknown", seen: dict[int, _Process]
    ) -> tuple[GpuProgramUse, ...] | Unknown:
        if isinstance(answers, Unknown):
            return answers
        is_host = _namespace(self._proc) == _HOST_NAMESPACE
        found: list[GpuProgramUse] = []
        reasons = [of.processes for of in answers if isinstance(of.processes, Unknown)]
        if reasons and len(reasons) == len(answers):
            return reasons[0]
        for gpu, processes, uuid in answers:
            found += (
                GpuProgramUse(
                    gpu,
                    one.pid,
                    seen[one.pid].name if is_host and one.pid in seen else "",
                    one.memory_bytes,
                    one.utilisation,
                    uuid,
                )
                for one in (() if isinstance(processes, Unknown) else processes[:MOST_PROGRAMS])
            )
        return tuple(found)

    def _is_elsewhere(
        self, pid: int, cores: frozenset[int], seen: Sequence[_Process | None]
    ) -> bool:
        if all(one is not None and one.core is not None and one.core not in cores for one in seen):
            return True
        allowed = self._allowed_cores(pid)
        return bool(allowed) and allowed.isdisjoint(cores)

    def _allowed_cores(self, pid: int) -> frozenset[int]:
        """Return the cores that any thread of a process may run on; none where it has ended."""
        found: set[int] = set()
        try:
            for thread in os.listdir(self._proc / str(pid) / "task"):
                found |= os.sched_getaffinity(int(thread))
        except (OSError, AttributeError):
            return frozenset()
        return frozenset(found)

    def _read(self) -> dict[int, _Process]:
        """Return every process, by id."""
        found = {}
        for name in os.listdir(self._proc):
            if not name.isdecimal():
                continue
            try:
                text = (self._proc / name / "stat").read_bytes().decode(errors="replace")
                # The name may hold anything, parentheses and blanks too: it ends at the last one.
                head, _, tail = text.rpartition(") ")
                fields = tail.split()
                found[int(name)] = _Process(
                    head.partition("(")[2],
                    int(fields[_UTIME]) + int(fields[_STIME]),
                    int(fields[_RSS]) * _PAGE,
                    int(fields[_CORE]) if int(fields[_THREADS]) == 1 else None,
                )
            except (OSError, ValueError, IndexError):
                continue  # It has ended meanwhile.
        return found

    def _pressure(self, of: str) -> Figure:
        try:
            text = (self._proc / "pressure" / of).read_text(encoding="ascii")
            return float(text.partition("avg10=")[2].split()[0]) / 100
        except (OSError, ValueError, IndexError):
            return Unknown("this kernel reports no pressure (CONFIG_PSI)")


def _unknown(answers: "tuple[OfProcesses, ...] | Unknown") -> tuple[GpuProgramsUnknown, ...]:
    """Return the GPUs with a number whose processes cannot be read."""
    if isinstance(answers, Unknown):
        return ()
    return tuple(
        GpuProgramsUnknown(gpu, processes, uuid)
        for gpu, processes, uuid in answers
        if gpu >= 0 and isinstance(processes, Unknown)
    )


def _namespace(proc: Path) -> str:
    try:
        return str((proc / "self" / "ns" / "pid").readlink())
    except OSError:
        return ""


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
        self._model: int | None = None
        """Process of the model."""
        self._apart = inf
        """Seconds from the clock of the messages to ours, by the message that was least late."""

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
                        told = waited.result()
                    except StopAsyncIteration:
                        return
                    self._listen(told)
                    yield told
                    waited = asyncio.ensure_future(anext(messages))
                if time.monotonic() >= due:
                    seen = await asyncio.to_thread(self._programs.look, self._model)
                    due = time.monotonic() + self._seconds
                    if seen is not None:
                        at = time.monotonic() - self._apart
                        yield seen if self._apart == inf else replace(seen, at=at)
        finally:
            waited.cancel()
            self._programs.close()

    def _listen(self, told: Told) -> None:
        if isinstance(told, Hello):
            self._model, self._apart = told.pid, inf
        elif isinstance(told, Heartbeat | Sample | Tick):
            self._apart = min(self._apart, time.monotonic() - told.at)

    async def close(self) -> None:
        """Close it."""
        await self._source.close()
