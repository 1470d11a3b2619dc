"""A flat table drawn: one row each, as many columns as fit; the cursor's row stays in sight."""

from msgspec import Struct

from tui_profiler.figures.units import TimeColumn, duration, thousands
from tui_profiler.formatting.text import fit, middle, safe, width
from tui_profiler.messages import Unknown, known
from tui_profiler.queries.cost import flat
from tui_profiler.queries.cost.flat import By, Column, FlatRow, FlatTable
from tui_profiler.queries.tree.names import fitted
from tui_profiler.reports.text.sections.flat import flat_cell, row_name, times_unit, why_absent

from ...widgets.heading import Heading, Order, Title
from ...widgets.lines import EMPTY, Line
from ...widgets.rows import Look, first_row, row, thumb_rows, under_cursor, words
from .view import SORT_WORDS, FlatView

TITLES: dict[By, str] = {"module": "modules", "class": "classes", "operator": "operators"}
_CELLS: dict[Column, int] = {
    "class": 18,
    "nodes": 8,
    "calls": 6,
    "total": 9,
    "own": 9,
    "cpu": 8,
    "share": 5,
    "gpu": 9,
    "allocated": 8,
    "parameters": 7,
    "macs": 6,
    "flops": 6,
    "bytes": 8,
    "input": 16,
    "output": 16,
}
_LEFT: tuple[Column, ...] = ("class", "input", "output")
_YIELD: tuple[Column, ...] = (
    *("input", "output", "class", "allocated", "macs", "bytes", "nodes", "cpu", "parameters"),
    *("calls", "flops", "gpu", "total", "own"),
)
"""Columns that are left out where there is no room, the first first."""
_LEAST_NAME = 22
LEAST_ROWS = 4
"""With fewer there are rows alone."""
HEADING_ROW = 1
_HOT, _COLD = 0.10, 0.005


class _Columns(Struct, frozen=True):
    """What a row is drawn with."""

    shown: tuple[Column, ...]
    name_cells: int
    times: TimeColumn


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
    heading: Line = (*_heading(view, view.table, columns).line(look.glyphs), (" ", "ink"))
    if not view.rows:
        said = f'nothing matches "{safe(view.text)}"' if view.text else f"no {TITLES[view.by]}"
        return (title, heading, *words(said, look))[: max(rows, 0)]
    body = body_rows(rows)
    top = first_row(view.at, len(view.rows), body)
    thumb = thumb_rows(len(view.rows), top, body)
    lines = [title, heading] if rows >= LEAST_ROWS else []
    for y, one in enumerate(view.rows[top : top + body]):
        line = _row(look, view, one, columns)
        if top + y == view.at:
            line = under_cursor(line, look)
        edge = (look.glyphs.thumb, "muted") if y in thumb else (" ", "ink")
        lines.append((*line, edge))
    return tuple(lines)


def body_rows(rows: int) -> int:
    """Return how many of so many lines are rows: all but title and heading, where there is room."""
    return rows - 2 if rows >= LEAST_ROWS else max(rows, 1)


def status_line(look: Look, view: FlatView) -> Line:
    """Return what is under the cursor, or why it has no times."""
    one = view.row
    if one is None:
        return row(EMPTY, EMPTY, look)
    what = safe(row_name(look.session, one))
    if why := why_absent((one,)):
        return row(((what, "ink"), (f"  {safe(why[0])}", "muted")), EMPTY, look)
    nodes = f"{thousands(len(one.nodes))} {'operator' if view.by == 'operator' else 'module'}"
    nodes += "s" * (len(one.nodes) != 1)
    if one.callers:
        tree, caller = look.session.tree, one.callers[0]
        name = tree.nodes[caller].name if tree is not None and caller < len(tree) else ""
        others = f" and {thousands(len(one.callers) - 1)} more" if len(one.callers) > 1 else ""
        also = f"{nodes}, also " if one.nodes else ""
        nodes = f"{also}called by {safe(name)}{others}"
    said = f"  {nodes}, {duration(known(one.total) or 0.0)} total"
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
            is_slow = bool(flat.interrupted_words(look.session, view.table))
            slow: Line = (("  windows interrupted", "muted"),) if is_slow else EMPTY
            right = ((f"{duration(seconds)}{of}", "ink"), *slow)
    return row(left, right, look)


def shown_columns(look: Look, view: FlatView) -> tuple[Column, ...]:
    """Return the columns that there is room for."""
    return () if view.table is None else _columns_for(look, view, view.table).shown


def _columns_for(look: Look, view: FlatView, table: FlatTable) -> _Columns:
    chosen = view.chosen_columns.get(view.by, ())
    shown = list(chosen or flat.usual_columns(table))

    def room() -> int:
        return look.cells - 2 - sum(1 + _CELLS[name] for name in shown)

    for name in reversed(chosen) if chosen else _YIELD:
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
    return _heading(view, view.table, _columns_for(look, view, view.table))


def _heading(view: FlatView, table: FlatTable, columns: _Columns) -> Heading:
    titles = [Title(view.by, 1 + columns.name_cells, "name", is_left=True, is_text=True)]
    for column in columns.shown:
        title = flat.title_of(table, column)
        unit = f" {columns.times.unit}" if column in flat.TIMES else ""
        by = "own" if column == "share" and table.base.name != "step" else column
        titles.append(
            Title(
                title + unit,
                1 + _CELLS[column],
                by,
                is_left=column in _LEFT,
                is_text=column == "class",
            )
        )
    return Heading(tuple(titles), Order(view.column, view.descending), y=HEADING_ROW)


def _row(look: Look, view: FlatView, one: FlatRow, columns: _Columns) -> Line:
    part = known(one.share)
    role = "ink" if part is None or part >= _COLD else "faint"
    name = fitted(safe(row_name(look.session, one)), columns.name_cells, look.glyphs.ellipsis)
    spans = [(" ", "ink"), (fit(name, columns.name_cells, look.glyphs.ellipsis), role)]
    for column in columns.shown:
        cells = _CELLS[column]
        text = safe(flat_cell(look.session, one, column, columns.times))
        if column in _LEFT:
            text = fit(middle(text, cells, look.glyphs.ellipsis), cells)
            spans.append((" " + text, "faint"))
            continue
        is_hot = column in ("own", "total") and part is not None and part >= _HOT
        spans.append((" " * (1 + cells - width(text)) + text, "strong ink" if is_hot else role))
    return tuple(spans)
