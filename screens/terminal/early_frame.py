"""A frame in the terminal before Textual is imported, which Textual takes over as it stands.

1. What is written and set here is what Textual's driver writes and sets first: the alternate
   screen, the cursor hidden, keys neither echoed nor kept until a line is whole. What is typed
   waits in the terminal's own buffer until Textual reads it.
2. Keys that send signals do so until then: nobody reads ctrl+C. A signal that ends the process
   restores the terminal first; ctrl+Z restores it, stops, and draws the frame again afterwards.
3. ``hand_over`` is called by the driver when the terminal is Textual's. Until then whatever leaves
   the ``with`` restores it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import termios
from collections.abc import Iterator
from types import FrameType
from typing import Any

from .cells import Cells
from .guard import SIGNALS, restore, stop_while_in_background

ENTER = "\x1b[?1049h"
"""Goes to the alternate screen, and clears it."""
_LEAVE = "\x1b[?1049l\x1b[?25h"
_NOT_ECHOED = termios.ECHO | termios.ICANON | termios.IEXTEN
_AS_TYPED = termios.IXON | termios.IXOFF | termios.ICRNL | termios.INLCR | termios.IGNCR
_HEARD = (*SIGNALS, signal.SIGTSTP, signal.SIGCONT, signal.SIGWINCH)


class EarlyFrame:
    """Stands in the terminal from ``with`` on; the terminal is restored if nobody takes it over.

    Args:
        cells: what it shows. Its size is that of the terminal.
    """

    def __init__(self, cells: Cells) -> None:
        self.cells = cells
        self.is_intact = True
        """Whether the terminal shows the cells: not after it changed its size."""
        self.modes_before: list[Any] = []
        """Of the terminal, as ``termios`` has them."""
        self._drawn = cells.frame().finished((0, 0))
        self._size = (cells.columns, cells.rows)
        self._keys, self._screen = sys.__stdin__.fileno(), sys.__stderr__.fileno()  # type: ignore[union-attr] # they are a terminal
        self._is_taken = self._is_stopping = False
        self._heard_before: dict[int, Any] = {}

    def __enter__(self) -> EarlyFrame:
        """Take the terminal, and draw."""
        self.listen()
        try:
            self._take()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Restore the terminal unless it was handed over, and who heard signals before."""
        self.give_back()
        for number, handler in self._heard_before.items():
            signal.signal(number, handler)

    def listen(self) -> None:
        """Hear signals, in place of whoever heard them."""
        for number in _HEARD:
            before = signal.signal(number, self._hear)
            self._heard_before.setdefault(number, before)

    def hand_over(self) -> None:
        """Leave the terminal to Textual, which has taken it: its driver hears of stops and sizes.

        Signals that end the process are heard here until the app hears them.
        """
        self._is_taken = False

    def _hear(self, number: int, _: FrameType | None) -> None:
        match number:
            case signal.SIGTSTP:
                self._stop()
            case signal.SIGCONT:
                self._go_on()
            case signal.SIGWINCH:
                self.is_intact = False
            case _:
                self._end(number)

    def _end(self, number: int) -> None:
        if self._is_taken:
            self.give_back()
        else:  # Textual had it already.
            restore(self._keys)
            self._set_modes(self.modes_before)
        os._exit(128 + number)

    def _stop(self) -> None:
        self.give_back()
        self._is_stopping = True
        os.kill(os.getpid(), signal.SIGSTOP)
        stop_while_in_background(self._keys)
        self._is_stopping = False
        self._take()

    def _go_on(self) -> None:
        """After a SIGSTOP, which nobody hears: a shell has used the terminal meanwhile."""
        if self._is_taken and not self._is_stopping:
            stop_while_in_background(self._keys)
            self.give_back()
            self._take()

    def _take(self) -> None:
        self.modes_before = termios.tcgetattr(self._keys)
        modes = termios.tcgetattr(self._keys)
        modes[0] &= ~_AS_TYPED
        modes[3] &= ~_NOT_ECHOED
        modes[6][termios.VMIN] = 1
        self._is_taken = True
        self._set_modes(modes)
        is_as_before = terminal_size() == self._size
        self.is_intact = self.is_intact and is_as_before
        self._write(f"{ENTER}\x1b[?25l{self._drawn if is_as_before else ''}")

    def give_back(self) -> None:
        """Restore the terminal unless it was handed over."""
        if self._is_taken:
            self._is_taken = False
            with contextlib.suppress(OSError, termios.error):  # The terminal is gone.
                self._write(_LEAVE)
                termios.tcflush(self._keys, termios.TCIFLUSH)  # It was not typed for the shell.
            self._set_modes(self.modes_before)

    def _set_modes(self, modes: list[Any]) -> None:
        with contextlib.suppress(termios.error):  # The terminal is gone.
            termios.tcsetattr(self._keys, termios.TCSANOW, modes)

    def _write(self, text: str) -> None:
        data = text.encode()
        while data:
            data = data[os.write(self._screen, data) :]


def terminal_size() -> tuple[int, int]:
    """Return columns and rows, from where Textual has them."""
    columns, rows = shutil.get_terminal_size()
    return columns, rows


@contextlib.contextmanager
def signals_held() -> Iterator[None]:
    """Keep signals waiting while one hands the terminal to another."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {*SIGNALS, signal.SIGTSTP, signal.SIGCONT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
