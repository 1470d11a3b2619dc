"""How well the measured time of a node is known: the standard error of the figure that is shown.

1. Where there is a history, it is the spread between its blocks, each a stretch of forwards: it has
   what changes slowly, such as a machine that is busy for a second. The figure that is shown speaks
   of the last calls alone: of a model that runs thousands of times, that is no more than one block.
2. Everywhere else, and where it is larger, it is the spread between single calls: the median of n
   calls of standard deviation s has a standard error of 1.2533 s / sqrt(n), for a normal spread.
3. Both are of one run. What changes from one run to the next is in neither, unless the two were
   measured in turns.

Source: Kendall & Stuart, The Advanced Theory of Statistics, vol. 1, 10.10 (error of the median);
95th percentile of a normal spread: 1.645 standard deviations above its middle.
"""

from __future__ import annotations

from itertools import pairwise
from math import isfinite, sqrt
from statistics import stdev

from tui_profiler.session import Session, Timings

MEDIAN_ERROR = 1.2533
P95_DEVIATIONS = 1.645
BLOCKS = 12
"""Stretches that a history is cut into, at most."""
LEAST_BLOCKS = 4
IN_NOISE = 1.96
"""Standard errors: two equal figures differ by more in one case of twenty."""


class Noise:
    """How well the times of one session are known, node by node; each is worked out once."""

    def __init__(self, session: Session) -> None:
        self._timings = session.timings
        self._ticks = session.history.ticks
        self._blocks: tuple[Timings, ...] | None = None
        self._found: dict[int, float | None] = {}

    def error(self, node: int) -> float | None:
        """Give the standard error of a module's median seconds of a forward; seconds."""
        if node not in self._found:
            self._found[node] = self._error(node)
        return self._found[node]

    def _error(self, node: int) -> float | None:
        timings = self._timings
        timing = timings.of(node) if timings is not None else None
        if timings is None or timing is None:
            return None
        if self._blocks is None:
            self._blocks = _blocks(self._ticks)
        calls = timing.calls / max(timings.tick.forwards, 1)
        one = call_error(timing.p50, timing.p95, min(timing.calls, timings.tick.window))
        between = _between(self._blocks, node, timings.tick.window)
        known = [error for error in (one * calls, between) if error is not None and isfinite(error)]
        return max(known, default=None)


def call_error(p50: float, p95: float, calls: int) -> float:
    """Give the standard error of the median of single calls; seconds."""
    return MEDIAN_ERROR * max(p95 - p50, 0.0) / P95_DEVIATIONS / sqrt(max(calls, 1))


def is_noise(difference: float, one: float | None, other: float | None) -> bool | None:
    """Tell whether a difference is no more than two equal figures would show; None: not known."""
    if one is None or other is None:
        return None
    return abs(difference) <= IN_NOISE * sqrt(one * one + other * other)


def _blocks(ticks: tuple[Timings, ...]) -> tuple[Timings, ...]:
    """Give the ends of stretches of about as many forwards each; none where there are too few."""
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
    return tuple(ends) if len(ends) > LEAST_BLOCKS else ()


def _between(blocks: tuple[Timings, ...], node: int, window: int) -> float | None:
    """Give the standard error of what the last ``window`` forwards say, by the spread of blocks."""
    means: list[float] = []
    for before, after in pairwise(blocks):
        former, latter = before.of(node), after.of(node)
        forwards = after.tick.forwards - before.tick.forwards
        if former is not None and latter is not None and latter.calls > former.calls:
            means.append((latter.total - former.total) / forwards)
    if len(means) < LEAST_BLOCKS:
        return None
    each = (blocks[-1].tick.forwards - blocks[0].tick.forwards) / (len(blocks) - 1)
    return stdev(means) / sqrt(min(max(window / each, 1.0), len(means)))
