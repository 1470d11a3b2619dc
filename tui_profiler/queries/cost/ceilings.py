"""Which of this machine's roofs may be concluded from, and why not from the others.

1. A roof that is not good enough, as of a machine that was busy while it was measured, is no roof
   here: a finding that needs it is not made. What interferes only lowers a rate, so that its figure
   still says how long work takes at most (``at_least``); a cache, whose rate is a difference of two
   times, moves at least what the next farther level does.
2. Recordings from before roofs had a quality say how many cores were busy meanwhile.
3. Memory has a roof for each level that was measured. Inputs and outputs come from the nearest
   level that holds what one call touches: the operator before has just written them. Weights are
   read once per forward: they come from the nearest level that can keep them from one forward to
   the next.
"""

import math
from collections.abc import Iterator
from functools import lru_cache

from msgspec import Struct

from tui_profiler.messages import Ceilings, Figure, RoofQuality, Unknown, known

MOST_BUSY_CORES = 0.1
"""Rule 2: with more of a core busy elsewhere a roof may be too low."""
OPERATOR, MEMORY = "operator", "memory"
MOST_CACHE_BYTES = 1 << 30
"""More than the caches of one processor hold: a larger matrix is read from memory each time."""
_PARTLY_KEPT = 2.0
"""A cache of half the size of the weights may still serve half of them: its roof is the one that
they cannot exceed."""


class Roof(Struct, frozen=True):
    """One roof as it is shown."""

    name: str
    """A dtype as torch names it, ``memory``, ``L2``, ``L3`` or ``operator``."""
    figure: Figure
    unit: str
    """``FLOP/s``, ``B/s``, or ``s`` for the least time of an operator."""
    quality: RoofQuality | None
    """None where there is no figure, and in recordings that are older than it."""
    why_not_good: str
    """Why it is not good enough to conclude from; empty where it is, or where it is not known."""
    bytes: int | None = None
    """Working set that fits, of a cache."""


class Level(Struct, frozen=True):
    """One level of memory and what it moves at most."""

    name: str
    """``L2``, ``L3`` or ``memory``."""
    bytes: float
    """Working set that fits; infinite for memory."""
    bytes_per_second: float | None
    """None where its roof is not good enough."""
    at_least: float = 0.0
    """Bytes per second that it surely moves."""


class UsableRoofs(Struct, frozen=True, eq=False):
    """The roofs that are good enough; what is not known at all is in none of the fields."""

    compute: dict[str, float]
    """FLOP/s by dtype, as torch names it."""
    levels: tuple[Level, ...]
    """Nearest to a core first, memory last; empty where memory has no roof."""
    op_seconds: float | None
    """Least time of one operator."""
    not_good: dict[str, str]
    """Why a roof is not good enough: by dtype, name of a level, or ``operator``."""
    unknown: dict[str, str]
    """Why there is no figure, likewise."""
    compute_at_least: dict[str, float]
    """FLOP/s that are surely reached, of dtypes whose roof is not good enough."""
    op_seconds_at_most: float | None
    """Least time of one operator at most, where its roof is not good enough."""

    def level(self, working_set: float) -> Level | None:
        """Return the nearest level that holds so many bytes, None where memory has no roof."""
        return next((level for level in self.levels if working_set <= level.bytes), None)

    def memory_seconds(
        self, activations: int, weights: int, calls: int, all_weights: int
    ) -> float | None:
        """Return the least time in which bytes can be moved, by rule 3.

        Args:
            activations: bytes of inputs and outputs, of all calls in one forward.
            weights: bytes of weights, likewise.
            calls: how many there are.
            all_weights: bytes of all parameters of the model.

        Returns:
            None where a roof that it needs is not known or not good enough.
        """
        seconds = 0.0
        for moved, level in self._levels_of(activations, weights, calls, all_weights):
            if level is None or not level.bytes_per_second:
                return None
            seconds += moved / level.bytes_per_second
        return seconds

    def memory_seconds_at_most(
        self, activations: int, weights: int, calls: int, all_weights: int
    ) -> float:
        """Return the longest that the least time of ``memory_seconds`` can be; same arguments."""
        levels = self._levels_of(activations, weights, calls, all_weights)
        return sum(
            moved / level.at_least if level is not None and level.at_least else math.inf
            for moved, level in levels
        )

    def again_seconds(self, steps: int, matrix: int, calls: int) -> tuple[float, float]:
        """Return the least time in which the steps after the first read a matrix again.

        Args:
            steps: of one call.
            matrix: its bytes.
            calls: per forward.

        Returns:
            Seconds at a good roof, and seconds at most at one that is not good enough; one is 0.
        """
        moved, level = (steps - 1) * matrix * calls, self.level(matrix / _PARTLY_KEPT)
        if not moved:
            return 0.0, 0.0
        # Without the roof of a cache it is not known which level holds the matrix.
        is_known = level is not None and (len(self.levels) > 1 or matrix > MOST_CACHE_BYTES)
        if is_known and level is not None and level.bytes_per_second:
            return moved / level.bytes_per_second, 0.0
        return 0.0, moved / level.at_least if level is not None and level.at_least else math.inf

    def level_not_good(self, activations: int, weights: int, calls: int, all_weights: int) -> str:
        """Return the name of a level that is needed without a good roof; same arguments."""
        for _, level in self._levels_of(activations, weights, calls, all_weights):
            if level is None:
                return MEMORY
            if not level.bytes_per_second:
                return level.name
        return ""

    def level_names(
        self, activations: int, weights: int, calls: int, all_weights: int
    ) -> Iterator[tuple[str, float]]:
        """Yield the levels that bytes come from, and the seconds at their roofs; same arguments."""
        for moved, level in self._levels_of(activations, weights, calls, all_weights):
            if level is not None and level.bytes_per_second:
                yield level.name, moved / level.bytes_per_second

    def _levels_of(
        self, activations: int, weights: int, calls: int, all_weights: int
    ) -> Iterator[tuple[int, Level | None]]:
        """Yield how many bytes come from which level."""
        if activations:
            yield activations, self.level((activations + weights) / max(calls, 1))
        if weights:
            yield weights, self.level(max(all_weights, weights) / _PARTLY_KEPT)

    def sentence(self, name: str) -> str:
        """Say why a roof is not good enough, or is none.

        Args:
            name: a dtype, the name of a level, or ``operator``.
        """
        if name in self.not_good:
            return f"the {name} roof is not good enough: {self.not_good[name]}"
        return f"no {name} roof: {self.unknown.get(name, 'not measured')}"


def roofs_of(ceilings: Ceilings) -> tuple[Roof, ...]:
    """Return every roof, products first, then memory from the nearest cache on, then operators."""

    def roof(
        name: str,
        figure: Figure,
        unit: str,
        quality: RoofQuality | None,
        fits: int | None = None,
    ) -> Roof:
        why = "" if isinstance(figure, Unknown) else why_not_good(ceilings, quality)
        return Roof(name, figure, unit, quality, why, fits)

    return (
        *(roof(one.dtype, one.flops_per_second, "FLOP/s", one.quality) for one in ceilings.compute),
        *(
            roof(cache_name(one.level), one.bytes_per_second, "B/s", one.quality, one.bytes)
            for one in ceilings.caches
        ),
        roof(MEMORY, ceilings.bytes_per_second, "B/s", ceilings.memory_quality),
        roof(OPERATOR, ceilings.op_seconds, "s", ceilings.op_quality),
    )


@lru_cache(maxsize=4)
def usable_roofs(ceilings: Ceilings) -> UsableRoofs:
    """Return the roofs that are good enough to conclude from; ask once for a whole tree."""
    every = roofs_of(ceilings)
    figures = {one.name: known(one.figure) for one in every}
    rates = {one.name: None if one.why_not_good else figures[one.name] for one in every}
    doubted = {one.name: one.why_not_good for one in every if one.why_not_good}
    products = [one.name for one in every if one.unit == "FLOP/s"]
    return UsableRoofs(
        compute={name: rate for name in products if (rate := rates[name])},
        levels=_levels(every),
        op_seconds=rates[OPERATOR],
        not_good=doubted,
        unknown={one.name: one.figure.reason for one in every if isinstance(one.figure, Unknown)},
        compute_at_least={
            name: rate for name in products if name in doubted and (rate := figures[name])
        },
        op_seconds_at_most=figures[OPERATOR] if OPERATOR in doubted else None,
    )


def _levels(every: tuple[Roof, ...]) -> tuple[Level, ...]:
    """Return the levels, nearest first; none where memory has no figure at all."""
    levels: list[Level] = []
    farther = 0.0
    for one in reversed([one for one in every if one.unit == "B/s"]):
        rate = known(one.figure)
        if rate is None:
            if one.name == MEMORY:
                return ()
            continue
        is_sure = one.name == MEMORY or not one.why_not_good
        farther = max(farther, rate) if is_sure else farther
        fits = one.bytes if one.bytes is not None else math.inf
        levels.append(Level(one.name, fits, None if one.why_not_good else rate, farther))
    return tuple(reversed(levels))


def why_not_good(ceilings: Ceilings, quality: RoofQuality | None) -> str:
    """Return why nothing may be concluded from a roof, empty where it is good; rules 1 and 2."""
    if quality is not None:
        return quality.why_not_good
    if ceilings.busy > MOST_BUSY_CORES:
        return f"{ceilings.busy:.1f} cores were busy during calibration, peaks may be low"
    return ""


def cache_name(level: int) -> str:
    """Name a level of the caches."""
    return f"L{level}"
