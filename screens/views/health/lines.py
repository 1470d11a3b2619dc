"""The health screen drawn: the first NaN, the gradient norm, a row per module."""

from collections.abc import Sequence

from tui_profiler.figures.units import UNAVAILABLE, duration, thousands
from tui_profiler.formatting.text import safe
from tui_profiler.messages import Unknown
from tui_profiler.queries.training.values import (
    COLUMNS,
    SHARES,
    ValueColumn,
    ValueRow,
    in_order,
    nan_words,
    value_rows,
    value_text,
)
from tui_profiler.queries.tree.names import fitted

from ...widgets.heading import Heading, Order, Title
from ...widgets.lines import EMPTY, Line, Span, exact, with_role
from ...widgets.rows import Look, first_row, row, words

BY_EXECUTION = Order("module")
WIDE = 100
"""Columns from which on the gradients of parameters are shown."""
_NAME = 18
"""Least cells of a name."""
_TITLES: dict[ValueColumn, tuple[str, int]] = {
    "largest": ("max abs", 9),
    "rms": ("RMS", 9),
    "zeros": ("zeros", 7),
    "gradient": ("grad RMS", 9),
    "parameters": ("param grad RMS", 16),
    "update": ("update", 9),
    "nan": ("NaN", 6),
    "inf": ("Inf", 6),
}


def ordered_rows(look: Look, order: Order) -> tuple[ValueRow, ...]:
    """Return the rows as they are ordered; in execution order those with NaN are not moved."""
    rows = value_rows(look.session)
    for column in COLUMNS:
        if column == order.column:
            return in_order(rows, column, descending=order.descending)
    return rows[::-1] if order.descending else rows


def head_lines(look: Look) -> tuple[Line, ...]:
    """Return what is said of the whole step, above the table."""
    columns = look.session.values
    if columns is None:
        return ()
    values = columns.values
    norm = values.gradient_norm
    left: list[Span] = [
        (f"step {thousands(values.step)}", "strong ink"),
        ("  gradient norm ", "muted"),
    ]
    left.append(
        (f"{UNAVAILABLE} {safe(norm.reason)}", "muted")
        if isinstance(norm, Unknown)
        else (f"{norm:.3g}", "ink")
    )
    steps = f"{thousands(values.steps)} step{'s' * (values.steps != 1)}"
    read = f"{steps} read, {duration(values.seconds)} each"
    lines = [row(tuple(left), ((read, "muted"),), look)]
    if found := nan_words(look.session):
        lines += words(found, look, "error")
    for why in (values.why_no_parameters, values.why_not_all):
        if why:
            lines += words(f"not all values: {safe(why)}", look)
    return (*lines, EMPTY)


def health_heading(look: Look, order: Order, y: int) -> Heading:
    """Return the column titles.

    Args:
        look: width.
        order: of the rows.
        y: row of the view that they are on.
    """
    titles = [Title(_TITLES[one][0], _TITLES[one][1], one) for one in _shown(look)]
    name = look.cells - 1 - sum(title.cells for title in titles)
    first = Title("module", name, "module", is_left=True, is_text=True)
    return Heading((first, *titles), order, y=y)


def _shown(look: Look) -> tuple[ValueColumn, ...]:
    left_out: tuple[ValueColumn, ...] = () if look.cells >= WIDE else ("parameters",)
    shown = [one for one in COLUMNS if one not in left_out]
    while shown and look.cells - 1 - sum(_TITLES[one][1] for one in shown) < _NAME:
        shown.remove(
            next(
                one
                for one in ("rms", "largest", "inf", "zeros", "update", "gradient", "nan")
                if one in shown
            )
        )
    return tuple(shown)


def health_lines(look: Look, rows: Sequence[ValueRow], order: Order, room: int) -> tuple[Line, ...]:
    """Return the view.

    Args:
        look: session, width, and the node under the cursor.
        rows: of the table, as they are ordered.
        order: of them.
        room: lines that there are.
    """
    head = head_lines(look)
    heading = health_heading(look, order, len(head))
    body = max(room - len(head) - 1, 1)
    at = next((place for place, one in enumerate(rows) if one.node == look.node), 0)
    top = first_row(at, len(rows), body)
    drawn = [_row(one, heading, look) for one in rows[top : top + body]]
    return (*head, heading.line(look.glyphs), *drawn)


def _row(one: ValueRow, heading: Heading, look: Look) -> Line:
    first, *titles = heading.titles
    is_selected = one.node == look.node
    cells = first.cells - 2
    name = fitted(safe(one.path), cells, look.glyphs.ellipsis) if one.path else "(model)"
    is_bad = bool(one.nans or one.infs)
    spans: list[Span] = [
        (look.glyphs.cursor if is_selected else " ", "accent"),
        (f"{name} ".ljust(first.cells - 1), "error" if is_bad else "ink"),
    ]
    for title in titles:
        column = next(each for each in COLUMNS if each == title.column)
        found = one.figure(column)
        role = "muted" if column in SHARES else "ink"
        if found is None:
            role = "faint"
        elif found and column in ("nan", "inf"):
            role = "error"
        text = value_text(found, column)
        spans.append((text.rjust(title.cells), role))
    line = exact(tuple(spans), look.cells, look.glyphs.ellipsis)
    return with_role(line, "cursor") if is_selected else line
