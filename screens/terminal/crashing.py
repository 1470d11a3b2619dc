"""An app that ends when it crashes: the terminal whole, a report kept, an exit code of its own.

1. Textual prints a traceback with the values of all variables, which can be a whole session. Ours
   keeps the error instead, and ``run_to_end`` tells of it once the terminal is given back.
2. The private names of Textual's that we use: ``_handle_exception``, which everything that Textual
   catches goes to; ``_fatal_error``, which prints; ``_close_messages_no_wait``. Were one renamed,
   Textual's own way would be taken.
"""

from __future__ import annotations

import contextlib
from typing import TypeVar

from rich.console import RenderableType
from textual.app import App
from textual.worker import WorkerFailed

from .crash_report import CRASHED, CrashContext, tell

_Result = TypeVar("_Result")


class CrashingApp(App[_Result]):
    """Keeps what it crashed of."""

    crash: Exception | None = None
    """The first error that nothing caught."""

    def crashed(self, error: Exception) -> None:
        """End the app because of an error, from where Textual would not see it."""
        self._handle_exception(error)

    def circumstances(self) -> CrashContext:
        """Return what a report says of where the app was."""
        screens: list[str] = []
        with contextlib.suppress(LookupError):  # There is no stack before the first screen.
            screens = [type(screen).__name__ for screen in self.screen_stack]
        columns, rows = self.size
        return CrashContext((type(self).__name__, *screens), columns, rows)

    def panic(self, *renderables: RenderableType) -> None:
        """End, as Textual asks when its thread for input has died: no error is told then."""
        if self.crash is None:
            self.crash = RuntimeError("Textual gave up: its thread for input has died")
        self._close_messages_no_wait()

    def _handle_exception(self, error: Exception) -> None:
        if self.crash is None:
            self.crash = error
            if isinstance(error, WorkerFailed) and isinstance(error.error, Exception):
                self.crash = error.error
            self._where = self.circumstances()
        super()._handle_exception(error)

    def _fatal_error(self) -> None:
        self._close_messages_no_wait()

    _where: CrashContext | None = None


def run_to_end(app: CrashingApp[_Result], *, mouse: bool = True) -> int:
    """Run an app; gives the exit code. What it was left with is its ``return_value``."""
    try:
        app.run(mouse=mouse)
    except Exception as error:
        app.crash = app.crash or error
    if app.crash is None:
        return app.return_code or 0
    tell(app.crash, app._where or app.circumstances())
    return CRASHED
