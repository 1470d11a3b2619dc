"""How time and work grow along an axis: exponents, their spread, and the knee.

1. An exponent is the slope of a straight line through (ln setting, ln figure), by least squares:
   0 is flat, 1 linear, 2 quadratic, -1 inverse.
2. Its spread is half of a 95 % interval, from how far the rounds of one point lie apart; with one
   round, from how far the points lie off the line.
3. No straight line fits what is flat at first and grows later: the slopes between the first two
   and the last two settings tell that, and then the word says both.
4. Where the times do not carry it there is no exponent but a reason.
"""

import math
from collections.abc import Sequence
from statistics import fmean, median

from msgspec import Struct

from tui_profiler.messages import Unknown, known
from tui_profiler.messages.model import Kind
from tui_profiler.queries.sweep import Axis, AxisName, NodeFigures, Result, Sweep, Value, results

LEAST_POINTS = 3
LEAST_SECONDS = 5e-6
"""The clock takes 0.25 µs of each call: of shorter ones it is no small part."""
MOST_SPREAD = 0.3
NEAR = 0.25
"""How far an exponent may lie from a whole one to have its word."""
BENT = 0.5
"""So much must the slope change from the first two settings to the last two to be told."""
_WORDS = ((-1, "inverse"), (0, "flat"), (1, "linear"), (2, "quadratic"), (3, "cubic"))
_T_95 = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
"""Student's t, 97.5 %, for 1 to 30 degrees of freedom. Source: NIST/SEMATECH e-Handbook of
Statistical Methods, section 1.3.6.7.2."""
KNEE_RULE = "where items/s over latency is largest (Kleinrock's power, ICC 1979)"


class Slope(Struct, frozen=True):
    """How a figure grows along an axis."""

    exponent: float
    spread: float | None
    """Half of the 95 % interval; None where it is exact, as what is counted on paper is."""
    first: float
    """Slope between the two lowest settings."""
    last: float
    """Slope between the two highest."""
    points: int

    @property
    def word(self) -> str:
        """Say it: ``linear``, ``flat, then linear``, ``between flat and linear``."""
        if self.points > 2 and abs(self.last - self.first) > BENT:
            begins, ends = _word(self.first), _word(self.last)
            return begins if begins == ends else f"{begins}, then {ends}"
        return _word(self.exponent)


class Growth(Struct, frozen=True):
    """One node along an axis."""

    path: str
    kind: Kind
    type: str
    seconds: float | None
    """Of one forward, at the highest setting; None where it was not timed there."""
    time: Slope | Unknown
    flops: Slope | Unknown
    bytes_moved: Slope | Unknown


class Scaling(Struct, frozen=True):
    """Every node along one axis, the other axes held."""

    axis: str
    at: tuple[tuple[AxisName, Value], ...]
    """What the other axes were held at."""
    highest: int
    """Setting that the seconds of the nodes are of."""
    nodes: tuple[Growth, ...]
    """In the order of the tree; the root is the first."""


class Knee(Struct, frozen=True):
    """From where on a larger batch costs more latency than it gains."""

    at: tuple[tuple[AxisName, Value], ...]
    batch: int
    gain: float
    """Items/s over those of the smallest batch."""
    cost: float
    """Latency over that of the smallest batch."""
    is_first: bool
    is_last: bool
    least_batch: int
    """The rounds do not tell these batches apart: from this one"""
    most_batch: int
    """to this one. Both are ``batch`` where it was the best in every round."""
    is_distinct: bool
    """Whether they are not all batches of the sweep."""


def scalings(sweep: Sweep) -> tuple[Scaling, ...]:
    """Return the growth along every axis of numbers, for each setting of the others."""
    found = []
    for number, axis in enumerate(sweep.axes):
        if axis.name == "dtype" or len(set(axis.values)) < 2:
            continue
        for at, line in _lines(sweep, number):
            nodes = _growths(axis, number, line)
            if nodes:
                found.append(Scaling(axis.name, at, _number(line[-1], number), nodes))
    return tuple(found)


def knees(sweep: Sweep) -> tuple[Knee, ...]:
    """Return where a larger batch stops to pay, for each setting of the other axes."""
    number = next((i for i, axis in enumerate(sweep.axes) if axis.name == "batch"), None)
    if number is None:
        return ()
    lines = _lines(sweep, number)
    return tuple(knee for at, line in lines if (knee := _knee(at, number, line)) is not None)


def _lines(
    sweep: Sweep, number: int
) -> list[tuple[tuple[tuple[AxisName, Value], ...], list[Result]]]:
    """Return the good points of every line along an axis, with what the others are held at."""
    lines: dict[tuple[tuple[AxisName, Value], ...], list[Result]] = {}
    names = [axis.name for axis in sweep.axes]
    for result in results(sweep):
        pairs = zip(names, result.point.values, strict=True)
        at = tuple(pair for place, pair in enumerate(pairs) if place != number)
        if result.state in ("measured", "on paper"):
            lines.setdefault(at, []).append(result)
    return [(at, sorted(line, key=lambda one: _number(one, number))) for at, line in lines.items()]


def _number(result: Result, axis: int) -> int:
    return int(result.point.values[axis])


def _growths(axis: Axis, number: int, line: list[Result]) -> tuple[Growth, ...]:
    """Follow the nodes of the highest setting, by path and type, through the others."""
    held = [
        (_number(result, number), [{n.path: n for n in v.nodes} for v in result.visits])
        for result in line
    ]
    if not held or not held[-1][1]:
        return ()
    grown = []
    for node in held[-1][1][0].values():
        met = [
            (setting, [one for visit in visits if (one := visit.get(node.path)) is not None])
            for setting, visits in held
        ]
        # At another setting a path of an operator may be another operator's.
        alike = [(x, [n for n in seen if n.type == node.type]) for x, seen in met]
        grown.append(_growth(node, [(x, seen) for x, seen in alike if seen], len(line), axis.name))
    return tuple(grown)


def _growth(
    node: NodeFigures, met: list[tuple[int, list[NodeFigures]]], wanted: int, axis: str
) -> Growth:
    timed = [(x, [n.seconds for n in seen if n.seconds is not None]) for x, seen in met]
    last = timed[-1][1]
    return Growth(
        path=node.path,
        kind=node.kind,
        type=node.type,
        seconds=median(last) if last else None,
        time=time_slope([(x, seconds) for x, seconds in timed if seconds], wanted),
        flops=_on_paper([(x, seen[0].flops) for x, seen in met], wanted, "FLOP"),
        bytes_moved=_on_paper([(x, seen[0].bytes_moved) for x, seen in met], wanted, "bytes"),
    )


def time_slope(timed: Sequence[tuple[int, Sequence[float]]], wanted: int) -> Slope | Unknown:
    """Fit times, or say why they carry no exponent.

    Args:
        timed: (setting, seconds in each round), by setting.
        wanted: how many settings there were.
    """
    if not timed:
        return Unknown("it was not timed")
    if len(timed) < LEAST_POINTS:
        of = f" of {wanted}" if len(timed) < wanted else ""
        points = "point" if len(timed) == 1 and not of else "points"
        return Unknown(f"timed at {len(timed)}{of} {points}, {LEAST_POINTS} needed")
    shortest = min(median(seconds) for _, seconds in timed)
    if shortest < LEAST_SECONDS:
        return Unknown(f"as short as {shortest * 1e6:.1f} µs: too short for the clock")
    slope = fit(timed)
    if slope.spread is None:
        return Unknown("one round of few points has no spread")
    if slope.spread > MOST_SPREAD:
        return Unknown(f"too noisy: {slope.exponent:.2f} ± {slope.spread:.2f}")
    return slope


def _on_paper(counted: list[tuple[int, int]], wanted: int, what: str) -> Slope | Unknown:
    if len(counted) < 2:
        return Unknown(f"it is at {len(counted)} of {wanted} points only")
    if all(value == 0 for _, value in counted):
        return Unknown(f"it has no {what}")
    if any(value == 0 for _, value in counted):
        return Unknown(f"it has no {what} at some points")
    slope = fit([(x, [float(value)]) for x, value in counted])
    return Slope(slope.exponent, None, slope.first, slope.last, slope.points)


def fit(observed: Sequence[tuple[int, Sequence[float]]]) -> Slope:
    """Fit a power by least squares.

    Args:
        observed: (setting, figures above 0 in each round), by setting; at least two settings.
    """
    pairs = [(math.log(x), math.log(y)) for x, values in observed for y in values]
    mean_x, mean_y = fmean(x for x, _ in pairs), fmean(y for _, y in pairs)
    across = math.fsum((x - mean_x) ** 2 for x, _ in pairs)
    exponent = math.fsum((x - mean_x) * (y - mean_y) for x, y in pairs) / across
    middles = [(math.log(x), math.log(median(values))) for x, values in observed]
    return Slope(
        exponent=exponent,
        spread=_spread(observed, pairs, (mean_x, mean_y, exponent), across),
        first=_between(middles[0], middles[1]),
        last=_between(middles[-2], middles[-1]),
        points=len(observed),
    )


def _spread(
    observed: Sequence[tuple[int, Sequence[float]]],
    pairs: list[tuple[float, float]],
    line: tuple[float, float, float],
    across: float,
) -> float | None:
    """Return half of the 95 % interval of a slope; None where nothing was seen twice."""
    logs = [[math.log(value) for value in values] for _, values in observed]
    freedom = sum(len(values) - 1 for values in logs)
    squares = math.fsum((y - fmean(values)) ** 2 for values in logs for y in values)
    if not freedom:
        mean_x, mean_y, exponent = line
        freedom = len(pairs) - 2
        squares = math.fsum((y - mean_y - exponent * (x - mean_x)) ** 2 for x, y in pairs)
    if freedom < 1:
        return None
    quantile = _T_95[freedom - 1] if freedom <= len(_T_95) else 1.96
    return quantile * math.sqrt(squares / freedom / across)


def _between(one: tuple[float, float], other: tuple[float, float]) -> float:
    return (other[1] - one[1]) / (other[0] - one[0])


def _word(exponent: float) -> str:
    for whole, word in _WORDS:
        if abs(exponent - whole) <= NEAR:
            return word
    below = [word for whole, word in _WORDS if whole < exponent]
    above = [word for whole, word in _WORDS if whole > exponent]
    if not below:
        return f"faster than {above[0]}"
    return f"between {below[-1]} and {above[0]}" if above else f"beyond {below[-1]}"


def _knee(at: tuple[tuple[AxisName, Value], ...], number: int, line: list[Result]) -> Knee | None:
    measured = [
        (_number(one, number), one.items_per_second, one.latency_p50)
        for one in line
        if not isinstance(one.items_per_second, Unknown)
        and not isinstance(one.latency_p50, Unknown)
        and one.latency_p50 > 0
    ]
    if len(measured) < 2:
        return None
    first, last = measured[0], measured[-1]
    best = max(measured, key=lambda one: one[1] / one[2])
    powers = {_number(one, number): _powers(one) for one in line}
    at_least = min(powers[best[0]])
    near = [batch for batch, *_ in measured if batch == best[0] or max(powers[batch]) >= at_least]
    return Knee(
        at=at,
        batch=best[0],
        gain=best[1] / first[1],
        cost=best[2] / first[2],
        is_first=best is first,
        is_last=best is last,
        least_batch=near[0],
        most_batch=near[-1],
        is_distinct=(near[0], near[-1]) != (first[0], last[0]),
    )


def _powers(one: Result) -> list[float]:
    """Return items/s over latency of each round."""
    pairs = ((known(visit.items_per_second), known(visit.latency_p50)) for visit in one.visits)
    return [items / seconds for items, seconds in pairs if items is not None and seconds]
