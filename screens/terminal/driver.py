"""Textual's Linux driver with a quieter mouse; the private names of Textual's that we use are here.

1. ``_enable_mouse_support`` is overridden to ask for clicks and the wheel alone: Textual also asks
   for every movement, which costs bytes on a slow link. Were it renamed, Textual's would be used.
2. A new size is read when the event loop comes to it. Textual reads it in the signal's handler, and
   where a second change interrupts that, tells of the older size last: the screen stays wrong until
   the next change. Were ``_get_terminal_size`` or ``_in_band_window_resize`` renamed, the first
   change of size would raise AttributeError.
"""

from __future__ import annotations

import asyncio
import signal

from textual.drivers.linux_driver import LinuxDriver
from textual.events import Resize
from textual.geometry import Size


class QuietDriver(LinuxDriver):
    """Reports clicks and the wheel, not movement."""

    def start_application_mode(self) -> None:
        """Take the terminal."""
        super().start_application_mode()  # type: ignore[no-untyped-call] # Textual leaves it out
        asyncio.get_running_loop().add_signal_handler(signal.SIGWINCH, self._tell_size)

    def _tell_size(self) -> None:
        if not self._in_band_window_resize:  # Else the terminal itself tells of it.
            size = Size(*self._get_terminal_size())
            self._app.post_message(Resize(size, size))

    def _enable_mouse_support(self) -> None:
        if self._mouse:
            self.write("\x1b[?1000h\x1b[?1006h")
            self.flush()

    def _enable_mouse_pixels(self) -> None:
        """Cells are all that we need."""
