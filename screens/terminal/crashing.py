"""An app that crashes restores the terminal, writes a report, and has an exit code for it.

1. Textual prints a traceback with the values of all variables, which can be a whole session. Ours
   keeps the error instead, and ``run_to_end`` tells of it once the terminal is given back.
2. The private names of Textual's that we use: ``_handle_exception``, which everything that Textual
   catches goes to; ``_fatal_error``, which prints; ``_close_messages_no_wait``. Were one renamed,
   Textual's own way would be taken.
"""

import contextlib
from typing import TypeVar

from rich.console import RenderableType
from textual.app import App
from textual.worker import WorkerFailed

from ..web.driver import is_served
from .crash_report import CRASHED, CrashContext, tell
from .early_frame import EarlyFrame

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
        if _is_page_gone(error):
            self._close_messages_no_wait()
            return
        if self.crash is None:
            self.crash = error
            if isinstance(error, WorkerFailed) and isinstance(error.error, Exception):
                self.crash = error.error
            self._where = self.circumstances()
        super()._handle_exception(error)

    def _fatal_error(self) -> None:
        self._close_messages_no_wait()

    _where: CrashContext | None = None


def run_to_end(
    app: CrashingApp[_Result], *, mouse: bool = True, early: EarlyFrame | None = None
) -> int:
    """Run an app; return the exit code. What was chosen is its ``return_value``.

    Args:
        app: to run.
        mouse: whether clicks go to it.
        early: what stands in the terminal until the app has it.
    """
    try:
        app.run(mouse=mouse)
    except Exception as error:
        if not _is_page_gone(error):
            app.crash = app.crash or error
    if app.crash is None:
        return app.return_code or 0
    if early is not None:
        early.give_back()  # The app may have crashed before it had the terminal.
    tell(app.crash, app._where or app.circumstances())
    return CRASHED


def _is_page_gone(error: Exception) -> bool:
    """Tell whether a page was to be drawn, or told that it is over, and its server is gone."""
    return is_served() and isinstance(error, BrokenPipeError)
