"""Textual's Linux driver with a quieter mouse; the private names of Textual's that we use are here.

``_enable_mouse_support`` is overridden to ask for clicks and the wheel alone: Textual also asks for
every movement, which costs bytes on a slow link. Were it renamed, Textual's own would be used.
"""

from __future__ import annotations

from textual.drivers.linux_driver import LinuxDriver


class QuietDriver(LinuxDriver):
    """Reports clicks and the wheel, not movement."""

    def _enable_mouse_support(self) -> None:
        if self._mouse:
            self.write("\x1b[?1000h\x1b[?1006h")
            self.flush()

    def _enable_mouse_pixels(self) -> None:
        """Cells are all that we need."""
