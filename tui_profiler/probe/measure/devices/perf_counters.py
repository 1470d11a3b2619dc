"""The processor's own counters of this process: instructions, cycles, cache references and misses.

Through ``perf_event_open``, without root: user space only, which the kernel grants up to
``perf_event_paranoid`` 2. Source: perf_event_open(2), include/uapi/linux/perf_event.h.

1. A counter follows one thread and those that it begins later. One is opened for each thread that
   there is, so that all of the process is counted: ask early, while there are few.
2. Where the processor has fewer counters than were asked for they take turns: figures are scaled by
   the time in which they were counted, and the least share of it is told.
3. What cannot be counted says why, each event by itself; the figures are never of a part of the
   threads.
"""

import contextlib
import ctypes
import errno
import os
import platform
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

from tui_profiler.messages import Figure, PerfCounters, Unknown

# Linux, arch/*/entry/syscalls: the tables of each architecture.
_SYSCALLS = {"x86_64": 298, "aarch64": 241, "riscv64": 241, "ppc64le": 319, "s390x": 331}
_PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")
_TASKS = Path("/proc/self/task")
_MOST_THREADS = 16
"""Six files for each: a process may have a thousand open."""

HARDWARE, SOFTWARE, CACHE = 0, 1, 3
_LAST_LEVEL, _READ, _ACCESS, _MISS = 2, 0, 0, 1
_INHERIT, _EXCLUDE_KERNEL, _EXCLUDE_HYPERVISOR = 1 << 1, 1 << 5, 1 << 6
_THREADS_ONLY = 1 << 35
"""Of what inherits: processes that this one forks are not it. Linux 5.13 and newer know it."""
_TIME_ENABLED, _TIME_RUNNING = 1, 2
_CLOSE_ON_EXEC = 8
_ATTRIBUTES = struct.Struct("<IIQQQQQ")
_ATTRIBUTES_BYTES = 128
_VALUE = struct.Struct("<QQQ")

# Over less, the moment at which each is read would be in the quotient.
_LEAST_SECONDS = 0.05
_NEEDS_SECOND = Unknown("needs a second sample")

Event: TypeAlias = tuple[int, int]
"""Type and configuration, as perf_event_open takes them."""

EVENTS: tuple[Event, ...] = (
    (HARDWARE, 1),
    (HARDWARE, 0),
    (HARDWARE, 2),
    (HARDWARE, 3),
    (CACHE, _LAST_LEVEL | _READ << 8 | _ACCESS << 16),
    (CACHE, _LAST_LEVEL | _READ << 8 | _MISS << 16),
)
"""In the order of the fields of ``PerfCounters``: instructions, cycles, references, misses, ..."""


class Count(NamedTuple):
    """What one event came to since it was opened, all threads together."""

    value: float
    """Scaled up where it took turns with others."""
    share: float
    """Share of the time in which it was counted; 1 before there was any."""


class EventCounters:
    """Counters of this process that are open, to be closed.

    Args:
        events: what is counted.
    """

    def __init__(self, events: Sequence[Event]) -> None:
        self._files: list[list[int] | Unknown] = [_open_all(event) for event in events]

    def counts(self) -> tuple[Count | Unknown, ...]:
        """Read every event, in the order in which they were asked for."""
        return tuple(
            files if isinstance(files, Unknown) else _added(files) for files in self._files
        )

    def close(self) -> None:
        """Give the counters back."""
        for files in self._files:
            for file in [] if isinstance(files, Unknown) else files:
                if _is_counter(file):
                    os.close(file)
        self._files = [Unknown("the counters are closed") for _ in self._files]


class PerfMeter:
    """What the counters said when they were last looked at.

    Args:
        now: Seconds of a clock that only goes forward.
    """

    def __init__(self, now: float) -> None:
        self._counters = EventCounters(EVENTS)
        self._before = (now, self._counters.counts())
        self._last = _counters(0.0, [_NEEDS_SECOND] * len(EVENTS), share=1.0)

    def counters(self, now: float) -> PerfCounters:
        """Return what was counted since the last call."""
        then, before = self._before
        if now - then < _LEAST_SECONDS:
            return self._last
        counts = self._counters.counts()
        self._before = (now, counts)
        figures = [_difference(*pair) for pair in zip(before, counts, strict=True)]
        shares = [one.share for one in counts if isinstance(one, Count)]
        self._last = _counters(now - then, figures, share=min(shares, default=0.0))
        return self._last

    def close(self) -> None:
        """Give the counters back."""
        self._counters.close()


def _counters(seconds: float, figures: list[Figure], *, share: float) -> PerfCounters:
    instructions, cycles, references, misses, loads, load_misses = figures
    return PerfCounters(
        seconds, instructions, cycles, references, misses, loads, load_misses, share
    )


def _difference(before: Count | Unknown, after: Count | Unknown) -> Figure:
    if isinstance(after, Unknown):
        return after
    if isinstance(before, Unknown):
        return _NEEDS_SECOND
    # Scaled figures are estimates, and may run backwards by a little.
    return max(0.0, after.value - before.value)


def _open_all(event: Event) -> list[int] | Unknown:
    """Open one event on every thread of this process, or on none."""
    number = _SYSCALLS.get(platform.machine())
    try:
        threads = sorted(int(name) for name in os.listdir(_TASKS))
    except OSError:
        threads = []
    if number is None or not threads:
        return Unknown("no performance counters on this system")
    if len(threads) > _MOST_THREADS:
        return Unknown(f"over {_MOST_THREADS} threads ran before they could be counted")
    files: list[int] = []
    for thread in threads:
        file = _open(number, event, thread, _THREADS_ONLY)
        if file == -errno.EINVAL:
            file = _open(number, event, thread, 0)
        if file == -errno.ESRCH:
            continue  # It ended meanwhile.
        if file < 0:
            for opened in files:
                os.close(opened)
            return Unknown(_why(-file))
        files.append(file)
    return files


def _open(number: int, event: Event, thread: int, more: int) -> int:
    """Open one event on one thread, with some flags more: a file, or an error number below 0."""
    kind, configuration = event
    attributes = bytearray(_ATTRIBUTES_BYTES)
    _ATTRIBUTES.pack_into(
        attributes,
        0,
        kind,
        _ATTRIBUTES_BYTES,
        configuration,
        0,
        0,
        _TIME_ENABLED | _TIME_RUNNING,
        _INHERIT | _EXCLUDE_KERNEL | _EXCLUDE_HYPERVISOR | more,
    )
    buffer = (ctypes.c_char * _ATTRIBUTES_BYTES).from_buffer(attributes)
    kernel = ctypes.CDLL(None, use_errno=True)
    any_core, no_group = ctypes.c_int(-1), ctypes.c_int(-1)
    file: int = kernel.syscall(
        ctypes.c_long(number),
        buffer,
        ctypes.c_int(thread),
        any_core,
        no_group,
        ctypes.c_ulong(_CLOSE_ON_EXEC),
    )
    return file if file >= 0 else -ctypes.get_errno()


def _added(files: list[int]) -> Count | Unknown:
    """Add up one event over the threads that it was opened on."""
    value, least = 0.0, 1.0
    for file in files:
        if not _is_counter(file):
            return Unknown("the program closed the counters")
        with contextlib.suppress(OSError):
            counted, enabled, running = _VALUE.unpack(os.read(file, _VALUE.size))
            if not running:
                if enabled:
                    return Unknown("the processor's counters are all taken")
                continue  # The thread has not run since.
            value += counted * (enabled / running)
            least = min(least, running / enabled)
            continue
        return Unknown("the counter cannot be read")
    return Count(value, least)


def _is_counter(file: int) -> bool:
    """Return whether the program has not given the descriptor's number to something of its own."""
    with contextlib.suppress(OSError):
        return os.readlink(f"/proc/self/fd/{file}") == "anon_inode:[perf_event]"
    return False


def _why(code: int) -> str:
    match code:
        case errno.ENOENT | errno.ENODEV | errno.EOPNOTSUPP | errno.EINVAL:
            return "this processor, or virtual machine, offers no such counter"
        case errno.EACCES | errno.EPERM:
            return _why_not_permitted()
        case errno.ENOSYS:
            return "this kernel has no performance counters"
        case errno.EMFILE | errno.ENFILE:
            return "too many open files for performance counters"
        case _:
            return f"performance counters cannot be opened: {os.strerror(code)}"


def _why_not_permitted() -> str:
    try:
        paranoid = int(_PARANOID.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return "no permission to count, as in most containers"
    if paranoid > 2:
        return f"kernel.perf_event_paranoid is {paranoid}; up to 2 permits it"
    return f"the container forbids it, though kernel.perf_event_paranoid is {paranoid}"
