"""A node's recent past: one value a second, from the ticks that are kept."""

from __future__ import annotations

import math

from tui_profiler.messages import Figure, known
from tui_profiler.session import Session


def last_calls(session: Session, node: int, columns: int) -> tuple[float | None, ...]:
    """Give the last call of each of the last ``columns`` seconds, oldest first.

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
    """Give the mean share that all cores were busy, of the last samples; 0 to 1."""
    samples = session.history.samples[-columns:] if columns > 0 else ()
    shares = [
        sum(core.utilisation for core in sample.cores) / len(sample.cores) if sample.cores else None
        for sample in samples
    ]
    return _filled(shares, columns)


def process_memory(session: Session, columns: int) -> tuple[float | None, ...]:
    """Give the worker's resident memory as a share of the machine's, of the last samples."""
    samples = session.history.samples[-columns:] if columns > 0 else ()
    return _filled(
        [_share(sample.process_bytes, sample.memory_total_bytes) for sample in samples], columns
    )


def gpu_utilisation(session: Session, gpu: int, columns: int) -> tuple[float | None, ...]:
    """Give the share of time that a GPU ran a kernel, of the last samples; 0 to 1."""
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
