"""Where the tree is drawn and scrolled: rows on screen become lines, only those that changed.

1. What is visible is a flat array of rows (``queries.rows``); the canvas holds the first one shown.
2. Lines are made for the rows on screen only, and only those that changed are repainted.
3. Whatever moves, the selected row keeps its line on the screen if it can.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace
from textual import events
from textual.message import Message

from tui_profiler.formatting.canvas import UNICODE, Glyphs
from tui_profiler.queries.time.repeated_siblings import Steps
from tui_profiler.queries.tree import focus as focuses
from tui_profiler.queries.tree import rows
from tui_profiler.queries.tree.cells import Figures
from tui_profiler.queries.tree.columns import ColumnName
from tui_profiler.queries.tree.focus import SORT_KEYS, Focus
from tui_profiler.queries.tree.rows import Outline
from tui_profiler.session import EMPTY, Session

from ...widgets.lines import Line, LinesWidget
from . import lines as tree_lines
from .columns import Columns, Form, columns_for

WHEEL_ROWS = 3


class TreeCanvas(LinesWidget, can_focus=True):
    """Draws the rows of a session's tree; knows where the cursor is, but binds nothing to it."""

    class Changed(Message, namespace="node_tree"):
        """The view changed: selection, folds, order, filter or root."""

        def __init__(self, view: Focus) -> None:
            super().__init__()
            self.view = view

        def can_replace(self, message: Message) -> bool:
            """Let the latest of a burst stand for all."""
            return isinstance(message, TreeCanvas.Changed)

    class Opened(Message, namespace="node_tree"):
        """A node was opened: by a key of the screen, or by a double click."""

        def __init__(self, node: int) -> None:
            super().__init__()
            self.node = node

    def __init__(
        self,
        session: Session = EMPTY,
        *,
        form: Form = "wide",
        glyphs: Glyphs = UNICODE,
        id: str | None = None,
    ) -> None:
        super().__init__(id=id)
        self._form: Form = form
        self._glyphs = glyphs
        self._figures = Figures()
        self._outline: Outline | None = None
        self._chosen: tuple[ColumnName, ...] = ()
        self._columns: Columns = columns_for(0, form)
        self._top = 0
        self._drawn: dict[int, Line] = {}
        """Rows of nodes, as they are without the cursor."""
        self.session = session

    @property
    def session(self) -> Session:
        """What is known; setting it redraws the rows that changed, in the order they have."""
        return self._figures.session

    @session.setter
    def session(self, session: Session) -> None:
        if session is self._figures.session:
            return
        before, tree = self._outline, session.tree
        had_tree = self._figures.session.tree
        if tree is None or not len(tree):
            self._figures.update(session)
            self._outline = None
        elif before is None:
            self._figures.update(session)
            self._lay(rows.outline(session, focuses.initial(tree)))
        elif before.tree is not tree:
            view = focuses.carried_over(before.focus, before.tree, tree)
            laid = rows.outline(session, view)
            self._figures.update(session, view.root, _summing(laid))
            self._lay(laid)
        else:
            self._figures.update(session, before.focus.root, _summing(before))
        if tree is not had_tree:
            self._columns = self._chosen_columns()
        self._draw()

    @property
    def view(self) -> Focus:
        """What is looked at, and how."""
        return self._outline.focus if self._outline is not None else Focus()

    @view.setter
    def view(self, view: Focus) -> None:
        if self._outline is not None:
            self._look(view)

    @property
    def outline(self) -> Outline | None:
        """The rows that could be scrolled to, None before there is a tree."""
        return self._outline

    @property
    def form(self) -> Form:
        """Which set of columns to choose from."""
        return self._form

    @form.setter
    def form(self, form: Form) -> None:
        if form != self._form:
            self._form = form
            self._measure()

    @property
    def chosen_columns(self) -> tuple[ColumnName, ...]:
        """The columns that the user wants, from left to right; none leaves it to the width."""
        return self._chosen

    @chosen_columns.setter
    def chosen_columns(self, names: tuple[ColumnName, ...]) -> None:
        if names != self._chosen:
            self._chosen = names
            self._measure()

    @property
    def columns_shown(self) -> tuple[ColumnName, ...]:
        """The columns that there is room for."""
        return self._columns.names

    @property
    def glyphs(self) -> Glyphs:
        """The characters to draw with."""
        return self._glyphs

    @glyphs.setter
    def glyphs(self, glyphs: Glyphs) -> None:
        self._glyphs = glyphs
        self._draw()

    @property
    def stale(self) -> bool:
        """No data has come for a while: figures are drawn muted."""
        return self._figures.stale

    @stale.setter
    def stale(self, stale: bool) -> None:
        if stale != self._figures.stale:
            self._figures.stale = stale
            self._draw()

    def on_resize(self) -> None:
        """Choose the columns anew."""
        self._measure()

    def watch_has_focus(self, has_focus: bool) -> None:
        """Show the cursor row as one that keys reach, or do not."""
        super().watch_has_focus(has_focus)
        self._draw()

    def on_click(self, event: events.Click) -> None:
        """Select the row; on its fold glyph toggle it, at the second click open it.

        On a column's title sort by it.
        """
        laid = self._outline
        if laid is not None and event.y == 0:
            event.stop()
            titles = tree_lines.heading(laid, self._figures, self._columns, self._glyphs)
            order = titles.clicked(event.x, 0)
            for key in SORT_KEYS:
                if order is not None and order.column == key:
                    self._look(replace(self.view, sort=key, descending=order.descending))
            return
        row = self._top + event.y - 1
        if laid is None or event.y < 1 or event.y > self._body_rows() or row >= len(laid):
            return
        event.stop()
        node = laid.rows[row]
        self._go(row)
        fold = 1 + tree_lines.indent_cells(laid, node, self._columns)
        if event.chain == 2:
            self.post_message(self.Opened(node))
        elif fold <= event.x < fold + 2:
            self._lay(rows.toggled(self._outline or laid, self.session, node))
            self._draw()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Scroll the rows; the cursor stays on its node."""
        event.stop()
        self._scroll_rows(WHEEL_ROWS)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Scroll the rows back."""
        event.stop()
        self._scroll_rows(-WHEEL_ROWS)

    def _look(self, view: Focus) -> None:
        """Lay out all rows for a view, in the order that the figures give now."""
        if self._outline is not None:
            laid = rows.relaid(self._outline, self.session, view)
            self._figures.update(self.session, view.root, _summing(laid))
            self._lay(laid)
            self._draw()

    def _lay(self, laid: Outline) -> None:
        before, self._outline = self._outline, laid
        if before is None:
            self._top = 0
        elif before.focus.selected == laid.focus.selected:
            self._top += laid.cursor - before.cursor
        self._keep_in_sight()
        self._tell(before.focus if before is not None else None)

    def _go(self, row: int) -> None:
        """Move the cursor to a row, or as near as there is one."""
        laid = self._outline
        if laid is None:
            return
        self._outline = rows.at_row(laid, row)
        self._keep_in_sight()
        if self._outline.cursor != laid.cursor:
            self._tell(laid.focus)
        self._draw_moved()

    def _tell(self, before: Focus | None) -> None:
        if self.is_attached and self.view is not before:
            self.post_message(self.Changed(self.view))

    def _cursor(self) -> int:
        return self._outline.cursor if self._outline is not None else 0

    def _body_rows(self) -> int:
        return max(self.size.height - 1 - self._has_footer(), 0)

    def _has_footer(self) -> bool:
        return self._form == "wide"

    def _keep_in_sight(self) -> None:
        cursor, body = self._cursor(), max(self._body_rows(), 1)
        self._top = max(min(self._top, cursor), cursor - body + 1)
        self._scroll_rows(0, draw=False)

    def _scroll_rows(self, by: int, *, draw: bool = True) -> None:
        last = len(self._outline) - self._body_rows() if self._outline is not None else 0
        self._top = max(0, min(self._top + by, last))
        if draw:
            self._draw_moved()

    def _measure(self) -> None:
        self._columns = self._chosen_columns()
        self._keep_in_sight()
        self._draw()

    def _chosen_columns(self) -> Columns:
        tree = self.session.tree
        has_forward = tree is None or tree.has_forward
        return columns_for(
            self.size.width, self._form, has_forward=has_forward, chosen=self._chosen
        )

    def _draw(self) -> None:
        """Make the lines that are on screen; what did not change is not repainted."""
        self._drawn.clear()
        self._draw_moved()

    def _draw_moved(self) -> None:
        """Do so where only the cursor and the first row may be others than before."""
        if self.size.height <= 0:
            return
        laid, columns, body = self._outline, self._columns, self._body_rows()
        first = laid.rows[self._top] if laid is not None else 0
        lines = [tree_lines.header(laid, self._figures, first, columns, self._glyphs)]
        lines += self._row_lines(laid, columns, body) if laid is not None else []
        blank: Line = ((" " * (columns.cells - columns.divider), "ink"),)
        lines += [blank] * (1 + body - len(lines))
        if self._has_footer():
            lines.append(tree_lines.footer(laid, columns, self._glyphs))
        if columns.divider:
            thumb = tree_lines.thumb(self._top, len(laid) if laid is not None else 0, body)
            lines = [
                (*line, tree_lines.divider(y - 1 in thumb, self._glyphs))
                for y, line in enumerate(lines)
            ]
        self.lines = tuple(lines[: self.size.height])

    def _row_lines(self, laid: Outline, columns: Columns, body: int) -> list[Line]:
        has_focus = self.has_focus
        mark = (self._glyphs.cursor, "accent" if has_focus else "faint")
        lines: list[Line] = []
        for node in laid.rows[self._top : self._top + body]:
            line = self._drawn.get(node)
            if line is None:
                line = tree_lines.row(laid, self._figures, node, columns, glyphs=self._glyphs)
                self._drawn[node] = line
            selected = node == laid.focus.selected
            background = ("cursor" if has_focus else "blurred") if selected else ""
            lines.append(tree_lines.with_cursor(line, mark, background))
        return lines


def _summing(laid: Outline) -> Callable[[int], Steps] | None:
    """Return what says which nodes a row sums over, None where each row is one node."""
    return laid.run_of if laid.focus.grouped else None
