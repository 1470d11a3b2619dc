"""The last minutes in columns of equal time: latency, utilisation and power on one axis.

1. Columns are aligned to whole multiples of their seconds: they advance one at a time, and what is
   in one changes only while it is the last.
2. A column in which the model was held, or nothing came, is None. A forward that takes longer than
   a column fills every column that it ran in.
"""

import math
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from tui_profiler.messages import Figure, Gpu, Unknown
from tui_profiler.session import Session
from tui_profiler.session.history import MAX_SECONDS, gpu_of, watts_of

STEPS = (1, 2, 5, 10, 20, 30)
"""Seconds a column may stand for."""
USUAL_SECONDS = 300
_AGES = (10, 20, 30, 60, 120, 300, 600)
_LABEL_CELLS = 12
NO_SAMPLE = Unknown("the first sample")


class Axis(Struct, frozen=True):
    """Which time each column stands for."""

    columns: int
    step: int
    """Seconds of a column."""
    newest: int
    """Number of the last column, counted from when the command was started."""

    def column(self, second: float) -> int:
        """Return the column of a time; there may be none of that number."""
        return self.columns - 1 - self.newest + math.floor(second / self.step)


class TimeSeries(Struct, frozen=True):
    """One value a column, oldest first; None where there is none."""

    p50: tuple[float | None, ...]
    """Seconds of one forward, the last told in each column."""
    p95: tuple[float | None, ...]
    """Seconds of one forward, the highest told in each column."""
    cpu: tuple[float | None, ...]
    """Mean share that the cores were busy, 0 to 1."""
    gpu: tuple[float | None, ...]
    """Mean share that a kernel ran, 0 to 1."""
    watts: tuple[float | None, ...]
    """Mean power of the device that the model is on."""


def steps(columns: int) -> tuple[int, ...]:
    """Return the seconds that a column may stand for, as far as the past reaches."""
    wide = next((step for step in STEPS if step * columns >= MAX_SECONDS), STEPS[-1])
    return tuple(step for step in STEPS if step <= wide)


def usual_step(columns: int) -> int:
    """Return the least seconds a column with which the last five minutes are seen."""
    return next((step for step in STEPS if step * columns >= USUAL_SECONDS), STEPS[-1])


def axis(session: Session, now: float, columns: int, step: int) -> Axis:
    """Return the axis that ends now; where the process is gone, when it was heard last."""
    end = session.heard_at if session.ended is not None else now
    history = session.history
    told = [one.second for one in history.latencies[-1:]]
    end = max([end, *told, *(one.second for one in history.loads[-1:])])
    return Axis(columns, step, math.floor(end / step))


def past(session: Session, along: Axis) -> TimeSeries:
    """Return the last minutes."""
    loads = session.history.loads
    p50s, p95s = _latency(session, along)
    return TimeSeries(
        p50=p50s,
        p95=p95s,
        cpu=_by_column(((one.second, one.cpu) for one in loads), along, _mean),
        gpu=_by_column(((one.second, one.gpu) for one in loads), along, _mean),
        watts=_by_column(((one.second, one.watts) for one in loads), along, _mean),
    )


def marks(along: Axis) -> tuple[tuple[int, int], ...]:
    """Return (column, seconds ago) of what is written below the axis, oldest first."""
    room = _LABEL_CELLS * along.step
    every = next((age for age in _AGES if age >= room and age % along.step == 0), 0)
    if not every:
        return ()
    last = along.columns - 1
    ages = range(every, last * along.step + 1, every)
    return tuple((last - age // along.step, age) for age in reversed(ages))


def device(session: Session) -> str:
    """Return the device that the model is on, as torch names it."""
    return session.model.device if session.model is not None else "cpu"


def model_gpu(session: Session) -> Gpu | Unknown:
    """Return the GPU that utilisation speaks of, as the last sample has it."""
    return NO_SAMPLE if session.sample is None else gpu_of(session.sample, device(session))


def watts(session: Session) -> Figure:
    """Return the power of the model's device, as the last sample has it."""
    return NO_SAMPLE if session.sample is None else watts_of(session.sample, device(session))


def _latency(
    session: Session, along: Axis
) -> tuple[tuple[float | None, ...], tuple[float | None, ...]]:
    told = session.history.latencies
    p50s = list(_by_column(((one.second, one.p50) for one in told), along, lambda all: all[-1]))
    p95s = list(_by_column(((one.second, one.p95) for one in told), along, max))
    for one in told:
        if one.p50 is None or one.p50 <= along.step:
            continue
        first = max(along.column(one.second - one.p50), 0)
        for column in range(first, min(along.column(one.second), along.columns)):
            p50s[column] = one.p50 if p50s[column] is None else p50s[column]
            p95s[column] = one.p95 if p95s[column] is None else p95s[column]
    return tuple(p50s), tuple(p95s)


def _by_column(
    values: Iterable[tuple[int, float | None]],
    along: Axis,
    joined: Callable[[Sequence[float]], float],
) -> tuple[float | None, ...]:
    columns: list[list[float]] = [[] for _ in range(along.columns)]
    for second, value in values:
        column = along.column(second)
        if value is not None and 0 <= column < along.columns:
            columns[column].append(value)
    return tuple(joined(each) if each else None for each in columns)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
