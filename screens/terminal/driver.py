"""Textual's Linux driver with a quieter mouse; the private names of Textual's that we use are here.

1. ``_enable_mouse_support`` is overridden to ask for clicks and the wheel alone: Textual also asks
   for every movement, which costs bytes on a slow link. Were it renamed, Textual's would be used.
2. A new size is read when the event loop comes to it. Textual reads it in the signal's handler, and
   where a second change interrupts that, tells of the older size last: the screen stays wrong until
   the next change. Were ``_get_terminal_size`` or ``_in_band_window_resize`` renamed, the first
   change of size would raise AttributeError.
3. The terminal is given back when it has answered what it was asked: an answer that came later
   would be typed into the shell. ``_key_thread`` tells whether anyone is left to hear it.
4. The mouse is taken and left with ``_mouse``, ``_enable_mouse_support`` and
   ``_disable_mouse_support`` of the driver, which is found as the app's ``_driver``. Were they
   renamed, switching the mouse would raise AttributeError.
5. ctrl+Z, SIGTSTP and SIGCONT are obeyed by the event loop, one after another. Textual leaves and
   takes the terminal in the signals' handlers, which interrupt each other: after two SIGTSTP the
   inner handler takes the terminal back when the process continues, and the outer one stops the
   process with the mouse, the keyboard protocol and the alternate screen left on. Were
   ``_sigtstp_application``, ``_sigcont_application``, ``_auto_restart`` or ``_must_signal_resume``
   renamed, Textual's handlers would be used, or the first ctrl+Z would raise AttributeError.
6. An early frame is taken over as it stands: what goes to the alternate screen is left out, and the
   modes from before it are those that ``attrs_before`` restores. Were that renamed, or written in
   one piece with something else, the frame would be cleared and drawn again.
"""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from textual.app import App
from textual.drivers.linux_driver import LinuxDriver
from textual.events import CursorPosition, Resize
from textual.geometry import Size
from textual.message import Message

from .early_frame import ENTER, EarlyFrame, signals_held
from .guard import stop_while_in_background
from .output import QUESTION, SparingApp

_SWITCH_SECONDS = 0.0005
"""So long at most the threads that read keys and write frames wait for the one that draws: with
Python's own 5 ms the row of a key went out after the panels were drawn, 4 of 11 ms later."""
_ANSWER_SECONDS = 0.4
"""So long is waited for an answer."""


def set_mouse(app: App[Any]) -> bool:
    """Turn clicks on, or off where they are on; return whether they are on now."""
    driver = app._driver
    if not isinstance(driver, QuietDriver):
        return False  # Nothing real is drawn on.
    driver.has_mouse = not driver.has_mouse
    return driver.has_mouse


class QuietDriver(LinuxDriver):
    """Reports clicks and the wheel, not movement."""

    _asked = 0
    """Questions that were not answered yet."""
    _answers = False
    _is_stopping = False
    """From the signal that asks for a stop until the process continues."""
    _is_taking = False
    """From then until the terminal is taken again."""
    _is_left = True
    """Before the terminal is taken and after it was given back: nobody draws or reads then."""
    continued_at = 0.0
    """When the process last continued after a stop, on the clock of events."""

    def __init__(
        self,
        app: App[Any],
        *,
        debug: bool = False,
        mouse: bool = True,
        size: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        self._early = app.early if isinstance(app, SparingApp) else None
        """What stands in the terminal until this takes it."""
        if self._early is not None:
            self._early.listen()  # Textual has just put handlers of its own in place.

    def write(self, data: str) -> None:
        """Write, and note what is asked."""
        if self._early is not None and data == ENTER:
            return  # We are there, and going there again would clear it.
        self._asked += QUESTION in data
        super().write(data)

    def process_message(self, message: Message) -> None:
        """Pass on what the terminal says, and note its answers; on the thread that reads them."""
        if isinstance(message, CursorPosition):
            self._asked, self._answers = max(self._asked - 1, 0), True
        super().process_message(message)

    def send_message(self, message: Message) -> None:
        """Hand a message to the app, two turns of the event loop sooner than as a coroutine."""
        self._app.post_message(message)

    def disable_input(self) -> None:
        """Stop reading, when what was asked is answered."""
        reader, deadline = self._key_thread, time.monotonic() + _ANSWER_SECONDS
        while self._answers and self._asked and reader is not None and reader.is_alive():
            if time.monotonic() > deadline:
                break
            time.sleep(0.005)
        self._asked = 0
        super().disable_input()

    def stop_application_mode(self) -> None:
        """Give the terminal back."""
        self._is_left = True
        super().stop_application_mode()

    def start_application_mode(self) -> None:
        """Take the terminal."""
        self._is_left = False
        sys.setswitchinterval(_SWITCH_SECONDS)
        with signals_held():
            super().start_application_mode()  # type: ignore[no-untyped-call] # Textual leaves it out
            if self._early is not None:
                self._take_over(self._early)
        asyncio.get_running_loop().add_signal_handler(signal.SIGWINCH, self._tell_size)

    def _take_over(self, early: EarlyFrame) -> None:
        self._early = None
        early.hand_over()
        if not early.is_intact:
            self._forget()
        self.attrs_before = early.modes_before
        signal.signal(signal.SIGTSTP, self._sigtstp_application)
        signal.signal(signal.SIGCONT, self._sigcont_application)

    def _sigtstp_application(self, *_: object) -> None:
        self._soon(self._stop)

    def _sigcont_application(self, *_: object) -> None:
        # A SIGSTOP from outside left no time to give the terminal back, and a shell has used it.
        self._soon(self._take_again)

    def _soon(self, call: Callable[[], None]) -> None:
        """Let the event loop do it, unless it is at it: what is asked meanwhile is the same."""
        if self._is_stopping or (self._is_taking and call != self._stop):
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # Before the app runs, or when it has ended: nothing is drawn.
            if call == self._stop:
                os.kill(os.getpid(), signal.SIGSTOP)
            return
        self._is_stopping = True
        loop.call_soon_threadsafe(call)

    def _stop(self) -> None:
        """Give the terminal back, stop the process, and take it again when it continues."""
        is_drawn = self._auto_restart and not self._is_left
        with self._stopping():
            if is_drawn:
                self.suspend_application_mode()
            os.kill(os.getpid(), signal.SIGSTOP)
            stop_while_in_background(self.fileno)
            self.continued_at = time.monotonic()
            self._begin_to_take()
            if is_drawn:
                self._must_signal_resume = True
                self.resume_application_mode()

    def _take_again(self) -> None:
        with self._stopping():
            stop_while_in_background(self.fileno)
            self._begin_to_take()
            # A kernel that hangs up continues the process as well: taken again by an app that has
            # ended, the terminal would be read for good.
            if self._auto_restart and not self._is_left:
                self.suspend_application_mode()
                self.resume_application_mode()

    @contextmanager
    def _stopping(self) -> Iterator[None]:
        """Drop what is asked meanwhile, until ``_begin_to_take``; afterwards all but a stop."""
        self._is_stopping = True
        try:
            yield
        finally:
            if not self._is_taking:  # It raised before.
                self._is_stopping = False
            self._is_taking = False

    def _begin_to_take(self) -> None:
        """Obey a ctrl+Z that is typed from here on, before keys are read again."""
        self._is_taking, self._is_stopping = True, False
        self._forget()

    def _forget(self) -> None:
        if isinstance(self._app, SparingApp):
            self._app.forget()

    def _tell_size(self) -> None:
        self._forget()
        if not self._in_band_window_resize:  # Else the terminal itself tells of it.
            size = Size(*self._get_terminal_size())
            self._app.post_message(Resize(size, size))

    @property
    def has_mouse(self) -> bool:
        """Whether clicks come to us."""
        return self._mouse

    @has_mouse.setter
    def has_mouse(self, has_mouse: bool) -> None:
        self._disable_mouse_support()
        self._mouse = has_mouse
        self._enable_mouse_support()

    def _enable_mouse_support(self) -> None:
        if self._mouse:
            self.write("\x1b[?1000h\x1b[?1006h")
            self.flush()

    def _enable_mouse_pixels(self) -> None:
        """Cells are all that we need."""
