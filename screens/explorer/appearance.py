"""What the keys change of how the explorer looks and behaves: columns, theme, rate, mouse."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from textual.screen import Screen

from tui_profiler.formatting.canvas import Glyphs
from tui_profiler.queries.tree.columns import COLUMN_WORDS, ColumnName
from tui_profiler.session import Session

from ..common.base_app import BaseApp
from ..settings.appearance import ThemeName
from ..settings.preferences import Preferences
from ..settings.theme import PREFIX, next_theme, short_name
from ..terminal.driver import set_mouse

if TYPE_CHECKING:  # Only its name: it is imported after the first frame.
    from .tree.widget import NodeTree

RATES = (0.5, 1.0, 2.0, 4.0, 10.0)
"""Redraws a second, from key to key."""


class Appearance:
    """Begins as the user is used to, changes with keys, and keeps how the explorer was left.

    Args:
        screen: that is shown.
        preferences: what the user is used to.
        glyphs: the set to draw with.
        tick_at: redraws so many times per second from now on.
    """

    def __init__(
        self,
        screen: Screen[None],
        preferences: Preferences,
        glyphs: Glyphs,
        tick_at: Callable[[float], None],
    ) -> None:
        self._screen = screen
        self.preferences = preferences
        self._glyphs = glyphs
        self._tick_at = tick_at
        self._tree: NodeTree | None = None

    def show_in_tree(self, session: Session, widget: NodeTree) -> str:
        """Hand a session to the tree; where it shows its first tree, as the user is used to.

        Returns:
            What was wrong with what the user is used to; empty where nothing was, or once said.
        """
        self._tree, tree = widget, session.tree
        if tree is None:
            self.keep()
        is_first = tree is not None and len(tree) > 0 and widget.outline is None
        widget.session = session
        if is_first and tree is not None:
            widget.view = self.preferences.begin(widget.view, tree)
            widget.chosen_columns = self.preferences.columns
        return self.preferences.problems()

    def keep(self) -> None:
        """Keep how the model was looked at last."""
        laid = self._tree.outline if self._tree is not None else None
        if laid is not None:
            self.preferences.end(laid.focus, laid.tree)

    def columns(self) -> None:
        """Let the columns of the tree be chosen."""
        from ..common.column_list import ColumnsScreen  # noqa: PLC0415 # first paint does without it

        if (widget := self._tree) is None:
            return

        def choose(names: tuple[ColumnName, ...]) -> None:
            self.preferences.columns = widget.chosen_columns = names

        screen = ColumnsScreen(
            COLUMN_WORDS,
            self.preferences.columns,
            lambda: widget.columns_shown,
            choose,
            self._glyphs,
        )
        self._screen.app.push_screen(screen)

    def theme(self) -> str:
        """Go to the next theme."""
        return self.use_theme(short_name(next_theme(self._screen.app.theme)))

    def use_theme(self, name: ThemeName) -> str:
        """Draw in the colours of a theme, next time too."""
        self._screen.app.theme = PREFIX + name
        self.preferences.choose_theme(name)
        return f"theme {name}"

    def change_rate(self, times: float) -> str:
        """Redraw more often, or less often."""
        app = self._screen.app
        assert isinstance(app, BaseApp)
        others = [rate for rate in RATES if (rate > app.rate if times > 1 else rate < app.rate)]
        if others:
            app.set_rate(min(others) if times > 1 else max(others))
            self._tick_at(app.rate)
        often = f"{app.rate:g} times per second" if app.rate > 1 else f"every {1 / app.rate:g} s"
        return f"redrawn {often}{'' if others else ', the limit'}"

    def toggle_mouse(self) -> str:
        """Leave the mouse to the terminal, or take it."""
        is_on = set_mouse(self._screen.app)
        return "mouse on" if is_on else "mouse off: the terminal selects text with it"
