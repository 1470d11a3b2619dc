"""The same calls with and without a change, in turn, until their ratio is known well enough.

1. A pair is a batch of calls of each side; which goes first changes from pair to pair, so that a
   drift of the machine falls on both alike.
2. State that a module keeps (a cache that grows) is put back before each batch: both sides see the
   same calls.
3. A batch takes about 50 ms (less where that would leave too few pairs), or one call.
4. It ends when the interval is narrow, when the time is over, or after enough pairs; never before
   there are as many as an interval needs, unless those would take several times as long as asked.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median

import torch

from tui_profiler.probe.measure.clock.overhead import interval_of_median
from tui_profiler.probe.trace.snapshot import Snapshot
from tui_profiler.probe.trials.kinds.subject import Change, Side, device_of

BATCH_SECONDS = 0.05
MOST_CALLS = 1000
WARM_SECONDS = 0.5
WARM_CALLS = 3
LEAST_PAIRS = 6
"""Fewer have no interval that holds the median with 95 % probability."""
NARROW_PAIRS = 20
MOST_PAIRS = 200
NARROW = 0.005
"""Half of an interval, as a share of the speed-up."""
PATIENCE = 4.0
"""How many times the seconds that were asked for the least pairs may take."""


@dataclass
class TimedSide:
    """One side ready to be timed."""

    side: Side
    seconds: list[float] = field(default_factory=list)
    """Of one call, one figure for each batch."""

    def __post_init__(self) -> None:
        self._snapshot = Snapshot(self.side.module)
        self.device = device_of(self.side.module)

    def batch(self, calls: int) -> float:
        """Run a batch of calls; gives the seconds of one."""
        side = self.side
        self._snapshot.restore()
        with side.around():
            seconds = self._prepared(calls) if side.prepare else self._plain(calls)
        return seconds / calls

    def output(self) -> object:
        """Run one call from the state that the module began with; gives what it gave."""
        side = self.side
        self._snapshot.restore()
        with side.around():
            made = side.call(side.prepare() if side.prepare else None)
        self._wait()
        return made

    def restore(self) -> None:
        """Put back the state that the module began with."""
        self._snapshot.restore()

    def _plain(self, calls: int) -> float:
        call = self.side.call
        self._wait()
        began = time.perf_counter()
        for _ in range(calls):
            call(None)
        self._wait()
        return time.perf_counter() - began

    def _prepared(self, calls: int) -> float:
        assert self.side.prepare is not None
        seconds = 0.0
        for _ in range(calls):
            given = self.side.prepare()
            self._wait()
            began = time.perf_counter()
            self.side.call(given)
            self._wait()
            seconds += time.perf_counter() - began
        return seconds

    def _wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


@dataclass(frozen=True)
class Measured:
    """What pairs told."""

    baseline_seconds: float
    """Median of one call."""
    changed_seconds: float
    settling_seconds: float
    """That the changed side took longer for its first batch than for later ones: compiled code is
    compiled anew where it meets another state or shape."""
    ratios: Sequence[float]
    """Seconds of an item without the change over those with it, of each pair."""

    @property
    def speedup(self) -> float | None:
        """The median of the pairs; None where there is none."""
        return median(self.ratios) if self.ratios else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Holds the true median with at least 95 % probability; None for too few pairs."""
        return interval_of_median(self.ratios)


def warm(bench: TimedSide) -> float:
    """Call one side until it is warm; gives the seconds of the last call."""
    began, last = time.perf_counter(), 0.0
    for _ in range(WARM_CALLS):
        last = bench.batch(1)
        if time.perf_counter() - began > WARM_SECONDS:
            break
    return last


def measure(
    change: Change,
    seconds: float,
    tell: Callable[[int, float | None], None],
    benches: tuple[TimedSide, TimedSide] | None = None,
) -> Measured:
    """Measure pairs.

    Args:
        change: both sides; warm.
        seconds: that it should take.
        tell: is told the number of pairs and the speed-up after each.
        benches: of the two sides; made where not given.
    """
    baseline, changed = benches or (TimedSide(change.baseline), TimedSide(change.changed))
    slower = max(warm(baseline), warm(changed), 1e-7)
    # A short time holds the least pairs all the same.
    batch_seconds = min(BATCH_SECONDS, seconds / (2 * LEAST_PAIRS))
    calls = max(1, min(MOST_CALLS, int(batch_seconds / slower)))
    items = changed.side.items / baseline.side.items
    # Every state that a batch goes through is met once before it counts.
    first, _ = changed.batch(calls), baseline.batch(calls)
    ratios: list[float] = []
    began = time.perf_counter()
    while not _is_enough(ratios, time.perf_counter() - began, seconds):
        order = (baseline, changed) if len(ratios) % 2 else (changed, baseline)
        for bench in order:
            bench.seconds.append(bench.batch(calls))
        if changed.seconds[-1] > 0:
            ratios.append(items * baseline.seconds[-1] / changed.seconds[-1])
        tell(len(ratios), median(ratios) if ratios else None)
    usual = median(changed.seconds)
    settling = max(0.0, calls * (first - usual))
    return Measured(median(baseline.seconds), usual, settling, ratios)


def _is_enough(ratios: Sequence[float], passed: float, seconds: float) -> bool:
    count = len(ratios)
    if count >= MOST_PAIRS or (count < LEAST_PAIRS and count and passed > PATIENCE * seconds):
        return True
    if count < LEAST_PAIRS:
        return False
    if passed > seconds:
        return True
    found = interval_of_median(ratios)
    if count < NARROW_PAIRS or found is None:
        return False
    return (found[1] - found[0]) / 2 <= NARROW * median(ratios)
