"""The table of weights: a row each, as many columns as fit; the cursor's row stays visible."""

from collections.abc import Sequence

from tui_profiler.formatting.text import fit, middle, safe, width
from tui_profiler.queries.parameters import weights

from ...widgets.heading import Heading, Order, Title
from ...widgets.lines import Line
from ...widgets.rows import Look, first_row, thumb_rows, under_cursor, words
from .analysis_state import has_sensitivities
from .figures import cell

_COLUMNS: dict[weights.Column, tuple[str, int]] = {
    "values": ("count", 6),
    "std": ("std", 8),
    "zeros": ("0 %", 4),
    "int8": ("int8 dB", 7),
    "width": ("30 dB", 5),
    "prune": ("prune %", 7),
    "predicted": ("~error %", 8),
    "error": ("error %", 7),
}
"""Title and cells of each."""
_YIELD: tuple[weights.Column, ...] = (
    "zeros",
    "values",
    "prune",
    "std",
    "predicted",
    "width",
    "int8",
)
"""Columns that are left out where they do not fit, in this order."""
_LEAST_NAME = 21
LEAST_ROWS = 3
"""With fewer, no column titles."""
HEADING_ROW = 1
"""In the view: the title is above it."""


def table_lines(look: Look, view: weights.WeightsView, rows: int) -> list[Line]:
    """Return the column titles and as many rows as fit."""
    body = body_rows(rows)
    columns = columns_for(look, view)
    if not view.rows:
        reason = "no parameters" if look.session.tree is not None else "not traced yet"
        return [_heading(look, view), *words(reason, look)][: max(rows, 0)]
    top = first_row(view.at, len(view.rows), body)
    thumb = thumb_rows(len(view.rows), top, body)
    lines = [_heading(look, view)] if body < rows else []
    for y, row in enumerate(view.rows[top : top + body]):
        line = _row(look, row, columns)
        if row.name == view.name:
            line = under_cursor(line, look)
        edge = (look.glyphs.thumb, "muted") if y in thumb else (" ", "ink")
        lines.append((*line, edge))
    return lines


def body_rows(rows: int) -> int:
    """Return how many of so many rows are weights."""
    return rows - 1 if rows >= LEAST_ROWS else max(rows, 1)


def columns_for(look: Look, view: weights.WeightsView) -> tuple[weights.Column, ...]:
    """Return the columns that fit; those of sensitivity once it has figures."""
    has_sensitivity = has_sensitivities(look.session)
    shown = [name for name in _COLUMNS if has_sensitivity or name not in ("predicted", "error")]
    for name in _YIELD:
        if _name_cells(look, shown) >= _LEAST_NAME:
            break
        # The column that sorts the rows stays visible.
        if name in shown and name != view.sort:
            shown.remove(name)
    return tuple(shown)


def _name_cells(look: Look, columns: Sequence[weights.Column]) -> int:
    return look.cells - 2 - sum(1 + _COLUMNS[name][1] for name in columns)


def table_heading(look: Look, view: weights.WeightsView) -> Heading:
    """Return the column titles; after the order by name comes that of the tree."""
    columns = columns_for(look, view)
    name = max(_name_cells(look, columns), 1)
    first = Title("name", 1 + name, "name", is_left=True, is_text=True, usual="order")
    rest = (Title(_COLUMNS[one][0], 1 + _COLUMNS[one][1], one) for one in columns)
    order = Order(view.sort, view.descending)
    return Heading((first, *rest), order, y=HEADING_ROW)


def _heading(look: Look, view: weights.WeightsView) -> Line:
    return (*table_heading(look, view).line(look.glyphs), (" ", "ink"))


def _row(look: Look, row: weights.WeightRow, columns: Sequence[weights.Column]) -> Line:
    cells = max(_name_cells(look, columns), 1)
    wrong = weights.not_finite(row)
    flag = f" {look.glyphs.failed} {wrong}" if wrong else ""
    room = max(cells - width(flag), 1)
    text = middle(short_name(row.name), room, look.glyphs.ellipsis)
    is_faint = row.is_buffer or bool(row.shared_with)
    spans = [
        (" ", "ink"),
        (text, "faint" if is_faint else "ink"),
        *([(flag, "error")] if flag else []),
        (" " * (cells - width(text) - width(flag)), "ink"),
    ]
    for column in columns:
        written, role = cell(row, column, look)
        role = "muted" if is_faint and role == "ink" else role
        spans.append(
            (" " + fit(written, _COLUMNS[column][1]).strip().rjust(_COLUMNS[column][1]), role)
        )
    return tuple(spans)


def short_name(name: str) -> str:
    """Return a full name without the usual ``.weight``."""
    plain = safe(name)
    return plain.removesuffix(".weight") or plain
