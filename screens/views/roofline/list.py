"""The nodes by time: what each takes, what share of its roof it reaches, what holds it back."""

from __future__ import annotations

from tui_profiler.figures.units import column_time
from tui_profiler.formatting.text import fit, width
from tui_profiler.queries.cost.bound import BoundKind
from tui_profiler.queries.cost.roofline import BELOW
from tui_profiler.queries.cost.roofline_node import name_of
from tui_profiler.queries.cost.roofline_view import RooflineView
from tui_profiler.queries.tree.cells import FAINT_SHARE, STRONG_SHARE
from tui_profiler.queries.tree.names import fitted

from ...widgets.lines import Line, with_role
from ...widgets.rows import Look, mark_of
from ...widgets.scrolled import thumb_rows

LEAST_LIST = 4
"""Rows of a list that is worth having."""
_TIME, _SHARE = 6, 6
_TAIL = 1 + _TIME + 2 + _SHARE + 3
"""Cells right of the name: gaps, time, share, the sign of the bound, a blank."""
_LEAST_NAME = 8


def list_lines(look: Look, view: RooflineView, rows: int) -> list[Line]:
    """Return the heading, where there is room for it, and as many nodes as fit."""
    body = list_rows(rows)
    rank = view.rank(look.node)
    top = view.first_row(look.node, body)
    lines = [_heading(look, view)] if body < rows else []
    for at, place in enumerate(view.order[top : top + body], top):
        line = _row(look, view, place)
        if at == rank:
            line = with_role(((look.glyphs.cursor, "accent"), *line[1:]), "cursor")
        lines.append(line)
    return lines


def thumb(look: Look, view: RooflineView, rows: int) -> range:
    """Return the rows beside the list that say which part of it is shown; none where all is."""
    body = list_rows(rows)
    found = thumb_rows(len(view.order), view.first_row(look.node, body), body)
    return range(found.start + rows - body, found.stop + rows - body)


def list_rows(rows: int) -> int:
    """Return how many of so many rows are nodes: all, or all but the heading."""
    return rows - 1 if rows >= LEAST_LIST else max(rows, 1)


def _heading(look: Look, view: RooflineView) -> Line:
    name = look.cells - 1 - _TAIL
    if name < _LEAST_NAME:
        return ((fit(" by time", look.cells, look.glyphs.ellipsis), "strong ink"),)
    return (
        (" ", "ink"),
        (fit("by time", name, look.glyphs.ellipsis), "strong ink"),
        (" " + view.unit.rjust(_TIME), "muted"),
        ("% roof".rjust(2 + _SHARE), "muted"),
        ("   ", "ink"),
    )


def _row(look: Look, view: RooflineView, place: int) -> Line:
    found, now, tree = view.parts, view.now, view.tree
    assert found is not None
    assert now is not None
    assert tree is not None
    spent, least = now.seconds[place], found.least[place]
    share = spent / now.whole if now.whole else 0.0
    is_faint = share < FAINT_SHARE
    reached = least / spent if least and spent else None
    percent = ((_percent(reached, look).rjust(_SHARE), _role(reached, is_faint=is_faint)),)
    name = look.cells - 1 - _TAIL
    if name < _LEAST_NAME:
        # Too small for the time: the name and the share remain.
        name = max(look.cells - _SHARE - 3, 1)
        tail: Line = ((" ", "ink"), *percent, (" ", "ink"))
    else:
        spent_text = column_time(spent, view.unit).rjust(_TIME + 1)
        sign = _sign(found.kind(place, spent * now.on_core), look, is_faint=is_faint)
        tail = ((spent_text, _weight(share)), ("  ", "ink"), *percent, *sign, (" ", "ink"))
    text = fitted(name_of(tree, found.nodes[place]), name, look.glyphs.ellipsis)
    blank = " " * (name - width(text))
    return ((" ", "ink"), (text, "faint" if is_faint else "ink"), (blank, "ink"), *tail)


def _sign(kind: BoundKind | None, look: Look, *, is_faint: bool) -> Line:
    if kind is None:
        return ((f" {look.glyphs.dash}", "faint"),)
    return ((f" {mark_of(kind, look.glyphs)}", "faint" if is_faint else kind),)


def _weight(share: float) -> str:
    if share >= STRONG_SHARE:
        return "strong ink"
    return "ink" if share >= FAINT_SHARE else "faint"


def _role(reached: float | None, *, is_faint: bool) -> str:
    if is_faint or reached is None:
        return "faint"
    return "ink" if reached < BELOW else "muted"


def _percent(reached: float | None, look: Look) -> str:
    if reached is None:
        return look.glyphs.dash
    percent = reached * 100
    if percent < 0.5:
        return "<1 %"
    return f"{percent:.0f} %" if percent < 999.5 else f"{look.glyphs.beyond}999 %"
