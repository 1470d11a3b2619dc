"""The ranks screen: a row per rank of a run, the straggler first."""

from collections.abc import Callable
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.reactive import var
from textual.screen import Screen

from tui_profiler.formatting.canvas import Glyphs
from tui_profiler.queries import ranks
from tui_profiler.session.session_group import NO_RANKS, SessionGroup

from ...common.base_app import BaseApp
from ...common.ordered_table import LIST_BINDINGS, OrderedTable
from ...common.scrolling import ScrollingScreen
from ...widgets.heading import Heading, Order
from ...widgets.key_bar import key_bar
from ...widgets.line_widgets import KeyBar, LinesWidget
from ...widgets.rows import first_row
from ...widgets.scrolled import ScrolledLines
from . import lines

_CSS = "{0} #ranks {{ height: 1fr; }} {0} #modules {{ height: 1fr; }} {0} #keys {{ height: 1; }}"
_KEYS = (("↵", "open"), ("d", "difference"), ("s", "sort"), ("↑↓", "move"))
_DIFFERENCE_KEYS = (("esc", "back"), ("↑↓", "scroll"), ("g", "top"), ("G", "end"))


class RanksScreen(OrderedTable, Screen[None]):
    """The ranks of a run; a key or a double click opens one."""

    DEFAULT_CSS = _CSS.format("RanksScreen")
    BINDINGS: ClassVar[list[BindingType]] = [
        *LIST_BINDINGS,
        Binding("enter", "open", show=False),
        Binding("d", "difference", show=False),
        Binding("escape,backspace,R", "back", show=False),
        Binding("q", "app.leave", show=False),
    ]

    group: var[SessionGroup] = var(NO_RANKS)

    def __init__(
        self,
        glyphs: Glyphs,
        now: Callable[[], float],
        open_rank: Callable[[str], None],
        back: Callable[[], None] | None = None,
    ) -> None:
        super().__init__()
        self._back = back
        """Goes to what the ranks were opened from; None: they are the first screen."""
        self._glyphs = glyphs
        self._now = now
        self._open_rank = open_rank
        self._selected = ""
        """Key of the row under the cursor; empty: the first row."""
        self._order = lines.BY_BADNESS

    def compose(self) -> ComposeResult:
        """The rows and the keys."""
        yield LinesWidget(id="ranks")
        yield KeyBar(id="keys")

    def on_mount(self) -> None:
        """Draw, and redraw every second."""
        self.set_interval(1.0, self._draw)
        self._draw()

    def on_resize(self) -> None:
        """Draw again."""
        self._draw()

    def on_screen_resume(self) -> None:
        """Draw changes since."""
        self._draw()

    def watch_workspace(self) -> None:
        """Draw changes of a rank."""
        if self.is_mounted:
            self._draw()

    def _rows(self) -> tuple[ranks.RankRow, ...]:
        return lines.ordered_rows(self.group, self._now(), self._order)

    def _place(self, rows: tuple[ranks.RankRow, ...]) -> int:
        return next((i for i, one in enumerate(rows) if one.key and one.key == self._selected), 0)

    def _draw(self) -> None:
        cells, rows = self.size
        if not self.is_current or cells < 3 or rows < 2:
            return
        look = lines.look_of(cells, self._glyphs)
        place = self._place(self._rows())
        drawn = lines.rank_lines(self.group, self._now(), place, look, rows - 1, self._order)
        self.query_one("#ranks", LinesWidget).lines = drawn
        right = (("q", "quit"),) if self._back is None else (("esc", "back"), ("q", "quit"))
        bar = key_bar(_KEYS, right, cells, self._glyphs)
        self.query_one("#keys", KeyBar).lines = (bar,)

    def table_heading(self) -> Heading:
        """Return the column titles that fit."""
        look = lines.look_of(max(self.size.width, 3), self._glyphs)
        return lines.rank_heading(self.group, self._now(), look, self._order)

    def order_by(self, order: Order) -> None:
        """Sort the ranks; the cursor stays on its rank."""
        self._selected = self._under_cursor()
        self._order = order
        self._draw()

    def on_click(self, event: events.Click) -> None:
        """Sort by a title, or select a row; a double click opens it."""
        if event.screen_y >= self.size.height - 1 or self.order_clicked(
            event.screen_x, event.screen_y
        ):
            return
        rows, top = self._rows(), self.table_heading().y + 1
        room = max(self.size.height - 1 - top, 1)
        at = first_row(self._place(rows), len(rows), room) + event.screen_y - top
        if event.screen_y >= top and at < len(rows) and rows[at].key:
            self._selected = rows[at].key
            self._draw()
            if event.chain == 2:
                self.action_open()

    def action_move(self, by: int) -> None:
        """Move the cursor by rows; it then follows its rank."""
        rows = [one for one in self._rows() if one.key]
        if rows:
            place = self._place(tuple(rows))
            self._selected = rows[max(0, min(place + by, len(rows) - 1))].key
            self._draw()

    def _under_cursor(self) -> str:
        rows = self._rows()
        return rows[self._place(rows)].key if rows else ""

    def action_open(self) -> None:
        """Open the rank under the cursor."""
        if key := self._under_cursor():
            self._selected = key
            self._open_rank(key)

    def action_back(self) -> None:
        """Go back, if there is anything."""
        if self._back is not None:
            self._back()

    def action_difference(self) -> None:
        """Compare the rank under the cursor with the straggler; that one with the first rank."""
        key = self._under_cursor()
        other = ranks.reference(self.group, key, self._now()) if key else ""
        if other:
            screen = DifferenceScreen(self._glyphs, key, other)
            self.app.push_screen(screen.data_bind(BaseApp.group))


class DifferenceScreen(ScrollingScreen[None]):
    """Two ranks, module by module."""

    DEFAULT_CSS = _CSS.format("DifferenceScreen")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,backspace,d,R", "back", show=False),
    ]

    group: var[SessionGroup] = var(NO_RANKS)

    def __init__(self, glyphs: Glyphs, first: str, second: str) -> None:
        super().__init__()
        self._glyphs = glyphs
        self._keys = (first, second)

    def compose(self) -> ComposeResult:
        """The modules and the keys."""
        yield ScrolledLines(self._glyphs, id="modules")
        yield KeyBar(id="keys")

    def watch_workspace(self) -> None:
        """Draw changes of a rank."""
        if self.is_mounted:
            self.draw()

    def draw(self) -> None:
        """Draw the modules and the keys."""
        first, second = map(self.group.rank, self._keys)
        body = self.query_one(ScrolledLines)
        if first is not None and second is not None and body.size.width > 3:
            look = lines.look_of(body.size.width - 1, self._glyphs)
            found = ranks.module_differences(first.session, second.session)
            body.show(lines.difference_lines(first, second, found, look))
        bar = key_bar(_DIFFERENCE_KEYS, (), self.size.width, self._glyphs)
        self.query_one("#keys", KeyBar).lines = (bar,)
