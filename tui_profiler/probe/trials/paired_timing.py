"""Paired timing: the same calls with and without a change, in turn, until the CI is narrow.

1. A pair is a batch of calls of each side; the order alternates, so that drift of the machine
   affects both alike.
2. State of a module (a growing cache) is restored before each batch: both sides see the same calls.
3. A batch takes about 50 ms (less if that would leave too few pairs), or one call.
4. It ends when the CI is narrow, when the time is over, or after enough pairs; not before there are
   as many as a CI needs, unless those take several times as long as asked. The time can be
   prolonged meanwhile.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median

from tui_profiler.probe.measure.clock.overhead_budget import interval_of_median
from tui_profiler.probe.trace.snapshot import Snapshot
from tui_profiler.probe.trials.kinds.change import Side, device_of, wait_for
from tui_profiler.system import real_time as time

BATCH_SECONDS = 0.05
MOST_CALLS = 1000
WARM_SECONDS = 0.5
WARM_CALLS = 3
LEAST_PAIRS = 6
"""Fewer have no 95 % CI of the median."""
NARROW_PAIRS = 20
MOST_PAIRS = 200
NARROW = 0.005
"""Half of the CI, as a share of the speed-up."""
PATIENCE = 4.0
"""The least pairs may take this multiple of the seconds asked for."""


@dataclass
class TimedSide:
    """One side, and its times."""

    side: Side
    seconds: list[float] = field(default_factory=list)
    """Per call, one figure for each batch."""

    def __post_init__(self) -> None:
        self._snapshot = Snapshot(self.side.module)
        self.device = device_of(self.side.module)

    def batch(self, calls: int) -> float:
        """Run a batch of calls; return the seconds per call."""
        self.restore()
        with self.side.around():
            seconds = self._prepared(calls) if self.side.prepare else self._plain(calls)
        return seconds / calls

    def output(self) -> object:
        """Run one call from the initial state of the module; return its output."""
        self.restore()
        with self.side.around():
            made = self.side.run()
        wait_for(self.device)
        return made

    def restore(self) -> None:
        """Restore the initial state of the module."""
        self._snapshot.restore()

    def _plain(self, calls: int) -> float:
        call = self.side.call
        wait_for(self.device)
        began = time.perf_counter()
        for _ in range(calls):
            call(None)
        wait_for(self.device)
        return time.perf_counter() - began

    def _prepared(self, calls: int) -> float:
        assert self.side.prepare is not None
        seconds = 0.0
        for _ in range(calls):
            given = self.side.prepare()
            wait_for(self.device)
            began = time.perf_counter()
            self.side.call(given)
            wait_for(self.device)
            seconds += time.perf_counter() - began
        return seconds


@dataclass(frozen=True)
class Measured:
    """Result of paired timing."""

    baseline_seconds: float
    """Median per call."""
    changed_seconds: float
    settling_seconds: float
    """Extra time of the changed side's first batch: compiled code is compiled again for another
    state or shape."""
    ratios: Sequence[float]
    """Speed-up per item, of each pair."""

    @property
    def speedup(self) -> float | None:
        """Median of the pairs."""
        return median(self.ratios) if self.ratios else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """95 % CI of the median; None with too few pairs."""
        return interval_of_median(self.ratios)


def warm(bench: TimedSide) -> float:
    """Warm up one side; return the seconds of its last call."""
    began, last = time.perf_counter(), 0.0
    for _ in range(WARM_CALLS):
        last = bench.batch(1)
        if time.perf_counter() - began > WARM_SECONDS:
            break
    return last


def measure(
    baseline: TimedSide,
    changed: TimedSide,
    allowed: Callable[[], float],
    tell: Callable[[int, float | None, float], None],
) -> Measured:
    """Measure pairs.

    Args:
        baseline: warmed up.
        changed: warmed up.
        allowed: returns the seconds that it may take, which can grow meanwhile.
        tell: called after each pair with their number, the speed-up and the seconds left.
    """
    slower = max(warm(baseline), warm(changed), 1e-7)
    # The least pairs fit into a short time as well.
    batch_seconds = min(BATCH_SECONDS, allowed() / (2 * LEAST_PAIRS))
    calls = max(1, min(MOST_CALLS, int(batch_seconds / slower)))
    items = changed.side.items / baseline.side.items
    # Each state of a batch is reached once before it counts.
    first, _ = changed.batch(calls), baseline.batch(calls)
    ratios: list[float] = []
    began = time.perf_counter()
    while not _is_enough(ratios, time.perf_counter() - began, allowed()):
        order = (baseline, changed) if len(ratios) % 2 else (changed, baseline)
        for bench in order:
            bench.seconds.append(bench.batch(calls))
        if changed.seconds[-1] > 0:
            ratios.append(items * baseline.seconds[-1] / changed.seconds[-1])
        left = _longest(ratios, allowed()) - (time.perf_counter() - began)
        tell(len(ratios), median(ratios) if ratios else None, max(left, 0.0))
    usual = median(changed.seconds)
    settling = max(0.0, calls * (first - usual))
    return Measured(median(baseline.seconds), usual, settling, ratios)


def _longest(ratios: Sequence[float], seconds: float) -> float:
    """Return the time limit."""
    return seconds if len(ratios) >= LEAST_PAIRS else PATIENCE * seconds


def _is_enough(ratios: Sequence[float], passed: float, seconds: float) -> bool:
    count = len(ratios)
    if count >= MOST_PAIRS or (count and passed > _longest(ratios, seconds)):
        return True
    found = interval_of_median(ratios)
    if count < NARROW_PAIRS or found is None:
        return False
    return (found[1] - found[0]) / 2 <= NARROW * median(ratios)
