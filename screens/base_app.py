"""What every app of ours is, and what screens ask of the one that they are shown in."""

from __future__ import annotations

import os
from typing import ClassVar, TypeVar

from msgspec.structs import replace
from textual.binding import Binding, BindingType
from textual.reactive import var

from tui_profiler.session import EMPTY, Session
from tui_profiler.session.workspace import NO_RANKS, Workspace

from .crash import Circumstances
from .terminal.crashing import CrashingApp
from .terminal.driver import QuietDriver
from .terminal.served import is_served
from .theme import DARK, THEMES, roles_for

_Result = TypeVar("_Result")


class ThemedApp(CrashingApp[_Result]):
    """Has our themes, our terminal driver, and no palette of Textual's."""

    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+z", "suspend_process", show=False, priority=True),
    ]

    def __init__(self) -> None:
        super().__init__(driver_class=None if is_served() else QuietDriver)
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = os.environ.get("TEXTUAL_THEME") or DARK.name

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Give our roles where a theme does not name them."""
        return roles_for(self.current_theme)

    def _set_pointer_shape(self, shape: str) -> None:
        """Leave the pointer alone: Textual's sequence would come after the screen is given back."""


class BaseApp(ThemedApp[int]):
    """Has what screens are bound to."""

    session: var[Session] = var(EMPTY)
    workspace: var[Workspace] = var(NO_RANKS)

    def circumstances(self) -> Circumstances:
        """Add what is known of the session to the report of a crash."""
        session = self.session
        facts: list[tuple[str, str]] = []
        if session.environment is not None:
            facts.append(("torch", session.environment.torch))
        if session.tree is not None:
            facts.append(("tree", f"{len(session.tree)} nodes, by {session.tree.method}"))
        if session.loop is not None:
            facts.append(("model", session.loop.state))
        return replace(super().circumstances(), facts=tuple(facts), log=session.log.lines)

    def runs_script(self) -> bool:
        """Tell whether leaving would end a script of the user's."""
        return False

    def let_script_go(self) -> None:
        """Quit; the script runs on."""
        raise NotImplementedError

    def show_ranks(self) -> bool:
        """Go to all ranks of the run; gives whether there are any."""
        return False
