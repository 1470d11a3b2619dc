"""What a thread uses while it runs a forward: time on a core, time waiting for one, page faults.

1. Waiting is the kernel's own figure: time runnable and on no core, the second number of
   ``/proc/thread-self/schedstat``, in nanoseconds (Linux, Documentation/scheduler/sched-stats.rst).
   The first, time on a core, is as old as the last timer interrupt: the thread's CPU clock is read
   instead.
2. The file is read only where the count of context switches has moved since it was read last: a
   thread that was not switched out has not waited. It is read once before a recorded forward and
   once after it, outside of its time. Behind convolutions, which throw it out of the caches, a
   reading is 10 us (2 the clock, 8 ``getrusage``), 35 us with the file (torch 2.15, Python 3.11).
3. A kernel that preempts lazily takes the core away where a call of the system returns. A reading
   in which that happened is read again before a forward, or the wait would be counted as the
   forward's: pieces of 1 ms beside 4 busy processes then waited 1.5 times as long as they took.
   Behind a forward the switches and the file are read first: what is waited for after that is in
   no figure.
4. The garbage collector and ``torch.compile`` tell their own figures: a callback that is taken off
   again, and a counter of Dynamo's, read only where a program has imported it.
5. The file is read without letting the interpreter's lock go, as ``os.pread`` would: other threads
   of the program would run first, for many milliseconds.
6. A file belongs to the thread that opened it: it is closed when the thread ends, and opened anew
   in a process that was forked.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import threading
from collections.abc import Callable
from resource import RUSAGE_THREAD, getrusage
from time import perf_counter, thread_time
from typing import NamedTuple

from tui_profiler.probe.torch_compat.internals import frames_compiled

_SCHEDSTAT = "/proc/thread-self/schedstat"
_pread = ctypes.PyDLL(None).pread
_pread.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_long)
_pread.restype = ctypes.c_ssize_t
_LONGEST = 80
"""Bytes: three numbers of 64 bits in decimal."""
UNDISTURBED = 50e-6
"""Seconds: a reading that took longer was interrupted (rule 3)."""
_TRIES = 3


class ThreadUsage(NamedTuple):
    """What one thread used, up to a moment or between two; seconds and counts."""

    on_core: float
    waiting: float | None
    """Runnable, on no core; None where the kernel does not tell."""
    minor_faults: int
    """Page faults that no disk was read for."""
    major_faults: int
    voluntary_switches: int
    involuntary_switches: int
    collecting: float = 0.0
    """In which Python's garbage collector ran, on any thread."""
    compiled: int = 0
    """Frames that ``torch.compile`` compiled."""

    def since(self, before: ThreadUsage) -> ThreadUsage:
        """Return what was used since ``before``, of the same thread."""
        waiting = None
        if self.waiting is not None and before.waiting is not None:
            waiting = self.waiting - before.waiting
        return ThreadUsage(
            self.on_core - before.on_core,
            waiting,
            self.minor_faults - before.minor_faults,
            self.major_faults - before.major_faults,
            self.voluntary_switches - before.voluntary_switches,
            self.involuntary_switches - before.involuntary_switches,
            self.collecting - before.collecting,
            self.compiled - before.compiled,
        )


class _OwnFile:
    """The file of the thread that opens it; -1 where there is none."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.switches = -1
        """Of the thread, before the file was read last."""
        self.waiting: float | None = None
        """What the file told then, in seconds."""
        self.buffer = ctypes.create_string_buffer(_LONGEST)
        try:
            self.file = os.open(_SCHEDSTAT, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self.file = -1

    def __del__(self) -> None:
        if self.file >= 0:
            os.close(self.file)


class CollectorClock:
    """Seconds in which the garbage collector ran, between ``start`` and ``stop``."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._began = 0.0

    def start(self) -> None:
        """Count from now on."""
        gc.callbacks.append(self._heard)

    def stop(self) -> None:
        """Count no more; the list of callbacks is as it was."""
        with contextlib.suppress(ValueError):  # The program has emptied the list itself.
            gc.callbacks.remove(self._heard)

    def _heard(self, phase: str, _info: dict[str, int]) -> None:
        if phase == "start":
            self._began = perf_counter()
        elif self._began:
            self.seconds += perf_counter() - self._began
            self._began = 0.0


class ThreadUsageReader:
    """Reads what the calling thread has used so far.

    Args:
        clock: tells seconds, for how long a reading takes.
        collector: what is told of garbage collection.
    """

    def __init__(
        self,
        clock: Callable[[], float] = perf_counter,
        collector: CollectorClock | None = None,
    ) -> None:
        self._clock = clock
        self._collector = collector or CollectorClock()
        self._own = threading.local()

    def read(self) -> ThreadUsage:
        """Return what the calling thread has used since it began."""
        used = getrusage(RUSAGE_THREAD)
        waiting, on_core = self._waiting(used.ru_nvcsw + used.ru_nivcsw), thread_time()
        return ThreadUsage(
            on_core,
            waiting,
            used.ru_minflt,
            used.ru_majflt,
            used.ru_nvcsw,
            used.ru_nivcsw,
            self._collector.seconds,
            frames_compiled(),
        )

    def read_undisturbed(self) -> ThreadUsage:
        """Return the same, read without losing the core: what is used next is all that follows."""
        for _ in range(_TRIES):
            began = self._clock()
            found = self.read()
            if self._clock() - began < UNDISTURBED:
                break
        return found

    def _waiting(self, switches: int) -> float | None:
        own: _OwnFile | None = getattr(self._own, "file", None)
        if own is None or own.process != os.getpid():
            own = self._own.file = _OwnFile()
        if own.file >= 0 and own.switches != switches:
            own.switches, own.waiting = switches, _read_waiting(own)
        return own.waiting


def _read_waiting(own: _OwnFile) -> float | None:
    try:
        if _pread(own.file, own.buffer, _LONGEST, 0) <= 0:
            return None  # Of a thread that ended.
        # What was there before is no longer than this: the numbers only grow.
        return int(own.buffer.value.split(None, 2)[1]) / 1e9
    except (ValueError, IndexError):
        return None
