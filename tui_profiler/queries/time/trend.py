"""Whether a node has lately become slower or faster than it was."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import Literal, TypeAlias

from tui_profiler.session import Timings

Trend: TypeAlias = Literal["up", "down", ""]

SHORT_SECONDS = 5.0
LONG_SECONDS = 60.0
STEP_SECONDS = 0.9
"""Ticks closer than this are not looked at by themselves: about one figure a second is enough."""
LEAST_RATIO = 0.10
LEAST_DEVIATIONS = 3.0
LEAST_FIGURES = 12
"""Fewer seconds than this say nothing about what is usual."""


def spaced(ticks: Sequence[Timings]) -> list[Timings]:
    """Choose about one tick a second of the last minute, oldest first."""
    chosen: list[Timings] = []
    for timings in reversed(ticks):
        if ticks[-1].tick.at - timings.tick.at > LONG_SECONDS + STEP_SECONDS:
            break
        if not chosen or chosen[-1].tick.at - timings.tick.at >= STEP_SECONDS:
            chosen.append(timings)
    return chosen[::-1]


def trend(ticks: Sequence[Timings], node: int) -> Trend:
    """Compare the last 5 seconds with the last minute.

    Args:
        ticks: as ``spaced`` gives them.
        node: index in the tree.

    Returns:
        ``up`` where the node takes longer now: the medians differ by more than a tenth and by more
        than three median absolute deviations of the minute.
    """
    figures = _seconds_per_forward(ticks, node)
    if len(figures) < LEAST_FIGURES:
        return ""
    newest = figures[-1][0]
    lately = median([seconds for at, seconds in figures if newest - at < SHORT_SECONDS])
    usual = median([seconds for _, seconds in figures])
    deviation = median([abs(seconds - usual) for _, seconds in figures])
    difference = lately - usual
    if abs(difference) <= max(LEAST_RATIO * usual, LEAST_DEVIATIONS * deviation):
        return ""
    return "up" if difference > 0 else "down"


def _seconds_per_forward(ticks: Sequence[Timings], node: int) -> list[tuple[float, float]]:
    """Give (at, seconds a forward spent in the node since the tick before), from running totals."""
    figures: list[tuple[float, float]] = []
    for earlier, later in pairwise(ticks):
        before, after = earlier.of(node), later.of(node)
        forwards = later.tick.forwards - earlier.tick.forwards
        if before is not None and after is not None and forwards > 0:
            figures.append((later.tick.at, (after.total - before.total) / forwards))
    return figures
