"""What watching costs, and how much of it a budget allows.

Two meters say what it costs. Our own loop runs pairs of short batches, one watched and one bare, in
turn, so that what else the machine does falls on both alike. A program that is not ours runs none
for us, and its forwards differ from one another, so there the cost is estimated: recorded calls
times what one costs and what telling their inputs apart took, as a share of the time that the
forwards take, and the processor time of the thread that adds them up, as a share of all time: it
may hold up whatever else the program does. What a call costs in a step of training is learned from
the program itself: steps that are recorded beside steps that are not.
"""

from collections import deque
from collections.abc import Collection, Sequence
from math import ceil, comb, inf, sqrt
from statistics import median
from typing import NamedTuple, Protocol

import torch
from torch import nn

from tui_profiler.messages import Overhead
from tui_profiler.probe.measure.clock.call_recorder import Watching
from tui_profiler.probe.measure.clock.device_clock import DeviceClock
from tui_profiler.probe.measure.clock.timed_call import Call
from tui_profiler.probe.process.yielding import rest
from tui_profiler.probe.torch_compat.internals import run_engine
from tui_profiler.system import real_time as time

PAIRS = 200
"""The latest pairs that count: a model whose speed changed is not held to what it was."""
TICKS = 64
LEAST_PARTS = 6
T_OF_SIX = 2.571
"""Student's t, 97.5 %, five degrees of freedom."""
LEAST_SHARE = 1 / 200
"""A forward in so many is recorded at least, or the figures would stand still."""
ENOUGH_PER_SECOND = 1.0
"""Training steps per second that this and ``LEAST_ROOM`` ask for at most: adding up a recorded step
costs time as well."""
LEAST_ROOM = 1 / 20
"""Part of the budget that is always available for recording: on a busy machine the other costs
would use all that is planned, and a training of 30 steps per second was recorded 18 to 24 times a
minute."""
MARGIN = 0.3
"""How much of the budget is planned for. No pair shows what else costs: a forward after a recorded
one, or after a tick, finds the caches as they left them (1 and 6 % slower on mobilenet_v3_small),
and asking between forwards whether the next is recorded takes 0.1 to 0.2 % of one. And a promise
that holds with 95 % needs room for how well it can be measured
(``benchmarks/watching/overhead_account.py``)."""
WHOLE = 0.6
"""The part of the budget within which all are recorded. Up to all of it the true cost would be
above the budget half of the time: resnet18 trained at an estimated 1.5 %, upper end 2.4 %."""
TICK_SECONDS = 0.25
MOST_TICK_SECONDS = 1.0
TICK_BUDGET = 0.1
"""The part of the budget that ticks may take before they come less often."""

CACHE_FACTOR = 2.0
"""Between operators that fill the caches a recorded call costs up to 1.9 times what it costs in a
tight loop (0.70 against 0.38 us, see ``timed_call.py``): the upper end of the interval."""
COLD_FACTOR = 4.0
"""Likewise of a marked call in a step of training: 9 to 11 us where one of a chain takes 2.5
(``docs/training.md``). Held until it is learned from the program."""
MOST_FACTOR = 10.0
"""What is learned is believed up to here: a program whose steps go up and down in time with those
that are recorded would have it learn anything."""
LEAST_COMPARED = 16
MOST_COMPARED = 256
"""Steps that what a call costs is learned from, at least and at most."""
_INTERVALS = 40
_CALLS = 500
_MARKED_CALLS = 40
_DEVICE_CALLS = 40
_REPEATS = 5


class CostMeter(Protocol):
    """Says what watching costs."""

    def recording(self) -> Overhead | None:
        """Return what it costs to record every forward, and nothing else; None: not known yet."""
        ...

    def between(self) -> tuple[float, float, float]:
        """Return what is paid beside it, however few are recorded, as a share; and its interval."""
        ...

    def recorded(self, share: float) -> float:
        """Return the share of the forwards that are recorded, where that much of the time is."""
        ...


class MeasuredCost:
    """What watching our own loop costs, from pairs of batches and what is done between forwards."""

    def __init__(self) -> None:
        self._ratios: deque[float] = deque(maxlen=PAIRS)
        self._between: deque[tuple[float, float]] = deque(maxlen=TICKS)
        self.windows_share = 0.0
        """What operator windows cost, as a share of the time from each to the next."""

    def add(self, watched_seconds: float, bare_seconds: float) -> None:
        """Take in one pair: the same number of forwards, watched and bare.

        What was not measurable, such as no time at all, is left out.
        """
        if watched_seconds > 0 and bare_seconds > 0:
            self._ratios.append(watched_seconds / bare_seconds)

    def add_between(self, seconds: float, running_seconds: float = TICK_SECONDS) -> None:
        """Take in what was added up and sent between two forwards.

        Args:
            seconds: that it took.
            running_seconds: of forwards since the last time, above 0; the default is the least.
        """
        self._between.append((seconds, running_seconds))

    def recording(self) -> Overhead | None:
        """Return what it costs to record every forward, and nothing else; None: too few pairs."""
        found = interval_of_median(self._ratios)
        if found is None:
            return None
        low, high = found
        return Overhead(median(self._ratios) - 1, low - 1, high - 1, len(self._ratios))

    def between(self) -> tuple[float, float, float]:
        """Return what is done between forwards, as a share of the time that they take."""
        share, least, most = interval_of_share(self._between)
        windows = self.windows_share
        return share + windows, least + windows, most + windows

    def recorded(self, share: float) -> float:
        """Return the share of the forwards that are recorded: our own loop counts them."""
        return share


class CallCost(NamedTuple):
    """Seconds that recording adds to one call of a module."""

    seconds: float
    low: float
    high: float


class StepCost:
    """What recording a step of training costs, learned from steps in the order in which they ran.

    Two that follow one another are compared, where one was recorded and the other not. What else
    the machine and the program do falls on both alike, and the median of the differences is that of
    a symmetric distribution. Each step is compared once.

    Args:
        calibrated: seconds that recording adds to one call of a module at least.
    """

    def __init__(self, calibrated: float) -> None:
        self._calibrated = calibrated
        self._added: deque[float] = deque(maxlen=MOST_COMPARED)
        """Seconds per call."""
        self._before: tuple[float, int] | None = None
        """Seconds of the step before, and calls that were recorded of it."""

    def add(self, seconds: float, calls: int) -> None:
        """Take in the next step.

        Args:
            seconds: that it took.
            calls: of modules that were recorded of it; 0: it was not recorded.
        """
        before, self._before = self._before, (seconds, calls)
        if before is not None and (calls > 0) != (before[1] > 0):
            added = seconds - before[0]
            self._added.append(added / calls if calls else -added / before[1])
            self._before = None

    def skip(self) -> None:
        """Compare nothing across what comes now: it is no step, or one that ran otherwise."""
        self._before = None

    @property
    def call(self) -> CallCost:
        """What recording adds to one call of a module."""
        least, most = self._calibrated, MOST_FACTOR * self._calibrated
        interval = interval_of_median(self._added)
        if interval is None or len(self._added) < LEAST_COMPARED:
            high = COLD_FACTOR * least
            return CallCost((least + high) / 2, least, high)
        found = (median(self._added), *interval)
        return CallCost(*(min(max(one, least), most) for one in found))


class EstimatedCost:
    """What watching a program that is not ours costs, from what is recorded of it."""

    def __init__(self, device: DeviceClock | None = None) -> None:
        """Calibrate what a recorded call costs.

        Args:
            device: of the clock that records them; None: a CPU. What marks around each call take
                now and then is bounded there, and added to what is paid beside the calls.
        """
        low = max(call_seconds(None if device is None else device.another(details=False)), 1e-9)
        self._call = CallCost((low + CACHE_FACTOR * low) / 2, low, CACHE_FACTOR * low)
        self._intervals: deque[_Interval] = deque(maxlen=_INTERVALS)

    def add(
        self,
        calls: int,
        forward_seconds: float,
        thread_seconds: float,
        elapsed_seconds: float,
        *,
        asking_seconds: float = 0.0,
        call: CallCost | None = None,
        is_whole: bool = False,
    ) -> None:
        """Take in one interval.

        Args:
            calls: that were recorded.
            forward_seconds: of the forwards or steps that they were in.
            thread_seconds: processor time of the thread that adds up and sends, and what else is
                paid however few are recorded.
            elapsed_seconds: how long the interval was.
            asking_seconds: before the forwards, what it took to tell their inputs apart.
            call: what recording adds to one; None: as calibrated, without a backward.
            is_whole: every forward in the interval was recorded.
        """
        each = CallCost(*(calls * seconds + asking_seconds for seconds in call or self._call))
        self._intervals.append(
            _Interval(each, forward_seconds, thread_seconds, elapsed_seconds, is_whole)
        )

    def recording(self) -> Overhead | None:
        """Return what it costs to record every forward, and nothing else; None before any ran."""
        running = sum(one.running for one in self._intervals)
        if running <= 0:
            return None
        ratio, low, high = (
            sum(spent) / running
            for spent in zip(*(one.spent for one in self._intervals), strict=True)
        )
        return Overhead(ratio, low, high, pairs=0)

    def between(self) -> tuple[float, float, float]:
        """Return what is paid beside the calls, as a share of all time."""
        return interval_of_share([(one.thread, one.elapsed) for one in self._intervals])

    def recorded(self, share: float) -> float:
        """Return the share of the forwards that are recorded, where that much of the time is.

        A program that is called seldom runs for less of the time: all of its forwards are recorded.
        """
        elapsed = sum(one.elapsed for one in self._intervals)
        partly = sum(one.elapsed for one in self._intervals if not one.is_whole)
        return 1.0 - (1.0 - share) * partly / elapsed if elapsed > 0 else share


class _Interval(NamedTuple):
    """Seconds of one interval."""

    spent: CallCost
    """What recording added, all calls together."""
    running: float
    """Of forwards or steps that were recorded."""
    thread: float
    elapsed: float
    is_whole: bool = False
    """Whether every forward in it was recorded."""


def total_overhead(meter: CostMeter, share: float = 1.0, readings: float = 0.0) -> Overhead | None:
    """Return what watching costs, None while its meter does not know.

    Args:
        meter: measures or estimates it.
        share: of the forwards that are recorded.
        readings: of CPU time by call, what they cost as a share of the time.
    """
    recording = meter.recording()
    if recording is None:
        return None
    between, least, most = (each + readings for each in meter.between())
    return Overhead(
        ratio=share * recording.ratio + between,
        low=share * recording.low + least,
        high=share * recording.high + most,
        pairs=recording.pairs,
        share=share,
    )


class Governor:
    """Decides which forwards are recorded, so that watching stays within a budget."""

    def __init__(self, budget: float) -> None:
        self.budget = budget
        """What watching may cost, as a share of the time without it."""
        self.share = 1.0
        """Of the forwards that are recorded; starts with all."""
        self._due = 0.0

    def update(
        self, recording: Overhead, between: float = 0.0, *, step_seconds: float = inf
    ) -> None:
        """Decide anew.

        Args:
            recording: what it costs to record every forward, and nothing else.
            between: what is paid beside it, however few are recorded.
            step_seconds: duration of a training step; infinite if steps are not recorded.
        """
        # By the upper end of the interval: it is a promise, and a median is broken half the time.
        high = max(recording.high, 1e-9)
        least = max(LEAST_ROOM * self.budget / high, LEAST_SHARE)
        least = min(least, ENOUGH_PER_SECOND * step_seconds)
        planned = min(max((MARGIN * self.budget - between) / high, least), 1.0)
        if recording.ratio + between > WHOLE * self.budget:
            self.share = planned
        elif recording.ratio + between <= MARGIN * self.budget:
            self.share = 1.0
        else:
            # Between the two nothing is taken back, so that noise does not move it back and forth;
            # what was decided at a worse time does not last.
            self.share = max(self.share, planned)

    def records_next(self) -> bool:
        """Say whether the next forward is recorded: ``share`` of them, evenly spread."""
        self._due += self.share
        if self._due < 1.0:
            return False
        self._due -= 1.0
        return True

    def pass_over(self) -> int:
        """Return how many forwards in a row are not recorded from now on, as if asked for each."""
        if self.share >= 1.0:
            return 0
        count = max(ceil((1.0 - self._due) / self.share) - 1, 0)
        self._due = min(self._due + count * self.share, 1.0)
        return count

    def take_back(self, count: int) -> None:
        """Take note that so many of those passed over last did not come to pass."""
        self._due = max(self._due - count * self.share, 0.0)


def seconds_to_next_tick(cost_seconds: float, budget: float) -> float:
    """Say how long after a tick the next one is due: a large model's cost more, so come seldom.

    Args:
        cost_seconds: that the last one took.
        budget: what watching may cost, as a share of the time without it.
    """
    affordable = cost_seconds / (TICK_BUDGET * budget) if budget > 0 else MOST_TICK_SECONDS
    return min(max(TICK_SECONDS, affordable), MOST_TICK_SECONDS)


def interval_of_median(values: Sequence[float] | deque[float]) -> tuple[float, float] | None:
    """Return an interval that holds the true median with at least 95 % probability.

    It lies between two of the values themselves, whatever their distribution, and is the same for
    the same values. None for fewer than six: even the widest would hold it less often.

    Source: W. J. Conover, Practical Nonparametric Statistics, 3rd ed., section 3.2: the number of
    values below the median is binomial with probability one half.
    """
    ordered = sorted(values)
    count = len(ordered)
    # The rank is the highest with at most 1 of 40 equally likely cases below it, and as many above.
    rank, cases = 0, comb(count, 0)
    while 40 * cases <= 2**count:
        rank += 1
        cases += comb(count, rank)
    return (ordered[rank - 1], ordered[count - rank]) if rank > 0 else None


def interval_of_share(
    parts: Collection[tuple[float, float]],
) -> tuple[float, float, float]:
    """Return what a share is in all parts together, with an interval for that of more of them.

    Of fewer than six parts it reaches from the least share of one to the greatest; of more it is at
    least 95 % wide where parts vary at random, and never reaches beyond those two.

    Source: the standard error of a ratio estimate, W. G. Cochran, Sampling Techniques, 3rd ed.,
    section 2.11; the quantile is Student's for six parts, which is above that of more.

    Args:
        parts: seconds of what is asked for, and seconds of which they are a share, above 0.

    Returns:
        the share and the ends of its interval; all 0 where there are no parts.
    """
    if not parts:
        return 0.0, 0.0, 0.0
    count, of = len(parts), sum(whole for _, whole in parts)
    share = sum(seconds for seconds, _ in parts) / of
    least, most = (choose(seconds / whole for seconds, whole in parts) for choose in (min, max))
    if count < LEAST_PARTS:
        return share, least, most
    squares = sum((seconds - share * whole) ** 2 for seconds, whole in parts)
    half = T_OF_SIX * sqrt(count / (count - 1) * squares) / of
    return share, max(share - half, least), min(share + half, most)


class _Leaf(nn.Module):
    def forward(self) -> None:
        return None


class _Calls(nn.Module):
    """Calls a leaf many times, through whatever it is given."""

    def __init__(self, calls: int) -> None:
        super().__init__()
        self.leaf = _Leaf()
        self.call = nn.Module.__call__
        self._calls = calls

    def forward(self) -> None:
        leaf, call = self.leaf, self.call
        for _ in range(self._calls):
            call(leaf)


def call_seconds(device: DeviceClock | None = None) -> float:
    """Measure what recording adds to one call of a module, in a tight loop; takes a few ms.

    Nothing is exchanged for it: calls of other modules are not touched.

    Args:
        device: a clock that is used for nothing else, where a device times them as well.
    """
    calls = _CALLS if device is None else _DEVICE_CALLS
    model = _Calls(calls)
    plain = nn.Module.__call__
    watching = Watching(plain, calls * _REPEATS * 4, device)
    watching.watch(model)
    best_plain = best_watched = float("inf")
    for _ in range(_REPEATS):
        rest()
        model.call = plain
        began = time.perf_counter()
        plain(model)
        best_plain = min(best_plain, time.perf_counter() - began)
        model.call = watching.call
        began = time.perf_counter()
        watching.call(model)
        best_watched = min(best_watched, time.perf_counter() - began)
        watching.take()
    watching.close()
    return max(best_watched - best_plain, 0.0) / calls


class _Addition(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return twice ``x``, of any shape."""
        return x + x


class _Chain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.leaf = _Addition()
        self.call = nn.Module.__call__

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return ``x``, of any shape, from many calls of a leaf."""
        leaf, call = self.leaf, self.call
        for _ in range(_MARKED_CALLS):
            x = call(leaf, x)
        return x


def marked_call_seconds(device: DeviceClock | None = None) -> float:
    """Measure what recording a step adds to one call of a module, forward and backward.

    In a chain of additions of one number; takes some ten milliseconds. Nothing is exchanged for it,
    and no random number is drawn.

    Args:
        device: of the clock that records them; None: a CPU.
    """
    model = _Chain()
    plain = nn.Module.__call__
    watching = Watching(
        plain,
        _MARKED_CALLS * _REPEATS * 4,
        None if device is None else device.another(details=True),
    )
    best_plain = best_marked = float("inf")
    with torch.enable_grad():
        x = torch.ones(1, requires_grad=True)
        for _ in range(_REPEATS):
            rest()
            model.call = plain
            best_plain = min(best_plain, _step_seconds(model, plain, x))
            model.call = watching.call
            watching.watch_step(model)
            best_marked = min(best_marked, _step_seconds(model, watching.call, x))
            watching.take()
            watching.marks.take()
    watching.close()
    return max(best_marked - best_plain, 0.0) / _MARKED_CALLS


def _step_seconds(model: nn.Module, call: Call, x: torch.Tensor) -> float:
    """Return the seconds of a forward and its backward, which no listener is told of."""
    began = time.perf_counter()
    run_engine(call(model, x))  # type: ignore[arg-type]  # the chain returns a tensor
    return time.perf_counter() - began
