"""The list of columns over the explorer; the tree beside it follows every key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from tui_profiler.formatting.canvas import UNICODE, Glyphs
from tui_profiler.formatting.text import safe
from tui_profiler.queries.tree.columns import COLUMN_WORDS, ColumnChoice, ColumnName

from ..common.narrow import NARROW_COLUMNS
from ..widgets.key_bar import KeyBar, key_spans
from ..widgets.lines import EMPTY, Line, exact, with_role

ROWS_ABOVE = 2
"""So that the headings of the tree stay in sight."""
Columns = tuple[ColumnName, ...]


class ColumnsScreen(ModalScreen[None]):
    """Lets columns be chosen and ordered."""

    CSS = """
    ColumnsScreen { align: right bottom; background: transparent; }
    ColumnsScreen #columns { background: $panel; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "step(1)", show=False),
        Binding("up,k", "step(-1)", show=False),
        Binding("J,shift+down,right,l", "carry(1)", show=False),
        Binding("K,shift+up,left,h", "carry(-1)", show=False),
        Binding("space,x", "show", show=False),
        Binding("0", "usual", show=False),
        Binding("enter,c,q", "keep", show=False),
        Binding("escape", "undo", show=False),
    ]

    def __init__(
        self,
        chosen: Columns,
        drawn: Callable[[], Columns],
        changed: Callable[[Columns], None],
        glyphs: Glyphs,
    ) -> None:
        """Begin.

        Args:
            chosen: by the user before; none where we chose.
            drawn: gives what the tree has room for now.
            changed: called with each new choice, none for as usual.
            glyphs: the set to draw with.
        """
        super().__init__()
        self._before = chosen
        self._drawn = drawn
        self._changed = changed
        self._glyphs = glyphs
        self._choice = ColumnChoice.of(chosen or drawn())

    def compose(self) -> ComposeResult:
        """One list."""
        yield KeyBar(id="columns")

    def on_mount(self) -> None:
        """Draw it."""
        self._draw()

    def on_resize(self) -> None:
        """Take as much room as there is and as is needed."""
        self._draw()

    def action_step(self, by: int) -> None:
        """Move the cursor."""
        self._choice = self._choice.moved(by)
        self._draw()

    def action_carry(self, by: int) -> None:
        """Carry a column to the left or to the right."""
        self._choose(self._choice.carried(by))

    def action_show(self) -> None:
        """Show or hide a column."""
        self._choose(self._choice.toggled())

    def action_usual(self) -> None:
        """Leave the choice to us again."""
        self._changed(())
        self._choice = ColumnChoice.of(self._drawn())
        self._draw()

    def action_keep(self) -> None:
        """Leave, with what is chosen."""
        self.dismiss()

    def action_undo(self) -> None:
        """Leave, with what was chosen before."""
        self._changed(self._before)
        self.dismiss()

    def _choose(self, choice: ColumnChoice) -> None:
        is_other = choice.columns != self._choice.columns
        self._choice = choice
        if is_other:
            self._changed(choice.columns)
        self._draw()

    def _draw(self) -> None:
        widget = self.query_one("#columns", KeyBar)
        cells = min(CELLS, self.size.width)
        rows = min(rows_wanted(self._choice), self.size.height - ROWS_ABOVE)
        # The tree's columns stay in sight: at its right, or where it is narrow over its names.
        self.styles.align_horizontal = "left" if self.size.width < NARROW_COLUMNS else "right"
        widget.styles.width, widget.styles.height = cells, rows
        widget.lines = column_lines(self._choice, self._drawn(), cells, rows, self._glyphs)


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
        spans += [*key_spans(key), (f" {label}", "muted"), ("  ", "ink")]
    return tuple(spans)
