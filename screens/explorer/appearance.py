"""What the keys change of how the explorer looks and behaves: columns, theme, rate, mouse."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from textual.timer import Timer

from tui_profiler.queries.tree.columns import ColumnName
from tui_profiler.session import Session

from ..actions.table import EXPLORER, Key
from ..common.base_app import BaseApp, own_keys
from ..settings.appearance import ThemeName
from ..settings.preferences import Habits
from ..settings.theme import PREFIX, next_theme, short_name
from ..terminal.driver import set_mouse
from .navigation import LookActions

RATES = (0.5, 1.0, 2.0, 4.0, 10.0)
"""Redraws a second, from key to key."""

STRAIGHT = ("move", "page", "first", "last", "sibling", "unfold", "fold", "toggle_fold")
"""Actions that change the tree alone, and are repeated as fast as keys come."""


class HabitActions(LookActions):
    """Actions of a screen that begins as its user is used to, and keeps how it was left."""

    habits: Habits
    _ticker: Timer | None = None
    _straight: Mapping[str, str] = {}
    """Key to its action, once one was pressed."""

    def tick(self) -> None:
        """Redraw what moves by the clock alone."""
        raise NotImplementedError

    def tick_at(self, rate: float) -> None:
        """Do so that many times a second from now on."""
        if self._ticker is not None:
            self._ticker.stop()
        self._ticker = self.set_interval(1 / rate, self.tick)

    def show_in_tree(self, session: Session) -> None:
        """Hand a session to the tree; where it shows its first tree, as the user is used to."""
        tree, widget = session.tree, self.tree_widget
        if tree is None:
            self._keep_look()
        is_first = tree is not None and len(tree) > 0 and widget.outline is None
        widget.session = session
        if is_first and tree is not None:
            widget.view = self.habits.begin(widget.view, tree)
            widget.chosen_columns = self.habits.columns
        if problems := self.habits.problems():
            self.say(problems)

    def on_unmount(self) -> None:
        """Keep how the model was looked at last."""
        self._keep_look()

    def _keep_look(self) -> None:
        laid = self.tree_widget.outline if hasattr(self, "tree_widget") else None
        if laid is not None:
            self.habits.end(laid.focus, laid.tree)

    def own_keys(self) -> tuple[Key, ...]:
        """Give the keys as the user has them."""
        return own_keys(self.app, EXPLORER)

    def prompt_of(self, key: str) -> Callable[[], None] | None:
        """Give what a key asks for, None where it asks for nothing."""
        asking: dict[str, Callable[[], None]] = {
            "batch": self.action_batch,
            "device": self.action_device,
            "seek_to": self.action_seek_to,
            "copy": self.action_copy,
            "export": self.action_export,
            "compare": self.action_compare,
        }
        if hasattr(self, "tree_widget"):
            asking["filter"] = self.action_filter
        found = (one for one in self.own_keys() if key in one.keys.split(","))
        return next((asking[one.action] for one in found if one.action in asking), None)

    def straight(self, key: str) -> str:
        """Give the action of a key that moves through the tree."""
        widget = getattr(self, "tree_widget", None)
        if self.asks is not None or widget is None or widget.outline is None:
            return ""
        if not self._straight:
            bound = ((key, one) for key, one in self.active_bindings.items() if one.node is self)
            self._straight = {key: one.binding.action for key, one in bound}
        action = self._straight.get(key, "")
        return action if action.partition("(")[0] in STRAIGHT else ""

    def action_columns(self) -> None:
        """Let the columns of the tree be chosen."""
        from .column_list import ColumnsScreen  # noqa: PLC0415 # first paint does without it

        widget = self.tree_widget
        screen = ColumnsScreen(
            self.habits.columns, lambda: widget.columns_shown, self._choose_columns, self.glyphs
        )
        self.app.push_screen(screen)

    def _choose_columns(self, names: tuple[ColumnName, ...]) -> None:
        self.habits.columns = self.tree_widget.chosen_columns = names

    def action_theme(self) -> None:
        """Go to the next of our themes."""
        self.use_theme(short_name(next_theme(self.app.theme)))

    def use_theme(self, name: ThemeName) -> None:
        """Draw in the colours of a theme of ours, next time too."""
        self.app.theme = PREFIX + name
        self.habits.choose_theme(name)
        self.say(f"theme {name}")

    def change_rate(self, times: float) -> None:
        """Redraw more often, or less often."""
        app = self.app
        if not isinstance(app, BaseApp):
            return
        others = [rate for rate in RATES if (rate > app.rate if times > 1 else rate < app.rate)]
        if others:
            app.set_rate(min(others) if times > 1 else max(others))
            self.tick_at(app.rate)
        often = f"{app.rate:g} times a second" if app.rate > 1 else f"every {1 / app.rate:g} s"
        self.say(f"redrawn {often}{'' if others else ', which is as far as it goes'}")

    def action_toggle_mouse(self) -> None:
        """Leave the mouse to the terminal, or take it."""
        is_on = set_mouse(self.app)
        self.say("mouse on" if is_on else "mouse off: the terminal selects text with it")
