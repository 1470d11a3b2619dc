"""Forwards that the clock recorded, made into running totals for each node.

1. Inclusive time counts only the outermost of calls of one node inside each other; own time counts
   each of them, less what is called directly inside. So own time and what the children take add up
   to the inclusive time, and nothing is counted twice.
2. Warm-up forwards are in no figure of the steady state. Until that begins they are added up, for
   a tick that is asked for them and says that it is cold; then they are forgotten.
3. Memory is bounded by the number of nodes, not by how long the model runs.
4. Means are over one set of forwards, the same for every node, so that they add up. A forward that
   took far longer than its like is left out of the set as a whole; single calls never are.
5. Forwards in which calls read what their thread uses are counted, and in no column but those of
   CPU time.
6. A tick speaks of one sort of forwards: of those as traced, or, where they are next to none of the
   time, of all others. The two are never mixed.
"""

import math
from collections import deque
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray
from torch import nn

from tui_profiler.messages import Figure, Node, SlowForward, ThreadTime, Tick, Unknown
from tui_profiler.probe.measure.clock.clock import Forward
from tui_profiler.probe.measure.clock.cpu_times import CpuTimes
from tui_profiler.probe.measure.clock.forward_pattern import Pattern, Patterns
from tui_profiler.probe.measure.clock.thread_usage import ThreadUsage
from tui_profiler.probe.measure.clock.totals_columns import Columns
from tui_profiler.probe.measure.clock.tree_index import TreeIndex
from tui_profiler.probe.measure.clock.warm_up import Throughput, WarmUp

WINDOW = 256
SAMPLES = 4_000_000
"""Durations kept at most in one set of rings; 16 MB of float32."""
LEAST_WINDOW = 8
TURN = 1 / 8
"""Of a window: where forwards have several shapes, no more of them are added at once. All of one
shape and then all of the next would leave only the last in the windows of what they share.
"""
UNSEEN_NAMES = 1_000
LEAST_SHARE = 1 / 20
"""Of the time of all forwards: where those as traced took less, a tick speaks of the others."""

Floats = NDArray[np.float64]

LEAST_FOR_SLOW = 100
"""Forwards before one can be slower than 99 of 100."""
MOST_SLOW_NODES = 250_000
"""Of a forward that is told whole: 12 bytes each make 3 MB."""
LEAST_LATENCIES = 32
"""Of a sort, before a forward of it can be an outlier."""
FAR_OUT = 3.0
"""Times the distance of the quartiles beyond the third: Tukey's outer fence (Exploratory Data
Analysis, 1977)."""
LEAST_FACTOR = 1.5
"""Times the median: on a quiet machine quartiles are so close that anything would be far out."""

_Groups: TypeAlias = dict[tuple[int, bool], tuple[Pattern, list[Forward]]]

_NO_SCHEDSTAT = Unknown("this kernel has no /proc/thread-self/schedstat")


class _Sort:
    """What was measured of forwards of one sort."""

    def __init__(self, nodes: int, window: int, latencies: int) -> None:
        self.forwards = 0
        self.measured = 0
        """Forwards of which calls were added up."""
        self.seconds = 0.0
        self.latencies: deque[float] = deque(maxlen=latencies)
        self.columns = Columns(nodes, window)
        self._usual = math.inf
        self._usual_of = 0
        """How many forwards ``_usual`` was found from."""
        self._slow = math.inf
        """Seconds that one of a hundred takes longer than."""
        self._slowest = 0.0
        """Seconds of the slowest that was kept."""
        self._next_slow: SlowForward | None = None
        """The slowest since one was told last; it began by the clock that forwards are timed by."""

    def add(self, seconds: float) -> None:
        """Count one forward."""
        self.forwards += 1
        self.seconds += seconds
        self.latencies.append(seconds)

    def is_usual(self, seconds: Floats) -> NDArray[np.bool_]:
        """Tell which forwards are no outliers among the last ones; (forwards,) each."""
        if self.forwards - self._usual_of >= LEAST_LATENCIES:
            self._usual_of = self.forwards
            low, middle, high, last = quantiles(sorted(self.latencies), (0.25, 0.5, 0.75, 0.99))
            self._usual = max(high + FAR_OUT * (high - low), LEAST_FACTOR * middle)
            if self.forwards >= LEAST_FOR_SLOW:
                self._slow = last
        found: NDArray[np.bool_] = seconds <= self._usual
        return found

    def measure(self, pattern: Pattern, times: Floats, usage: Floats) -> None:
        """Take in forwards of one shape.

        Args:
            pattern: their shape.
            times: (forwards, 2, calls) seconds of begin and end; the call that ends last is the
                forward's own.
            usage: (forwards, 9) as of ``ForwardSets.add``.
        """
        durations = times[:, 1] - times[:, 0]
        seconds = durations[:, -1]
        usual = self.is_usual(seconds)
        slowest = int(seconds.argmax())
        took = float(seconds[slowest])
        before = self._next_slow
        is_kept = took > min(self._slow, self._slowest)
        is_kept = is_kept and (before is None or took > before.seconds)
        is_kept = is_kept and len(pattern.nodes) <= MOST_SLOW_NODES
        kept = self.columns.add(pattern, durations, usual, usage, slowest if is_kept else None)
        self.measured += len(seconds)
        if kept is not None:
            self._slowest = max(self._slowest, took)
            self._next_slow = SlowForward(
                at=0.0,
                forward=self.measured - len(seconds) + slowest + 1,
                seconds=took,
                thread=_thread_time(usage[slowest]),
                nodes=kept.nodes.tobytes(),
                whole=kept.whole.tobytes(),
                own=kept.own.tobytes(),
                began=float(times[slowest, 0, -1]),
            )

    def slow(self, at: float, now: float) -> SlowForward | None:
        """Return the slowest since the last time, if slower than 99 of 100 or than all before.

        Args:
            at: seconds since the command was started.
            now: the same moment by the clock that forwards are timed by.
        """
        found, self._next_slow = self._next_slow, None
        if found is None or found.began is None:
            return None
        return replace(found, at=at, began=at - (now - found.began))


class Aggregator:
    """What was measured of one model since it was traced."""

    def __init__(
        self, nodes: Sequence[Node], model: nn.Module, window: int = WINDOW, *, batch: int = 1
    ) -> None:
        self.unseen: dict[str, int] = {}
        """Calls of modules that the trace did not see, by path; at most 1,000 paths."""
        modules = sum(node.kind == "module" for node in nodes)
        self.window = max(min(window, SAMPLES // max(modules, 1)), LEAST_WINDOW)
        self._batch = batch
        """Items that each forward works on."""
        self._index = TreeIndex(nodes, model)
        self._patterns = Patterns(self._index)
        self._warm_up = WarmUp()
        self._throughput = Throughput()
        self._early = 0
        """Forwards before those of which the warm-up is told."""
        self._sizes = len(nodes), self.window, window
        self._cpu = CpuTimes(len(nodes))
        self._unfollowed = 0
        """Forwards of the steady state but the first, before which others may have run unseen."""
        self.is_warm = False
        """Whether a forward of the steady state was taken in."""
        self._begin()

    def _begin(self) -> None:
        self.unseen.clear()
        self._as_traced, self._others = _Sort(*self._sizes), _Sort(*self._sizes)

    def add(self, forwards: Iterable[Forward], *, is_early: bool = False) -> None:
        """Take in forwards, in the order in which they ended.

        Args:
            forwards: that were recorded.
            is_early: they ran while their times could not be steady: no warm-up is told of them,
                and they are in cold figures alone.
        """
        groups: _Groups = {}
        taken = 0
        for forward in forwards:
            seconds = forward.seconds
            self._early += is_early
            if not is_early and not self._warm_up.takes(seconds, forward.ended):
                if not self.is_warm:
                    groups.clear()
                    self._begin()
                    self.is_warm = True
                else:
                    self._unfollowed += forward.since is None
                self._throughput.add(forward.since, forward.ended, self._batch)
            elif self.is_warm:
                continue
            sort, seconds = self._sort(forward), seconds - forward.reading_seconds
            sort.add(seconds)
            if forward.used:
                if sort.is_usual(np.array([seconds])).all():
                    self._cpu.add(self._nested_as(forward), forward)
                continue
            pattern = self._pattern(forward)
            key = id(pattern), forward.as_traced
            groups.setdefault(key, (pattern, []))[1].append(forward)
            taken += 1
            if len(groups) > 1 and taken >= self.window * TURN:
                self._measure_groups(groups)
                taken = 0
        self._measure_groups(groups)
        if not self.is_warm:
            self.let_go()  # A model that is run a few times may be gone at once.

    def tick(self, at: float, dropped: int = 0, *, or_cold: bool = False) -> Tick:
        """Return everything measured so far.

        Args:
            at: seconds since the command was started.
            dropped: forwards and messages dropped so far.
            or_cold: speak of warm-up forwards where there were no others.

        Returns:
            A message whose latencies and throughput are not numbers before the steady state, the
            throughput before two forwards in a row as well.
        """
        self._patterns.forget_unused()
        self._index.allow_refresh()
        is_cold = (
            or_cold and not self.is_warm and self._as_traced.forwards + self._others.forwards > 0
        )
        shown, rest = self._as_traced, self._others
        if not self.is_warm and not is_cold:
            shown = rest = _Sort(0, self.window, 0)
        is_as_traced = True
        if shown.seconds < LEAST_SHARE * (shown.seconds + rest.seconds):
            shown, rest = rest, shown
            is_as_traced = False
        columns = shown.columns.packed()
        cpu: dict[str, bytes] = {}
        if is_as_traced and not is_cold:
            cpu = self._cpu.columns(np.frombuffer(columns["nodes"], np.uint32))
        p50, p95 = quantiles(sorted(shown.latencies), (0.5, 0.95))
        return Tick(
            at=at,
            forwards=shown.forwards,
            warmup_forwards=0 if is_cold else self._early + self._warm_up.forwards,
            dropped=dropped,
            latency_p50=p50,
            latency_p95=p95,
            per_second=self._throughput.per_second(),
            window=self.window,
            left_out=shown.columns.left_out,
            gaps=self._throughput.gaps,
            as_traced=is_as_traced,
            others=rest.forwards,
            others_share=rest.seconds / (shown.seconds + rest.seconds) if rest.forwards else 0.0,
            other_kinds=(),
            cold=is_cold,
            mean_forwards=shown.columns.mean_forwards,
            outliers=shown.columns.outliers,
            outliers_share=_known(shown.columns.outliers_share),
            thread=_thread_time(shown.columns.usage),
            thread_of_all=_thread_time(shown.columns.usage_of_all),
            is_sampled=self._unfollowed > 0,
            cpu_forwards=self._cpu.forwards if cpu else 0,
            **columns,
            **cpu,
        )

    def slow(self, at: float, now: float) -> SlowForward | None:
        """Return a forward as traced that was slower than 99 of 100, or than all before it.

        Args:
            at: seconds since the command was started.
            now: the same moment by the clock that forwards are timed by.
        """
        return self._as_traced.slow(at, now) if self.is_warm else None

    def let_go(self) -> None:
        """Keep no module alive: the model may be gone before its next forward."""
        self._patterns.forget()

    def _sort(self, forward: Forward) -> _Sort:
        return self._as_traced if forward.as_traced else self._others

    def _pattern(self, forward: Forward) -> Pattern:
        for pattern in self._patterns.like(forward.modules):
            return pattern
        return self._learn(forward)

    def _learn(self, forward: Forward) -> Pattern:
        return self._patterns.learn(forward.modules, _times([forward])[0, 0])

    def _measure_groups(self, groups: _Groups) -> None:
        for pattern, recorded in groups.values():
            self._measure(pattern, recorded)
        groups.clear()

    def _measure(self, pattern: Pattern, recorded: list[Forward]) -> None:
        times, usage = _times(recorded), _usage(recorded)
        fits = pattern.matches(times[:, 0])
        if not fits.all():
            # The same calls ended in the same order, but another one was around them.
            for place in np.flatnonzero(~fits):
                forward = recorded[place]
                self._measure(self._nested_as(forward), [forward])
            times = times[fits]
        if len(times):
            self._sort(recorded[0]).measure(pattern, times, usage[fits])
            self._count_unseen(pattern, len(times))

    def _nested_as(self, forward: Forward) -> Pattern:
        starts = _times([forward])[:, 0]
        alike = self._patterns.like(forward.modules)
        return next((one for one in alike if one.matches(starts)[0]), None) or self._learn(forward)

    def _count_unseen(self, pattern: Pattern, forwards: int) -> None:
        for name, calls in pattern.unseen.items():
            if name in self.unseen or len(self.unseen) < UNSEEN_NAMES:
                self.unseen[name] = self.unseen.get(name, 0) + calls * forwards


def quantiles(ordered: Sequence[float], shares: Sequence[float]) -> list[float]:
    """Return quantiles with linear interpolation; not numbers where there are no values."""
    if not ordered:
        return [float("nan") for _ in shares]
    found = []
    for share in shares:
        below = int(share * (len(ordered) - 1))
        low, high = ordered[below], ordered[min(below + 1, len(ordered) - 1)]
        found.append(low + (high - low) * (share * (len(ordered) - 1) - below))
    return found


def _usage(recorded: list[Forward]) -> Floats:
    """Return (forwards, 9): wall seconds, and what its thread used; NaN where it is not known.

    The readings lie outside of the forward: what the thread used between them is more than its
    time allows where that is as short as they are.
    """
    found = np.array(
        [
            (forward.seconds, *(forward.usage or (None,) * len(ThreadUsage._fields)))
            for forward in recorded
        ],
        np.float64,
    )
    seconds, on_core, waiting = found[:, 0], found[:, 1], found[:, 2]
    np.minimum(on_core, seconds, out=on_core)
    np.minimum(waiting, seconds - on_core, out=waiting)
    return found


def _known(share: float) -> Figure:
    return Unknown("forwards of this window have no times") if math.isnan(share) else share


def thread_time(seconds: float, usage: ThreadUsage) -> ThreadTime:
    """Return what a thread used in ``seconds``, as a message has it."""
    on_core, waiting, *counts = usage
    return ThreadTime(seconds, on_core, _NO_SCHEDSTAT if waiting is None else waiting, *counts)


def _thread_time(usage: Floats) -> ThreadTime | None:
    """Return the means of what threads used; None where none was recorded.

    Args:
        usage: (9,) as of ``ForwardSets.usage``.
    """
    seconds, on_core, waiting, *counts = usage.tolist()
    if math.isnan(on_core):
        return None
    return ThreadTime(seconds, on_core, _NO_SCHEDSTAT if math.isnan(waiting) else waiting, *counts)


def _times(recorded: list[Forward]) -> Floats:
    """Return (forwards, 2, calls): begin and end of every call. All have equally many calls."""
    packed = b"".join([forward.times for forward in recorded])
    return np.frombuffer(packed, np.float64).reshape(len(recorded), 2, -1)
