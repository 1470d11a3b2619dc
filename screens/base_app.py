"""What every app of ours is, and what screens ask of the one that they are shown in."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, TypeVar

from textual.app import App
from textual.reactive import var

from tui_profiler.session import EMPTY, Session
from tui_profiler.session.workspace import NO_RANKS, Workspace

from .appearance import ThemeName
from .keys import Key, remapped
from .terminal.driver import QuietDriver
from .terminal.output import SparingApp
from .theme import PREFIX, THEMES, roles_for

_Result = TypeVar("_Result")


class ThemedApp(SparingApp[_Result]):
    """Has our themes, our terminal driver and output, and no palette of Textual's."""

    ENABLE_COMMAND_PALETTE = False

    def __init__(self, theme: ThemeName = "dark") -> None:
        super().__init__(driver_class=QuietDriver)
        for ours in THEMES:
            self.register_theme(ours)
        self.theme = os.environ.get("TEXTUAL_THEME") or PREFIX + theme

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Give our roles where a theme does not name them."""
        return roles_for(self.current_theme)


class BaseApp(ThemedApp[int]):
    """Has what screens are bound to."""

    session: var[Session] = var(EMPTY)
    before: var[Session] = var(EMPTY)
    """The session as it was before the last change of batch, input, device or dtype."""
    workspace: var[Workspace] = var(NO_RANKS)
    rate: float = 4.0
    """Redraws a second."""
    given_keys: Mapping[str, tuple[str, ...]] = {}
    """Name of an action to the keys that the user gave it."""

    def set_rate(self, rate: float) -> None:
        """Redraw so many times a second from now on."""
        self.rate = rate

    def write_to_terminal(self, sequence: str) -> None:
        """Send a sequence, in order with what is drawn; as Textual does, through its driver."""
        if self._driver is not None:
            self._driver.write(sequence)

    def runs_script(self) -> bool:
        """Tell whether leaving would end a script of the user's."""
        return False

    def let_script_go(self) -> None:
        """Quit; the script runs on."""
        raise NotImplementedError

    def show_ranks(self) -> bool:
        """Go to all ranks of the run; gives whether there are any."""
        return False


def own_keys(app: App[Any], keys: tuple[Key, ...]) -> tuple[Key, ...]:
    """Give keys as the user of an app has them."""
    return remapped(keys, app.given_keys) if isinstance(app, BaseApp) else keys
