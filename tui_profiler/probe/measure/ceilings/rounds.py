"""Roofs measured in rounds, and what follows where the rounds do not agree.

1. What else uses a machine's memory, caches and clock rate is not seen by its counters: neighbours
   of a virtual machine least of all. It comes and goes. So every roof is measured in ``ROUNDS``
   rounds, one roof after another in each of them, with two kernels in turn: copies and negations,
   products of two sizes.
2. The roof is the second best of the rounds that are good: what interferes only adds time, and no
   single odd round sets it. It is good where the best three of them agree within
   ``MOST_BETWEEN_ROUNDS``: so far the figure is known. On a busy machine a round takes long: once
   all roofs took ``ENOUGH_SECONDS`` there are no more rounds of one of which three agree within
   ``SETTLED``, and once they took ``MOST_SECONDS`` of none that was measured three times. After
   ``LIMIT_SECONDS`` nothing is measured that has one round already; a roof that has fewer than
   ``LEAST_ROUNDS`` then is not good enough, and says so.
3. Rounds of all threads count before those of one thread, whose rate is multiplied. Where both are
   good and differ by more than ``MOST_BETWEEN_WAYS``, neither is believed.
4. Two kernels that differ by more than ``MOST_BETWEEN_KERNELS`` were not held back by the machine
   alone. A store that does not read its line first explains 1.5.
5. Where other virtual machines took more than ``MOST_STOLEN`` of the cores' time (``steal`` of
   /proc/stat; Linux, proc.rst), nothing is good.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import psutil
from msgspec.structs import replace

from tui_profiler.messages import Figure, RoofQuality, known
from tui_profiler.system.real_time import perf_counter

ROUNDS = 6
LEAST_ROUNDS = 3
"""Good ones that a good roof needs."""
MOST_BETWEEN_ROUNDS = 1.15
SETTLED = 1.05
ENOUGH_SECONDS, MOST_SECONDS = 3.0, 8.0
LIMIT_SECONDS = 15.0
"""Wall time after the first round of each roof; a quiet machine takes 4 s."""
MOST_BETWEEN_WAYS = 1.25
MOST_BETWEEN_KERNELS = 1.6
MOST_STOLEN = 0.05
_AT_RANK = 2


class Measured(NamedTuple):
    """A rate or a time, and how it was measured."""

    figure: Figure
    quality: RoofQuality | None
    """None where there is no figure."""


class Round(NamedTuple):
    """One roof in one round."""

    measured: Measured
    kernel: str = ""
    """What was timed: ``copies``, ``products of 512``."""


def in_rounds(
    roofs: Mapping[str, Callable[[], Round]],
    rounds: int = ROUNDS,
    between: Callable[[], object] = int,
    *,
    enough_seconds: float = ENOUGH_SECONDS,
    most_seconds: float = MOST_SECONDS,
    limit_seconds: float = LIMIT_SECONDS,
    clock: Callable[[], float] = perf_counter,
) -> dict[str, list[Round]]:
    """Return the rounds of each roof, measured in turn.

    Args:
        roofs: measure one round of each.
        rounds: how many.
        between: is called between any two of them.
        enough_seconds: after which a roof that is clear is not measured again.
        most_seconds: after which none is that was measured ``LEAST_ROUNDS`` times.
        limit_seconds: after which none is that was measured once.
        clock: seconds of wall time.
    """
    found: dict[str, list[Round]] = {name: [] for name in roofs}
    spent = 0.0
    for turn in range(rounds):
        is_long = spent > enough_seconds
        left = [name for name in roofs if not (is_long and _is_settled(found[name]))]
        if (turn >= LEAST_ROUNDS and spent > most_seconds) or (turn and spent > limit_seconds):
            break
        if turn and left:
            between()
        began = clock()
        for name in left:
            if turn and spent + clock() - began > limit_seconds:
                break
            found[name].append(roofs[name]())
        spent += clock() - began
    return found


def of_rounds(
    rounds: Sequence[Round], stolen: float = 0.0, *, planned: int = 1, is_time: bool = False
) -> Measured:
    """Return a roof and its quality, by rules 2 to 5.

    Args:
        rounds: at least one; where no other was planned it is the roof as it is.
        stolen: share of the cores' time that other virtual machines took meanwhile.
        planned: rounds, had there been time for all.
        is_time: whether less is better.
    """
    if len(rounds) == 1 == planned:
        return rounds[0].measured
    every = _fastest_first(rounds, is_time=is_time)
    if not every:
        return rounds[0].measured
    good = [one for one in every if not one.quality.why_not_good]
    counted = _counted(good)
    at = (counted or every)[:_AT_RANK][-1]
    why = (
        _cut_short(len(rounds), planned)
        or _too_few(every, counted, len(rounds))
        or _ways_differ(good)
        or _rounds_differ(counted)
        or _kernels_differ(counted)
        or _stolen(stolen)
    )
    quality = replace(
        at.quality,
        busy=sum(one.quality.busy for one in every) / len(every),
        why_not_good=why,
        pieces=sum(one.quality.pieces for one in every),
        undisturbed=sum(one.quality.undisturbed for one in every),
    )
    return Measured(at.figure, quality)


class _Known(NamedTuple):
    """A round that has a figure."""

    figure: float
    speed: float
    """The figure, or one over it where less is better."""
    quality: RoofQuality
    kernel: str

    @classmethod
    def of(cls, one: Round, *, is_time: bool) -> _Known | None:
        figure, quality = known(one.measured.figure), one.measured.quality
        if not figure or quality is None:
            return None
        return cls(figure, 1 / figure if is_time else figure, quality, one.kernel)


def _fastest_first(rounds: Sequence[Round], *, is_time: bool = False) -> list[_Known]:
    found = [_Known.of(one, is_time=is_time) for one in rounds]
    return sorted(filter(None, found), key=lambda one: -one.speed)


def _counted(good: Sequence[_Known]) -> Sequence[_Known]:
    """Return those that set the roof, by rule 3."""
    by_all = [one for one in good if not one.quality.scaled]
    return by_all if len(by_all) >= LEAST_ROUNDS else good


def _is_settled(rounds: Sequence[Round]) -> bool:
    good = [one for one in _fastest_first(rounds) if not one.quality.why_not_good]
    counted = _counted(good)
    if len(counted) < LEAST_ROUNDS or _ways_differ(good):
        return False
    # So is a time, of which the slowest come first here.
    return counted[0].speed <= SETTLED * counted[LEAST_ROUNDS - 1].speed


def _cut_short(rounds: int, planned: int) -> str:
    if rounds >= min(LEAST_ROUNDS, planned):
        return ""
    return f"the machine was busy: {rounds} of {planned} rounds in {LIMIT_SECONDS:.0f} s"


def _too_few(every: Sequence[_Known], counted: Sequence[_Known], rounds: int) -> str:
    if len(counted) >= LEAST_ROUNDS:
        return ""
    reasons = [one.quality.why_not_good for one in every if one.quality.why_not_good]
    last = reasons[-1] if reasons else "the others have no figure"
    return f"{len(counted)} of {rounds} rounds are good: {last}"


def _ways_differ(good: Sequence[_Known]) -> str:
    by_one = next((one for one in good if one.quality.scaled), None)
    by_all = next((one for one in good if not one.quality.scaled), None)
    if by_one is None or by_all is None:
        return ""
    ratio = by_one.speed / by_all.speed
    if max(ratio, 1 / ratio) <= MOST_BETWEEN_WAYS:
        return ""
    return f"{by_one.quality.scaled} is {ratio:.1f} times that of all threads together"


def _rounds_differ(counted: Sequence[_Known]) -> str:
    ratio = counted[0].speed / counted[LEAST_ROUNDS - 1].speed
    if ratio <= MOST_BETWEEN_ROUNDS:
        return ""
    return f"the best {LEAST_ROUNDS} rounds differ by {(ratio - 1) * 100:.0f} %"


def _kernels_differ(counted: Sequence[_Known]) -> str:
    best: dict[str, float] = {}
    for one in counted:
        best.setdefault(one.kernel, one.speed)
    fast, slow = max(best, key=lambda name: best[name]), min(best, key=lambda name: best[name])
    ratio = best[fast] / best[slow]
    return f"{fast} are {ratio:.1f} times as fast as {slow}" if ratio > MOST_BETWEEN_KERNELS else ""


def _stolen(share: float) -> str:
    if share <= MOST_STOLEN:
        return ""
    return f"other virtual machines took {share * 100:.0f} % of the cores' time"


class StealClock:
    """The share of the cores' time that other virtual machines took since this was made."""

    def __init__(self) -> None:
        self._began, self._stolen = perf_counter(), _stolen_seconds()

    def share(self) -> float:
        """Return it, 0 to 1; 0 where the kernel does not count it."""
        wall = (perf_counter() - self._began) * (os.cpu_count() or 1)
        return min(max(_stolen_seconds() - self._stolen, 0.0) / wall, 1.0)


def _stolen_seconds() -> float:
    return float(getattr(psutil.cpu_times(), "steal", 0.0))
