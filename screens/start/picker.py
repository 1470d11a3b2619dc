"""Which of several running programs to attach to: a list that is kept up to date."""

import asyncio
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from tui_profiler.formatting.canvas import Glyphs
from tui_profiler.formatting.text import width
from tui_profiler.source.attached import Found, find, not_listening
from tui_profiler.source.ranks import by_run
from tui_profiler.source.torch_processes import UsersPrograms

from ..common.base_app import ThemedApp
from ..common.ordered_table import LIST_BINDINGS, OrderedTable
from ..settings.preferences import Preferences
from ..terminal.crashing import run_to_end
from ..widgets.heading import Heading, Order, Title
from ..widgets.key_bar import key_bar
from ..widgets.line_widgets import KeyBar, LinesWidget
from ..widgets.lines import EMPTY, Line, exact, line_width
from ..widgets.rows import first_row
from .programs import columns, in_order, matching, question

LOOK_AGAIN_SECONDS = 1.0


HEAD_ROWS = 3
"""The title, a blank row, the names of the columns."""
AS_FOUND = Order("found")
_TITLES = ("model", "process", "command", "watched", "device", "it/s", "", "")
"""Of what ``columns`` returns; ranks and roles speak for themselves."""
_GAP = 3


def picker_lines(
    found: tuple[Found, ...],
    selected: int,
    cells: int,
    rows: int,
    glyphs: Glyphs,
    order: Order = AS_FOUND,
    *,
    title: str = "",
    empty: str = "every program has gone",
) -> tuple[Line, ...]:
    """Return the rows of the list: one program each, in columns; the selected one is in sight.

    Args:
        found: the programs, in order.
        selected: index of the row under the cursor.
        cells: width.
        rows: lines available.
        glyphs: to draw with.
        order: of the programs, to be marked.
        title: above them; empty: how many there are.
        empty: said where there are none.
    """
    table = [columns(one) for one in found]
    widths = _widths(found)
    room = max(rows - HEAD_ROWS, 1)
    first = first_row(selected, len(table), room)
    watched = sum(one.listens for one in found)
    others = f", {len(table) - watched} more with torch" if watched < len(table) else ""
    said = exact(
        ((f" {title or f'{watched} watched models{others}'}", "strong ink"),),
        cells,
        glyphs.ellipsis,
    )
    lines: list[Line] = [said, EMPTY]
    if table:
        lines.append(exact(picker_heading(found, order).line(glyphs), cells, glyphs.ellipsis))
    for index, parts in enumerate(table[first : first + room], start=first):
        is_selected = index == selected
        name = padded(parts[0], widths[0])
        rest = "   ".join(
            padded(part, widths[place]) for place, part in enumerate(parts[1:], start=1)
        )
        answers = found[index].program is not None and found[index].listens
        role = "cursor" if is_selected else ""
        mark = f" {glyphs.live} " if answers else "   "
        line: Line = (
            (mark, f"accent {role}".strip()),
            (name, f"{'ink' if answers else 'faint'} {role}".strip()),
            ("   " + rest, f"{'muted' if found[index].program else 'faint'} {role}".strip()),
        )
        filled = max(cells - line_width(line), 0)
        lines.append((*line, (" " * filled, role or "ink")))
    if not table:
        lines.append(((f"   {empty}", "muted"),))
    return tuple(lines)


def picker_heading(found: tuple[Found, ...], order: Order) -> Heading:
    """Return the names of the columns, as wide as what stands in them."""
    titles = []
    for text, cells in zip(_TITLES, _widths(found), strict=False):
        is_text, usual = text not in ("watched", "it/s"), AS_FOUND.column if text == "model" else ""
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
    """Returns the chosen program; None when it is left."""

    CSS = "#list { height: 1fr; } #keys { height: 1; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        *LIST_BINDINGS,
        Binding("enter", "choose", show=False),
        Binding("q,escape,ctrl+c,ctrl+q", "leave", show=False, priority=True),
    ]

    def __init__(self, who: str, preferences: Preferences) -> None:
        super().__init__(preferences.theme)
        self._who = who
        self._glyphs = preferences.glyphs
        self._found: tuple[Found, ...] = ()
        """In the order that is shown."""
        self._order = AS_FOUND
        self._as_found: tuple[Found, ...] = ()
        self._selected = 0
        self._torch = UsersPrograms()
        self._asked: Found | None = None
        """The program of which it is asked whether it is to be made to listen."""

    def compose(self) -> ComposeResult:
        """The list and the keys."""
        yield LinesWidget(id="list")
        yield KeyBar(id="keys")

    async def on_mount(self) -> None:  # type: ignore[override] # Textual awaits it
        """Look at once, and then again and again."""
        self.set_interval(LOOK_AGAIN_SECONDS, self._look)
        await self._look()

    def on_resize(self) -> None:
        """Lay the rows out anew."""
        self._draw()

    async def _look(self) -> None:
        self._show_ordered(await asyncio.to_thread(self._every))

    def _every(self) -> tuple[Found, ...]:
        listens = find()
        every = [*listens, *not_listening(self._torch, listens)]
        return tuple(by_run(matching(every, self._who)))

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
        left: tuple[tuple[str, str], ...] = (("↵", "attach"), ("s", "sort"), ("↑↓", "move"))
        right = (("q", "leave"),)
        if self._asked is not None:
            left, right = (("↵", question(self._asked)),), (("esc", "no"),)
        bar = key_bar(left, right, cells, self._glyphs)
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
        self._asked = self._asked if by == 0 else None
        self._selected = max(0, min(self._selected + by, len(self._found) - 1))
        self._draw()

    def action_choose(self) -> None:
        """Return the selected one, if it answers; one that does not listen is asked about first."""
        chosen = self._found[self._selected] if self._found else None
        if chosen is None or chosen.program is None:
            return
        is_asked = self._asked is not None and self._asked.place == chosen.place
        if chosen.listens or is_asked:
            self.exit(chosen)
        else:
            self._asked = chosen
            self._draw()

    def action_leave(self) -> None:
        """Return none; where something is asked, say no to it."""
        if self._asked is None:
            self.exit(None)
        self._asked = None
        self._draw()


def pick(who: str, preferences: Preferences) -> tuple[Found | None, int]:
    """Return the chosen program, None when the list was left, and the exit code."""
    app = Picker(who, preferences)
    code = run_to_end(app, mouse=preferences.mouse)
    return app.return_value, code
