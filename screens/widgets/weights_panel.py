"""One weight in full: its values, what they could be stored in, what could go, what it costs."""

from __future__ import annotations

from array import array

from tui_profiler.canvas import sparkline
from tui_profiler.messages import Figure, Unknown
from tui_profiler.messages.parameters import Histogram, Moments, TensorStatistics
from tui_profiler.queries.weights import (
    WeightRow,
    is_measurable,
    is_measuring,
    is_reading,
    scheme_words,
    signal_over_noise,
)
from tui_profiler.text import middle, safe
from tui_profiler.units import count, dtype, shape, share, size, thousands

from .lines import EMPTY, Line
from .parts import Look, absent, pending, row, section, words
from .weights_cells import (
    decibels,
    figure_text,
    long_format,
    percent,
    rough_percent,
    statistic,
)

FORMATS = ("int8", "int4", "float8_e4m3fn", "float8_e5m2")
HISTOGRAM_ROWS = 4
_LABEL = 11


def panel_lines(look: Look, weight: WeightRow | None, rows: int) -> list[Line]:
    """Give what is known of a weight, in at most ``rows`` lines."""
    if weight is None:
        return []
    found = weight.statistics
    lines: list[Line] = [*_identity(look, weight), EMPTY]
    if weight.shared_with:
        lines += words(f"the same values as {safe(weight.shared_with)}: figures are there", look)
    elif found is None:
        lines += _not_there(look)
    elif found.moments is None:
        lines += absent("values", safe(found.why_none) or "not told", look)
    else:
        for part in (
            _values(look, found, found.moments),
            _quantisation(look, found),
            _pruning(look, found),
            _structure(look, found),
        ):
            lines += [*part, EMPTY]
    if is_measurable(weight) and not weight.shared_with:
        lines += _sensitivity(look, weight)
    return lines[: max(rows, 0)]


def _identity(look: Look, weight: WeightRow) -> list[Line]:
    facts = [shape(weight.shape), dtype(safe(weight.dtype)), size(weight.bytes)]
    found = weight.statistics
    if found is not None and found.alignment:
        facts.append(f"at a multiple of {size(found.alignment)}")
    if weight.is_buffer:
        facts.append("buffer")
    return [
        row(
            ((middle(safe(weight.name), look.inner, look.glyphs.ellipsis), "strong ink"),),
            EMPTY,
            look,
        ),
        row((("  ".join(facts), "muted"),), EMPTY, look),
    ]


def _not_there(look: Look) -> tuple[Line, ...]:
    parameters = look.session.parameters
    if is_reading(parameters):
        return pending("values", "they are read", look)
    if parameters is None:
        return pending("values", "a reads them", look)
    why = parameters.done.why if parameters.done is not None else ""
    return absent("values", safe(why) or "not read: it was stopped; a reads again", look)


def _values(look: Look, found: TensorStatistics, moments: Moments) -> list[Line]:
    lines = [section("values", f"{thousands(moments.count)}, all read", look)]
    wrong = [
        f"{thousands(number)} {word}"
        for number, word in ((moments.nans, "NaN"), (moments.infinities, "infinite"))
        if number
    ]
    if wrong:
        told = f"{look.glyphs.failed} {' and '.join(wrong)} values, in no figure here"
        lines += words(told, look, "error")
    if not moments.count:
        return lines
    zeros = moments.zeros / moments.count
    near = moments.near_zeros / moments.count
    lines += [
        _pairs(look, ("mean", statistic(moments.mean)), ("std", statistic(moments.std))),
        _pairs(
            look,
            ("skew", figure_text(moments.skewness, statistic, look)),
            ("kurtosis", figure_text(moments.kurtosis, statistic, look)),
        ),
        _pairs(look, ("zeros", share(zeros) if zeros else "·"), ("nearly", share(near))),
        _pairs(look, ("L1", statistic(moments.l1)), ("L2", statistic(moments.l2))),
    ]
    if found.spectral is not None:
        norm = figure_text(found.spectral.norm, statistic, look)
        how = safe(found.spectral.method)
        lines.append(_pairs(look, ("spectral", norm), ("by", how)))
    if found.histogram is not None:
        lines += histogram_lines(look, found.histogram, moments, HISTOGRAM_ROWS)
    return lines


def histogram_lines(look: Look, histogram: Histogram, moments: Moments, rows: int) -> list[Line]:
    """Draw the counts over the range of the values, and its ends below."""
    columns = histogram_columns(histogram, look.inner)
    drawn = sparkline(columns, max((one or 0.0 for one in columns), default=0.0), rows, look.glyphs)
    low, high = statistic(moments.minimum), statistic(moments.maximum)
    return [
        *(row(((line, "ink"),), EMPTY, look) for line in drawn),
        row(((low, "muted"),), ((high, "muted"),), look),
    ]


def histogram_columns(histogram: Histogram, cells: int) -> list[float | None]:
    """Share the bins out over so many columns, each bin evenly over its width; None is empty."""
    counts = array("Q")
    counts.frombytes(histogram.counts[: len(histogram.counts) // 8 * 8])
    if not counts or cells < 1:
        return []
    bins = len(counts)
    columns: list[float | None] = []
    for column in range(cells):
        low, high = column * bins / cells, (column + 1) * bins / cells
        inside = 0.0
        for at in range(int(low), min(int(high) + 1, bins)):
            inside += counts[at] * max(min(high, at + 1) - max(low, at), 0.0)
        columns.append(inside or None)
    return columns


def _quantisation(look: Look, found: TensorStatistics) -> list[Line]:
    if not found.quantised:
        return [section("quantisation", "", look), *_whys(look, found, "quantisation")]
    on = found.quantised_on
    sampled = on is not None and on.values < on.of
    where = f"on {count(on.values)} values" if sampled and on is not None else "all values"
    lines = [section("signal over noise, dB", where, look)]
    groups = sorted({one.group for one in found.quantised if one.granularity == "group"})
    heads = ("tensor", "channel", *([f"group {groups[0]}"] if groups else []))
    lines.append(_table_row(look, "", tuple((head, "muted") for head in heads)))
    for name in FORMATS:
        cells = []
        for granularity in ("tensor", "channel", "group")[: len(heads)]:
            figure = signal_over_noise(found, name, granularity)
            text = figure_text(figure, decibels, look)
            cells.append((text, "ink" if not isinstance(figure, Unknown) else "faint"))
        if any(text != look.glyphs.dash for text, _ in cells):
            lines.append(_table_row(look, long_format(name), tuple(cells)))
    width = found.width
    if width is not None:
        stored = long_format(width.format)
        per = f" per {width.granularity}" if width.granularity else ""
        gain = f", saves {size(width.saved_bytes)}" if width.saved_bytes else ""
        told = f"{stored}{per}, error {share(width.error)}{gain}" if gain else f"{stored} stays"
        lines += _labelled(look, "width", f"{told}: {safe(width.why)}" if not gain else told)
    return lines


def _pruning(look: Look, found: TensorStatistics) -> list[Line]:
    if not found.pruned:
        return [section("pruning", "", look), *absent("values", "no norm to lose", look)]
    losses = found.pruned[:4]
    lines = [section("pruning, share that can go", "for a loss of norm", look)]
    heads = tuple((share(one.loss), "muted") for one in losses)
    lines.append(_table_row(look, "loss", heads))
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
            section("channels", f"{thousands(channels.count)} of {count(channels.size)}", look)
        )
        outliers = thousands(channels.outliers) if channels.outliers else "·"
        if channels.first_outliers:
            outliers += f"  ({', '.join(map(str, channels.first_outliers[:3]))})"
        duplicates = figure_text(channels.near_duplicates, lambda n: f"{n:,.0f}", look)
        lines.append(
            _pairs(
                look,
                ("dead", thousands(channels.dead) if channels.dead else "·"),
                ("alike", "·" if duplicates == "0" else duplicates),
            )
        )
        lines += _labelled(look, "outliers", outliers)
    packed = found.compression
    if packed is not None:
        told = (
            f"to {share(packed.planes_ratio)} by {safe(packed.codec)}, bound {share(packed.bound)}"
        )
        lines += _labelled(look, "packs", told)
    return lines or [section("channels", "", look), *_whys(look, found, "channels")]


def _sensitivity(look: Look, weight: WeightRow) -> list[Line]:
    session, one = look.session, weight.sensitivity
    known = session.sensitivity
    if one is None or known is None:
        reason = "x changes this weight and measures the output, X every weight"
        return [section("sensitivity", "", look), *pending("output", reason, look)]
    lines = [section("sensitivity of the output", scheme_words(one.scheme), look)]
    if one.done:
        lines += _or_reason(look, "measured", one.output_error, lambda value: f"{percent(value)} %")
    else:
        waits = "it is measured" if is_measuring(session) else "it was stopped before"
        lines += pending("measured", waits, look)
    lines += _or_reason(look, "predicted", one.predicted, lambda value: f"{rough_percent(value)} %")
    lines += _or_reason(look, "weight", one.weight_error, lambda value: f"{percent(value)} % off")
    if one.done and not isinstance(one.largest, Unknown):
        most = known.done.output_largest if known.done is not None else None
        beside = f" of {statistic(most)}" if isinstance(most, float) else ""
        lines += _labelled(look, "largest", f"{statistic(one.largest)}{beside}")
    return lines


def _or_reason(look: Look, label: str, figure: Figure, write: object) -> tuple[Line, ...]:
    if isinstance(figure, Unknown):
        return absent(label, safe(figure.reason), look, _LABEL)
    return tuple(_labelled(look, label, figure_text(figure, write, look)))


def _labelled(look: Look, label: str, text: str) -> list[Line]:
    return [row(((label.ljust(_LABEL), "muted"), (text, "ink")), EMPTY, look)]


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
    why = next((why for of, why in found.whys if of == part), "not asked for")
    return absent(part, safe(why), look, len(part) + 2)
