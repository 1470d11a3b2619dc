"""Short pieces of work, timed while every thread of them has a core.

1. What one thread does alone is timed by its CPU time (CLOCK_THREAD_CPUTIME_ID), in which it never
   waits for a core: every piece counts. With several threads another program that takes a core from
   one of them makes the others wait for it, spinning. So the sum of their CPU times is too long and
   the wall time is far too long; neither is the time of the work.
2. The kernel counts for each thread how long it waited for a core while it could run
   (``/proc/self/task/TID/schedstat``, second figure, nanoseconds; Linux, sched-stats.rst). A piece
   in which the threads together waited at most 2 % of its time is undisturbed: its wall time is
   what it takes on cores of its own.
3. Where the kernel has no such file, waiting is the wall time of a thread less its CPU time. A
   thread that sleeps seems to wait then, so that pieces are left out rather than let in.
4. Pieces are far shorter than a time slice (3 ms by default), so that some are undisturbed on a
   machine with several programs for each core.
5. The time of a piece is that which a tenth of the undisturbed ones reach, three at least. What
   interferes only adds, so the fastest are nearest to the truth; no odd reading sets it, and it
   does not become shorter by timing more of them.
6. Pieces that are compared are timed in turn, so that what changes meanwhile changes all of them.
"""

import os
import statistics
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tui_profiler.messages import RoofQuality
from tui_profiler.system.real_time import (
    clock_gettime_ns,
    perf_counter,
    perf_counter_ns,
    process_time_ns,
    thread_time_ns,
)

SCHEDSTAT = "schedstat"
LESS_CPU_TIME = "wall time less CPU time"

ENOUGH = 15
"""Undisturbed pieces after which a budget ends a measurement; fewer, and it goes on."""
LEAST = 5
"""Enough on a calm machine, for long pieces, and for those of one thread alone."""
MOST_BUSY = 0.1
"""Share of the time of the pieces in which threads wait for a core on a calm machine."""
OVERTIME = 2.0
"""Times the budget, at most, to find undisturbed pieces."""
MOST_WAITING = 0.02
"""Rule 2."""
MOST_SPREAD = 1.6
"""Median over fastest of the undisturbed pieces: above it something else slowed most of them."""
MOST_BETWEEN_HALVES = 1.15
_FASTEST = 3
_FASTEST_SHARE = 10
_WARM_UP_SECONDS = 0.01
_LEAST_SHARE = 0.25
"""Of the time that a piece takes at least: a thread that uses less did none of the work."""
_TASKS = Path("/proc/self/task")


class Pieces(NamedTuple):
    """What was timed."""

    seconds: float
    """Of one piece, rule 5; of all pieces where none was undisturbed."""
    spread: float
    """Median over ``seconds``."""
    halves: float
    """Rule 5 of the first half and of the second: the longer over the shorter."""
    pieces: int
    undisturbed: int
    busy: float
    """Share of the time of all pieces in which threads waited for a core."""
    is_alone: bool = False
    """Whether one thread ran them, timed by its CPU time."""

    @property
    def are_enough(self) -> bool:
        """Whether there are many undisturbed pieces, or a few that nothing else could disturb."""
        is_calm = self.is_alone or self.busy <= MOST_BUSY
        return self.undisturbed >= (LEAST if is_calm else ENOUGH)

    @property
    def why_not_good(self) -> str:
        """Why nothing may be concluded from it, empty where something may."""
        if not self.are_enough:
            return f"{self.undisturbed} of {self.pieces} pieces ran without waiting for a core"
        if self.spread > MOST_SPREAD:
            return f"the median piece takes {self.spread:.1f} times as long as the fastest"
        if self.halves > MOST_BETWEEN_HALVES:
            change = (self.halves - 1) * 100
            return f"the two halves of the pieces differ by {change:.0f} %"
        return ""

    def quality(self, measured_at: float) -> RoofQuality:
        """Return what a roof keeps of it."""
        return RoofQuality(
            measured_at, self.busy, self.why_not_good, "", self.pieces, self.undisturbed
        )


class WaitClock:
    """Nanoseconds that threads waited for a core, together."""

    def __init__(self, threads: Sequence[int], tasks: Path = _TASKS) -> None:
        """Open the kernel's files.

        Args:
            threads: the kernel's numbers.
            tasks: where it describes the threads of this process.
        """
        self.count = max(len(threads), 1)
        self.is_alone = list(threads) == [threading.get_native_id()]
        """Whether there is no other thread than the one that asks."""
        self.source = SCHEDSTAT
        self._threads = threads
        self._files: list[int] = []
        try:
            for thread in threads:
                self._files.append(os.open(tasks / str(thread) / "schedstat", os.O_RDONLY))
            # Where the kernel does not count, there may still be a file, of zeros: but a thread
            # that runs was given a core at least once.
            counts = os.pread(self._files[0], 64, 0).split()[2] != b"0"
        except (OSError, IndexError):
            counts = False
        if not counts:
            self.close()
            self.source = LESS_CPU_TIME

    def waited(self) -> int:
        """Return what they waited so far, since any moment."""
        if self.source == SCHEDSTAT:
            return sum(int(os.pread(file, 64, 0).split()[1]) for file in self._files)
        now = perf_counter_ns() * self.count
        if sys.platform != "linux":
            return now - process_time_ns()
        return now - sum(cpu_nanoseconds(self._threads).values())

    def close(self) -> None:
        """Close the files."""
        for file in self._files:
            os.close(file)
        self._files = []


def cpu_nanoseconds(threads: Iterable[int]) -> dict[int, int]:
    """Return the CPU time of threads of this process by their numbers, without those that ended.

    The clock of a thread is named as ``pthread_getcpuclockid`` names it on Linux: the number's
    complement, shifted, and the bits of a thread's clock.
    """
    found: dict[int, int] = {}
    if sys.platform != "linux":
        return found
    for thread in threads:
        with suppress(OSError):
            found[thread] = clock_gettime_ns((~thread << 3) | 6)
    return found


def working_threads(work: Callable[[], object], count: int, tasks: Path = _TASKS) -> list[int]:
    """Return the threads that some work runs on: this one, and those that compute meanwhile.

    Args:
        work: is called for some milliseconds.
        count: how many there are at most.
        tasks: where the kernel describes the threads of this process.
    """
    own = threading.get_native_id()
    before = cpu_nanoseconds(_numbers(tasks))
    stop = perf_counter() + _WARM_UP_SECONDS
    took: list[int] = []
    while not took or perf_counter() < stop:
        start = thread_time_ns()
        work()
        took.append(thread_time_ns() - start)
    after = cpu_nanoseconds(_numbers(tasks))
    used = {thread: after[thread] - before.get(thread, 0) for thread in after}
    # This thread spins while another one waits for a core: the shortest piece has no such time.
    least = _LEAST_SHARE * min(took) * len(took)
    busiest = sorted(used.keys() - {own}, key=lambda thread: -used[thread])
    return [own, *(thread for thread in busiest[: count - 1] if used[thread] > least)]


def timed(
    piece: Callable[[], object], clock: WaitClock, budget_seconds: float, least: int = LEAST
) -> Pieces:
    """Time a piece again and again.

    Args:
        piece: is called.
        clock: of its threads.
        budget_seconds: after which it ends, where enough pieces were undisturbed; where too few
            were it goes on for at most ``OVERTIME`` times as long.
        least: so many pieces are timed even where one alone takes longer than that.
    """
    (found,) = timed_in_turn([piece], clock, budget_seconds, least)
    return found


def timed_in_turn(
    pieces: Sequence[Callable[[], object]],
    clock: WaitClock,
    budget_seconds: float,
    least: int = LEAST,
) -> tuple[Pieces, ...]:
    """Time several pieces in turn, by rule 6. Arguments as of ``timed``; the budget is of all."""
    began = perf_counter()
    tallies = [_Tally(clock) for _ in pieces]
    while True:
        spent = perf_counter() - began
        limit = budget_seconds * (OVERTIME if any(one.needs_more for one in tallies) else 1.0)
        if len(tallies[0].every) >= least and spent > limit:
            break
        for piece, tally in zip(pieces, tallies, strict=True):
            tally.time(piece)
    return tuple(tally.pieces() for tally in tallies)


class _Tally:
    """What one piece took, each time, in nanoseconds."""

    def __init__(self, clock: WaitClock) -> None:
        self.every: list[int] = []
        self._clock = clock
        self._undisturbed: list[int] = []
        self._waited = self._wall = 0

    @property
    def needs_more(self) -> bool:
        """Whether other programs are why too few pieces were undisturbed so far."""
        is_busy = self._waited > MOST_BUSY * self._wall
        return is_busy and len(self._undisturbed) < ENOUGH and not self._clock.is_alone

    def time(self, piece: Callable[[], object]) -> None:
        clock = self._clock
        before = clock.waited()
        start, start_on_core = perf_counter_ns(), thread_time_ns()
        piece()
        took, on_core = perf_counter_ns() - start, thread_time_ns() - start_on_core
        waited = max(clock.waited() - before, 0)
        self._waited += waited
        self._wall += took * clock.count
        self.every.append(on_core if clock.is_alone else took)
        if clock.is_alone or waited <= MOST_WAITING * took * clock.count:
            self._undisturbed.append(self.every[-1])

    def pieces(self) -> Pieces:
        of = self._undisturbed or self.every
        seconds = _fast(of)
        half = len(of) // 2
        halves = (_fast(of[:half]), _fast(of[half:])) if half else (seconds,)
        return Pieces(
            seconds / 1e9,
            statistics.median(of) / seconds,
            max(halves) / min(halves),
            len(self.every),
            len(self._undisturbed),
            min(self._waited / max(self._wall, 1), 1.0),
            self._clock.is_alone,
        )


def _fast(nanoseconds: Sequence[int]) -> int:
    rank = max(_FASTEST, len(nanoseconds) // _FASTEST_SHARE)
    return sorted(nanoseconds)[min(rank, len(nanoseconds)) - 1]


def _numbers(tasks: Path) -> list[int]:
    try:
        return [int(entry.name) for entry in tasks.iterdir()]
    except OSError:
        return [threading.get_native_id()]
