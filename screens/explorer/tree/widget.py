"""The tree of nodes, the place one lives in: rows, the cursor among them, and what its keys do.

1. What is visible is a flat array of rows (``queries/tree/rows.py``); the tree holds the first one
   shown. Lines are made for the rows on screen only, and those that changed are repainted.
2. Whatever moves, the selected row keeps its line on the screen if it can.
3. A function that a key names (``actions/table.py``) returns what is to be said, or to be asked.
"""

import time
from collections.abc import Callable
from math import prod
from typing import ClassVar

from msgspec.structs import replace
from textual import events
from textual.message import Message
from textual.reactive import var

from tui_profiler.formatting.canvas import UNICODE, Glyphs
from tui_profiler.queries.cost import totals
from tui_profiler.queries.time.repeated_siblings import Steps
from tui_profiler.queries.tree import filter as filters
from tui_profiler.queries.tree import focus as focuses
from tui_profiler.queries.tree import rows
from tui_profiler.queries.tree.cells import Figures
from tui_profiler.queries.tree.columns import OF_A_STEP, ColumnName, step_columns
from tui_profiler.queries.tree.focus import Focus, SortKey
from tui_profiler.queries.tree.rows import Outline
from tui_profiler.session import EMPTY, Session, Timings

from ...widgets.line_widgets import LinesWidget
from ...widgets.lines import Line, text
from ...widgets.prompt import Prompt
from ...widgets.rows import edge, thumb_rows
from . import lines
from .columns import Columns, Form, columns_for

WHEEL_ROWS = 3
MOST_PLACES = 100
"""Places that jumps come back to; the oldest are forgotten."""
IDLE_SECONDS = 5.0
"""Rows move by themselves only when nothing was done to the tree for so long."""
EXAMPLES = "type:conv kernel:7x7 bound:memory time>1ms share>5% params>1M depth<3 !relu"
"""Of terms, for a prompt that is still empty."""
LIVE_SORTS = ("seconds", "self", "cpu", "mean", "p95", "share", *OF_A_STEP)


class NodeTree(LinesWidget, can_focus=True):
    """Shows the tree of a session; set ``session``, ``form``, ``stale``, ``view``."""

    DEFAULT_CSS: ClassVar[str] = "NodeTree { width: 1fr; height: 1fr; }"

    form: var[Form] = var[Form]("wide", init=False)
    """Which set of columns to choose from."""
    chosen_columns: var[tuple[ColumnName, ...]] = var[tuple[ColumnName, ...]]((), init=False)
    """The columns that the user wants, from left to right; none leaves it to the width."""

    class Changed(Message):
        """The view changed: selection, folds, order, filter or root."""

        def __init__(self, view: Focus) -> None:
            super().__init__()
            self.view = view

        def can_replace(self, message: Message) -> bool:
            """Let the latest of a burst stand for all."""
            return isinstance(message, NodeTree.Changed)

    class Opened(Message):
        """A node was clicked twice."""

        def __init__(self, node: int) -> None:
            super().__init__()
            self.node = node

    def __init__(
        self, session: Session = EMPTY, *, glyphs: Glyphs = UNICODE, id: str | None = None
    ) -> None:
        super().__init__(id=id)
        self._glyphs = glyphs
        self._figures = Figures()
        self._outline: Outline | None = None
        self._columns: Columns = columns_for(0, self.form)
        self._of_step: frozenset[ColumnName] = frozenset()
        self._top = 0
        self._drawn: dict[int, Line] = {}
        """Rows of nodes, as they are without the cursor."""
        self._places: tuple[str, ...] = ()
        """Paths that the cursor was at before jumps, oldest first."""
        self._settled: tuple[Outline | None, Timings | None, float] = (None, None, 0.0)
        """What was sorted and filtered last by live figures, and when it was touched last."""
        self._settle_seconds = IDLE_SECONDS
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
        if tree is not had_tree or step_columns(session) != self._of_step:
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

    def watch_form(self) -> None:
        """Choose the columns anew."""
        self._measure()

    def watch_chosen_columns(self) -> None:
        """Show them."""
        self._measure()

    @property
    def columns_shown(self) -> tuple[ColumnName, ...]:
        """The columns that there is room for."""
        return self._columns.names

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
            titles = lines.heading(laid, self._figures, self._columns, self._glyphs)
            order = titles.clicked(event.x, 0)
            for key in focuses.SORT_KEYS:
                if order is not None and order.column == key:
                    self._look(replace(self.view, sort=key, descending=order.descending))
            return
        row = self._top + event.y - 1
        if laid is None or event.y < 1 or event.y > self._body_rows() or row >= len(laid):
            return
        event.stop()
        node = laid.rows[row]
        self._go(row)
        fold = 1 + lines.indent_cells(laid, node, self._columns)
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

    # What keys do, by the names that the table of actions has for it.

    def move(self, by: int) -> None:
        """Move the cursor by so many rows."""
        self._go(self._cursor() + by)

    def page(self, direction: int) -> None:
        """Move the cursor by half a screen of rows."""
        self.move(round(direction * self._body_rows() / 2) or direction)

    def first(self) -> None:
        """Move the cursor to the first row."""
        self._go(0)

    def last(self) -> None:
        """Move the cursor to the last row."""
        self._go(len(self._outline) - 1 if self._outline is not None else 0)

    def toggle_fold(self) -> None:
        """Fold or unfold the node under the cursor."""
        if self._outline is not None:
            self._lay(rows.toggled(self._outline, self.session, self.view.selected))
            self._draw()

    def unfold(self) -> None:
        """Unfold the node under the cursor; on one that is unfolded, go to its first child."""
        laid = self._outline
        if laid is None or not laid.shape.branches[self.view.selected]:
            return
        if laid.is_unfolded(self.view.selected):
            self.move(1)
        else:
            self.toggle_fold()

    def fold(self) -> None:
        """Fold the node under the cursor; on one that is folded, go to its parent."""
        laid = self._outline
        if laid is None:
            return
        node = self.view.selected
        if laid.is_unfolded(node):
            self.toggle_fold()
        elif node != self.view.root:
            self._go(laid.row_near(laid.tree.nodes[node].parent))

    def depth(self, depth: int) -> None:
        """Unfold to so many levels below the root of the view."""
        if self._outline is not None:
            self._look(focuses.unfolded_to_depth(self.view, self._outline.tree, depth))

    def fold_all(self) -> None:
        """Fold everything but the root of the view."""
        if self._outline is not None:
            self._look(focuses.all_folded(self.view, self._outline.tree))

    def unfold_all(self) -> None:
        """Unfold everything below the root of the view."""
        if self._outline is not None:
            self._look(focuses.all_unfolded(self.view, self._outline.tree))

    def operators(self) -> str:
        """Show or hide operators below their modules."""
        is_shown = not self.view.show_operators
        self._look(replace(self.view, show_operators=is_shown))
        return f"operators {'shown' if is_shown else 'hidden'}"

    def group(self) -> str:
        """Show equal siblings that follow one another as one row with sums, or one by one."""
        is_grouped = not self.view.grouped
        self._look(replace(self.view, grouped=is_grouped, apart=frozenset()))
        sums = "equal blocks: one row of sums; the panel shows the first"
        return sums if is_grouped else "equal blocks: one row each"

    def sort_by(self, key: SortKey, *, descending: bool | None = None) -> None:
        """Sort siblings; by default figures start with the largest, names with the first."""
        falling = key != "name" if descending is None else descending
        view = replace(self.view, sort=key, descending=falling and key != "order")
        self._look(view)

    def sort(self) -> None:
        """Sort by the next of the columns that are shown."""
        keys = focuses.sort_keys(self.columns_shown)
        at = keys.index(self.view.sort) if self.view.sort in keys else 0
        self.sort_by(keys[(at + 1) % len(keys)])

    def reverse(self) -> None:
        """Turn the order of siblings round."""
        self.sort_by(self.view.sort, descending=not self.view.descending)

    def filter(self) -> Prompt:
        """Ask what to filter by."""
        self._note_place()

        def found(typed: str) -> str:
            wrong = filters.read_filter(typed).wrong
            if wrong or not typed:
                return f"left out: {wrong[0]}" if wrong else ""
            return self._filter_hint(typed)

        before, hint = self.view.filter_text, self._filter_hint
        return Prompt("/", before, changed=self.filter_by, done=found, hint=hint)

    def filter_by(self, typed: str) -> None:
        """Show what the text finds, with everything above it; one without a term shows all."""
        typed = filters.read_filter(typed).text
        if self._outline is not None and typed != self.view.filter_text:
            self._lay(rows.filtered(self._outline, self.session, typed))
            self._draw()

    def _filter_hint(self, typed: str) -> str:
        """Return what is wrong with a filter, else what it finds; of an empty one, examples."""
        asked, laid = filters.read_filter(typed), self._outline
        if not typed.strip():
            return EXAMPLES
        if asked.wrong or laid is None or not asked.terms:
            return asked.wrong[0] if asked.wrong else ""
        if laid.shape.found:
            return lines.matching(laid)
        why = filters.why_none(self.session, asked.text)
        return f'no node matches "{asked.text}"' + (f": {why}" if why else "")

    def match(self, step: int) -> str:
        """Go to the next or previous node that the filter found."""
        laid = self._outline
        if laid is None or not self.view.filter_text:
            return "no filter: / sets one"
        row = rows.next_match(laid, step)
        if row is None:
            return "no match is unfolded below this root"
        self._note_place()
        self._go(row)
        return ""

    def sibling(self, step: int) -> str:
        """Go to the next or previous node below the same parent."""
        laid = self._outline
        row = rows.sibling_row(laid, step) if laid is not None else None
        if row is None:
            return "no further sibling"
        self._go(row)
        return ""

    def mark(self) -> str:
        """Mark the node under the cursor, or remove its mark."""
        laid = self._outline
        if laid is None:
            return ""
        node = laid.focus.selected
        view = replace(laid.focus, marked=laid.focus.marked ^ {node})
        self._outline = replace(laid, focus=view)
        self._tell(laid.focus)
        self._draw()
        return "marked: ' goes from mark to mark" if node in view.marked else "mark removed"

    def next_mark(self) -> str:
        """Go to the next marked node."""
        node = rows.next_mark(self.view)
        if node is None:
            return "no mark: b sets one"
        self.select(node)
        return ""

    def hottest(self) -> None:
        """Go to the module with the most self time, below the root of the view."""
        if self._outline is not None:
            self.select(totals.hottest(self.session, self.view.root))

    def jump_back(self) -> str:
        """Go where the cursor was before the last jump."""
        laid = self._outline
        while laid is not None and self._places:
            *rest, path = self._places
            node = laid.tree.find(path)
            self._places = tuple(rest)
            if node is not None and node != self.view.selected:
                self.select(node)
                self._places = tuple(rest)
                return ""
        return "nothing to go back to: no jump yet"

    def back(self) -> None:
        """Drop the filter, then go one root up."""
        if self.view.filter_text:
            self.filter_by("")
        else:
            self.drill_up()

    def drill_down(self) -> bool:
        """Make the node under the cursor the root of the view; False where nothing is inside."""
        laid = self._outline
        node = self.view.selected
        if laid is None or not laid.shape.branches[node] or node == self.view.root:
            return False
        self._look(focuses.drilled_down(laid.focus, node))
        return True

    def drill_up(self) -> None:
        """Make the parent of the root of the view the root."""
        laid = self._outline
        if laid is not None and self.view.root:
            self._look(focuses.drilled_up(laid.focus, laid.tree))

    # What the screen does.

    def select(self, node: int) -> None:
        """Move the cursor to a node; what hides it is unfolded, a filter that hides it dropped.

        Equal blocks that stand in one row are shown one by one where it is one of them.
        """
        laid = self._outline
        if laid is None or not 0 <= node < len(laid.tree):
            return
        self._note_place()
        row = laid.row_of(node)
        if row is not None:
            self._go(row)
            return
        view = focuses.revealing(laid.focus, laid.tree, node)
        hits = laid.shape.hits
        is_left_out = bool(hits) and not laid.shape.shown[node]
        typed = "" if is_left_out else view.filter_text
        self._look(replace(view, filter_text=typed, apart=view.apart | laid.hiding(node)))

    def _note_place(self) -> None:
        laid = self._outline
        if laid is not None:
            path = laid.tree.nodes[laid.focus.selected].path
            self._places = (*self._places, path)[-MOST_PLACES:]

    def stands_for(self) -> int:
        """Return how many nodes the row under the cursor stands for."""
        laid = self._outline
        steps = laid.steps(laid.focus.selected) if laid is not None else ()
        return prod(count for count, _ in steps)

    def row_text(self) -> str:
        """Return the row under the cursor as it is drawn, without the cursor and the divider."""
        laid = self._outline
        if laid is None:
            return ""
        row = lines.row(
            laid, self._figures, laid.focus.selected, self._columns, glyphs=self._glyphs
        )
        return text(row).strip()

    def settle(self, at: float) -> None:
        """Sort and filter again by live figures once nobody has touched the tree for a while.

        Args:
            at: seconds on a clock that never goes back.
        """
        laid, timings = self._outline, self.session.timings
        settled, by, touched_at = self._settled
        if laid is not settled:
            self._settled = (laid, by, at)
            touched_at = at
        is_live = self.view.sort in LIVE_SORTS or filters.is_live(self.view.filter_text)
        is_due = at - touched_at >= self._settle_seconds
        if laid is None or not is_live or not is_due or timings is by:
            return
        before = time.process_time()
        self._look(self.view)
        # A large tree, of which this takes long, is sorted as much more seldom.
        spent = time.process_time() - before
        self._settle_seconds = max(IDLE_SECONDS, 50 * spent)
        self._settled = (self._outline, timings, at)

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
        return self.form == "wide"

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
        self._of_step = step_columns(self.session)
        return columns_for(
            self.size.width,
            self.form,
            has_forward=has_forward,
            of_step=self._of_step,
            chosen=self.chosen_columns,
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
        drawn = [lines.header(laid, self._figures, first, columns, self._glyphs)]
        drawn += self._row_lines(laid, columns, body) if laid is not None else []
        blank: Line = ((" " * (columns.cells - columns.divider), "ink"),)
        drawn += [blank] * (1 + body - len(drawn))
        if self._has_footer():
            drawn.append(lines.footer(laid, columns, self._glyphs))
        if columns.divider:
            thumb = thumb_rows(len(laid) if laid is not None else 0, self._top, body)
            drawn = [(*line, edge(y - 1 in thumb, self._glyphs)) for y, line in enumerate(drawn)]
        self.lines = tuple(drawn[: self.size.height])

    def _row_lines(self, laid: Outline, columns: Columns, body: int) -> list[Line]:
        has_focus = self.has_focus
        mark = (self._glyphs.cursor, "accent" if has_focus else "faint")
        drawn: list[Line] = []
        for node in laid.rows[self._top : self._top + body]:
            line = self._drawn.get(node)
            if line is None:
                line = lines.row(laid, self._figures, node, columns, glyphs=self._glyphs)
                self._drawn[node] = line
            selected = node == laid.focus.selected
            background = ("cursor" if has_focus else "blurred") if selected else ""
            drawn.append(lines.with_cursor(line, mark, background))
        return drawn


def _summing(laid: Outline) -> Callable[[int], Steps] | None:
    """Return what says which nodes a row sums over, None where each row is one node."""
    return laid.run_of if laid.focus.grouped else None
