"""The list of columns over a table; the table beside it follows every key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import ClassVar, Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from tui_profiler.formatting.canvas import UNICODE, Glyphs
from tui_profiler.formatting.text import safe

from ..widgets.key_bar import key_spans
from ..widgets.line_widgets import KeyBar
from ..widgets.lines import EMPTY, Line, exact, with_role
from ..widgets.rows import first_row
from .narrow import NARROW_COLUMNS

ROWS_ABOVE = 2
"""So that the headings of the table stay in sight."""
Name = TypeVar("Name", bound=str)


class ColumnChoice(Struct, Generic[Name], frozen=True):
    """All columns in the user's order, and which of them are shown."""

    order: tuple[Name, ...]
    shown: frozenset[Name]
    cursor: int = 0
    """Place in ``order``."""

    @classmethod
    def of(cls, shown: tuple[Name, ...], every: Iterable[Name]) -> ColumnChoice[Name]:
        """Return the columns that are shown, then the others in their usual order."""
        rest = tuple(name for name in every if name not in shown)
        return cls((*shown, *rest), frozenset(shown))

    @property
    def columns(self) -> tuple[Name, ...]:
        """Those that are shown, from left to right."""
        return tuple(name for name in self.order if name in self.shown)

    def moved(self, by: int) -> ColumnChoice[Name]:
        """Return the choice with its cursor so many places further, within the list."""
        return replace(self, cursor=max(0, min(self.cursor + by, len(self.order) - 1)))

    def toggled(self) -> ColumnChoice[Name]:
        """Return the choice with its column shown or hidden; the last one shown stays."""
        shown = self.shown ^ {self.order[self.cursor]}
        return replace(self, shown=shown) if shown else self

    def carried(self, by: int) -> ColumnChoice[Name]:
        """Return the choice with its column, and the cursor, so many places further."""
        to = max(0, min(self.cursor + by, len(self.order) - 1))
        order = list(self.order)
        order.insert(to, order.pop(self.cursor))
        return replace(self, order=tuple(order), cursor=to)


class ColumnsScreen(ModalScreen[None], Generic[Name]):
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
        words: Mapping[Name, tuple[str, str]],
        chosen: tuple[Name, ...],
        drawn: Callable[[], tuple[Name, ...]],
        changed: Callable[[tuple[Name, ...]], None],
        glyphs: Glyphs,
    ) -> None:
        """Begin.

        Args:
            words: heading of every column, and what it says.
            chosen: by the user before; none where we chose.
            drawn: returns what there is room for now.
            changed: called with each new choice, none for as usual.
            glyphs: the set to draw with.
        """
        super().__init__()
        self._words = words
        self._before = chosen
        self._drawn = drawn
        self._changed = changed
        self._glyphs = glyphs
        self._choice = ColumnChoice.of(chosen or drawn(), words)

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
        self._choice = ColumnChoice.of(self._drawn(), self._words)
        self._draw()

    def action_keep(self) -> None:
        """Leave, with what is chosen."""
        self.dismiss()

    def action_undo(self) -> None:
        """Leave, with what was chosen before."""
        self._changed(self._before)
        self.dismiss()

    def _choose(self, choice: ColumnChoice[Name]) -> None:
        is_other = choice.columns != self._choice.columns
        self._choice = choice
        if is_other:
            self._changed(choice.columns)
        self._draw()

    def _draw(self) -> None:
        widget = self.query_one("#columns", KeyBar)
        cells = min(CELLS, self.size.width)
        rows = min(rows_wanted(self._choice), self.size.height - ROWS_ABOVE)
        # The columns stay in sight: at the right of a tree, or where it is narrow over its names.
        self.styles.align_horizontal = "left" if self.size.width < NARROW_COLUMNS else "right"
        widget.styles.width, widget.styles.height = cells, rows
        widget.lines = column_lines(
            self._choice, self._words, self._drawn(), (cells, rows), self._glyphs
        )


CELLS = 48
"""Width of the list where there is room."""
_HEAD = 2
_FOOT = 3


def rows_wanted(choice: ColumnChoice[Name]) -> int:
    """Return how many rows the list takes in full."""
    return len(choice.order) + _HEAD + _FOOT


def column_lines(
    choice: ColumnChoice[Name],
    words: Mapping[Name, tuple[str, str]],
    drawn: Sequence[Name],
    size: tuple[int, int],
    glyphs: Glyphs = UNICODE,
) -> tuple[Line, ...]:
    """Return the list, exactly as many lines of as many cells as ``size``; the cursor is in sight.

    Args:
        choice: what is chosen so far.
        words: heading of every column, and what it says.
        drawn: columns that there is room for now.
        size: cells and rows.
        glyphs: the set to draw with.
    """
    cells, rows = size
    room = max(rows - _HEAD - _FOOT, 1)
    top = first_row(choice.cursor, len(choice.order), room)
    lines: list[Line] = [((" columns", "strong"), ("  from left to right", "faint")), EMPTY]
    for place, name in enumerate(choice.order[top : top + room], start=top):
        heading, what = words[name]
        what = safe(what.replace("×", glyphs.times))
        line: Line = (("   ", "faint"), (f"{heading:<8}", "faint"), (what, "faint"))
        if name in choice.shown:
            said = what if name in drawn else "no room at this width"
            line = ((f" {glyphs.done} ", "accent"), (f"{heading:<8}", "strong"), (said, "muted"))
        is_here = place == choice.cursor
        mark = (glyphs.cursor if is_here else " ", "accent")
        line = (mark, *exact(line, cells - 1, glyphs.ellipsis))
        lines.append(with_role(line, "cursor") if is_here else line)
    lines += [EMPTY] * (rows - _FOOT - len(lines))
    lines += [EMPTY, _keys(("space", "show"), ("J K", "move"), ("0", "default"))]
    lines.append(_keys((glyphs.enter, "keep"), ("esc", "cancel")))
    return tuple(exact(line, cells, glyphs.ellipsis) for line in lines[:rows])


def _keys(*pairs: tuple[str, str]) -> Line:
    spans: list[tuple[str, str]] = [(" ", "ink")]
    for key, label in pairs:
        spans += [*key_spans(key), (f" {label}", "muted"), ("  ", "ink")]
    return tuple(spans)
