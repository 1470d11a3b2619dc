"""The last minutes as text: latency, utilisation and power above each other on one time axis."""

from collections.abc import Callable

from msgspec import Struct

from tui_profiler.figures.units import duration, share, thousands, three_digits
from tui_profiler.formatting.canvas import nice_ceiling, sparkline
from tui_profiler.formatting.text import safe
from tui_profiler.messages import Unknown, known
from tui_profiler.queries.panel.state import is_stale
from tui_profiler.queries.time import timeline

from ...widgets.lines import EMPTY, Line
from ...widgets.machine_lines import busy
from ...widgets.rows import Look, row, section, without_colour

WIDE = 100
FIGURE = 12
"""Cells of the present figure at the right end."""
SCALE = 7
"""Cells of what a full column stands for."""
MOST_PLOT_ROWS = 4


class _Plot(Struct, frozen=True):
    label: str
    short: str
    values: tuple[float | None, ...]
    top: float
    scale: str
    """What a full column stands for."""
    now: str
    """The present figure, with its unit."""
    why: str = ""
    """Why there are no values; then it is one row."""


def plot_columns(cells: int) -> int:
    """Return how many columns there are in a row of so many cells."""
    return max(cells - 2 - _label_cells(cells) - SCALE - 2 - FIGURE, 1)


def timeline_lines(look: Look, rows: int, step: int | None = None) -> tuple[Line, ...]:
    """Return at most ``rows`` lines: a title, the plots, the axis.

    Args:
        look: the session, the time and the width.
        rows: lines wanted; the least important plots are left out.
        step: seconds of a column; None for as many as the last five minutes need.
    """
    columns = plot_columns(look.cells)
    along = timeline.axis(look.session, look.now, columns, step or timeline.usual_step(columns))
    room = rows - 2
    plots = _plots(look, along)
    while plots and len(plots) > max(room, 1):
        plots.pop(max(plots, key=lambda each: _PRIORITY.index(plots[each].short)))
    body = _body(look, list(plots.values()), room)
    if is_stale(look.session, look.now) or look.session.ended is not None:
        body = without_colour(body)
    return (_title(look, along), *body, _axis(look, along))[:rows]


_PRIORITY = ("p50", "cpu", "gpu", "power", "p95")
"""The first are kept longest."""


def _plots(look: Look, along: timeline.Axis) -> dict[str, _Plot]:
    found = timeline.past(look.session, along)
    tick, sample = look.session.tick, look.session.sample
    pending = "…"
    highest = max((each for each in (*found.p50, *found.p95) if each is not None), default=0.0)
    top = nice_ceiling(highest)
    scale = _time_scale(top) if highest else ""
    p50 = duration(tick.latency_p50) if tick is not None else pending
    p95 = duration(tick.latency_p95) if tick is not None else pending
    mean = busy(sample) if sample is not None else None
    cpu = share(mean) if mean is not None else pending if sample is None else look.glyphs.dash
    plots = [
        _Plot("latency p50", "p50", found.p50, top, scale, p50),
        _Plot("latency p95", "p95", found.p95, top, scale, p95),
        _Plot("cpu", "cpu", found.cpu, 1.0, "100 %", cpu),
    ]
    gpu = timeline.model_gpu(look.session)
    if not isinstance(gpu, Unknown):
        used = known(gpu.utilisation)
        why = safe(gpu.utilisation.reason) if isinstance(gpu.utilisation, Unknown) else ""
        text = look.glyphs.dash if used is None else share(used)
        plots.append(_Plot("gpu", "gpu", found.gpu, 1.0, "100 %", text, why))
    plots.append(_power(look, found.watts))
    return {plot.short: plot for plot in plots}


def _power(look: Look, values: tuple[float | None, ...]) -> _Plot:
    figure = timeline.watts(look.session)
    if isinstance(figure, Unknown):
        why = safe(figure.reason)
        return _Plot("power", "power", values, 1.0, "", look.glyphs.dash, why)
    top = nice_ceiling(max((each for each in values if each is not None), default=1.0))
    return _Plot("power", "power", values, top, f"{top:g} W", f"{three_digits(figure)} W")


def _body(look: Look, plots: list[_Plot], room: int) -> tuple[Line, ...]:
    """Share the rows out: all plots alike, a blank row between them where there is room."""
    drawn = sum(not plot.why for plot in plots)
    left = room - (len(plots) - drawn)
    gap = 1 if drawn and left >= drawn * 3 else 0
    height = max(min((left - gap * drawn) // max(drawn, 1), MOST_PLOT_ROWS), 1)
    lines: list[Line] = []
    for plot in plots:
        lines += _missing(look, plot) if plot.why else _drawn(look, plot, height)
        lines += [EMPTY] * (gap if not plot.why else 0)
    return tuple(lines)


def _drawn(look: Look, plot: _Plot, rows: int) -> list[Line]:
    lines: list[Line] = []
    for number, part in enumerate(sparkline(plot.values, plot.top, rows, look.glyphs)):
        head = _head(look, plot) if number == 0 else " " * (_label_cells(look.cells) + SCALE)
        is_last = number == rows - 1
        figure, _, unit = plot.now.rpartition(" ") if " " in plot.now else (plot.now, "", "")
        right: Line = ((figure, "strong ink"), (f" {unit}" if unit else "", "muted"))
        left: Line = (
            (head, "muted"),
            (f" {look.glyphs.divider}", "hairline"),
            (part, "faint"),
        )
        lines.append(row(left, right if is_last else EMPTY, look))
    return lines


def _missing(look: Look, plot: _Plot) -> list[Line]:
    head = _head(look, plot)
    left: Line = (
        (head, "muted"),
        ("  ", "ink"),
        (f"{plot.now}  ", "faint"),
        (plot.why, "muted"),
    )
    return [row(left, EMPTY, look)]


def _head(look: Look, plot: _Plot) -> str:
    cells = _label_cells(look.cells)
    label = plot.label if look.cells >= WIDE else plot.short
    return label.ljust(cells) + plot.scale.rjust(SCALE)


def _label_cells(cells: int) -> int:
    return 12 if cells >= WIDE else 6


def _title(look: Look, along: timeline.Axis) -> Line:
    tick = look.session.tick
    window = f"p50 and p95 of the last {thousands(tick.window)} forwards, " if tick else ""
    every = f"{along.step} s per column"
    said = window + every if look.cells >= WIDE else every
    return section(f"last {_span(along.columns * along.step)}", said, look)


def _span(seconds: int) -> str:
    minutes = seconds / 60
    return f"{minutes:.0f} minutes" if minutes >= 1.75 else f"{seconds} s"


def _axis(look: Look, along: timeline.Axis) -> Line:
    """Return the row of times; each is written from its column on."""
    end = "here" if look.session.playback is not None else "now"
    end = "the end" if look.session.ended is not None else end
    text, last = "", along.columns - len(end)
    for column, age in timeline.marks(along):
        words = f"{age / 60:g} min ago" if age >= 60 and age % 30 == 0 else f"{age} s ago"
        if column + 1 + len(words) < last:
            text = text.ljust(column) + f"{look.glyphs.divider}{words}"
    text = text[: max(last, 0)].ljust(max(last, 0)) + end
    indent = " " * (_label_cells(look.cells) + SCALE + 2)
    return row(((indent, "ink"), (text, "faint")), EMPTY, look)


def _time_scale(seconds: float) -> str:
    found: Callable[[float], str] = "{:g}".format
    if seconds < 0.99e-3:
        return f"{found(round(seconds * 1e6, 3))} µs"
    return f"{found(round(seconds * 1e3, 3))} ms" if seconds < 0.99 else f"{found(seconds)} s"
