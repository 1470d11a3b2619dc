"""A sweep as text for reading: its points, a small plot, how its nodes grow, and the knee.

1. No line is wider than ``columns`` cells, and none holds anything but safe text.
2. What was measured and what is on paper stand under headings that say which.
3. A point without figures is a line with its reason.
"""

import math
from collections.abc import Callable

from msgspec import Struct

from tui_profiler.figures.units import UNAVAILABLE, count, duration, energy, share, size
from tui_profiler.formatting.canvas import ASCII, UNICODE, Glyphs, bar, half_cells
from tui_profiler.formatting.plot import STEP, Dots
from tui_profiler.formatting.plot import Axis as LogAxis
from tui_profiler.formatting.text import fit, in_ascii, middle, safe, wrap
from tui_profiler.messages import Figure, Unknown, known
from tui_profiler.queries.scaling import KNEE_RULE, Growth, Knee, Scaling, Slope, knees, scalings
from tui_profiler.queries.sweep import Result, Sweep, Value, results
from tui_profiler.reports.text.text import heading, in_cells, wrap_field

LEAST_COLUMNS = 76
TOP = 12
_MOST_BAR = 24
_LEAST_BAR = 6
_NAME_CELLS = 20


def sweep_table(
    sweep: Sweep, *, columns: int, glyphs: Glyphs = UNICODE, top: int = TOP
) -> tuple[str, ...]:
    """Return the report as lines.

    Args:
        sweep: as far as it came.
        columns: cells of the widest line; at least 76 are taken.
        glyphs: what bars and plots are drawn with.
        top: how many nodes are listed by how they grow.
    """
    cells = max(columns, LEAST_COLUMNS)
    lines = [
        *_identity(sweep),
        "",
        *_point_lines(sweep, cells, glyphs),
        *_plot(sweep, cells, glyphs),
        *_scaling_lines(scalings(sweep), cells, top, of_step=sweep.has_steps),
        *_knee_lines(knees(sweep)),
    ]
    kept = (part for line in lines for part in wrap_field(line, cells))
    return tuple(in_ascii(line) if glyphs is ASCII else line for line in kept)


def _identity(sweep: Sweep) -> list[str]:
    facts = sweep.facts
    who = f"{safe(sweep.model)}  sweep of {' × '.join(axis.name for axis in sweep.axes)}"
    if facts is not None:
        who += f"  {safe(facts.type)} from {safe(facts.source)}, {safe(facts.weights)} weights"
        who += f", {safe(facts.device)}"
    how = "on paper only"
    if sweep.runs:
        back = ", in alternating order" if sweep.rounds > 1 else ""
        how = f"one worker per visit; {rounds(sweep.rounds)}{back}; {sweep.seconds:g} s per point"
    ended = ["interrupted: results until then follow"] if sweep.interrupted else []
    return [who, how, *ended]


def rounds(number: int) -> str:
    """Return how many rounds, in words."""
    return "1 round" if number == 1 else f"{number} rounds"


def _point_lines(sweep: Sweep, cells: int, glyphs: Glyphs) -> list[str]:
    found = results(sweep)
    one_run = "training step" if sweep.has_steps else "forward"
    is_of_allocator = any(not isinstance(one.allocator_bytes, Unknown) for one in found)
    has_energy = any(not isinstance(one.joules, Unknown) for one in found)
    at = [max(len(axis.name), *(len(safe(str(v))) for v in axis.values)) + 2 for axis in sweep.axes]
    header = "".join(f"{axis.name:>{room}}" for axis, room in zip(sweep.axes, at, strict=True))
    header += f"{'p50':>10}{'p95':>10}{'spread':>8}{'items/s':>9}"
    memory = "allocated" if is_of_allocator else "process"
    after = f"{'on paper':>11}{memory:>10}" + (f"{'J/item':>10}" if has_energy else "")
    room = cells - len(header) - len(after) - 2
    bars = min(room, _MOST_BAR) if room >= _LEAST_BAR else 0
    gap = " " * (bars + 2 if bars else 0)
    fastest = max((known(one.items_per_second) or 0.0 for one in found), default=0.0)
    lines = [
        heading("points", f"latency per {one_run}, items/s and peak memory, measured")
        if sweep.runs
        else heading("points", "on paper"),
        f"{header}{gap}{after}",
    ]
    said = ""
    for one in found:
        values = zip(one.point.values, at, strict=True)
        place = "".join(f"{safe(str(value)):>{room}}" for value, room in values)
        if one.state in ("failed", "not reached"):
            again = bool(one.failure) and one.failure == said
            lines += [f"{place}   failed: as above"] if again else _without(one, place, cells)
            said = one.failure
            continue
        halves = half_cells(known(one.items_per_second) or 0.0, fastest, bars)
        drawn = f"  {fit(bar(halves, glyphs), bars)}" if bars else ""
        lines.append(place + _timed(one) + drawn + _kept(one, is_of_allocator, has_energy))
    return [*lines, *_reasons(found, has_energy)]


def _timed(one: Result) -> str:
    apart = UNAVAILABLE
    low, high, middle_one = known(one.low), known(one.high), known(one.latency_p50)
    if len(one.visits) > 1 and low is not None and high is not None and middle_one:
        apart = share((high - low) / middle_one)
    return (
        f"{_cell(one.latency_p50, duration):>10}{_cell(one.latency_p95, duration):>10}{apart:>8}"
        f"{_cell(one.items_per_second, count):>9}"
    )


def _kept(one: Result, is_of_allocator: bool, has_energy: bool) -> str:
    least = "≥ " if one.is_least else ""
    measured = one.allocator_bytes if is_of_allocator else one.process_bytes
    joules = f"{_cell(one.joules_per_item, energy):>10}" if has_energy else ""
    return f"{least + _cell(one.paper_bytes, size):>11}{_cell(measured, size):>10}{joules}"


def _cell(value: Figure, written: Callable[[float], str]) -> str:
    return UNAVAILABLE if isinstance(value, Unknown) else written(value)


def _without(one: Result, place: str, cells: int) -> list[str]:
    said = f"{one.state}: {one.failure}" if one.failure else one.state
    said += f"; try {one.remedy}" if one.remedy else ""
    first, *more = wrap(safe(said), cells - len(place) - 3) or ("",)
    return [f"{place}   {first}", *(f"{' ' * len(place)}   {line}" for line in more)]


def _reasons(found: tuple[Result, ...], has_energy: bool) -> list[str]:
    """Say once why a column has dashes."""
    good = [one for one in found if one.state in ("measured", "on paper")]
    if any(one.state == "on paper" for one in good):
        return _why("p50", [one.latency_p50 for one in good])
    columns = [
        ("p95", [one.latency_p95 for one in good]),
        ("items/s", [one.items_per_second for one in good]),
        ("process", [one.process_bytes for one in good]),
        ("energy", [] if has_energy else [one.joules for one in good]),
    ]
    return [line for name, figures in columns for line in _why(name, figures)]


def _why(name: str, figures: list[Figure]) -> list[str]:
    reasons = dict.fromkeys(one.reason for one in figures if isinstance(one, Unknown))
    shown = list(reasons)[:2]
    return [f"  {name:<17}{UNAVAILABLE} {safe('; '.join(shown))}"] if shown else []


def _plot(sweep: Sweep, cells: int, glyphs: Glyphs) -> list[str]:
    drawn = plot_lines(sweep, min(cells, 120), glyphs)
    return ["", *drawn] if drawn else []


def _scaling_lines(found: tuple[Scaling, ...], cells: int, top: int, *, of_step: bool) -> list[str]:
    what = "log-log slope, of the forward in a step" if of_step else "log-log slope"
    lines: list[str] = []
    told: set[str] = set()
    for one in found:
        if one.axis in told:
            continue
        told.add(one.axis)
        others = sum(other.axis == one.axis for other in found) - 1
        more = f"; {others} more in --format json" if others else ""
        held = f" at {at_words(one.at)}" if one.at else ""
        lines += [
            "",
            heading(f"scaling with {one.axis}{held}", f"{what}{more}"),
            *_growth_lines(one, cells, top),
        ]
    return lines


def at_words(at: tuple[tuple[str, Value], ...]) -> str:
    """Return the values of the other axes: ``threads 2 dtype bfloat16``."""
    return " ".join(f"{name} {safe(str(value))}" for name, value in at)


def _growth_lines(scaling: Scaling, cells: int, top: int) -> list[str]:
    at = f"at {scaling.highest}"
    tail = f"{at:>10}  {'time (± 95 %)':<34}{'FLOP':>6}{'bytes':>7}"
    room = max(cells - len(tail), _NAME_CELLS)
    lines = [fit("", room) + tail]
    for node in chosen(scaling, top):
        name = middle(safe(node.path), room - 1) if node.path else "(whole model)"
        seconds = UNAVAILABLE if node.seconds is None else duration(node.seconds)
        lines.append(
            f"{fit(name, room)}{seconds:>10}  {fit(_time(node.time), 34)}"
            f"{_exponent(node.flops):>6}{_exponent(node.bytes_moved):>7}"
        )
    return [in_cells(line, cells) for line in lines]


def chosen(scaling: Scaling, top: int) -> list[Growth]:
    """Return the root, and the modules that run operators themselves and take the most."""
    working = {node.path.rpartition("/")[0] for node in scaling.nodes if node.kind == "op"}
    modules = [n for n in scaling.nodes[1:] if n.kind == "module" and n.path in working]
    modules.sort(key=lambda node: -(node.seconds or 0.0))
    return [*scaling.nodes[:1], *modules[: max(top - 1, 0)]]


def _time(slope: Slope | Unknown) -> str:
    if isinstance(slope, Unknown):
        return f"{UNAVAILABLE} {slope.reason}"
    return f"{slope.exponent:.2f} ±{slope.spread or 0.0:.2f} {slope.word}".replace("-", "−")


def _exponent(slope: Slope | Unknown) -> str:
    text = UNAVAILABLE if isinstance(slope, Unknown) else f"{slope.exponent:.2f}"
    return text.replace("-0.00", "0.00").replace("-", "−")


def _knee_lines(found: tuple[Knee, ...]) -> list[str]:
    if not found:
        return []
    return [
        "",
        heading("saturation point", KNEE_RULE),
        *(line for knee in found for line in _knee(knee)),
    ]


def _knee(knee: Knee) -> list[str]:
    held = f"{at_words(knee.at)}: " if knee.at else ""
    if not knee.is_distinct:
        return [f"  {held}{UNAVAILABLE} too noisy: the rounds differ more than the batches"]
    if knee.least_batch != knee.most_batch:
        near = f"batch {knee.least_batch} to {knee.most_batch}, not distinguished by the rounds"
        return [f"  {held}{near}"]
    if knee.is_first:
        what = "the smallest: larger ones add more latency than throughput"
        return [f"  {held}batch {knee.batch}, {what}"]
    last = ["  the largest of the sweep: a larger one may be better"] if knee.is_last else []
    gain = f"{knee.gain:.2f}× the items/s of the smallest at {knee.cost:.2f}× its latency"
    return [f"  {held}batch {knee.batch}: {gain}", *last]


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
    dots = ["dots: constant time per item"] if is_batch else []
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
        label: returns the text at a tick.
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
