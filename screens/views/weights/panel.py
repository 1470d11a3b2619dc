"""The panel of one weight: values, sensitivity, SQNR, pruning, channels."""

from array import array
from collections.abc import Sequence

from tui_profiler.figures.units import count, dtype, shape, share, size, thousands
from tui_profiler.formatting.canvas import sparkline
from tui_profiler.formatting.text import middle, safe
from tui_profiler.messages.parameters import Channels, Histogram, Moments, TensorStatistics, Width
from tui_profiler.queries.parameters import weights

from ...widgets.lines import EMPTY, Line, Span
from ...widgets.rows import Look, absent, columns, fact, figure, pending, row, section, words
from . import analysis_state, figures

FORMATS = ("int8", "int4", "float8_e4m3fn", "float8_e5m2")
HISTOGRAM_ROWS = 3
_LABEL = 11


def panel_lines(look: Look, weight: weights.WeightRow | None, rows: int) -> list[Line]:
    """Return the panel of a weight, in at most ``rows`` lines."""
    if weight is None:
        return []
    found = weight.statistics
    parts: list[Sequence[Line]] = []
    if weight.shared_with:
        told = f"shared with {safe(weight.shared_with)}, which has the statistics"
        parts.append(words(told, look))
    elif found is None:
        parts.append(_not_there(look))
    elif found.moments is None:
        parts.append(absent("values", safe(found.why_none) or "not in the file", look))
    else:
        parts.append(_values(look, found, found.moments))
    if weights.is_measurable(weight) and not weight.shared_with:
        parts.append(_sensitivity(look, weight))
    if found is not None and found.moments is not None and not weight.shared_with:
        parts += [_quantisation(look, found), _pruning(look, found), _structure(look, found)]
    return _spaced([*_identity(look, weight)], parts, rows)


def _spaced(lines: list[Line], parts: Sequence[Sequence[Line]], rows: int) -> list[Line]:
    """Put blank rows between parts, as many as fit."""
    spare = rows - len(lines) - sum(map(len, parts))
    for at, part in enumerate(parts):
        if at and spare > 0:
            lines.append(EMPTY)
            spare -= 1
        lines += part
    return lines[: max(rows, 0)]


def _identity(look: Look, weight: weights.WeightRow) -> list[Line]:
    facts = [shape(weight.shape), dtype(safe(weight.dtype)), size(weight.bytes)]
    found = weight.statistics
    if found is not None and found.alignment:
        facts.append(f"aligned {found.alignment} B")
    if weight.is_buffer:
        facts.append("buffer")
    return [
        row(
            ((middle(safe(weight.name), look.inner, look.glyphs.ellipsis), "strong ink"),),
            EMPTY,
            look,
        ),
        columns([((f"{fact}  ", "muted"),) for fact in facts], EMPTY, look),
    ]


def _not_there(look: Look) -> tuple[Line, ...]:
    parameters = look.session.parameters
    if analysis_state.is_reading(look.session):
        return pending("values", "being read", look)
    if why := analysis_state.why_not_read(look.session):
        return absent("values", safe(why), look)
    if parameters is None:
        return pending("values", "not read yet; a reads them", look)
    why = parameters.done.why if parameters.done is not None else ""
    return absent("values", safe(why) or "not read: stopped; a reads them", look)


def _values(look: Look, found: TensorStatistics, moments: Moments) -> list[Line]:
    lines = [section("values", f"all {thousands(moments.count)} read", look)]
    wrong = [
        f"{thousands(number)} {word}"
        for number, word in ((moments.nans, "NaN"), (moments.infinities, "infinite"))
        if number
    ]
    if wrong:
        several = moments.nans + moments.infinities != 1
        what = f"value{'s' * several}"
        told = f"{look.glyphs.failed} {' and '.join(wrong)} {what}, excluded here"
        lines += words(told, look, "error")
    if not moments.count:
        return lines
    zeros = moments.zeros / moments.count
    near = moments.near_zeros / moments.count
    lines += [
        _pairs(
            look,
            ("mean", figures.statistic(moments.mean)),
            ("std", figures.statistic(moments.std)),
        ),
        _pairs(
            look,
            ("skew", figures.text(moments.skewness, figures.statistic, look)),
            ("kurtosis", figures.text(moments.kurtosis, figures.statistic, look)),
        ),
        _pairs(look, ("zeros", share(zeros) if zeros else "·"), ("near zero", share(near))),
        _norms(look, found, moments),
    ]
    if found.histogram is not None:
        lines += _histogram(look, found.histogram, moments, HISTOGRAM_ROWS)
    return lines


def _histogram(look: Look, histogram: Histogram, moments: Moments, rows: int) -> list[Line]:
    """Return the histogram, and the range of the values below."""
    shown = histogram_columns(histogram, look.inner)
    drawn = sparkline(shown, max((one or 0.0 for one in shown), default=0.0), rows, look.glyphs)
    low, high = figures.statistic(moments.minimum), figures.statistic(moments.maximum)
    return [
        *(row(((line, "ink"),), EMPTY, look) for line in drawn),
        row(((low, "muted"),), ((high, "muted"),), look),
    ]


def histogram_columns(histogram: Histogram, cells: int) -> list[float | None]:
    """Return the histogram in so many columns; None where one is empty."""
    counts = array("Q")
    counts.frombytes(histogram.counts[: len(histogram.counts) // 8 * 8])
    if not counts or cells < 1:
        return []
    bins = len(counts)
    found: list[float | None] = []
    for column in range(cells):
        low, high = column * bins / cells, (column + 1) * bins / cells
        inside = 0.0
        for at in range(int(low), min(int(high) + 1, bins)):
            inside += counts[at] * max(min(high, at + 1) - max(low, at), 0.0)
        found.append(inside or None)
    return found


def _norms(look: Look, found: TensorStatistics, moments: Moments) -> Line:
    parts: list[Line] = [(("norms".ljust(_LABEL - 2), "muted"),)]
    norms = [("L1", figures.statistic(moments.l1)), ("L2", figures.statistic(moments.l2))]
    if found.spectral is not None:
        norms.append(("spectral", figures.text(found.spectral.norm, figures.statistic, look)))
    parts += [((f"  {name} ", "muted"), (text, "ink")) for name, text in norms]
    return columns(parts, EMPTY, look)


def _quantisation(look: Look, found: TensorStatistics) -> list[Line]:
    if not found.quantised:
        return [section("SQNR, dB", "", look), *_whys(look, found, "quantisation")]
    on = found.quantised_on
    sampled = on is not None and on.values < on.of
    where = f"on {count(on.values)} values" if sampled and on is not None else "all values"
    lines = [section("SQNR, dB", where, look)]
    groups = sorted({one.group for one in found.quantised if one.granularity == "group"})
    heads = ("tensor", "channel", *([f"group {groups[0]}"] if groups else []))
    lines.append(_table_row(look, "", tuple((head, "muted") for head in heads)))
    for name in FORMATS:
        cells = []
        for granularity in ("tensor", "channel", "group")[: len(heads)]:
            text = figures.sqnr(weights.sqnr(found, name, granularity), look)
            cells.append((text, "faint" if text == look.glyphs.dash else "ink"))
        if any(text != look.glyphs.dash for text, _ in cells):
            lines.append(_table_row(look, figures.long_format(name), tuple(cells)))
    width = found.width
    if width is not None:
        lines.append(_width(look, width))
    return lines


def _width(look: Look, width: Width) -> Line:
    """Return the narrowest format with enough SQNR, its error and saving, as far as they fit."""
    head: Line = (("30 dB", "muted"), (" ", "ink"))
    stored = figures.long_format(safe(width.format))
    if not width.saved_bytes:
        return row((*head, (f"{stored}: {safe(width.why)}", "ink")), EMPTY, look)
    per = f" per {safe(width.granularity)}" if width.granularity else ""
    error: Line = ((f"  {share(width.error)} error", "ink"),)
    saved: Line = ((f"  −{size(width.saved_bytes)}", "ink"),)
    return columns(((*head, (f"{stored}{per}", "ink")), error, saved), EMPTY, look)


def _pruning(look: Look, found: TensorStatistics) -> list[Line]:
    if not found.pruned:
        return [section("prunable", "", look), *absent("values", "all are zero", look)]
    losses = found.pruned[:4]
    lines = [section("prunable", "at x % error", look)]
    heads = tuple((share(one.loss), "muted") for one in losses)
    lines.append(_table_row(look, "error", heads))
    sparse = tuple((share(one.sparsity) if one.sparsity else "·", "ink") for one in losses)
    lines.append(_table_row(look, "values", sparse))
    channels = found.channels
    if channels is not None and channels.pruned:
        cells = tuple(
            (thousands(one.channels) if one.channels else "·", "ink") for one in channels.pruned[:4]
        )
        lines.append(_table_row(look, f"of {thousands(channels.count)} ch.", cells))
    return lines


def _structure(look: Look, found: TensorStatistics) -> list[Line]:
    lines: list[Line] = []
    channels = found.channels
    if channels is not None:
        lines.append(
            section("channels", f"{thousands(channels.count)} × {count(channels.size)}", look)
        )
        lines += _channels(look, channels)
    packed = found.compression
    if packed is not None:
        ratio = (f"{safe(packed.codec)} ratio ", share(packed.planes_ratio))
        lines.append(_named(look, ratio, ("entropy bound ", share(packed.bound))))
    return lines or [section("channels", "", look), *_whys(look, found, "channels")]


def _channels(look: Look, channels: Channels) -> list[Line]:
    """Return dead, near-duplicate and outlier channels, and the indices of the first outliers."""
    alike = figures.text(channels.near_duplicates, _or_none, look)
    dead, outliers = _or_none(channels.dead), _or_none(channels.outliers)
    lines = [_named(look, ("dead ", dead), ("near-duplicates ", alike), ("outliers ", outliers))]
    if channels.first_outliers:
        first = ", ".join(map(str, channels.first_outliers))
        lines.append(fact("outliers", f"channels {first}", look, _LABEL))
    return lines


def _named(look: Look, *figures: tuple[str, str]) -> Line:
    spans: list[Span] = []
    for name, text in figures:
        spans += [(name, "muted"), (f"{text}   ", "ink")]
    return row(tuple(spans), EMPTY, look)


def _or_none(number: float) -> str:
    return thousands(int(number)) if number else "·"


def _sensitivity(look: Look, weight: weights.WeightRow) -> list[Line]:
    session, one = look.session, weight.sensitivity
    known = session.sensitivity
    if why := analysis_state.why_not_measured(session):
        return [section("sensitivity", "", look), *absent("output", safe(why), look)]
    if one is None or known is None:
        reason = "x measures this weight, X all"
        return [section("sensitivity", "", look), *pending("output", reason, look)]
    lines = [section("sensitivity", weights.scheme_words(one.scheme), look)]
    if one.done:
        lines += figure(
            "measured", one.output_error, lambda x: f"{figures.percent(x)} %", look, _LABEL
        )
    else:
        waits = "being measured" if analysis_state.is_measuring(session) else "stopped before"
        lines += pending("measured", waits, look)
    lines += figure(
        "predicted", one.predicted, lambda x: f"{figures.rough_percent(x)} %", look, _LABEL
    )
    weight_error = figures.text(
        one.weight_error, lambda value: f"{figures.percent(value)} % error", look
    )
    largest = figures.text(one.largest if one.done else None, figures.statistic, look)
    lines.append(_pairs(look, ("weight", weight_error), ("largest", largest)))
    return lines


def _pairs(look: Look, one: tuple[str, str], other: tuple[str, str]) -> Line:
    half = look.inner // 2
    left, right = f"{one[0].ljust(_LABEL)}", f"{other[0].ljust(_LABEL)}"
    gap = " " * max(half - _LABEL - len(one[1]), 1)
    return row(
        ((left, "muted"), (one[1], "ink"), (gap, "ink"), (right, "muted"), (other[1], "ink")),
        EMPTY,
        look,
    )


def _table_row(look: Look, label: str, cells: tuple[tuple[str, str], ...]) -> Line:
    each = max((look.inner - _LABEL) // max(len(cells), 1), 6)
    spans = tuple((f"{text.rjust(each)}", role) for text, role in cells)
    return row(((label.ljust(_LABEL), "muted"), *spans), EMPTY, look)


def _whys(look: Look, found: TensorStatistics, part: str) -> tuple[Line, ...]:
    if part in found.pending:
        return pending(part, "after the first pass", look, len(part) + 2)
    why = next((why for of, why in found.whys if of == part), "not asked for")
    return absent(part, safe(why), look, len(part) + 2)
