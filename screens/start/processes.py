"""The processes of a script under ``run``: a list that is kept up to date, one of them shown."""

import asyncio
from collections.abc import Callable
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen

from tui_profiler.formatting.canvas import Glyphs
from tui_profiler.source.attached import Found
from tui_profiler.source.ranks import by_run, is_whole_run

from ..common.ordered_table import LIST_BINDINGS, OrderedTable
from ..widgets.heading import Heading, Order
from ..widgets.key_bar import key_bar
from ..widgets.line_widgets import KeyBar, LinesWidget
from ..widgets.rows import first_row
from .picker import AS_FOUND, HEAD_ROWS, LOOK_AGAIN_SECONDS, picker_heading, picker_lines
from .programs import in_order

_KEYS = (("↵", "show"), ("s", "sort"), ("↑↓", "move"), ("esc", "back"))


class ProcessesScreen(OrderedTable, Screen[None]):
    """A row per process that listens; the ranks of a run are one.

    Args:
        glyphs: to draw with.
        look: returns the processes; called on a thread of its own.
        show: called with the chosen one.
    """

    DEFAULT_CSS = "ProcessesScreen #processes { height: 1fr; } ProcessesScreen #keys { height: 1; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        *LIST_BINDINGS,
        Binding("enter", "show_process", show=False),
        Binding("escape,backspace,R", "dismiss", show=False),
        Binding("q", "app.leave", show=False),
    ]

    def __init__(
        self, glyphs: Glyphs, look: Callable[[], list[Found]], show: Callable[[Found], None]
    ) -> None:
        super().__init__()
        self._glyphs = glyphs
        self._look_once = look
        self._show_process = show
        self._as_found: tuple[Found, ...] | None = None
        """None before the first look."""
        self._selected = ""
        """Path of the socket of the row under the cursor; empty: the first row."""
        self._order = AS_FOUND
        self._said = ""

    def compose(self) -> ComposeResult:
        """The rows and the keys."""
        yield LinesWidget(id="processes")
        yield KeyBar(id="keys")

    async def on_mount(self) -> None:
        """Look at once, and then again and again."""
        self.set_interval(LOOK_AGAIN_SECONDS, self._look)
        await self._look()

    def on_resize(self) -> None:
        """Draw again."""
        self._draw()

    def on_screen_resume(self) -> None:
        """Draw changes since."""
        self._draw()

    def say(self, words: str) -> None:
        """Show why a process cannot be shown, until the next key."""
        self._said = words
        self._draw()

    async def _look(self) -> None:
        if self.is_current:
            self._as_found = tuple(by_run(await asyncio.to_thread(self._look_once)))
            self._draw()

    def _rows(self) -> tuple[Found, ...]:
        order = self._order
        return in_order(self._as_found or (), order.column, descending=order.descending)

    def _place(self, rows: tuple[Found, ...]) -> int:
        return next((i for i, one in enumerate(rows) if str(one.place.path) == self._selected), 0)

    def _draw(self) -> None:
        cells, height = self.size
        if not self.is_current or cells < 3 or height < 2:
            return
        rows = self._rows()
        lines = picker_lines(
            rows,
            self._place(rows),
            cells,
            height - 1,
            self._glyphs,
            self._order,
            title=self._said or self._title(rows),
            empty="no process of the script has imported torch yet",
        )
        self.query_one("#processes", LinesWidget).lines = lines
        bar = key_bar(_KEYS, (("q", "quit"),), cells, self._glyphs)
        self.query_one("#keys", KeyBar).lines = (bar,)

    def _title(self, rows: tuple[Found, ...]) -> str:
        if self._as_found is None:
            return "searching for processes of the script"
        count = sum(map(_count, rows))
        return f"{count} process{'es' * (count != 1)} of the script with torch"

    def table_heading(self) -> Heading | None:
        """Return the columns."""
        rows = self._rows()
        return picker_heading(rows, self._order) if rows else None

    def order_by(self, order: Order) -> None:
        """Order the processes; the cursor stays on its own."""
        self._order = order
        self._draw()

    def on_click(self, event: events.Click) -> None:
        """Order by a title, or select a row; at the second click show it."""
        height = self.size.height - 1
        if event.screen_y >= height or self.order_clicked(event.screen_x, event.screen_y):
            return
        rows = self._rows()
        first = first_row(self._place(rows), len(rows), max(height - HEAD_ROWS, 1))
        at = first + event.screen_y - HEAD_ROWS
        if event.screen_y >= HEAD_ROWS and at < len(rows):
            self._select(rows[at])
            if event.chain == 2:
                self.action_show_process()

    def action_move(self, by: int) -> None:
        """Move the cursor by rows."""
        if rows := self._rows():
            self._select(rows[max(0, min(self._place(rows) + by, len(rows) - 1))])

    def _select(self, one: Found) -> None:
        self._said, self._selected = "", str(one.place.path)
        self._draw()

    def action_show_process(self) -> None:
        """Show the process under the cursor, if it answers."""
        rows = self._rows()
        chosen = rows[self._place(rows)] if rows else None
        if chosen is not None and chosen.program is not None:
            self._select(chosen)
            self._show_process(chosen)


def _count(found: Found) -> int:
    """Return how many processes a row stands for."""
    program = found.program
    return (program.ranks or 1) if program is not None and is_whole_run(found) else 1
