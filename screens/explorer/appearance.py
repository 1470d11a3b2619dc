"""What the keys change of how the explorer looks and behaves: columns, theme, rate, mouse."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from textual.screen import Screen

from tui_profiler.formatting.canvas import Glyphs
from tui_profiler.queries.tree.columns import ColumnName
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
        habits: what the user is used to.
        glyphs: the set to draw with.
        say: tells the user.
        tick_at: redraws so many times per second from now on.
    """

    def __init__(
        self,
        screen: Screen[None],
        habits: Preferences,
        glyphs: Glyphs,
        say: Callable[[str], None],
        tick_at: Callable[[float], None],
    ) -> None:
        self._screen = screen
        self.habits = habits
        self._glyphs = glyphs
        self._say = say
        self._tick_at = tick_at
        self._tree: NodeTree | None = None

    def show_in_tree(self, session: Session, widget: NodeTree) -> None:
        """Hand a session to the tree; where it shows its first tree, as the user is used to."""
        self._tree, tree = widget, session.tree
        if tree is None:
            self.keep()
        is_first = tree is not None and len(tree) > 0 and widget.outline is None
        widget.session = session
        if is_first and tree is not None:
            widget.view = self.habits.begin(widget.view, tree)
            widget.chosen_columns = self.habits.columns
        if problems := self.habits.problems():
            self._say(problems)

    def keep(self) -> None:
        """Keep how the model was looked at last."""
        laid = self._tree.outline if self._tree is not None else None
        if laid is not None:
            self.habits.end(laid.focus, laid.tree)

    def columns(self) -> None:
        """Let the columns of the tree be chosen."""
        from .column_list import ColumnsScreen  # noqa: PLC0415 # first paint does without it

        if (widget := self._tree) is None:
            return

        def choose(names: tuple[ColumnName, ...]) -> None:
            self.habits.columns = widget.chosen_columns = names

        chosen = self.habits.columns
        screen = ColumnsScreen(chosen, lambda: widget.columns_shown, choose, self._glyphs)
        self._screen.app.push_screen(screen)

    def theme(self) -> None:
        """Go to the next of our themes."""
        self.use_theme(short_name(next_theme(self._screen.app.theme)))

    def use_theme(self, name: ThemeName) -> None:
        """Draw in the colours of a theme of ours, next time too."""
        self._screen.app.theme = PREFIX + name
        self.habits.choose_theme(name)
        self._say(f"theme {name}")

    def change_rate(self, times: float) -> None:
        """Redraw more often, or less often."""
        app = self._screen.app
        if not isinstance(app, BaseApp):
            return
        others = [rate for rate in RATES if (rate > app.rate if times > 1 else rate < app.rate)]
        if others:
            app.set_rate(min(others) if times > 1 else max(others))
            self._tick_at(app.rate)
        often = f"{app.rate:g} times per second" if app.rate > 1 else f"every {1 / app.rate:g} s"
        self._say(f"redrawn {often}{'' if others else ', which is as far as it goes'}")

    def toggle_mouse(self) -> None:
        """Leave the mouse to the terminal, or take it."""
        is_on = set_mouse(self._screen.app)
        self._say("mouse on" if is_on else "mouse off: the terminal selects text with it")
