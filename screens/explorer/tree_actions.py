"""What the keys do to the tree: moving, folding, sorting, filtering."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.screen import Screen

from tui_profiler.queries.tree.filter import read_filter

from ..widgets.prompt import Choice, Prompt

if TYPE_CHECKING:  # Only its name: it is imported after the first frame.
    from .tree.widget import NodeTree


_NEED_TREE = ("open", "node", "copy", "why", "filter", "sort_by", "columns")


class TreeActions(Screen[None]):
    """Actions of a screen that holds one ``NodeTree``."""

    tree_widget: NodeTree
    """Set when the tree is mounted; before that there is nothing that its keys could act on."""

    def say(self, text: str) -> None:
        """Put an event into the status line."""
        raise NotImplementedError

    def open_prompt(self, prompt: Prompt | Choice) -> None:
        """Ask in the last row."""
        raise NotImplementedError

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Refuse what acts on the tree until it is there."""
        needs_tree = f"action_{action}" in vars(TreeActions) or action in _NEED_TREE
        return hasattr(self, "tree_widget") or not needs_tree

    def action_move(self, by: int) -> None:
        """Move the cursor."""
        self.tree_widget.move(by)

    def action_page(self, direction: int) -> None:
        """Move by half a page."""
        self.tree_widget.page(direction / 2)

    def action_first(self) -> None:
        """Go to the first row."""
        self.tree_widget.goto_first()

    def action_last(self) -> None:
        """Go to the last row."""
        self.tree_widget.goto_last()

    def action_unfold(self) -> None:
        """Unfold."""
        self.tree_widget.unfold()

    def action_fold(self) -> None:
        """Fold, or go to the parent."""
        self.tree_widget.fold()

    def action_toggle_fold(self) -> None:
        """Fold or unfold."""
        self.tree_widget.toggle()

    def action_fold_all(self) -> None:
        """Fold everything."""
        self.tree_widget.fold_all()

    def action_unfold_all(self) -> None:
        """Unfold everything."""
        self.tree_widget.unfold_all()

    def action_depth(self, depth: int) -> None:
        """Unfold to a depth."""
        self.tree_widget.unfold_to_depth(depth)

    def action_hottest(self) -> None:
        """Go to the module with the most self time."""
        self.tree_widget.hottest()

    def action_operators(self) -> None:
        """Show or hide operators."""
        tree = self.tree_widget
        tree.show_operators(not tree.view.show_operators)
        self.say("operators are shown" if tree.view.show_operators else "operators are hidden")

    def action_group(self) -> None:
        """Show equal siblings as one row with sums, or one by one."""
        tree = self.tree_widget
        tree.group(not tree.view.grouped)
        sums = "equal blocks: one row of sums; the panel shows the first"
        self.say(sums if tree.view.grouped else "equal blocks are shown one by one")

    def action_sort(self) -> None:
        """Sort by the next column."""
        self.tree_widget.sort_by_next()

    def action_reverse(self) -> None:
        """Sort the other way round."""
        tree = self.tree_widget
        tree.sort_by(tree.view.sort, descending=not tree.view.descending)

    def action_filter(self) -> None:
        """Ask what to filter by."""
        tree = self.tree_widget
        tree.note_place()
        text, hint = tree.view.filter_text, tree.filter_hint
        self.open_prompt(Prompt("/", text, tree.filter_by, self.say_filter, hint))

    def say_filter(self, text: str) -> None:
        """Say what a filter that was kept finds, and what of it was no term."""
        if text:
            wrong = read_filter(text).wrong
            self.say(f"left out: {wrong[0]}" if wrong else self.tree_widget.filter_hint(text))

    def action_match(self, step: int) -> None:
        """Go to the next or former node that the filter found."""
        if not self.tree_widget.view.filter_text:
            self.say("no filter: / sets one")
        elif not self.tree_widget.next_match(step):
            self.say("no match is unfolded below this root")

    def action_mark(self) -> None:
        """Mark the node under the cursor, or take its mark away."""
        has_mark = self.tree_widget.mark()
        self.say("marked: ' goes from mark to mark" if has_mark else "the mark is taken away")

    def action_next_mark(self) -> None:
        """Go to the next marked node."""
        if not self.tree_widget.next_mark():
            self.say("no mark: b sets one")

    def action_jump_back(self) -> None:
        """Go where the cursor was before a jump."""
        if not self.tree_widget.jump_back():
            self.say("no place to go back to: nothing was jumped to since")

    def action_sibling(self, step: int) -> None:
        """Go to the next or former node below the same parent."""
        if not self.tree_widget.sibling(step):
            self.say("no further sibling")

    def action_back(self) -> None:
        """Drop the filter, then go one root up."""
        tree = self.tree_widget
        if tree.view.filter_text:
            tree.filter_by("")
        else:
            tree.drill_up()
