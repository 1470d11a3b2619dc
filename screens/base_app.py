"""What every app of ours is, and what screens ask of the one that they are shown in."""

from __future__ import annotations

import os
from typing import TypeVar

from textual.reactive import var

from tui_profiler.session import EMPTY, Session
from tui_profiler.session.workspace import NO_RANKS, Workspace

from .terminal.driver import QuietDriver
from .terminal.output import SparingApp
from .theme import DARK, THEMES, roles_for

_Result = TypeVar("_Result")


class ThemedApp(SparingApp[_Result]):
    """Has our themes, our terminal driver and output, and no palette of Textual's."""

    ENABLE_COMMAND_PALETTE = False

    def __init__(self) -> None:
        super().__init__(driver_class=QuietDriver)
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = os.environ.get("TEXTUAL_THEME") or DARK.name

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Give our roles where a theme does not name them."""
        return roles_for(self.current_theme)


class BaseApp(ThemedApp[int]):
    """Has what screens are bound to."""

    session: var[Session] = var(EMPTY)
    before: var[Session] = var(EMPTY)
    """The session as it was before the last change of batch, input, device or dtype."""
    workspace: var[Workspace] = var(NO_RANKS)

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
