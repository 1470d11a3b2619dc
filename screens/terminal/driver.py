"""Textual's Linux driver with a quieter mouse. Private names of Textual that we use are here alone.

``_enable_mouse_support`` is overridden to ask for clicks and wheel only: stock Textual also asks for
every movement, which costs bytes on a slow link. Should Textual rename it, its own version is used.
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
