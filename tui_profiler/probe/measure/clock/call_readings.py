"""What each module call of one forward uses: CPU time, waiting for a core, sleep, page faults.

1. Every call reads its thread's CPU clock and ``getrusage`` at both ends: 2 to 4 us a reading, too
   much for each forward, so it is done in one now and then.
2. Where the thread was off its core since the reading before, ``schedstat`` is read as well: it
   says how much of that was waiting for a core, and the rest is sleeping, a lock or a disk.
3. What readings take themselves is in no figure: it is counted as it goes, and taken off.
4. Time off a core that is not waiting for one is sleep only if the thread gave its core away in the
   call (a voluntary context switch). Without one it is interrupts or time taken by the hypervisor.
"""

import math
from array import array
from resource import RUSAGE_THREAD, getrusage
from typing import NamedTuple

from tui_profiler.probe.measure.clock import thread_usage
from tui_profiler.system.real_time import perf_counter, thread_time

OFF_CORE = 20e-6
"""Seconds off a core since the reading before: for less the file is not read, and what was waited
in them is told with the next."""
CALIBRATION = 8
"""Calls that do nothing, before a forward that reads."""
FIGURES = 5
"""Of each call: seconds on a core, waiting for one, asleep, number of minor page faults, and
seconds of wall time."""


class CallClocks(NamedTuple):
    """Clocks of one thread, without what readings took; seconds."""

    on_core: float
    waiting: float
    """For a core; not a number where the kernel does not tell."""
    wall: float
    faults: int
    """Minor page faults of the thread."""
    sleeps: int
    """Voluntary context switches of the thread."""


class CallReadings:
    """What each call of one forward used.

    Args:
        schedstat: of the thread that runs it.
    """

    def __init__(self, schedstat: thread_usage.OwnSchedstat) -> None:
        self._schedstat = schedstat
        schedstat.read()
        self._waiting = self._told_waiting()
        self.used = array("d")
        """``FIGURES`` of each call, in the order in which the calls ended."""
        self.spent = 0.0
        """Seconds on a core that readings took."""
        self._usual = 0.0
        """Of the last reading that was not interrupted."""
        self._inside = self._around = 0.0
        """Of our own lines, that are in a call's figures and in those of its caller."""
        self._faults = self._sleeps = 0
        self._read_at, self._on_core = perf_counter(), thread_time()
        self._calibrate()

    def _calibrate(self) -> None:
        """Find what a call that does nothing is said to take."""
        inside, around = [], []
        for _ in range(CALIBRATION):
            spent, began = self.spent, perf_counter()
            self.end(self.begin())
            took = perf_counter() - began
            inside.append(self.used[-1])
            around.append(took - (self.spent - spent) - self.used[-1])
        del self.used[:]
        self._inside, self._around = max(min(inside), 0.0), max(min(around), 0.0)

    def begin(self) -> CallClocks:
        """Return the clocks when a call begins: what was waited for until now is not its own."""
        for _ in range(thread_usage.TRIES):
            began = perf_counter()
            self._read(began)
            spent_before, ended = self.spent, perf_counter()
            self._count(ended - began)
            if ended - began < thread_usage.UNDISTURBED:
                break
        return CallClocks(
            self._on_core - spent_before,
            self._waiting,
            ended - self.spent,
            self._faults,
            self._sleeps,
        )

    def end(self, began: CallClocks) -> None:
        """Note what a call used."""
        ended = perf_counter()
        self._read(ended)
        on_core = self._on_core - self.spent - began.on_core - self._inside
        waiting = self._waiting - began.waiting
        wall = ended - self.spent - began.wall - self._inside
        slept = self._sleeps != began.sleeps
        asleep = max(wall - waiting - max(on_core, 0.0), 0.0) if slept else 0.0
        self.used.extend((on_core, waiting, asleep, self._faults - began.faults, wall))
        self._count(perf_counter() - ended)
        self.spent += self._inside + self._around

    def _read(self, at: float) -> None:
        used = getrusage(RUSAGE_THREAD)
        self._faults, self._sleeps = used.ru_minflt, used.ru_nvcsw
        on_core = thread_time()
        if (at - self._read_at) - (on_core - self._on_core) > OFF_CORE:
            self._schedstat.read()
            self._waiting = self._told_waiting()
        self._read_at, self._on_core = at, on_core

    def _told_waiting(self) -> float:
        found = thread_usage.waiting_seconds(self._schedstat.told)
        return math.nan if found is None else found

    def _count(self, took: float) -> None:
        if took < thread_usage.UNDISTURBED:
            self._usual = took
        self.spent += self._usual


class CallReader:
    """Reads for the calls of those forwards that run now and read."""

    def __init__(self) -> None:
        self.is_asked = False
        """Whether the calls of the next forward as traced are to read."""
        self._readings: dict[int, CallReadings] = {}
        """By the id of a forward's events."""

    @property
    def is_reading(self) -> bool:
        """Whether the calls of any forward read now."""
        return bool(self._readings)

    def enter(self, events: list[object], schedstat: thread_usage.OwnSchedstat) -> CallReadings:
        """Have the calls of a forward read, until ``leave``.

        Args:
            events: of the forward.
            schedstat: of the thread that runs it.
        """
        found = self._readings[id(events)] = CallReadings(schedstat)
        return found

    def leave(self, events: list[object]) -> None:
        """Have them read no more."""
        self._readings.pop(id(events), None)

    def begin(self, events: list[object]) -> CallClocks | None:
        """Read before a call; None in a forward that does not read."""
        readings = self._readings.get(id(events))
        return None if readings is None else readings.begin()

    def end(self, events: list[object], clocks: CallClocks | None) -> None:
        """Read after a call, and note what it used."""
        if clocks is not None and (readings := self._readings.get(id(events))) is not None:
            readings.end(clocks)
