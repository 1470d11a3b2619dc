"""The time of a node over a whole run, and how well it is known: its standard error.

1. Where there is a history it is cut into blocks, segments of about as many forwards. The time is
   the mean of all of them but those whose whole forwards took far longer, the error comes from the
   spread of the blocks' means: it has what changes slowly, such as a machine that is busy for a
   second. A tick speaks of the last forwards alone, which of a fast model are a fraction of a
   second. The blocks are the same for every node, so these times add up as well.
2. Everywhere else it is the figure of the tick, and the spread between single calls. The median of
   n figures of standard deviation s has an error of 1.2533 s / sqrt(n), for a normal spread; their
   mean has less.
3. Both are of one run. What changes from one run to the next is in neither, unless the two were
   measured in turns.

Source: Kendall & Stuart, The Advanced Theory of Statistics, vol. 1, 10.10 (error of the median);
95th percentile of a normal spread: 1.645 standard deviations above its middle.
"""

from __future__ import annotations

from itertools import pairwise, starmap
from math import isfinite, sqrt
from statistics import quantiles, stdev
from typing import NamedTuple

from tui_profiler.figures.units import share, thousands
from tui_profiler.queries.time.node_seconds import (
    UNEVEN,
    measured_inside,
    node_seconds,
    parts_share,
)
from tui_profiler.queries.time.operator_seconds import operator_seconds
from tui_profiler.session import Session, Timings

MEDIAN_ERROR = 1.2533
P95_DEVIATIONS = 1.645
BLOCKS = 12
"""Stretches that a history is cut into, at most."""
LEAST_BLOCKS = 4
FAR_OUT, LEAST_FACTOR = 3.0, 1.5
"""As of single forwards (``probe/measure/clock/aggregate.py``)."""
LEAST_CALLS = 8
"""Fewer do not say how much they vary."""
ONE_FORWARD = "one forward"
DOUBT = "?"
NOT_RANKED = "? not ranked: times that do not add up, vary by 25 % or more, or of too few calls"
UNSTEADY = 0.25
"""Standard error over the time; a time that is known no better is not ranked."""
IN_NOISE = 1.96
"""Standard errors: two equal figures differ by more in one case of twenty."""


class WholeRun:
    """Times of one session's nodes, over all that is remembered; each is worked out once."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._cut: tuple[_Block, ...] | None = None

    def seconds(self, node: int) -> float | None:
        """Return the seconds of a forward in a node."""
        session = self._session
        tree, timings = session.tree, session.timings
        if not self._blocks() or tree is None or timings is None:
            return node_seconds(session, node)
        if tree.nodes[node].kind == "op":
            return self._of_operator(node)
        if node in timings:
            return self._mean(node, own=False)
        inside = [self._mean(child, own=False) for child in measured_inside(tree, timings, node)]
        return sum(inside) if inside else None

    def _of_operator(self, node: int) -> float | None:
        """Return an operator's part of the self time of its module, over the same blocks."""
        operators, timings = operator_seconds(self._session), self._session.timings
        seconds = None if operators is None else operators.of(node)
        if operators is None or seconds is None or timings is None:
            return seconds
        module = operators.module(node)
        own = timings.own_per_forward(module)
        return seconds * self._mean(module, own=True) / own if own else seconds

    def own_seconds(self, node: int) -> float | None:
        """Return the same without modules called inside."""
        timings = self._session.timings
        if timings is None or not self._blocks():
            return timings.own_per_forward(node) if timings is not None else None
        return self._mean(node, own=True) if node in timings else None

    @property
    def statistic(self) -> str:
        """What the seconds are, in a few words; empty where there are none."""
        blocks, timings = self._blocks(), self._session.timings
        if blocks:
            return f"mean of {len(blocks)} segments"
        if timings is None:
            return ""
        forwards, of = timings.tick.mean_forwards, "mean"
        if not timings.is_mean:
            forwards, of = min(timings.tick.forwards, timings.tick.window), "p50"
        said = ONE_FORWARD if forwards == 1 else f"{of} of {thousands(forwards)} forwards"
        return f"cold, {said}" if timings.tick.cold else said

    def error(self, node: int) -> float | None:
        """Return the standard error of a module's seconds."""
        timings = self._session.timings
        timing = timings.of(node) if timings is not None else None
        if timings is None or timing is None:
            return None
        means = [block.seconds(node, own=False) / block.forwards for block in self._blocks()]
        if any(means):
            return stdev(means) / sqrt(len(means))
        calls = timing.calls / max(timings.tick.forwards, 1)
        one = call_error(timing.p50, timing.p95, min(timing.calls, timings.tick.window))
        return one * calls if one is not None and isfinite(one) else None

    def _mean(self, node: int, *, own: bool) -> float:
        """Return the mean seconds of a forward in a module over all blocks, of which some exist."""
        blocks = self._blocks()
        seconds = sum(block.seconds(node, own=own) for block in blocks)
        return seconds / sum(block.forwards for block in blocks)

    def _blocks(self) -> tuple[_Block, ...]:
        if self._cut is None:
            self._cut = _usual(_blocks(self._session.history.ticks))
        return self._cut


def call_error(p50: float, p95: float, calls: int) -> float | None:
    """Return the standard error of the median of single calls; seconds. None: too few calls."""
    if calls < LEAST_CALLS:
        return None
    return MEDIAN_ERROR * max(p95 - p50, 0.0) / P95_DEVIATIONS / sqrt(max(calls, 1))


def doubt(seconds: float | None, made: float | None, error: float | None) -> str:
    """Return why a node's time is not ranked, empty where it is sound.

    On a busy machine medians, of recordings of older versions, do not add up: each forward has a
    part that took long, and no part's median has it.

    Args:
        seconds: the node's time.
        made: what its own time and its children's make of it, None where it has no children.
        error: the standard error of the time, None where too few calls say it.
    """
    if made is not None and not UNEVEN <= made <= 1 / UNEVEN:
        return f"self time and children add up to {share(made)} of it"
    if seconds and error is None:
        return f"fewer than {LEAST_CALLS} calls: how much its time varies is not known"
    if seconds and error is not None and error > UNSTEADY * seconds:
        return f"its time is known to ± {share(error / seconds)} only"
    return ""


def why_doubtful(session: Session, node: int) -> str:
    """Return why a module's time in a report is not ranked, empty where it is sound."""
    timings = session.timings
    timing = timings.of(node) if timings is not None else None
    if timings is None or timing is None:
        return ""
    calls = min(timing.calls, timings.tick.window)
    error = call_error(timing.p50, timing.p95, calls)
    return doubt(timing.p50, parts_share(session, node), error)


def is_noise(difference: float, one: float | None, other: float | None) -> bool | None:
    """Tell whether a difference is no more than two equal figures would show; None: not known."""
    if one is None or other is None:
        return None
    return abs(difference) <= IN_NOISE * sqrt(one * one + other * other)


class _Block(NamedTuple):
    """The forwards between two ticks."""

    before: Timings
    after: Timings

    @property
    def forwards(self) -> int:
        return self.after.tick.forwards - self.before.tick.forwards

    def seconds(self, node: int, *, own: bool) -> float:
        """Return the seconds that a node took in all of them; 0 where it was not called."""
        former, latter = self.before.of(node), self.after.of(node)
        if latter is None:
            return 0.0
        if own:
            return latter.own_total - (former.own_total if former is not None else 0.0)
        return latter.total - (former.total if former is not None else 0.0)


def _blocks(ticks: tuple[Timings, ...]) -> tuple[_Block, ...]:
    """Return segments of about as many forwards each; none where there are too few."""
    growing: list[Timings] = []
    for one in ticks:
        if not growing or one.tick.forwards > growing[-1].tick.forwards:
            growing.append(one)
    if len(growing) <= LEAST_BLOCKS:
        return ()
    first, last = growing[0].tick.forwards, growing[-1].tick.forwards
    ends = [growing[0]]
    for one in growing[1:]:
        if one.tick.forwards - first >= (last - first) * len(ends) / BLOCKS:
            ends.append(one)
    return tuple(starmap(_Block, pairwise(ends))) if len(ends) > LEAST_BLOCKS else ()


def _usual(blocks: tuple[_Block, ...]) -> tuple[_Block, ...]:
    """Return blocks without those whose forwards took far longer than the others'."""
    if not blocks:
        return ()
    means = [block.seconds(0, own=False) / block.forwards for block in blocks]
    low, middle, high = quantiles(means, n=4, method="inclusive")
    most = max(high + FAR_OUT * (high - low), LEAST_FACTOR * middle)
    return tuple(block for block, mean in zip(blocks, means, strict=True) if mean <= most)
