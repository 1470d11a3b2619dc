"""What the selected node reaches, what its roof is there, and what the model would gain."""

from __future__ import annotations

from tui_profiler.figures.units import duration, intensity, rate, share, thousands
from tui_profiler.formatting.text import width
from tui_profiler.queries.cost.roofline_node import Standing
from tui_profiler.queries.cost.roofline_view import RooflineView
from tui_profiler.queries.tree.names import fitted

from ...widgets.lines import EMPTY, Line, Span, line_width, text
from ...widgets.rows import Look, columns, mark_of, row, section, words

DETAIL_ROWS = 10
"""A blank, the name, six figures, and two rows of words: fixed, so that nothing jumps."""
_UNIT = 7
"""Cells of a unit, so that figures end at one cell: ``GFLOP/s``."""


def detail_lines(look: Look, at: Standing) -> tuple[Line, ...]:
    """Return one figure a row, under the node's name."""
    title = section(fitted(at.name, look.inner - 4, look.glyphs.ellipsis), _provenance(at), look)
    why = list(words(at.why, look))[:2] if at.why else []
    return (
        EMPTY,
        title,
        _figure("reaches", _rate(at.reaches, at, look), look),
        _figure(_roof_label(at), _rate(at.roof, at, look), look),
        _figure("of its roof", _share(at, look), look),
        _figure("arithmetic intensity", _intensity(at, look), look),
        _figure("time at the roof", _least(at, look), look),
        _figure("model speed-up at the roof", _gain(at, look), look),
        *why,
    )


def brief_lines(look: Look, at: Standing, view: RooflineView, rows: int) -> list[Line]:
    """Return the same in at most three rows; in one row the name and the share of the roof."""
    rank = view.rank(look.node)
    place = (
        f"{thousands(rank + 1)} of {thousands(len(view.order))} by time" if rank is not None else ""
    )
    verdict = _verdict(at, look)
    if rows < 2:
        spent = f"  {duration(at.seconds)}" if at.seconds else ""
        tail: Line = ((spent, "ink"), (f"  {text(_share(at, look))}", "ink"), *_spaced(verdict))
        room = max(look.inner - line_width(tail), 1)
        return [
            row(((fitted(at.name, room, look.glyphs.ellipsis), "strong ink"), *tail), EMPTY, look)
        ]
    title = section(
        fitted(at.name, max(look.inner - width(place) - 6, 8), look.glyphs.ellipsis), place, look
    )
    first = (
        _pair("time", ((duration(at.seconds), "ink"),) if at.seconds else _dash(look)),
        _pair("at the roof", _least(at, look)),
        _pair("of its roof", _share(at, look)),
    )
    second = (
        _pair("reaches", _rate(at.reaches, at, look)),
        _pair("roof", _rate(at.roof, at, look)),
        _pair("would gain", _gain(at, look)),
        _pair("work", _intensity(at, look)),
    )
    lines = [title, columns(first, verdict, look), columns(second, EMPTY, look)]
    return lines[:rows]


def _provenance(at: Standing) -> str:
    return "" if at.is_part else "achieved, children"


def _roof_label(at: Standing) -> str:
    if at.roof_name == "mixed":
        return "attainable, children"
    return f"roof here, {at.roof_name}" if at.roof_name else "roof here"


def _figure(label: str, figure: Line, look: Look) -> Line:
    """Set the figure's unit, its last span, left-aligned at the right end."""
    if len(figure) > 1:
        *first, (unit, role) = figure
        figure = (*first, (unit.ljust(_UNIT + 1), role))
    else:
        figure = (*figure, (" " * (_UNIT + 1), "ink"))
    return row(((label, "muted"),), figure, look)


def _pair(label: str, figure: Line) -> Line:
    return ((f"{label} ", "muted"), *figure, ("   ", "ink"))


def _spaced(line: Line) -> Line:
    return (("  ", "ink"), *line) if line else EMPTY


def _dash(look: Look) -> tuple[Span, ...]:
    return ((look.glyphs.dash, "faint"),)


def _split(amount: str, mark: str = "") -> Line:
    figure, _, unit = amount.partition(" ")
    return ((mark + figure, "ink"), (f" {unit}", "muted"))


def _rate(per_second: float | None, at: Standing, look: Look) -> Line:
    if per_second is None:
        return _dash(look)
    return _split(rate(per_second, at.unit), _mark(at, look))


def _mark(at: Standing, look: Look) -> str:
    """Return the sign of a figure that is no exact count of the FLOPs."""
    if at.unit == "B/s":
        return ""
    if at.bounded is not None:
        return {"at most": look.glyphs.at_most, "about": look.glyphs.about}[at.bounded]
    return "≥" if at.is_least else ""


def _share(at: Standing, look: Look) -> Line:
    return _split(share(at.share)) if at.share is not None else _dash(look)


def _intensity(at: Standing, look: Look) -> Line:
    if at.intensity is None:
        return (("no FLOPs" if at.reaches else look.glyphs.dash, "faint"),)
    return ((_mark(at, look) + intensity(at.intensity), "ink"), (" FLOP/B", "muted"))


def _least(at: Standing, look: Look) -> Line:
    return _split(duration(at.least_seconds)) if at.least_seconds else _dash(look)


def _gain(at: Standing, look: Look) -> Line:
    """Return a prediction: at most two digits, and marked."""
    if at.gain is not None:
        return _split(share(at.gain), look.glyphs.about)
    if at.share is not None and at.share >= 1:
        return ((look.glyphs.zero, "faint"),)
    return _dash(look)


def _verdict(at: Standing, look: Look) -> Line:
    if at.kind is None:
        return EMPTY
    return ((f"{mark_of(at.kind, look.glyphs)} {at.kind}", at.kind),)
