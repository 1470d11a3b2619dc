"""What the keys do to the tree: moving, folding, sorting, filtering."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.screen import Screen

from tui_profiler.queries.focus import SORT_KEYS

if TYPE_CHECKING:  # Only its name: it is imported after the first frame.
    from .widgets.tree import NodeTree


_NEED_TREE = ("open", "node", "copy", "why", "filter", "sort_by")


class TreeActions(Screen[None]):
    """Actions of a screen that holds one ``NodeTree``."""

    tree_widget: NodeTree
    """Set when the tree is mounted; before that there is nothing that its keys could act on."""

    def say(self, text: str) -> None:
        """Put an event into the status line."""
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
        """Go to the hottest leaf."""
        self.tree_widget.hottest()

    def action_operators(self) -> None:
        """Show or hide operators."""
        tree = self.tree_widget
        tree.show_operators(not tree.view.show_operators)
        self.say("operators are shown" if tree.view.show_operators else "operators are hidden")

    def action_sort(self) -> None:
        """Sort by the next column."""
        tree = self.tree_widget
        tree.sort_by(SORT_KEYS[(SORT_KEYS.index(tree.view.sort) + 1) % len(SORT_KEYS)])

    def action_reverse(self) -> None:
        """Sort the other way round."""
        tree = self.tree_widget
        tree.sort_by(tree.view.sort, descending=not tree.view.descending)

    def action_back(self) -> None:
        """Drop the filter, then go one root up."""
        tree = self.tree_widget
        if tree.view.filter_text:
            tree.filter_by("")
        else:
            tree.drill_up()
