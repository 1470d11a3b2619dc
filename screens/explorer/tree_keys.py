"""What the keys do to the tree: moving, folding, sorting, filtering."""

from __future__ import annotations

from collections.abc import Callable

from tui_profiler.queries.tree.filter import read_filter
from tui_profiler.queries.tree.focus import SortKey

from ..widgets.prompt import Choice, Prompt
from .tree.widget import NodeTree


class TreeKeys:
    """Does with the tree what is asked by key or by name, and says what is not seen of it.

    Args:
        tree: that is on screen.
        say: tells the user.
        ask: asks the user.
    """

    def __init__(
        self,
        tree: NodeTree,
        say: Callable[[str], None],
        ask: Callable[[Prompt | Choice], None],
    ) -> None:
        self._tree = tree
        self._say = say
        self._ask = ask

    def move(self, by: int) -> None:
        """Move the cursor."""
        self._tree.move(by)

    def page(self, direction: int) -> None:
        """Move by half a page."""
        self._tree.page(direction / 2)

    def first(self) -> None:
        """Go to the first row."""
        self._tree.goto_first()

    def last(self) -> None:
        """Go to the last row."""
        self._tree.goto_last()

    def unfold(self) -> None:
        """Unfold."""
        self._tree.unfold()

    def fold(self) -> None:
        """Fold, or go to the parent."""
        self._tree.fold()

    def toggle_fold(self) -> None:
        """Fold or unfold."""
        self._tree.toggle()

    def fold_all(self) -> None:
        """Fold everything."""
        self._tree.fold_all()

    def unfold_all(self) -> None:
        """Unfold everything."""
        self._tree.unfold_all()

    def depth(self, depth: int) -> None:
        """Unfold to a depth."""
        self._tree.unfold_to_depth(depth)

    def hottest(self) -> None:
        """Go to the module with the most self time."""
        self._tree.hottest()

    def operators(self) -> None:
        """Show or hide operators."""
        tree = self._tree
        tree.show_operators(not tree.view.show_operators)
        self._say("operators are shown" if tree.view.show_operators else "operators are hidden")

    def group(self) -> None:
        """Show equal siblings as one row with sums, or one by one."""
        tree = self._tree
        tree.group(not tree.view.grouped)
        sums = "equal blocks: one row of sums; the panel shows the first"
        self._say(sums if tree.view.grouped else "equal blocks are shown one by one")

    def sort(self) -> None:
        """Sort by the next column."""
        self._tree.sort_by_next()

    def sort_by(self, key: SortKey) -> None:
        """Sort by a column."""
        self._tree.sort_by(key)

    def reverse(self) -> None:
        """Sort the other way round."""
        self._tree.reverse()

    def filter(self) -> None:
        """Ask what to filter by."""
        tree = self._tree
        tree.note_place()
        text, hint = tree.view.filter_text, tree.filter_hint
        self._ask(Prompt("/", text, tree.filter_by, self._say_filter, hint))

    def _say_filter(self, text: str) -> None:
        """Say what a filter that was kept finds, and what of it was no term."""
        if text:
            wrong = read_filter(text).wrong
            self._say(f"left out: {wrong[0]}" if wrong else self._tree.filter_hint(text))

    def match(self, step: int) -> None:
        """Go to the next or former node that the filter found."""
        if not self._tree.view.filter_text:
            self._say("no filter: / sets one")
        elif not self._tree.next_match(step):
            self._say("no match is unfolded below this root")

    def mark(self) -> None:
        """Mark the node under the cursor, or take its mark away."""
        has_mark = self._tree.mark()
        self._say("marked: ' goes from mark to mark" if has_mark else "mark removed")

    def next_mark(self) -> None:
        """Go to the next marked node."""
        if not self._tree.next_mark():
            self._say("no mark: b sets one")

    def jump_back(self) -> None:
        """Go where the cursor was before a jump."""
        if not self._tree.jump_back():
            self._say("nothing to go back to: no jump yet")

    def sibling(self, step: int) -> None:
        """Go to the next or former node below the same parent."""
        if not self._tree.sibling(step):
            self._say("no further sibling")

    def back(self) -> None:
        """Drop the filter, then go one root up."""
        tree = self._tree
        if tree.view.filter_text:
            tree.filter_by("")
        else:
            tree.drill_up()
