"""A small plot of a sweep: latency and throughput along one axis, both logarithmic, side by side.

Letters tell the settings of the other axes apart, so that nothing is told by colour. The dots are
what it would be if each item took as long as at the lowest setting.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from msgspec import Struct

from tui_profiler.figures.units import count
from tui_profiler.formatting.canvas import ASCII, Glyphs
from tui_profiler.formatting.plot import STEP, Dots
from tui_profiler.formatting.plot import Axis as LogAxis
from tui_profiler.formatting.text import fit, in_ascii, safe
from tui_profiler.messages import Unknown
from tui_profiler.queries.sweep import Result, Sweep, results

ROWS = 9
MOST_SERIES = 8
_LABEL_CELLS = 7
_GAP = 2
_LETTERS = "abcdefgh"
_PAD = 0.06
"""Of the width: room beside the first and the last mark."""


class Series(Struct, frozen=True):
    """What is drawn with one mark: (setting, figure), by setting."""

    mark: str
    at: str
    points: tuple[tuple[int, float], ...]


def plot_lines(sweep: Sweep, cells: int, glyphs: Glyphs) -> list[str]:
    """Return the lines of both plots and what their marks mean; none where nothing can be drawn.

    Args:
        sweep: as far as it came.
        cells: of the widest line.
        glyphs: what to draw with.
    """
    number = main_axis(sweep)
    if number is None:
        return []
    latency, throughput = (
        _series(sweep, number, "latency_p50", glyphs),
        _series(sweep, number, "items_per_second", glyphs),
    )
    if max((len(one.points) for one in latency), default=0) < 2:
        return []
    name, width = sweep.axes[number].name, (cells - _GAP) // 2
    is_batch = name == "batch"
    left = _panel("latency, by", name, latency, width, glyphs, _time_label, 1 if is_batch else None)
    right = _panel("items/s, by", name, throughput, width, glyphs, count, 0 if is_batch else None)
    lines = [f"{one}{' ' * _GAP}{other}".rstrip() for one, other in zip(left, right, strict=True)]
    return [*lines, *_legend(latency, is_batch=is_batch)]


def main_axis(sweep: Sweep) -> int | None:
    """Return the axis that is drawn across: the first of numbers that changes."""
    for number, axis in enumerate(sweep.axes):
        if axis.name != "dtype" and len(axis.values) > 1:
            return number
    return None


def _series(sweep: Sweep, number: int, figure: str, glyphs: Glyphs) -> list[Series]:
    found: dict[str, list[tuple[int, float]]] = {}
    for result in results(sweep):
        value = getattr(result, figure)
        if result.state == "measured" and not isinstance(value, Unknown) and value > 0:
            setting = int(result.point.values[number])
            found.setdefault(_others(sweep, result, number), []).append((setting, value))
    drawn = list(found.items())[:MOST_SERIES]
    single = len(drawn) == 1
    return [
        Series(glyphs.points[1] if single else _LETTERS[place], at, tuple(sorted(points)))
        for place, (at, points) in enumerate(drawn)
    ]


def _others(sweep: Sweep, result: Result, number: int) -> str:
    pairs = zip(sweep.axes, result.point.values, strict=True)
    return " ".join(
        f"{axis.name} {safe(str(value))}"
        for place, (axis, value) in enumerate(pairs)
        if place != number
    )


def _legend(series: list[Series], *, is_batch: bool) -> list[str]:
    named = [f"{one.mark} {one.at}" for one in series if one.at]
    dots = ["dots: as if each item took as long as at the smallest batch"] if is_batch else []
    return [
        " " * (_LABEL_CELLS + 1) + text for text in (*(["  ".join(named)] * bool(named)), *dots)
    ]


def _panel(
    title: str,
    name: str,
    series: list[Series],
    width: int,
    glyphs: Glyphs,
    label: Callable[[float], str],
    guide: int | None,
) -> list[str]:
    """Draw one plot: a title, its rows, the axis below and its labels; each line ``width`` wide.

    Args:
        title: what is drawn.
        name: of the axis across.
        series: what is drawn.
        width: cells of a line.
        glyphs: what to draw with.
        label: gives the text at a tick.
        guide: slope of the dots through the first point; None draws none.
    """
    inner = width - _LABEL_CELLS - 1
    settings = sorted({x for one in series for x, _ in one.points})
    values = [y for one in series for _, y in one.points]
    across = _across(settings[0], settings[-1])
    up = _up(min(values), max(values))
    dots = Dots(inner, ROWS, glyphs.dots)
    if guide is not None and series[0].points:
        _draw_guide(dots, across, up, series[0].points[0], guide)
    rows = [[dots.at(column, row) for column in range(inner)] for row in range(ROWS)]
    for one in series:
        for x, y in one.points:
            column, row = across.cell(x, inner), up.cell(y, ROWS)
            if column is not None and row is not None:
                rows[ROWS - 1 - row][column] = one.mark
    labels = _labels(up, label)
    ascii_only = glyphs is ASCII
    lines = [fit(f"{' ' * (_LABEL_CELLS + 1)}{title} {name}", width)]
    for row, drawn in enumerate(rows):
        text = in_ascii(labels.get(row, "")) if ascii_only else labels.get(row, "")
        edge = glyphs.axes[1] if row in labels else glyphs.divider
        lines.append(f"{text:>{_LABEL_CELLS}}{edge}{''.join(drawn)}")
    return [*lines, *_below(settings, across, inner, glyphs)]


def _across(least: int, most: int) -> LogAxis:
    low, high = math.log10(least), math.log10(most)
    pad = max(high - low, 0.3) * _PAD
    return LogAxis(low - pad, high + pad)


def _up(least: float, most: float) -> LogAxis:
    """Return the shortest axis from half decade to half decade, at least one decade long."""
    low = math.floor(math.log10(least) / STEP + 1e-9) * STEP
    high = math.ceil(math.log10(most) / STEP - 1e-9) * STEP
    return LogAxis(low, max(high, low + 2 * STEP))


def _labels(up: LogAxis, label: Callable[[float], str]) -> dict[int, str]:
    """Return rows, counted from the top, that have a tick: at 1, 2 and 5, where there is room."""
    found: dict[int, str] = {}
    factors = (1, 2, 5) if up.high - up.low <= 2 else (1,)
    for exponent in range(math.floor(up.low), math.ceil(up.high) + 1):
        for factor in factors:
            value = factor * 10.0**exponent
            cell = up.cell(value, ROWS)
            if cell is not None:
                found.setdefault(ROWS - 1 - cell, label(value))
    return found


def _draw_guide(
    dots: Dots, across: LogAxis, up: LogAxis, begin: tuple[int, float], slope: int
) -> None:
    wide, high = dots.columns * dots.across, dots.rows * dots.down
    heights = []
    for x in range(wide):
        setting = 10 ** (across.low + (x + 0.5) / wide * (across.high - across.low))
        value = begin[1] * (setting / begin[0]) ** slope
        if setting >= begin[0]:
            heights.append((x, high - 1 - up.place(value, high)))
    dots.curve(heights, dash=2)


def _below(settings: list[int], across: LogAxis, inner: int, glyphs: Glyphs) -> list[str]:
    axis = [glyphs.rule] * inner
    labels = [" "] * inner
    free = 0
    for setting in settings:
        column = across.cell(setting, inner) or 0
        axis[column] = glyphs.axes[2]
        text = str(setting)
        begin = min(max(column - (len(text) - 1) // 2, 0), inner - len(text))
        if begin >= free:
            labels[begin : begin + len(text)] = text
            free = begin + len(text) + 1
    indent = " " * _LABEL_CELLS
    return [f"{indent}{glyphs.axes[0]}{''.join(axis)}", f"{indent} {''.join(labels)}"]


def _time_label(seconds: float) -> str:
    for unit, factor in (("s", 1.0), ("ms", 1e3)):
        if seconds * factor >= 0.999:
            return f"{seconds * factor:.0f} {unit}"
    return f"{seconds * 1e6:.3g} µs"
