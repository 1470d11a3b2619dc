"""The view of the weights screen: the table, the panel beside it or facts below, the status."""

from msgspec.structs import replace

from tui_profiler.figures.units import dtype, duration, shape, share, size, thousands
from tui_profiler.formatting.canvas import sparkline
from tui_profiler.formatting.text import safe, width
from tui_profiler.messages import Unknown
from tui_profiler.messages.parameters import Scheme
from tui_profiler.queries.panel.state import about_time
from tui_profiler.queries.parameters import weights
from tui_profiler.session import Session

from ...widgets.heading import Heading
from ...widgets.lines import EMPTY, Line, exact, line_width
from ...widgets.rows import Look, beside, columns, fact, meter, row
from . import analysis_state, figures
from .panel import histogram_columns, panel_lines
from .table import table_heading, table_lines

PANEL_CELLS = 46
WIDE_COLUMNS = 160
RANDOM = "randomly initialised weights"
RANDOM_SHORT = "random weights"
_METER = 12


def weights_lines(
    look: Look, view: weights.WeightsView, rows: int, *, narrow: bool
) -> tuple[Line, ...]:
    """Return the view.

    Args:
        look: the drawing context.
        view: rows and cursor.
        rows: lines available.
        narrow: show facts below the table instead of the panel.
    """
    title = _title(look, view)
    if narrow:
        below = compact_lines(look, view.row, max(min(rows // 3, 7), 1))
        table = table_lines(look, view, rows - 1 - len(below))
        blank: list[Line] = [EMPTY] * (rows - 1 - len(below) - len(table))
        return (title, *table, *blank, *below)[: max(rows, 0)]
    left = _beside_panel(look)
    right = replace(look, cells=look.cells - left.cells - 1)
    table = table_lines(left, view, rows - 1)
    panel = panel_lines(right, view.row, rows - 1)
    return (title, *beside(table, panel, left.cells, rows - 1, look))


def weights_heading(look: Look, view: weights.WeightsView, *, narrow: bool) -> Heading:
    """Return the column titles of the table."""
    return table_heading(look if narrow else _beside_panel(look), view)


def _beside_panel(look: Look) -> Look:
    panel = PANEL_CELLS if look.cells < WIDE_COLUMNS else PANEL_CELLS + 14
    return replace(look, cells=look.cells - panel - 1)


def _title(look: Look, view: weights.WeightsView) -> Line:
    shown = len(view.rows)
    others = len(view.all) - shown
    what = "tensors" if view.shows_buffers else "parameters"
    left: Line = (
        ("weights", "strong ink"),
        (f"  {thousands(shown)} {what}", "muted"),
        (f"  {weights.SORT_WORDS[view.sort]}", "faint"),
    )
    if others and look.inner >= 100:
        left = (*left, (f"  {thousands(others)} buffers hidden", "faint"))
    right: Line = EMPTY
    if analysis_state.has_random_weights(look.session):
        room = look.inner - line_width(left) - 2
        text = RANDOM if width(RANDOM) <= room else RANDOM_SHORT
        right = ((text, "ink"),)
    return row(left, right, look)


def status_line(look: Look, scheme: Scheme) -> Line:
    """Return the progress or the result; at the right what ``x`` measures."""
    session = look.session
    right: Line = ((f"x: {weights.scheme_words(scheme)}", "faint"),)
    stops: Line = (("c stops", "faint"),)
    if analysis_state.is_measuring(session):
        return row(_measuring(session, look), stops, look)
    if analysis_state.is_reading(session):
        return row(_reading(session, look, look.inner - line_width(stops) - 2), stops, look)
    return row(((_what_came(session), "muted"),), right, look)


def _reading(session: Session, look: Look, cells: int) -> Line:
    """Return progress, the time left, and how to read faster, as far as it fits."""
    known = session.parameters
    assert known is not None
    started, progress = known.started, known.progress
    done = progress.done if progress is not None else 0.0
    if done is None:  # A recording of an older version: by bytes.
        assert progress is not None
        done = progress.bytes / started.bytes if started.bytes else 0.0
    drawn = meter(min(done, 1.0), _METER, "ink", look)
    read = thousands(progress.tensors) if progress is not None else "0"
    forms = _time_left(session) or (f"  {read} of {thousands(started.tensors)} tensors",)
    head: Line = (("reading  ", "ink"), *drawn, (f"  {share(done)}", "ink"))
    room = cells - line_width(head)
    told = next((form for form in forms if width(form) <= room), "")
    return (*head, (told, "muted"))


def _time_left(session: Session) -> tuple[str, ...]:
    """Return the time left, running and with the model paused, the longest form first."""
    progress = session.parameters.progress if session.parameters is not None else None
    if progress is None or progress.left_seconds is None:
        return ()
    paused = about_time(progress.left_seconds)
    if progress.share >= 1.0:
        return (f"  about {paused} left",)
    if not progress.share:
        return (f"  no budget left: P P pauses the model, then about {paused}", f"  P P: {paused}")
    running = about_time(progress.left_seconds / progress.share)
    part = share(progress.share)
    return (
        f"  about {running} left at {part} of the time; P P pauses the model: about {paused}",
        f"  {running} left; P P pauses the model: {paused}",
        f"  {running}, P P: {paused}",
        f"  {running} left",
    )


def _measuring(session: Session, look: Look) -> Line:
    known = session.sensitivity
    assert known is not None
    of, done = known.started.weights, known.measured
    drawn = meter(done / of if of else 0.0, _METER, "ink", look)
    told = f"  {thousands(done)} of {thousands(of)}  {weights.scheme_words(known.scheme)}"
    if done:
        each = max(look.now - known.started.at, 0.0) / done
        told += f"  about {about_time(each * (of - done))} left"
    return (("model paused: measuring  ", "ink"), *drawn, (told, "muted"))


def _what_came(session: Session) -> str:
    known, measured = session.parameters, session.sensitivity
    latest = measured.done if measured is not None else None
    read = known.done if known is not None else None
    if latest is not None and (read is None or latest.at >= read.at):
        many = f"{thousands(latest.measured)} weight{'s' * (latest.measured != 1)}"
        told = latest.why or f"{many} measured"
        noise = latest.noise
        if not isinstance(noise, Unknown) and noise > 0:
            told += f", repeated forwards differ by {figures.percent(noise)} %"
        return f"{safe(told)}  {duration(latest.seconds)}"
    if known is not None and read is None:
        done = known.progress.tensors if known.progress is not None else 0
        of = known.started.tensors
        return f"worker ended after {thousands(done)} of {thousands(of)} tensors"
    if why := analysis_state.why_not_read(session):
        return f"no statistics: {safe(why)}"
    if read is None:
        return "no statistics yet  a reads the weights"
    if read.why:
        return safe(read.why)
    how = "stopped after" if read.was_stopped else "read"
    return f"{how} {size(read.bytes)} in {duration(read.seconds)}"


def compact_lines(look: Look, weight: weights.WeightRow | None, rows: int) -> list[Line]:
    """Return facts of the weight under the cursor in a few rows."""
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


def _facts(look: Look, weight: weights.WeightRow) -> list[Line]:
    found = weight.statistics
    if weight.shared_with:
        return [_fact(look, "values", f"shared with {safe(weight.shared_with)}")]
    lines: list[Line] = []
    if found is not None and found.moments is not None:
        moments = found.moments
        told = f"mean {figures.statistic(moments.mean)}   std {figures.statistic(moments.std)}"
        if moments.count:
            told += f"   zeros {share(moments.zeros / moments.count) if moments.zeros else '·'}"
        if moments.nans or moments.infinities:
            wrong = f"{thousands(moments.nans)} NaN, {thousands(moments.infinities)} infinite"
            told = f"{look.glyphs.failed} {wrong}   {told}"
        lines.append(_fact(look, "values", told))
        if found.histogram is not None:
            ends = figures.statistic(moments.minimum), figures.statistic(moments.maximum)
            cells = max(look.inner - 11 - sum(map(len, ends)) - 2, 1)
            counts = histogram_columns(found.histogram, cells)
            top = max((one or 0.0 for one in counts), default=0.0)
            [drawn] = sparkline(counts, top, 1, look.glyphs)
            lines.append(_fact(look, "", f"{ends[0]} {drawn} {ends[1]}"))
    if weight.sensitivity is not None:
        lines.append(_output(look, weight))
    if found is not None and found.quantised:
        lines.append(_fact(look, "SQNR", _sqnrs(look, weight)))
    if found is not None and found.pruned:
        at = "   ".join(f"{share(p.sparsity)} at {share(p.loss)}" for p in found.pruned[:3])
        lines.append(_fact(look, "prunable", f"{at} error"))
    if found is not None and found.channels is not None:
        one = found.channels
        alike = figures.text(one.near_duplicates, lambda n: f"{n:,.0f}", look)
        told = f"{thousands(one.count)}   dead {one.dead}   outliers {one.outliers}"
        lines.append(_fact(look, "channels", f"{told}   near-duplicates {alike}"))
    if not lines:
        why = safe(analysis_state.why_not_read(look.session))
        told = f"{look.glyphs.dash} {why}" if why else "not read yet"
        lines.append(_fact(look, "values", told))
    return lines


def _sqnrs(look: Look, weight: weights.WeightRow) -> str:
    found = weight.statistics
    assert found is not None
    parts = []
    for name in ("int8", "int4", "float8_e4m3fn"):
        noise = weights.sqnr(found, name, "channel", "tensor")
        parts.append(f"{figures.long_format(name)} {figures.sqnr(noise, look)}")
    fits = f"   {look.glyphs.into} {figures.long_format(found.width.format)}" if found.width else ""
    unit = "" if parts[-1].endswith(figures.EXACT) else " dB"
    return f"{'   '.join(parts)}{unit}{fits}"


def _output(look: Look, weight: weights.WeightRow) -> Line:
    one = weight.sensitivity
    assert one is not None
    error = (
        f"{figures.text(one.output_error, figures.percent, look)} % error"
        if one.done
        else "not measured"
    )
    predicted = figures.text(one.predicted, figures.rough_percent, look)
    parts: list[Line] = [
        (("output".ljust(9), "muted"), (error, "ink")),
        ((f"   predicted {predicted} %", "ink"),),
        ((f"   {weights.scheme_words(one.scheme)}", "muted"),),
    ]
    return columns(parts, EMPTY, look)


def _fact(look: Look, label: str, text: str) -> Line:
    return fact(label, text, look, 9)
