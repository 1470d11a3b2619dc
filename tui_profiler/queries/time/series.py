"""A node's recent past, one value a second, and whether it has become slower or faster."""

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import Literal, TypeAlias

from tui_profiler.messages import Figure, known
from tui_profiler.session import Session, Timings


def last_calls(session: Session, node: int, columns: int) -> tuple[float | None, ...]:
    """Return the last call of each of the last ``columns`` seconds, oldest first.

    Args:
        session: its ticks are looked at from the newest back, no further than is asked for.
        node: index of the node.
        columns: seconds wanted; as many values are given.

    Returns:
        Seconds of the last call that was known at the end of each second; None for a second in
        which no tick came, or none that knew the node.
    """
    values: list[float | None] = [None] * max(columns, 0)
    ticks = session.history.ticks
    if not ticks:
        return tuple(values)
    newest = math.floor(ticks[-1].tick.at)
    for timings in reversed(ticks):
        # A clock that was set back must not put a tick to the right of the newest.
        column = columns - 1 - max(newest - math.floor(timings.tick.at), 0)
        if column < 0:
            break
        if values[column] is None:
            values[column] = timings.last(node)
    return tuple(values)


def utilisation(session: Session, columns: int) -> tuple[float | None, ...]:
    """Return the mean share that all cores were busy, of the last samples; 0 to 1."""
    samples = session.history.samples[-columns:] if columns > 0 else ()
    shares = [
        sum(core.utilisation for core in sample.cores) / len(sample.cores) if sample.cores else None
        for sample in samples
    ]
    return _filled(shares, columns)


def process_memory(session: Session, columns: int) -> tuple[float | None, ...]:
    """Return the worker's resident memory as a share of the machine's, of the last samples."""
    samples = session.history.samples[-columns:] if columns > 0 else ()
    return _filled(
        [_share(sample.process_bytes, sample.memory_total_bytes) for sample in samples], columns
    )


def gpu_utilisation(session: Session, gpu: int, columns: int) -> tuple[float | None, ...]:
    """Return the share of time that a GPU ran a kernel, of the last samples; 0 to 1."""
    samples = session.history.samples[-columns:] if columns > 0 else ()
    shares = [
        known(sample.gpus[gpu].utilisation)
        if isinstance(sample.gpus, tuple) and gpu < len(sample.gpus)
        else None
        for sample in samples
    ]
    return _filled(shares, columns)


def _share(figure: Figure, whole: int) -> float | None:
    part = known(figure)
    return part / whole if part is not None and whole > 0 else None


def _filled(values: list[float | None], columns: int) -> tuple[float | None, ...]:
    return (*[None] * (columns - len(values)), *values)


Trend: TypeAlias = Literal["up", "down", ""]

_SHORT_SECONDS = 5.0
_LONG_SECONDS = 60.0
_STEP_SECONDS = 0.9
"""Ticks closer than this are not looked at by themselves: about one figure a second is enough."""
LEAST_RATIO = 0.10
_LEAST_DEVIATIONS = 3.0
_LEAST_FIGURES = 12
"""Fewer seconds than this say nothing about what is usual."""


def spaced(ticks: Sequence[Timings]) -> list[Timings]:
    """Choose about one tick a second of the last minute, oldest first."""
    chosen: list[Timings] = []
    for timings in reversed(ticks):
        if ticks[-1].tick.at - timings.tick.at > _LONG_SECONDS + _STEP_SECONDS:
            break
        if not chosen or chosen[-1].tick.at - timings.tick.at >= _STEP_SECONDS:
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
    if len(figures) < _LEAST_FIGURES:
        return ""
    newest = figures[-1][0]
    lately = median([seconds for at, seconds in figures if newest - at < _SHORT_SECONDS])
    usual = median([seconds for _, seconds in figures])
    deviation = median([abs(seconds - usual) for _, seconds in figures])
    difference = lately - usual
    if abs(difference) <= max(LEAST_RATIO * usual, _LEAST_DEVIATIONS * deviation):
        return ""
    return "up" if difference > 0 else "down"


def _seconds_per_forward(ticks: Sequence[Timings], node: int) -> list[tuple[float, float]]:
    """Return (at, seconds a forward spent in the node since the tick before), by running totals."""
    figures: list[tuple[float, float]] = []
    for earlier, later in pairwise(ticks):
        before, after = earlier.of(node), later.of(node)
        forwards = later.tick.forwards - earlier.tick.forwards
        if before is not None and after is not None and forwards > 0:
            figures.append((later.tick.at, (after.total - before.total) / forwards))
    return figures
