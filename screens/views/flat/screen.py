"""The flat screen: modules by self time, by class, operators by name.

Rows are added up anew as figures come, at most once per second; while keys are pressed they stay
where they are.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from operator import is_
from typing import ClassVar

from textual.binding import BindingType

from tui_profiler.formatting.text import safe
from tui_profiler.queries.cost.flat import COLUMN_WORDS, Column, FlatTable, columns_of, flat_table
from tui_profiler.queries.time.node_seconds import node_seconds
from tui_profiler.queries.tree.filter import read_filter
from tui_profiler.session import Session, Tree

from ...actions.view_keys import FLAT, own_bindings
from ...common.base_app import BaseApp
from ...common.column_list import ColumnsScreen
from ...widgets.heading import Heading, Order
from ...widgets.key_bar import Keys
from ...widgets.lines import Line
from ...widgets.prompt import Prompt
from ...widgets.rows import Look, first_row
from ..view_screen import RowsScreen, ViewState
from .lines import (
    LEAST_ROWS,
    TITLES,
    body_rows,
    flat_heading,
    flat_lines,
    shown_columns,
    status_line,
)
from .view import SORT_WORDS, FlatView

AGAIN_SECONDS = 1.0
"""Rows are added up no more often, and never for more than a twentieth of the time."""
IDLE_SECONDS = 5.0
_BESIDE = 4000
"""Nodes from which on they are added up beside the drawing: about 20 ms."""
_ROW_CELLS = 160


class FlatScreen(RowsScreen):
    """Shows a flat table of the current root; the cursor takes the selected node along."""

    name_of_view = "flat"
    keys: ClassVar[Keys] = (
        ("esc", "back"),
        ("v", "by"),
        ("/", "search"),
        ("s", "sort"),
        ("↵", "in the tree"),
        ("c", "columns"),
    )
    every_key = FLAT
    BINDINGS: ClassVar[list[BindingType]] = [*own_bindings(FLAT)]

    def begin(self) -> None:
        """Keep the rows, their order, and when they were added up."""
        self.view = FlatView()
        self._root_path: str | None = None
        self._of: tuple[object, ...] = ()
        self._not_before = 0.0
        self._touched = -IDLE_SECONDS
        self._is_adding = False

    def on_mount(self) -> None:
        """Take the columns that the user chose before."""
        if isinstance(self.app, BaseApp):
            self.view.chosen_columns = self.app.preferences.flat_columns

    def draw(self, look: Look, rows: int) -> Sequence[Line]:
        """Return the table."""
        self._add_up(look.session)
        return flat_lines(look, self.view, rows)

    def status(self, look: Look) -> Line:
        """Return what the cursor is on."""
        return status_line(look, self.view)

    def _add_up(self, session: Session) -> None:
        """Add rows up anew where their figures may have changed."""
        tree = session.tree
        wanted = (tree, session.timings, session.host_operators, self.view.by)
        is_same = len(self._of) == len(wanted) and all(map(is_, self._of, wanted))
        is_other = not self._of or self._of[0] is not tree or self._of[-1] != self.view.by
        if tree is None or is_same or (not is_other and time.monotonic() < self._not_before):
            return
        root = self._root(tree)
        if len(tree) <= _BESIDE:
            began = time.monotonic()
            self._take(session, flat_table(session, self.view.by, root), wanted, began)
        elif not self._is_adding:
            self._is_adding = True
            self.run_worker(self._add_up_beside(session, root, wanted))

    def _root(self, tree: Tree) -> int:
        """Return the root that is listed; the same one when the model was traced anew."""
        root = self.tree_root if self.tree_root < len(tree) else 0
        if self._root_path is None:
            self._root_path = tree.nodes[root].path
        elif tree.nodes[root].path != self._root_path:
            root = tree.find(self._root_path) or 0
        return root

    async def _add_up_beside(self, session: Session, root: int, wanted: tuple[object, ...]) -> None:
        """Add up in a thread: of a large tree it takes longer than a key may wait."""
        began = time.monotonic()
        table = await asyncio.to_thread(flat_table, session, self.view.by, root)
        self._is_adding = False
        if table.by == self.view.by:
            self._take(session, table, wanted, began)
        if self.is_mounted:
            self.refresh_view()

    def _take(
        self, session: Session, table: FlatTable, of: tuple[object, ...], began: float
    ) -> None:
        ended = time.monotonic()
        self._of = of
        self._not_before = ended + max(AGAIN_SECONDS, 20 * (ended - began))
        is_first = self.view.table is None
        keeps_order = ended - self._touched < IDLE_SECONDS
        self.view.take(session, table, keeps_order=keeps_order)
        if is_first and self.node != table.root:
            self.view.point_to(self.node)

    def _current(self) -> int:
        """Return the node of the row under the cursor; of several the one with the most time."""
        row, session = self.view.row, self.session_shown
        if row is None or self.node in (row.nodes or row.callers):
            return self.node
        return max(row.nodes or row.callers, key=lambda node: node_seconds(session, node) or 0.0)

    def selected_path(self) -> str:
        """Return the path of the node under the cursor."""
        tree, node = self.session_shown.tree, self._current()
        return tree.nodes[node].path if tree is not None and node < len(tree) else ""

    def action_move(self, by: int) -> None:
        """Go to another row; its node, or the one with the most time, is the selected one."""
        self._touched = time.monotonic()
        self.view.move(by)
        self.select(self._current())

    def action_by(self) -> None:
        """List modules, then classes, then operators."""
        by = self.view.next_by()
        self.refresh_view()
        self.say(f"{TITLES[by]} {SORT_WORDS[self.view.column]}")

    def heading(self, look: Look) -> Heading | None:
        """Return the columns that are shown."""
        return flat_heading(look, self.view) if self.lines_of_view >= LEAST_ROWS else None

    def order_by(self, order: Order) -> None:
        """Order the rows."""
        for column in SORT_WORDS:
            if column == order.column:
                self.view.sort_by(self.session_shown, column, descending=order.descending)
        self.say(SORT_WORDS[self.view.column])
        self.refresh_view()

    def action_columns(self) -> None:
        """Let the columns be chosen."""
        by = self.view.by

        def choose(names: tuple[Column, ...]) -> None:
            self.view.chosen_columns[by] = names
            self.refresh_view()

        words = {column: COLUMN_WORDS[column] for column in columns_of(by)}
        chosen = self.view.chosen_columns.get(by, ())
        self.app.push_screen(ColumnsScreen(words, chosen, self._drawn_columns, choose, self.glyphs))

    def _drawn_columns(self) -> tuple[Column, ...]:
        return shown_columns(self.look_now(), self.view)

    def action_filter(self) -> None:
        """Type a filter, as in the tree."""
        self.prompt.take(Prompt("/", self.view.text, changed=self._filter, hint=_wrong))

    def _filter(self, typed: str) -> None:
        self.view.text = typed
        self.view.arrange(self.session_shown)

    def action_back(self) -> None:
        """Drop the filter, then go back to the explorer."""
        if self.view.text:
            self._filter("")
            self.refresh_view()
        else:
            super().action_back()

    def action_open(self) -> None:
        """Go to the node in the tree."""
        self.dismiss(ViewState(self._current()))

    def touched(self, x: int, y: int) -> None:
        """Select a row; above them are the title and the heading."""
        body = body_rows(self.lines_of_view)
        at = first_row(self.view.at, len(self.view.rows), body) + y - 2
        if y >= 2 and at < len(self.view.rows):
            self.action_move(at - self.view.at)

    # Copying.

    def row_text(self) -> str | None:
        """Return the row under the cursor, without its names where it has none."""
        row = self.view.row
        return self._text(self.session_shown, "\t", is_all=False) if row is not None else None

    def rows_as_csv(self) -> Callable[[], str]:
        """Return what writes the rows, in the order that is shown."""
        session = self.session_shown
        return lambda: self._text(session, ",", is_all=True)

    def rows_as_tsv(self) -> str | None:
        """Return the rows with tabs between, for a spreadsheet."""
        return self._text(self.session_shown, "\t", is_all=True) if self.view.rows else None

    def rows_as_markdown(self) -> str | None:
        """Return the rows as a table of Markdown."""
        from tui_profiler.reports.text.markdown import part_lines  # noqa: PLC0415 # only for this
        from tui_profiler.reports.text.sections.flat import flat_grid  # noqa: PLC0415

        if self.view.table is None or not self.view.rows:
            return None
        grid = flat_grid(self.session_shown, self.view.table, self.view.rows)
        return "\n".join(part_lines(grid)) + "\n"

    def _text(self, session: Session, delimiter: str, *, is_all: bool) -> str:
        from tui_profiler.reports.csv import flat_rows_csv  # noqa: PLC0415 # only for this

        rows = self.view.rows
        if not is_all:
            rows = rows[self.view.at : self.view.at + 1]
        written = flat_rows_csv(
            session, self.view.by, rows, with_titles=is_all, delimiter=delimiter
        )
        return written if is_all else written.rstrip("\n")


def _wrong(typed: str) -> str:
    """Return what is wrong with a filter."""
    return "; ".join(map(safe, read_filter(typed).wrong))
