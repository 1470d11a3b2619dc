"""A flat table drawn: one row each, as many columns as fit; the cursor's row stays in sight."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from msgspec import Struct

from tui_profiler.figures.units import (
    UNAVAILABLE,
    TimeColumn,
    count,
    duration,
    shape,
    size,
    thousands,
)
from tui_profiler.formatting.text import fit, middle, safe, width
from tui_profiler.messages import Figure, Unknown, known
from tui_profiler.queries.cost.flat import By, FlatRow, FlatTable, figure_of, interrupted_words
from tui_profiler.reports.text.sections.figure_text import percent
from tui_profiler.reports.text.sections.flat import row_name, seconds_cell, times_unit, why_absent

from ...widgets.heading import Heading, Order, Title
from ...widgets.lines import EMPTY, Line, with_role
from ...widgets.rows import Look, row, words
from ...widgets.scrolled import thumb_rows
from .view import SORT_WORDS, FlatView

_Shown: TypeAlias = Literal[
    "class",
    "nodes",
    "calls",
    "total",
    "own",
    "share",
    "parameters",
    "macs",
    "flops",
    "bytes",
    "shape",
]
TITLES: dict[By, str] = {"module": "modules", "class": "classes", "operator": "operators"}
_CELLS: dict[_Shown, int] = {
    "class": 18,
    "nodes": 8,
    "calls": 6,
    "total": 9,
    "own": 9,
    "share": 5,
    "parameters": 7,
    "macs": 6,
    "flops": 6,
    "bytes": 8,
    "shape": 16,
}
_YIELD: tuple[_Shown, ...] = (
    *("shape", "class", "macs", "bytes", "nodes", "parameters", "calls", "flops", "total", "own"),
)
"""Columns that are left out where there is no room, the first first."""
_LEAST_NAME = 22
LEAST_ROWS = 4
"""With fewer there are rows alone."""
HEADING_ROW = 1
_HOT, _COLD = 0.10, 0.005


class _Columns(Struct, frozen=True):
    """What a row is drawn with."""

    shown: tuple[_Shown, ...]
    name_cells: int
    unit: TimeColumn


def flat_lines(look: Look, view: FlatView, rows: int) -> tuple[Line, ...]:
    """Return the title, the heading and as many rows as fit.

    Args:
        look: what is looked at.
        view: rows and cursor.
        rows: lines that there are.
    """
    title = _title(look, view)
    if view.table is None:
        return (title, *words("adding up", look))[: max(rows, 0)]
    columns = _columns_for(look, view, view.table)
    heading: Line = (*_heading(view, columns).line(look.glyphs), (" ", "ink"))
    if not view.rows:
        said = f'nothing matches "{safe(view.text)}"' if view.text else f"no {TITLES[view.by]}"
        return (title, heading, *words(said, look))[: max(rows, 0)]
    body = body_rows(rows)
    top = first_row(view, body)
    thumb = thumb_rows(len(view.rows), top, body)
    lines = [title, heading] if rows >= LEAST_ROWS else []
    for y, one in enumerate(view.rows[top : top + body]):
        line = _row(look, view, one, columns)
        if top + y == view.at:
            line = with_role(((look.glyphs.cursor, "accent"), *line[1:]), "cursor")
        edge = (look.glyphs.thumb, "muted") if y in thumb else (" ", "ink")
        lines.append((*line, edge))
    return tuple(lines)


def body_rows(rows: int) -> int:
    """Return how many of so many lines are rows: all but title and heading, where there is room."""
    return rows - 2 if rows >= LEAST_ROWS else max(rows, 1)


def first_row(view: FlatView, body: int) -> int:
    """Return the first row that is shown: the cursor's is in the middle where it can be."""
    return max(0, min(view.at - body // 2, len(view.rows) - body))


def status_line(look: Look, view: FlatView) -> Line:
    """Return what is under the cursor, or why it has no times."""
    one = view.row
    if one is None:
        return row(EMPTY, EMPTY, look)
    what = safe(row_name(look.session, one))
    if why := why_absent((one,)):
        return row(((what, "ink"), (f"  {safe(why[0])}", "muted")), EMPTY, look)
    nodes = f"{thousands(len(one.nodes))} {'operator' if view.by == 'operator' else 'module'}"
    said = f"  {nodes}{'s' * (len(one.nodes) != 1)}, {duration(known(one.total) or 0.0)} total"
    return row(((what, "ink"), (said, "muted")), EMPTY, look)


def _title(look: Look, view: FlatView) -> Line:
    left: Line = (
        (f"{TITLES[view.by]}, flat", "strong ink"),
        (f"  {thousands(len(view.rows))}", "muted"),
        (f"  {SORT_WORDS[view.column]}", "faint"),
    )
    if view.text:
        left = (*left, (f"  /{safe(view.text)}", "accent"))
    right: Line = EMPTY
    if view.table is not None:
        seconds, tree = view.table.seconds, look.session.tree
        of = ""
        if view.table.root and tree is not None and view.table.root < len(tree):
            of = f" in {safe(tree.nodes[view.table.root].path)}"
        if isinstance(seconds, Unknown):
            right = ((f"on paper{of}", "muted"),)
        else:
            slow = "  windows interrupted" if interrupted_words(look.session, view.table) else ""
            right = ((f"{duration(seconds)}{of}", "ink"), (slow, "muted"))
    return row(left, right, look)


def _columns_for(look: Look, view: FlatView, table: FlatTable) -> _Columns:
    absent: dict[By, tuple[_Shown, ...]] = {
        "module": ("nodes",),
        "class": ("class", "shape"),
        "operator": ("class", "nodes", "own", "parameters"),
    }
    shown = [name for name in _CELLS if name not in absent[view.by]]

    def room() -> int:
        return look.cells - 2 - sum(1 + _CELLS[name] for name in shown)

    for name in _YIELD:
        if room() >= _LEAST_NAME:
            break
        # What the rows are ordered by stays in sight.
        if name in shown and name != view.column:
            shown.remove(name)
    return _Columns(tuple(shown), max(room(), 1), times_unit(table))


def flat_heading(look: Look, view: FlatView) -> Heading | None:
    """Return the titles of the columns that are shown; None where there is no table yet."""
    if view.table is None:
        return None
    return _heading(view, _columns_for(look, view, view.table))


def _heading(view: FlatView, columns: _Columns) -> Heading:
    unit = columns.unit.unit
    texts: dict[_Shown, str] = {
        "total": f"total {unit}",
        "own": f"self {unit}",
        "share": "%",
        "parameters": "params",
        "macs": "MAC",
        "flops": "FLOP",
        "nodes": "modules",
    }
    titles = [Title(view.by, 1 + columns.name_cells, "name", is_left=True, is_text=True)]
    for column in columns.shown:
        # A share is one of what the rows are ordered by at first.
        by = ("total" if view.by == "operator" else "own") if column == "share" else column
        titles.append(
            Title(
                texts.get(column, column),
                1 + _CELLS[column],
                by,
                is_left=column in ("class", "shape"),
                is_text=column == "class",
            )
        )
    return Heading(tuple(titles), Order(view.column, view.descending), y=HEADING_ROW)


def _row(look: Look, view: FlatView, one: FlatRow, columns: _Columns) -> Line:
    part = known(one.share)
    role = "ink" if part is None or part >= _COLD else "faint"
    name = middle(safe(row_name(look.session, one)), columns.name_cells, look.glyphs.ellipsis)
    spans = [(" ", "ink"), (fit(name, columns.name_cells, look.glyphs.ellipsis), role)]
    for column in columns.shown:
        cells = _CELLS[column]
        if column in ("class", "shape"):
            written = one.type if column == "class" else _shape(one)
            text = fit(middle(safe(written), cells, look.glyphs.ellipsis), cells)
            spans.append((" " + text, "faint"))
            continue
        is_hot = column in ("own", "total") and part is not None and part >= _HOT
        text = _figure(one, column, columns.unit)
        spans.append((" " * (1 + cells - width(text)) + text, "strong ink" if is_hot else role))
    return tuple(spans)


def _figure(one: FlatRow, column: _Shown, unit: TimeColumn) -> str:
    match column:
        case "share":
            return percent(known(one.share))
        case "total" | "own":
            return seconds_cell(figure_of(one, column), unit)
        case "calls" | "nodes":
            return count(known(figure_of(one, column)) or 0)
        case "parameters" | "macs" | "flops":
            return _written(figure_of(one, column), count)
        case _:
            return _written(one.bytes_moved, size)


def _written(figure: Figure, write: Callable[[float], str]) -> str:
    return UNAVAILABLE if isinstance(figure, Unknown) else write(figure)


def _shape(one: FlatRow) -> str:
    return shape(one.shape) if one.shape is not None else "several"
