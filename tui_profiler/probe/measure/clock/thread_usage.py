"""What a thread uses while it runs a forward: time on a core, time waiting for one, page faults.

1. Waiting is the kernel's own figure: time runnable and on no core, the second number of
   ``/proc/thread-self/schedstat``, in nanoseconds (Linux, Documentation/scheduler/sched-stats.rst).
   The first, time on a core, is as old as the last timer interrupt: the thread's CPU clock is read
   instead.
2. The file is read only where the count of context switches has moved since it was read last: a
   thread that was not switched out has not waited. A reading comes before a recorded forward and
   another after it, outside of its time, and only keeps what it was told: what was used between
   the two is worked out when forwards are taken. Behind convolutions, which throw it out of the
   caches, it is 17 us (7 the clock, 10 ``getrusage``), 40 us with the file, 15 to 20 more if it
   were worked out at once (torch 2.14, Python 3.11, mobilenet_v3_small of 5 ms).
3. A kernel that preempts lazily takes the core away where a call of the system returns. A reading
   in which that happened is read again before a forward, or the wait would be counted as the
   forward's: pieces of 1 ms beside 4 busy processes then waited 1.5 times as long as they took.
   Behind a forward the switches and the file are read first: what is waited for after that is in
   no figure.
4. The garbage collector and ``torch.compile`` tell their own figures: a callback that is taken off
   again, and a counter of Dynamo's, read only where a program has imported it.
5. The file is read without releasing the GIL. ``os.pread`` releases it: other threads of the
   program would run first, for many milliseconds.
6. What the collector calls runs no line of Python, or a handler of the program's signals could run
   in it: Python drops what is raised there, a ``SystemExit`` or a ``KeyboardInterrupt`` too.
7. A file belongs to the thread that opened it: it is closed when the thread ends or the reader is
   closed, and opened anew in a process that was forked.
"""

import contextlib
import ctypes
import gc
import os
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from resource import RUSAGE_THREAD, getrusage, struct_rusage
from sys import modules
from typing import NamedTuple, Self, TypeAlias

from tui_profiler.probe.torch_compat.internals import COMPILER, dynamo_counters, frames_compiled
from tui_profiler.system.real_time import perf_counter, thread_time

_SCHEDSTAT = "/proc/thread-self/schedstat"
_pread = ctypes.PyDLL(None).pread
_pread.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_long)
_pread.restype = ctypes.c_ssize_t
_LONGEST = 80
"""Bytes: three numbers of 64 bits in decimal."""
UNDISTURBED = 50e-6
"""Seconds: a reading that took longer was interrupted (rule 3)."""
TRIES = 3
MOST_UNREAD = 0.2e-3
"""Seconds that a thread was off its core since its ``schedstat`` was read: 1 % of the shortest step
at whose end it is (``LEAST_READ_ALWAYS_SECONDS``)."""
_MOST_COLLECTIONS = 1_000
"""Between two readings; of more the first ones are not counted."""


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


Reading: TypeAlias = tuple[struct_rusage, float, bytes, float, int]
"""Of one thread: ``getrusage``, seconds of its CPU clock, its ``schedstat`` (empty where the kernel
does not tell), seconds of garbage collection, frames compiled."""


def usage_between(before: Reading, after: Reading) -> ThreadUsage:
    """Return what one thread used between two readings."""
    was, on_core_before, told_before, collecting_before, compiled_before = before
    now, on_core, told, collecting, compiled = after
    waiting, waiting_before = waiting_seconds(told), waiting_seconds(told_before)
    return ThreadUsage(
        on_core - on_core_before,
        None if waiting is None or waiting_before is None else waiting - waiting_before,
        now.ru_minflt - was.ru_minflt,
        now.ru_majflt - was.ru_majflt,
        now.ru_nvcsw - was.ru_nvcsw,
        now.ru_nivcsw - was.ru_nivcsw,
        collecting - collecting_before,
        compiled - compiled_before,
    )


def waiting_seconds(told: bytes) -> float | None:
    """Return the seconds that a ``schedstat`` says a thread waited; None where it says nothing."""
    try:
        return int(told.split(None, 2)[1]) / 1e9
    except (ValueError, IndexError):
        return None


class OwnSchedstat:
    """The ``schedstat`` of the thread that opens it.

    Args:
        is_open: False: nothing is opened, and nothing is told.
    """

    def __init__(self, *, is_open: bool = True) -> None:
        self.switches = -1
        """Context switches of the thread before the file was read last; -1: not known."""
        self.told = b""
        """What it said then; empty where there is none."""
        self.reading_took = 0.0
        """Seconds of the thread's last reading, of this and all else."""
        self._buffer = ctypes.create_string_buffer(_LONGEST)
        self._process, self._file = os.getpid(), -1
        if is_open:
            self._open()

    def read(self, switches: int = -1) -> None:
        """Read it.

        Args:
            switches: context switches of the thread so far; -1: not known.
        """
        if self._file >= 0 and self._process != os.getpid():
            self._close()
            self._open()
        self.switches = switches
        # What was there before is no longer than this: the numbers only grow.
        if self._file >= 0 and _pread(self._file, self._buffer, _LONGEST, 0) > 0:
            self.told = self._buffer.value

    def _open(self) -> None:
        self._process, self._file = os.getpid(), -1
        with contextlib.suppress(OSError):
            self._file = os.open(_SCHEDSTAT, os.O_RDONLY | os.O_CLOEXEC)

    def _close(self) -> None:
        if self._file >= 0:
            os.close(self._file)

    __del__ = _close


class _Moments(map):  # type: ignore[type-arg] # of what is appended, which is None
    """Notes when one of its attributes is read, without a line of Python: rule 6.

    ``moments.start`` calls ``next``, that takes the clock's time and appends it to a list.
    """

    def __new__(cls, kept: deque[float]) -> Self:
        return super().__new__(cls, kept.append, iter(perf_counter, None))

    start = property(next)
    stop = property(attrgetter("stops.start"))
    stops: "_Moments"


class CollectorClock:
    """Seconds in which the garbage collector ran, between ``start`` and ``stop``."""

    def __init__(self) -> None:
        self.added = 0.0
        """Seconds of collections, but for those in ``ended``."""
        self.ended: deque[float] = deque(maxlen=_MOST_COLLECTIONS)
        """When collections ended that are not added yet."""
        self._starts: deque[float] = deque(maxlen=_MOST_COLLECTIONS)
        self._adding = threading.Lock()
        moments = _Moments(self._starts)
        moments.stops = _Moments(self.ended)
        self._heard = partial(getattr, moments)
        """Called with ``start`` or ``stop``, and what else the collector tells."""

    def start(self) -> None:
        """Count from now on."""
        gc.callbacks.append(self._heard)

    def stop(self) -> None:
        """Count no more; the list of callbacks is as it was."""
        with contextlib.suppress(ValueError):  # The program has emptied the list itself.
            gc.callbacks.remove(self._heard)

    @property
    def seconds(self) -> float:
        """Of collections that ended so far."""
        if self.ended and self._adding.acquire(blocking=False):
            try:
                self._add()
            finally:
                self._adding.release()
        return self.added

    def _add(self) -> None:
        while self.ended:
            ended, began = self.ended.popleft(), None
            while self._starts and self._starts[0] < ended:
                began = self._starts.popleft()
            if began is not None:  # Else it had begun before we listened.
                self.added += ended - began


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
        self._is_open = True
        self.spent = 0.0
        """Seconds that readings took; where one was longer than ``UNDISTURBED``, it waited for a
        core in the rest."""
        self.noted = 0.0
        """The same of ``noting``."""

    def read(self) -> Reading:
        """Return what the calling thread has used since it began."""
        # One function, and nothing called that need not be: behind a forward each costs a
        # microsecond or more.
        began = self._clock()
        used = getrusage(RUSAGE_THREAD)
        try:
            own: OwnSchedstat = self._own.schedstat
        except AttributeError:
            own = self.schedstat()
        switches = used.ru_nvcsw + used.ru_nivcsw
        if own.switches != switches:
            own.read(switches)
        compiled = frames_compiled() if COMPILER in modules else 0
        found = used, thread_time(), own.told, self._collector.seconds, compiled
        own.reading_took = self._clock() - began
        self.spent += min(own.reading_took, UNDISTURBED)
        return found

    def noting(
        self, note: Callable[[float | tuple[float, Reading]], object]
    ) -> Callable[[float], None]:
        """Return what notes a second just read, with what this thread used until then.

        It is called at the ends of steps that are not recorded; on another thread it notes the
        second alone. It tells the same as ``read``, but that waiting may be of up to
        ``MOST_UNREAD`` before: a thread that was off its core for no longer since has not waited
        longer. With cold caches, as at the end of a step, a function call costs some microseconds
        and reading the file 30. Both are skipped if nothing happened: 22 us instead of 45, in a
        transformer's step of 12 ms.
        """
        own, collector, clock = self.schedstat(), self._collector, self._clock
        thread = threading.get_ident()
        ended = collector.ended
        counters = dynamo_counters()
        off_core = clock() - thread_time()
        """Since the thread began and some moment, when the file was read last."""

        def note_at(second: float) -> None:
            nonlocal counters, off_core
            if threading.get_ident() != thread:
                note(second)
                return
            used, on_core = getrusage(RUSAGE_THREAD), thread_time()
            if second - on_core - off_core > MOST_UNREAD:
                own.read(used.ru_nvcsw + used.ru_nivcsw)
                off_core = second - on_core
            if counters is None:
                counters = dynamo_counters()
            frames = counters.get("frames") if counters is not None else None
            collecting = collector.seconds if ended else collector.added
            compiled = frames.get("total", 0) if frames else 0
            note((second, (used, on_core, own.told, collecting, compiled)))
            self.noted += min(clock() - second, UNDISTURBED)

        return note_at

    def schedstat(self) -> OwnSchedstat:
        """Return the file of the calling thread."""
        own: OwnSchedstat | None = getattr(self._own, "schedstat", None)
        if own is None:
            own = self._own.schedstat = OwnSchedstat(is_open=self._is_open)
        return own

    def close(self) -> None:
        """Close the files of all threads, at once: garbage is collected when the program likes.

        A thread that is in a reading ends it with its file still open.
        """
        self._is_open = False
        self._own = threading.local()

    def read_undisturbed(self) -> Reading:
        """Return the same, read without losing the core: what is used next is all that follows."""
        found, own = self.read(), self.schedstat()
        for _ in range(TRIES - 1):
            if own.reading_took < UNDISTURBED:
                break
            found = self.read()
        return found
