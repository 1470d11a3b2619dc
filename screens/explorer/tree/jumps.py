"""The tree, from place to place: to a node, to matches, marks and siblings, and back from jumps."""

from __future__ import annotations

from math import prod

from msgspec.structs import replace

from tui_profiler.queries.cost.totals import hottest
from tui_profiler.queries.tree import focus as focuses
from tui_profiler.queries.tree.rows import next_mark, next_match, sibling_row

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
