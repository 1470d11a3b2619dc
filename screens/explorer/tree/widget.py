"""The tree of nodes, the place one lives in: what its keys do. The screen binds them."""

from __future__ import annotations

import time
from math import prod
from typing import ClassVar

from msgspec.structs import replace

from tui_profiler.queries.cost.totals import hottest
from tui_profiler.queries.tree import filter as filters
from tui_profiler.queries.tree import focus as focuses
from tui_profiler.queries.tree import rows
from tui_profiler.queries.tree.filter import read_filter
from tui_profiler.queries.tree.focus import SortKey, sort_keys
from tui_profiler.queries.tree.rows import Outline, next_mark, next_match, sibling_row
from tui_profiler.session import Timings

from ...widgets.lines import text
from . import lines
from .canvas import TreeCanvas

MOST_PLACES = 100
"""Places that jumps come back to; the oldest are forgotten."""


class TreePlaces(TreeCanvas):
    """Moves the cursor further than by rows."""

    _places: tuple[str, ...] = ()
    """Paths that the cursor was at before jumps, oldest first."""

    def select(self, node: int) -> None:
        """Move the cursor to a node; what hides it is unfolded, a filter that hides it dropped.

        Equal blocks that stand in one row are shown one by one where it is one of them.
        """
        laid = self._outline
        if laid is None or not 0 <= node < len(laid.tree):
            return
        self.note_place()
        row = laid.row_of(node)
        if row is not None:
            self._go(row)
            return
        view = focuses.revealing(laid.focus, laid.tree, node)
        hits = laid.shape.hits
        is_left_out = bool(hits) and not laid.shape.shown[node]
        text = "" if is_left_out else view.filter_text
        self._look(replace(view, filter_text=text, apart=view.apart | laid.hiding(node)))

    def hottest(self) -> None:
        """Move the cursor to the module with the most self time, below the root of the view."""
        if self._outline is not None:
            self.select(hottest(self.session, self.view.root))

    def note_place(self) -> None:
        """Remember where the cursor is, to come back to it."""
        laid = self._outline
        if laid is not None:
            path = laid.tree.nodes[laid.focus.selected].path
            self._places = (*self._places, path)[-MOST_PLACES:]

    def jump_back(self) -> bool:
        """Go where the cursor was before the last jump; False where there is no such place."""
        laid = self._outline
        while laid is not None and self._places:
            *rest, path = self._places
            node = laid.tree.find(path)
            self._places = tuple(rest)
            if node is not None and node != self.view.selected:
                self.select(node)
                self._places = tuple(rest)
                return True
        return False

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

    def mark(self) -> bool:
        """Mark the node under the cursor, or take its mark away; gives whether it has one now."""
        laid = self._outline
        if laid is None:
            return False
        node = laid.focus.selected
        view = replace(laid.focus, marked=laid.focus.marked ^ {node})
        self._outline = replace(laid, focus=view)
        self._tell(laid.focus)
        self._draw()
        return node in view.marked

    def next_mark(self) -> bool:
        """Go to the next marked node; False where there is none."""
        node = next_mark(self.view)
        if node is not None:
            self.select(node)
        return node is not None

    def next_match(self, step: int) -> bool:
        """Go to the next or former node that the filter found; False where there is none."""
        laid = self._outline
        row = next_match(laid, step) if laid is not None else None
        if row is not None:
            self.note_place()
            self._go(row)
        return row is not None

    def sibling(self, step: int) -> bool:
        """Go to the next or former node below the same parent; False at the ends."""
        laid = self._outline
        row = sibling_row(laid, step) if laid is not None else None
        if row is not None:
            self._go(row)
        return row is not None


IDLE_SECONDS = 5.0
"""Rows move by themselves only when nothing was done to the tree for so long."""
EXAMPLES = "type:conv kernel:7x7 bound:memory time>1ms share>5% params>1M depth<3 !relu"
"""Of terms, for a prompt that is still empty."""
LIVE_SORTS = ("seconds", "share")


class NodeTree(TreePlaces):
    """Shows the tree of a session; set ``session``, ``form``, ``glyphs``, ``stale``, ``view``."""

    DEFAULT_CSS: ClassVar[str] = "NodeTree { width: 1fr; height: 1fr; }"

    _settled_laid: Outline | None = None
    _settled_timings: Timings | None = None
    _settled_at = 0.0
    _settle_seconds = IDLE_SECONDS

    def move(self, by: int) -> None:
        """Move the cursor by so many rows."""
        self._go(self._cursor() + by)

    def page(self, pages: float) -> None:
        """Move the cursor by so many screens of rows: 0.5 is half a page down."""
        by = round(pages * self._body_rows())
        self.move(by or (1 if pages > 0 else -1))

    def goto_first(self) -> None:
        """Move the cursor to the first row."""
        self._go(0)

    def goto_last(self) -> None:
        """Move the cursor to the last row."""
        self._go(len(self._outline) - 1 if self._outline is not None else 0)

    def toggle(self) -> None:
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
            self.toggle()

    def fold(self) -> None:
        """Fold the node under the cursor; on one that is folded, go to its parent."""
        laid = self._outline
        if laid is None:
            return
        node = self.view.selected
        if laid.is_unfolded(node):
            self.toggle()
        elif node != self.view.root:
            self._go(laid.row_near(laid.tree.nodes[node].parent))

    def unfold_to_depth(self, depth: int) -> None:
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

    def open(self) -> None:
        """Say that the node under the cursor was opened; what that means is the screen's."""
        if self._outline is not None:
            self.post_message(self.Opened(self.view.selected))

    def drill_down(self) -> bool:
        """Make the node under the cursor the root of the view; False where nothing is inside."""
        laid = self._outline
        node = self.view.selected
        if laid is None or not laid.shape.branches[node] or node == self.view.root:
            return False
        self._look(focuses.drilled_down(laid.focus, node))
        return True

    def drill_up(self) -> bool:
        """Make the parent of the root of the view the root; False where it is the model already."""
        laid = self._outline
        if laid is None or self.view.root == 0:
            return False
        self._look(focuses.drilled_up(laid.focus, laid.tree))
        return True

    def sort_by(self, key: SortKey, *, descending: bool | None = None) -> None:
        """Sort siblings; by default figures start with the largest, names with the first."""
        falling = key != "name" if descending is None else descending
        view = replace(self.view, sort=key, descending=falling and key != "order")
        self._look(view)

    def sort_by_next(self) -> None:
        """Sort by the next of the columns that are shown."""
        keys = sort_keys(self.columns_shown)
        at = keys.index(self.view.sort) if self.view.sort in keys else 0
        self.sort_by(keys[(at + 1) % len(keys)])

    def reverse(self) -> None:
        """Turn the order of siblings round."""
        self.sort_by(self.view.sort, descending=not self.view.descending)

    def resort(self) -> None:
        """Sort anew by what the figures are now; the selected row keeps its line."""
        self._look(self.view)

    def filter_by(self, text: str) -> None:
        """Show what the text finds, with everything above it; one without a term shows all."""
        text = read_filter(text).text
        if self._outline is not None and text != self.view.filter_text:
            self._lay(rows.filtered(self._outline, self.session, text))
            self._draw()

    def filter_hint(self, text: str) -> str:
        """Return what is to be said of a filter: what is wrong with it, else what it finds.

        Of an empty one: what there is to type.
        """
        asked, laid = read_filter(text), self._outline
        if not text.strip():
            return EXAMPLES
        if asked.wrong or laid is None or not asked.terms:
            return asked.wrong[0] if asked.wrong else ""
        if laid.shape.found:
            return lines.matching(laid)
        why = filters.why_none(self.session, asked.text)
        return f'no node matches "{asked.text}"' + (f": {why}" if why else "")

    def settle(self, at: float) -> None:
        """Order and filter anew by live figures once nobody has touched the tree for a while.

        Args:
            at: seconds on a clock that never goes back.
        """
        laid, timings = self._outline, self.session.timings
        if laid is not self._settled_laid:
            self._settled_laid, self._settled_at = laid, at
        is_live = self.view.sort in LIVE_SORTS or filters.is_live(self.view.filter_text)
        is_due = at - self._settled_at >= self._settle_seconds
        if laid is None or not is_live or not is_due or timings is self._settled_timings:
            return
        before = time.process_time()
        self.resort()
        # A tree so large that this takes long is looked through as much more seldom.
        spent = time.process_time() - before
        self._settle_seconds = max(IDLE_SECONDS, 50 * spent)
        self._settled_laid, self._settled_at = self._outline, at
        self._settled_timings = timings

    def group(self, grouped: bool) -> None:
        """Show equal siblings that follow one another as one row, or one by one."""
        self._look(replace(self.view, grouped=grouped, apart=frozenset()))

    def show_operators(self, shown: bool) -> None:
        """Show or hide operators below their modules."""
        self._look(replace(self.view, show_operators=shown))
