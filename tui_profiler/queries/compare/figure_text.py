"""Figures of a comparison as text: values, differences, ratios, changes."""

from collections.abc import Callable, Iterable, Mapping

from tui_profiler.figures import units
from tui_profiler.formatting.text import safe
from tui_profiler.messages import Figure, Unknown
from tui_profiler.queries.compare import comparison
from tui_profiler.queries.compare.alignment import AlignedNode, Change
from tui_profiler.queries.cost.exactness import SIGNS
from tui_profiler.queries.time.standard_error import DOUBT

EQUAL = "="
NOISE = "≈"
"""Before a difference within noise."""
MARKS: Mapping[Change, str] = {
    "same": " ",
    "changed": "~",
    "moved": ">",
    "appeared": "+",
    "vanished": "−",
}
NO_PATH = "(the whole)"
WHY_NOT_EXACT = "depends on the data, or operators have no formula"
_MOST = 999e18
_LEAST_RATIO = 0.00995
_MOST_SECONDS = 1e7


def value_text(value: Figure, unit: comparison.Unit) -> str:
    """Return a figure; a dash where unavailable."""
    if isinstance(value, Unknown):
        return units.UNAVAILABLE
    return ("−" if value < 0 else "") + _written(abs(value), unit)


def mark_of(pair: comparison.Pair) -> str:
    """Return the mark of a difference that is not ranked, or of bounds; empty otherwise."""
    return DOUBT if pair.doubt else NOISE if pair.noise else SIGNS[pair.reading]


def difference_text(difference: float | None, unit: comparison.Unit, mark: str = "") -> str:
    """Return a difference with its mark and sign."""
    if difference is None:
        return units.UNAVAILABLE
    if difference == 0:
        return f"{mark}0" if mark in SIGNS.values() and mark else EQUAL
    sign = "+" if difference > 0 else "−"
    return f"{mark}{sign}{_written(abs(difference), unit)}"


def ratio_text(pair: comparison.Pair) -> str:
    """Return B / A: ``×1.50``, ``=`` where equal.

    Times that do not add up have none: ``×37`` may be an interrupted stage.
    """
    ratio, sign = pair.ratio, SIGNS[pair.reading]
    if pair.difference == 0 and not sign:
        return EQUAL
    if ratio is None or pair.doubt:
        return units.UNAVAILABLE
    if ratio >= 999.5:
        return f"{sign}×{_written(ratio, 'count')}"
    if ratio < _LEAST_RATIO:
        if pair.reading == "at least":  # It may be anything.
            return units.UNAVAILABLE
        return f"{sign * (pair.reading == 'about')}×<0.01"
    return f"{sign}×{units.three_digits(ratio)}"


def path_text(compared: comparison.Comparison, one: AlignedNode) -> str:
    """Return the path of a row, and the former path of a moved one."""
    path = safe(comparison.node_of(compared, one).path) or NO_PATH
    if one.change == "moved":
        return f"{path} (was {safe(comparison.former_path(compared, one)) or NO_PATH})"
    return path


def what_changed(compared: comparison.Comparison, one: AlignedNode) -> str:
    """Return the differences in type, calls and shape of a node of both sides."""
    if one.a < 0 or one.b < 0 or compared.a.tree is None or compared.b.tree is None:
        return ""
    a, b = compared.a.tree.nodes[one.a], compared.b.tree.nodes[one.b]
    parts = []
    if a.type != b.type:
        parts.append(f"{safe(a.type)} → {safe(b.type)}")
    if a.calls != b.calls and None not in (a.calls, b.calls):
        parts.append(f"{a.calls} → {b.calls} calls")
    if a.shape != b.shape:
        parts.append(f"{_shape(a.shape)} → {_shape(b.shape)}")
    return ", ".join(parts)


def statistic_text(compared: comparison.Comparison) -> str:
    """Return what the times of nodes are, of each side where they differ."""
    a, b = compared.a.statistic, compared.b.statistic
    if a == b or not (a and b):
        return a or b
    return f"A {a}, B {b}"


def total_texts(row: comparison.TotalRow) -> tuple[str, str, str, str]:
    """Return A, B, the difference and the ratio of a total."""
    return pair_texts(row.pair, row.pair.difference, row.unit)


def pair_texts(
    pair: comparison.Pair, difference: float | None, unit: comparison.Unit
) -> tuple[str, str, str, str]:
    """Return A, B, their difference as it is ranked, and the ratio."""
    return (
        SIGNS[pair.a_reading] + value_text(pair.a, unit),
        SIGNS[pair.b_reading] + value_text(pair.b, unit),
        difference_text(difference, unit, mark_of(pair)),
        ratio_text(pair),
    )


def reading_words(pairs: Iterable[comparison.Pair]) -> str:
    """Return what the signs before some figures say; empty where none has one."""
    found = {reading for one in pairs for reading in (one.a_reading, one.b_reading, one.reading)}
    said = [f"{sign} {words}" for words, sign in SIGNS.items() if words and words in found]
    return f"{', '.join(said)}: {WHY_NOT_EXACT}" if said else ""


def written_time(difference: float, column: units.TimeColumn, mark: str = "") -> str:
    """Return a difference of times in a column, with its mark and sign."""
    if difference == 0:
        return EQUAL
    sign = "+" if difference > 0 else "−"
    return f"{mark}{sign}{units.in_column(abs(difference), column)}"


def _shape(axes: tuple[int, ...] | None) -> str:
    if axes is None:
        return "no tensor"
    return "×".join(map(str, axes)) if axes else "scalar"


def _written(value: float, unit: comparison.Unit) -> str:
    """Return a figure of 0 or more; one beyond all models as ``>999E``."""
    most = _MOST_SECONDS if unit == "seconds" else _MOST
    return f">{_WRITTEN[unit](most)}" if value > most else _WRITTEN[unit](value)


def _count(value: float) -> str:
    return "0" if value == 0 else units.count(value)


def _rate(value: float) -> str:
    return f"{units.per_second(value)}/s"


_WRITTEN: Mapping[comparison.Unit, Callable[[float], str]] = {
    "seconds": units.duration,
    "bytes": units.size,
    "count": _count,
    "rate": _rate,
    "ratio": units.intensity,
    "share": units.share,
    "joules": units.energy,
}
