"""The list from which columns are chosen, as lines."""

from __future__ import annotations

from collections.abc import Sequence

from tui_profiler.formatting.canvas import UNICODE, Glyphs
from tui_profiler.formatting.text import safe
from tui_profiler.queries.tree.column_choice import ColumnChoice
from tui_profiler.queries.tree.columns import COLUMN_WORDS, ColumnName

from ..widgets.lines import EMPTY, Line, exact, with_role

CELLS = 48
"""Width of the list where there is room."""
_HEAD = 2
_FOOT = 3


def rows_wanted(choice: ColumnChoice) -> int:
    """Return how many rows the list takes in full."""
    return len(choice.order) + _HEAD + _FOOT


def column_lines(
    choice: ColumnChoice,
    drawn: Sequence[ColumnName],
    cells: int,
    rows: int,
    glyphs: Glyphs = UNICODE,
) -> tuple[Line, ...]:
    """Return the list, exactly ``rows`` lines of ``cells``; the cursor is in sight.

    Args:
        choice: what is chosen so far.
        drawn: columns that there is room for now.
        cells: width.
        rows: height.
        glyphs: the set to draw with.
    """
    room = max(rows - _HEAD - _FOOT, 1)
    top = max(0, min(choice.cursor - room // 2, len(choice.order) - room))
    lines: list[Line] = [((" columns", "strong"), ("  from left to right", "faint")), EMPTY]
    for place, name in enumerate(choice.order[top : top + room], start=top):
        line = exact(_line(choice, name, drawn, glyphs), cells - 1, glyphs.ellipsis)
        mark = (glyphs.cursor if place == choice.cursor else " ", "accent")
        is_here = place == choice.cursor
        lines.append(with_role((mark, *line), "cursor") if is_here else (mark, *line))
    lines += [EMPTY] * (rows - _FOOT - len(lines))
    lines += [EMPTY, _keys(("space", "show"), ("J K", "carry"), ("0", "as usual"))]
    lines.append(_keys((glyphs.enter, "keep"), ("esc", "as before")))
    return tuple(exact(line, cells, glyphs.ellipsis) for line in lines[:rows])


def _line(
    choice: ColumnChoice, name: ColumnName, drawn: Sequence[ColumnName], glyphs: Glyphs
) -> Line:
    heading, what = COLUMN_WORDS[name]
    what = safe(what.replace("×", glyphs.times))
    if name not in choice.shown:
        return (("   ", "faint"), (f"{heading:<8}", "faint"), (what, "faint"))
    fits = name in drawn
    said = what if fits else "no room for it here"
    return ((f" {glyphs.done} ", "accent"), (f"{heading:<8}", "strong ink"), (said, "muted"))


def _keys(*pairs: tuple[str, str]) -> Line:
    spans: list[tuple[str, str]] = [(" ", "ink")]
    for key, label in pairs:
        spans += [(key, "strong accent"), (f" {label}  ", "muted")]
    return tuple(spans)
