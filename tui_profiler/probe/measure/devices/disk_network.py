"""What passes through disks, network and this process's own files, as rates between two samples."""

import resource
from collections.abc import Iterable

import psutil

from tui_profiler.messages import Figure, Traffic, Unknown

# Over less, a burst of one page would look like a storm.
_LEAST_SECONDS = 0.05

_NEEDS_SECOND = Unknown("needs a second sample")
_LOOPBACK = "lo"
_FIELDS = len(Traffic.__struct_fields__)


class TrafficMeter:
    """What every counter said when it was last looked at.

    Args:
        process: whose files and context switches are counted.
        now: Seconds of a clock that only goes forward.
    """

    def __init__(self, process: psutil.Process, now: float) -> None:
        self._process = process
        self._before = (now, self._counts())
        self._traffic = Traffic(*(_NEEDS_SECOND,) * _FIELDS)

    def traffic(self, now: float) -> Traffic:
        """Return the rates since the last call; those of before where it was hardly any time."""
        then, before = self._before
        if now - then >= _LEAST_SECONDS:
            counts = self._counts()
            self._traffic = Traffic(*_rates(before, counts, now - then))
            self._before = (now, counts)
        return self._traffic

    def _counts(self) -> tuple[int | Unknown, ...]:
        """Read every counter, in the order of the fields of ``Traffic``."""
        return (*_disks(), *_interfaces(), *self._files(), *_switches())

    def _files(self) -> tuple[int | Unknown, int | Unknown]:
        try:
            counters = self._process.io_counters()
        except (psutil.Error, OSError, AttributeError, ValueError):
            why = Unknown("the kernel does not report the disk traffic of this process")
            return why, why
        return counters.read_bytes, counters.write_bytes


def _switches() -> tuple[int, int]:
    """Count those of all threads; what psutil gives is of the first thread alone."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_nvcsw, used.ru_nivcsw


def _rates(
    before: Iterable[int | Unknown], after: Iterable[int | Unknown], seconds: float
) -> Iterable[Figure]:
    for then, now in zip(before, after, strict=True):
        if isinstance(now, Unknown):
            yield now
        elif isinstance(then, Unknown):
            yield _NEEDS_SECOND
        else:
            # A disk or an interface that went away takes its count with it.
            yield max(0, now - then) / seconds


def _disks() -> tuple[int | Unknown, int | Unknown]:
    try:
        counters = psutil.disk_io_counters()
    except (psutil.Error, OSError, NotImplementedError, ValueError):
        counters = None
    if counters is None:
        why = Unknown("no disk visible")
        return why, why
    return counters.read_bytes, counters.write_bytes


def _interfaces() -> tuple[int | Unknown, int | Unknown]:
    try:
        found = psutil.net_io_counters(pernic=True)
    except (psutil.Error, OSError, ValueError):
        found = {}
    others = [counters for name, counters in found.items() if name != _LOOPBACK]
    if not others:
        why = Unknown("no network interface but the loopback")
        return why, why
    return sum(one.bytes_recv for one in others), sum(one.bytes_sent for one in others)
