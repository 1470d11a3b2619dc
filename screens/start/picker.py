"""Which of several running programs to look into: a list that follows what comes and goes."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from tui_profiler.formatting.canvas import Glyphs
from tui_profiler.formatting.text import width
from tui_profiler.source.attached import Found, find
from tui_profiler.source.ranks import by_run

from ..actions.view_keys import COLUMNS, own_bindings
from ..common.base_app import ThemedApp
from ..common.ordered_table import OrderedTable
from ..settings.preferences import Preferences
from ..terminal.crashing import run_to_end
from ..terminal.guard import end_on_hang_up, end_on_signals
from ..widgets.heading import Heading, Order, Title
from ..widgets.key_bar import KeyBar, key_bar
from ..widgets.lines import EMPTY, Line, LinesWidget, exact, line_width
from .programs import columns, in_order, matching

LOOK_AGAIN_SECONDS = 1.0


HEAD_ROWS = 3
"""The title, a blank row, the names of the columns."""
AS_FOUND = Order("found")
_TITLES = ("model", "process", "command", "watched", "", "")
"""Of what ``columns`` returns; ranks and roles speak for themselves."""
_GAP = 3


def picker_lines(
    found: tuple[Found, ...],
    selected: int,
    cells: int,
    rows: int,
    glyphs: Glyphs,
    order: Order = AS_FOUND,
) -> tuple[Line, ...]:
    """Return the rows of the list: one program each, in columns; the selected one is in sight."""
    table = [columns(one) for one in found]
    widths = _widths(found)
    room = max(rows - HEAD_ROWS, 1)
    first = first_row(selected, len(table), room)
    lines: list[Line] = [((f" {len(table)} watched models", "strong ink"),), EMPTY]
    if table:
        lines.append(exact(picker_heading(found, order).line(glyphs), cells, glyphs.ellipsis))
    for index, parts in enumerate(table[first : first + room], start=first):
        is_selected = index == selected
        name = padded(parts[0], widths[0])
        rest = "   ".join(
            padded(part, widths[place]) for place, part in enumerate(parts[1:], start=1)
        )
        answers = found[index].program is not None
        role = "cursor" if is_selected else ""
        mark = f" {glyphs.live} " if answers else "   "
        line: Line = (
            (mark, f"accent {role}".strip()),
            (name, f"{'ink' if answers else 'faint'} {role}".strip()),
            ("   " + rest, f"{'muted' if answers else 'faint'} {role}".strip()),
        )
        filled = max(cells - line_width(line), 0)
        lines.append((*line, (" " * filled, role or "ink")))
    if not table:
        lines.append((("   every program has gone", "muted"),))
    return tuple(lines)


def first_row(selected: int, count: int, room: int) -> int:
    """Return the first row that is shown: the cursor's is in the middle where it can be."""
    return max(0, min(selected - room // 2, count - room))


def picker_heading(found: tuple[Found, ...], order: Order) -> Heading:
    """Return the names of the columns, as wide as what stands in them."""
    titles = []
    for text, cells in zip(_TITLES, _widths(found), strict=False):
        is_text, usual = text != "watched", AS_FOUND.column if text == "model" else ""
        titles.append(
            Title(text, _GAP + cells, text, _GAP, is_left=True, is_text=is_text, usual=usual)
        )
    return Heading(tuple(titles), order, y=HEAD_ROWS - 1)


def _widths(found: tuple[Found, ...]) -> list[int]:
    """Return the cells of each column; a title and the mark of the order have room in it."""
    table = [columns(one) for one in found]
    return [
        max(len(title) + 1, *(width(line[place]) for line in table if place < len(line)), 0)
        for place, title in enumerate(_TITLES[: max(map(len, table), default=0)])
    ]


def padded(text: str, cells: int) -> str:
    """Return a text filled to so many cells."""
    return text + " " * (cells - width(text))


class Picker(OrderedTable, ThemedApp[Found | None]):
    """Lets one be chosen; gives None when it is left."""

    CSS = "#list { height: 1fr; } #keys { height: 1; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", show=False),
        Binding("down,j", "move(1)", show=False),
        Binding("g,home", "move(-100000)", show=False),
        Binding("G,end", "move(100000)", show=False),
        Binding("enter", "choose", show=False),
        *own_bindings(COLUMNS),
        Binding("q,escape,ctrl+c,ctrl+q", "leave", show=False, priority=True),
    ]

    def __init__(self, who: str, habits: Preferences) -> None:
        super().__init__(habits.theme)
        self._who = who
        self._glyphs = habits.glyphs
        self._found: tuple[Found, ...] = ()
        """In the order that is shown."""
        self._order = AS_FOUND
        self._as_found: tuple[Found, ...] = ()
        self._selected = 0

    def compose(self) -> ComposeResult:
        """The list and the keys."""
        yield LinesWidget(id="list")
        yield KeyBar(id="keys")

    async def on_mount(self) -> None:
        """Look at once, and then again and again."""
        self.set_interval(LOOK_AGAIN_SECONDS, self._look)
        if not self.is_headless:
            end_on_signals(self._end)
            end_on_hang_up(0, self._end)
        await self._look()

    def on_resize(self) -> None:
        """Lay the rows out anew."""
        self._draw()

    async def _look(self) -> None:
        found = await asyncio.to_thread(lambda: tuple(by_run(matching(find(), self._who))))
        self._show_ordered(found)

    def _show_ordered(self, found: tuple[Found, ...]) -> None:
        """Show programs in the order that was chosen; the cursor stays on its own."""
        chosen = self._found[self._selected].place.path if self._found else None
        self._as_found = found
        found = in_order(found, self._order.column, descending=self._order.descending)
        self._found = found
        paths = [one.place.path for one in found]
        if chosen in paths:
            self._selected = paths.index(chosen)
        self.action_move(0)

    def _draw(self) -> None:
        cells, rows = self.size
        size = (cells, rows - 1)
        lines = picker_lines(self._found, self._selected, *size, self._glyphs, self._order)
        self.query_one("#list", LinesWidget).lines = lines
        left = (("↵", "look into it"), ("s", "sort"), ("↑↓", "move"))
        bar = key_bar(left, (("q", "leave"),), cells, self._glyphs)
        self.query_one("#keys", KeyBar).lines = (bar,)

    def table_heading(self) -> Heading | None:
        """Return the columns."""
        return picker_heading(self._found, self._order) if self._found else None

    def order_by(self, order: Order) -> None:
        """Order the programs."""
        self._order = order
        self._show_ordered(self._as_found)

    def on_click(self, event: events.Click) -> None:
        """Order by a title, or select a row; at the second click choose it."""
        rows = self.size.height - 1
        if event.screen_y >= rows or self.order_clicked(event.screen_x, event.screen_y):
            return
        first = first_row(self._selected, len(self._found), max(rows - HEAD_ROWS, 1))
        at = first + event.screen_y - HEAD_ROWS
        if event.screen_y >= HEAD_ROWS and at < len(self._found):
            self.action_move(at - self._selected)
            if event.chain == 2:
                self.action_choose()

    def action_move(self, by: int) -> None:
        """Move the selection."""
        self._selected = max(0, min(self._selected + by, len(self._found) - 1))
        self._draw()

    def action_choose(self) -> None:
        """Return the selected one, if it answers."""
        if self._found and self._found[self._selected].program is not None:
            self.exit(self._found[self._selected])

    def action_leave(self) -> None:
        """Return none."""
        self.exit(None)

    def _end(self, code: int) -> None:
        self.exit(None, return_code=code)


def pick(who: str, habits: Preferences) -> tuple[Found | None, int]:
    """Let one be chosen; gives None when it is left, and the exit code of that."""
    app = Picker(who, habits)
    code = run_to_end(app, mouse=habits.mouse)
    return app.return_value, code
