"""The weights screen's view: the table of all, and the one under the cursor in full."""

from __future__ import annotations

from tui_profiler.figures.units import dtype, duration, rate, shape, share, size, thousands
from tui_profiler.formatting.canvas import sparkline
from tui_profiler.formatting.text import safe, width
from tui_profiler.messages import Unknown
from tui_profiler.messages.parameters import Scheme
from tui_profiler.queries.panel.state import (
    has_random_weights,
    is_measuring,
    is_reading,
    why_not_read,
)
from tui_profiler.queries.parameters.weights import (
    SORT_WORDS,
    WeightRow,
    WeightsView,
    scheme_words,
    signal_over_noise,
)
from tui_profiler.session import Session

from ...widgets.heading import Heading
from ...widgets.lines import EMPTY, Line, exact, line_width
from ...widgets.rows import Look, columns, meter, row
from .cells import (
    EXACT,
    figure_text,
    long_format,
    noise_text,
    percent,
    rough_percent,
    statistic,
)
from .histogram import histogram_columns
from .panel import panel_lines
from .table import table_heading, table_lines

PANEL_CELLS = 46
WIDE_COLUMNS = 160
RANDOM = "randomly initialised weights"
RANDOM_SHORT = "random weights"
_METER = 12


def weights_lines(look: Look, view: WeightsView, rows: int, *, narrow: bool) -> tuple[Line, ...]:
    """Return the view.

    Args:
        look: what is looked at.
        view: rows and cursor.
        rows: lines that there are.
        narrow: the weight under the cursor stands below the table, in few rows.
    """
    title = _title(look, view)
    if narrow:
        below = compact_lines(look, view.row, max(min(rows // 3, 7), 1))
        table = table_lines(look, view, rows - 1 - len(below))
        blank: list[Line] = [EMPTY] * (rows - 1 - len(below) - len(table))
        return (title, *table, *blank, *below)[: max(rows, 0)]
    left = _beside_panel(look)
    panel = look.cells - left.cells - 1
    right = Look(look.session, look.node, look.now, panel, look.glyphs)
    table = table_lines(left, view, rows - 1)
    about = panel_lines(right, view.row, rows - 1)
    lines: list[Line] = [title]
    for at in range(rows - 1):
        first = exact(table[at] if at < len(table) else EMPTY, left.cells, look.glyphs.ellipsis)
        second = about[at] if at < len(about) else EMPTY
        lines.append((*first, (look.glyphs.divider, "hairline"), *second))
    return tuple(lines)


def weights_heading(look: Look, view: WeightsView, *, narrow: bool) -> Heading:
    """Return the columns of the table as ``weights_lines`` draws them."""
    return table_heading(look if narrow else _beside_panel(look), view)


def _beside_panel(look: Look) -> Look:
    panel = PANEL_CELLS if look.cells < WIDE_COLUMNS else PANEL_CELLS + 14
    return Look(look.session, look.node, look.now, look.cells - panel - 1, look.glyphs)


def _title(look: Look, view: WeightsView) -> Line:
    shown = len(view.rows)
    others = len(view.all) - shown
    what = "tensors" if view.shows_buffers else "parameters"
    left: Line = (
        ("weights", "strong ink"),
        (f"  {thousands(shown)} {what}", "muted"),
        (f"  {SORT_WORDS[view.sort]}", "faint"),
    )
    if others and look.inner >= 100:
        left = (*left, (f"  {thousands(others)} buffers are not shown", "faint"))
    right: Line = EMPTY
    if has_random_weights(look.session):
        room = look.inner - line_width(left) - 2
        text = RANDOM if width(RANDOM) <= room else RANDOM_SHORT
        right = ((text, "ink"),)
    return row(left, right, look)


def status_line(look: Look, scheme: Scheme) -> Line:
    """Return what is going on, or what came of it; at the right what ``x`` would do."""
    session = look.session
    right: Line = ((f"x: {scheme_words(scheme)}", "faint"),)
    if is_measuring(session):
        return row(_measuring(session, look), ((f"{look.glyphs.about} c stops", "faint"),), look)
    if is_reading(session):
        return row(_reading(session, look), (("c stops", "faint"),), look)
    return row(((_what_came(session), "muted"),), right, look)


def _reading(session: Session, look: Look) -> Line:
    known = session.parameters
    assert known is not None
    started, progress = known.started, known.progress
    done = progress.bytes if progress is not None else 0
    portion = done / started.bytes if started.bytes else 0.0
    told = f"  {thousands(progress.tensors if progress else 0)} of {thousands(started.tensors)}"
    if progress is not None and progress.seconds > 0:
        told += f"  {size(done)}  {rate(done / progress.seconds, 'B/s')}"
        told += f"  {safe(progress.now)}" if progress.now else ""
    drawn = meter(min(portion, 1.0), _METER, "ink", look)
    return (("reading  ", "ink"), *drawn, (told, "muted"))


def _measuring(session: Session, look: Look) -> Line:
    known = session.sensitivity
    assert known is not None
    of = known.started.weights
    drawn = meter(known.measured / of if of else 0.0, _METER, "ink", look)
    told = f"  {thousands(known.measured)} of {thousands(of)}  {scheme_words(known.scheme)}"
    return (("measuring  ", "ink"), *drawn, (told, "muted"))


def _what_came(session: Session) -> str:
    known, measured = session.parameters, session.sensitivity
    latest = measured.done if measured is not None else None
    read = known.done if known is not None else None
    if latest is not None and (read is None or latest.at >= read.at):
        many = f"{thousands(latest.measured)} weight{'s' * (latest.measured != 1)}"
        told = latest.why or f"{many} measured"
        noise = latest.noise
        if not isinstance(noise, Unknown) and noise > 0:
            told += f", repeated forwards differ by {percent(noise)} %"
        return f"{safe(told)}  {duration(latest.seconds)}"
    if known is not None and read is None:
        done = known.progress.tensors if known.progress is not None else 0
        of = known.started.tensors
        return f"the worker ended before all was read: {thousands(done)} of {thousands(of)} tensors"
    if why := why_not_read(session):
        return f"no statistics: {safe(why)}"
    if read is None:
        return "no statistics yet  a reads the values"
    if read.why:
        return safe(read.why)
    how = "stopped after" if read.was_stopped else "read"
    speed = f"  {rate(read.bytes / read.seconds, 'B/s')}" if read.seconds > 0 else ""
    return f"{how} {size(read.bytes)} in {duration(read.seconds)}{speed}"


def compact_lines(look: Look, weight: WeightRow | None, rows: int) -> list[Line]:
    """Return the weight under the cursor in a few rows, the most telling first."""
    if weight is None:
        return []
    title = f"{look.glyphs.rule} {safe(weight.name)} "
    parts = [shape(weight.shape), dtype(safe(weight.dtype)), size(weight.bytes)]
    while parts and width(title) + sum(map(width, parts)) + 2 * len(parts) + 1 > look.cells:
        parts.pop()
    facts = f" {'  '.join(parts)} " if parts else ""
    rule = max(look.cells - width(title) - width(facts) - 1, 0)
    head: Line = (
        (title, "strong ink"),
        (look.glyphs.rule * rule, "hairline"),
        (facts, "muted"),
        (look.glyphs.rule, "hairline"),
    )
    return [exact(head, look.cells, look.glyphs.ellipsis), *_facts(look, weight)][:rows]


def _facts(look: Look, weight: WeightRow) -> list[Line]:
    found = weight.statistics
    if weight.shared_with:
        return [_fact(look, "values", f"the same as {safe(weight.shared_with)}")]
    lines: list[Line] = []
    if found is not None and found.moments is not None:
        moments = found.moments
        told = f"mean {statistic(moments.mean)}   std {statistic(moments.std)}"
        if moments.count:
            told += f"   zeros {share(moments.zeros / moments.count) if moments.zeros else '·'}"
        if moments.nans or moments.infinities:
            wrong = f"{thousands(moments.nans)} NaN, {thousands(moments.infinities)} infinite"
            told = f"{look.glyphs.failed} {wrong}   {told}"
        lines.append(_fact(look, "values", told))
        if found.histogram is not None:
            ends = statistic(moments.minimum), statistic(moments.maximum)
            cells = max(look.inner - 11 - sum(map(len, ends)) - 2, 1)
            counts = histogram_columns(found.histogram, cells)
            top = max((one or 0.0 for one in counts), default=0.0)
            [drawn] = sparkline(counts, top, 1, look.glyphs)
            lines.append(_fact(look, "", f"{ends[0]} {drawn} {ends[1]}"))
    if weight.sensitivity is not None:
        lines.append(_output(look, weight))
    if found is not None and found.quantised:
        lines.append(_fact(look, "stored", _stored(look, weight)))
    if found is not None and found.pruned:
        gone = "   ".join(f"{share(p.sparsity)} for {share(p.loss)}" for p in found.pruned[:3])
        lines.append(_fact(look, "prunes", f"{gone} of the norm"))
    if found is not None and found.channels is not None:
        one = found.channels
        alike = figure_text(one.near_duplicates, lambda n: f"{n:,.0f}", look)
        told = f"{thousands(one.count)}   dead {one.dead}   outliers {one.outliers}   alike {alike}"
        lines.append(_fact(look, "channels", told))
    if not lines:
        why = safe(why_not_read(look.session))
        told = f"{look.glyphs.dash} {why}" if why else "not read yet"
        lines.append(_fact(look, "values", told))
    return lines


def _stored(look: Look, weight: WeightRow) -> str:
    found = weight.statistics
    assert found is not None
    parts = []
    for name in ("int8", "int4", "float8_e4m3fn"):
        noise = signal_over_noise(found, name, "channel", "tensor")
        parts.append(f"{long_format(name)} {noise_text(noise, look)}")
    fits = f"   {look.glyphs.into} {long_format(found.width.format)}" if found.width else ""
    unit = "" if parts[-1].endswith(EXACT) else " dB"
    return f"{'   '.join(parts)}{unit}{fits}"


def _output(look: Look, weight: WeightRow) -> Line:
    one = weight.sensitivity
    assert one is not None
    error = (
        f"{figure_text(one.output_error, percent, look)} % error" if one.done else "not measured"
    )
    predicted = figure_text(one.predicted, rough_percent, look)
    parts: list[Line] = [
        (("output".ljust(9), "muted"), (error, "ink")),
        ((f"   predicted {predicted} %", "ink"),),
        ((f"   {scheme_words(one.scheme)}", "muted"),),
    ]
    return columns(parts, EMPTY, look)


def _fact(look: Look, label: str, text: str) -> Line:
    return row(((label.ljust(9), "muted"), (text, "ink")), EMPTY, look)
