"""One weight in full: its values, what they could be stored in, what could go, what it costs."""

from __future__ import annotations

from collections.abc import Sequence

from tui_profiler.figures.units import count, dtype, shape, share, size, thousands
from tui_profiler.formatting.text import middle, safe
from tui_profiler.messages import Figure, Unknown
from tui_profiler.messages.parameters import Channels, Moments, TensorStatistics, Width
from tui_profiler.queries.panel.state import (
    is_measuring,
    is_reading,
    why_not_measured,
    why_not_read,
)
from tui_profiler.queries.parameters.weights import (
    WeightRow,
    is_measurable,
    scheme_words,
    signal_over_noise,
)

from ...widgets.lines import EMPTY, Line, Span
from ...widgets.rows import Look, absent, columns, pending, row, section, words
from .cells import (
    figure_text,
    long_format,
    noise_text,
    percent,
    rough_percent,
    statistic,
)
from .histogram import histogram_lines

FORMATS = ("int8", "int4", "float8_e4m3fn", "float8_e5m2")
HISTOGRAM_ROWS = 3
_LABEL = 11


def panel_lines(look: Look, weight: WeightRow | None, rows: int) -> list[Line]:
    """Return what is known of a weight, in at most ``rows`` lines."""
    if weight is None:
        return []
    found = weight.statistics
    parts: list[Sequence[Line]] = []
    if weight.shared_with:
        told = f"the same values as {safe(weight.shared_with)}: figures are there"
        parts.append(words(told, look))
    elif found is None:
        parts.append(_not_there(look))
    elif found.moments is None:
        parts.append(absent("values", safe(found.why_none) or "not given", look))
    else:
        parts.append(_values(look, found, found.moments))
    if is_measurable(weight) and not weight.shared_with:
        parts.append(_sensitivity(look, weight))
    if found is not None and found.moments is not None and not weight.shared_with:
        parts += [_quantisation(look, found), _pruning(look, found), _structure(look, found)]
    return _spaced([*_identity(look, weight)], parts, rows)


def _spaced(lines: list[Line], parts: Sequence[Sequence[Line]], rows: int) -> list[Line]:
    """Put blank rows between parts, as many as there is room for."""
    spare = rows - len(lines) - sum(map(len, parts))
    for at, part in enumerate(parts):
        if at and spare > 0:
            lines.append(EMPTY)
            spare -= 1
        lines += part
    return lines[: max(rows, 0)]


def _identity(look: Look, weight: WeightRow) -> list[Line]:
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
    if is_reading(look.session):
        return pending("values", "they are read", look)
    if why := why_not_read(look.session):
        return absent("values", safe(why), look)
    if parameters is None:
        return pending("values", "not read yet; a reads them", look)
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
        several = moments.nans + moments.infinities != 1
        what = f"value{'s' * several}"
        told = f"{look.glyphs.failed} {' and '.join(wrong)} {what}, in no figure here"
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
        _norms(look, found, moments),
    ]
    if found.histogram is not None:
        lines += histogram_lines(look, found.histogram, moments, HISTOGRAM_ROWS)
    return lines


def _norms(look: Look, found: TensorStatistics, moments: Moments) -> Line:
    parts: list[Line] = [(("norms".ljust(_LABEL - 2), "muted"),)]
    norms = [("L1", statistic(moments.l1)), ("L2", statistic(moments.l2))]
    if found.spectral is not None:
        norms.append(("spectral", figure_text(found.spectral.norm, statistic, look)))
    parts += [((f"  {name} ", "muted"), (text, "ink")) for name, text in norms]
    return columns(parts, EMPTY, look)


def _quantisation(look: Look, found: TensorStatistics) -> list[Line]:
    if not found.quantised:
        return [section("quantisation", "", look), *_whys(look, found, "quantisation")]
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
            figure = signal_over_noise(found, name, granularity)
            text = noise_text(figure, look)
            cells.append((text, "faint" if text == look.glyphs.dash else "ink"))
        if any(text != look.glyphs.dash for text, _ in cells):
            lines.append(_table_row(look, long_format(name), tuple(cells)))
    width = found.width
    if width is not None:
        lines.append(_width(look, width))
    return lines


def _width(look: Look, width: Width) -> Line:
    """Return the width that is enough, its error, and what it saves, as far as there is room."""
    head: Line = (("fits", "muted"), ("  ", "ink"))
    stored = long_format(safe(width.format))
    if not width.saved_bytes:
        return row((*head, (f"{stored} stays: {safe(width.why)}", "ink")), EMPTY, look)
    per = f" per {safe(width.granularity)}" if width.granularity else ""
    error: Line = ((f"  {share(width.error)} off", "ink"),)
    saved: Line = ((f"  −{size(width.saved_bytes)}", "ink"),)
    return columns(((*head, (f"{stored}{per}", "ink")), error, saved), EMPTY, look)


def _pruning(look: Look, found: TensorStatistics) -> list[Line]:
    if not found.pruned:
        return [section("pruning", "", look), *absent("values", "no norm to lose", look)]
    losses = found.pruned[:4]
    lines = [section("pruning", "prunable at a given error", look)]
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
        lines.append(_channels(look, channels))
    packed = found.compression
    if packed is not None:
        told = f"{safe(packed.codec)} ratio {share(packed.planes_ratio)}"
        told += f", entropy bound {share(packed.bound)}"
        lines += _labelled(look, "compresses", told)
    return lines or [section("channels", "", look), *_whys(look, found, "channels")]


def _channels(look: Look, channels: Channels) -> Line:
    """Return what is dead, far out, or twice there; of the far out the first by their index."""
    outliers = _or_none(channels.outliers)
    if channels.first_outliers:
        outliers += f" ({', '.join(map(str, channels.first_outliers[:2]))})"
    alike = figure_text(channels.near_duplicates, _or_none, look)
    spans: list[Span] = []
    told = (("dead", _or_none(channels.dead)), ("alike", alike), ("outliers", outliers))
    for name, text in told:
        spans += [(f"{name} ", "muted"), (f"{text}   ", "ink")]
    return row(tuple(spans), EMPTY, look)


def _or_none(number: float) -> str:
    return thousands(int(number)) if number else "·"


def _sensitivity(look: Look, weight: WeightRow) -> list[Line]:
    session, one = look.session, weight.sensitivity
    known = session.sensitivity
    if why := why_not_measured(session):
        return [section("sensitivity", "", look), *absent("output", safe(why), look)]
    if one is None or known is None:
        reason = "x changes this weight and measures the output, X every weight"
        return [section("sensitivity", "", look), *pending("output", reason, look)]
    lines = [section("sensitivity", scheme_words(one.scheme), look)]
    if one.done:
        lines += _or_reason(look, "measured", one.output_error, lambda value: f"{percent(value)} %")
    else:
        waits = "it is measured" if is_measuring(session) else "it was stopped before"
        lines += pending("measured", waits, look)
    lines += _or_reason(look, "predicted", one.predicted, lambda value: f"{rough_percent(value)} %")
    weight_error = figure_text(one.weight_error, lambda value: f"{percent(value)} % off", look)
    largest = figure_text(one.largest if one.done else None, statistic, look)
    lines.append(_pairs(look, ("weight", weight_error), ("largest", largest)))
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
