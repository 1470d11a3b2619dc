"""From the row under the cursor to another one: the next match, the next sibling, the next mark."""

from __future__ import annotations

from tui_profiler.queries.tree.focus import Focus
from tui_profiler.queries.tree.rows import Outline


def next_match(laid: Outline, step: int) -> int | None:
    """Give the row of the next or former node that the filter found, round the ends.

    None where no row shows one. ``step`` is 1 or -1.
    """
    hits, rows = laid.shape.hits, laid.rows
    if not hits:
        return None
    count = len(rows)
    around = (laid.cursor + step * way for way in range(1, count + 1))
    return next((row % count for row in around if hits[rows[row % count]]), None)


def sibling_row(laid: Outline, step: int) -> int | None:
    """Give the row of the next or former node below the same parent; None at the ends.

    Siblings are what is shown, in the order of the screen. ``step`` is 1 or -1.
    """
    depths, rows, row = laid.tree.depths, laid.rows, laid.cursor
    depth = depths[rows[row]]
    row += step
    while 0 <= row < len(rows) and depths[rows[row]] > depth:
        row += step
    return row if 0 <= row < len(rows) and depths[rows[row]] == depth else None


def next_mark(focus: Focus) -> int | None:
    """Give the next marked node after the selected one, round the end; None without a mark."""
    marks = sorted(focus.marked)
    return next((node for node in marks if node > focus.selected), marks[0] if marks else None)
