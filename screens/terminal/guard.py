"""The terminal is restored, and nothing is left running, whatever happens to it or to us.

- SIGTERM, SIGHUP, SIGQUIT and SIGINT end the app through its own exit, which restores the terminal.
  A terminal that takes no more bytes (a stuck connection) blocks the event loop, and with it that
  exit: then the program ends without it.
- A terminal that is gone (its other end closed, the connection lost) ends the program at once, also
  where SIGHUP is ignored: a thread waits in ``poll`` for the hang-up, without waking.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import termios
import threading
import time
from collections.abc import Callable

SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGINT)
HANG_UP_CODE = 128 + signal.SIGHUP
MOST_SECONDS = 4.0
"""From a signal to the end: a worker may take two of them."""
_GRACE_SECONDS = 0.7
_MODES = b"".join(b"\x1b[?%dl" % mode for mode in (1000, 1003, 1006, 2004, 2048, 1004, 1049))
_LEAVE = _MODES + b"\x1b[?7h\x1b[<u\x1b[?25h"


def end_on_signals(end: Callable[[int], None], descriptor: int = 0) -> None:
    """Call ``end`` with the exit code when a signal asks us to stop; exit if that takes too long.

    Args:
        end: leaves the app.
        descriptor: of the terminal.
    """
    loop = asyncio.get_running_loop()

    def ask(number: int, frame: object) -> None:
        with contextlib.suppress(RuntimeError):  # The loop is closed: we are leaving already.
            loop.call_soon_threadsafe(end, 128 + number)
        wait = threading.Thread(target=leave, args=(128 + number,), daemon=True)
        wait.start()

    def leave(code: int) -> None:
        time.sleep(MOST_SECONDS)
        _restore(descriptor)
        os._exit(code)

    for number in SIGNALS:
        with contextlib.suppress(ValueError):  # Not the main thread.
            # A handler of the loop's would wait for the loop, which may be what is stuck.
            signal.signal(number, ask)


def _restore(descriptor: int) -> None:
    """Give the terminal back as far as that goes without waiting for it."""
    with contextlib.suppress(termios.error):
        modes = termios.tcgetattr(descriptor)
        modes[0] |= termios.ICRNL | termios.IXON
        modes[3] |= termios.ECHO | termios.ICANON | termios.IEXTEN | termios.ISIG
        termios.tcsetattr(descriptor, termios.TCSANOW, modes)
    with contextlib.suppress(OSError):
        os.set_blocking(2, False)
        try:
            os.write(2, _LEAVE)
        finally:
            os.set_blocking(2, True)


def end_on_hang_up(descriptor: int, end: Callable[[int], None]) -> None:
    """Call ``end`` when the terminal at ``descriptor`` is gone, and exit if that takes too long."""
    loop = asyncio.get_running_loop()

    def wait() -> None:
        poll = select.poll()
        poll.register(descriptor, 0)  # No events asked for: only a hang-up or an error wakes it.
        poll.poll()
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(end, HANG_UP_CODE)
        time.sleep(_GRACE_SECONDS)
        # Writing to a dead terminal can block the app's own exit; there is nothing to restore.
        os._exit(HANG_UP_CODE)

    threading.Thread(target=wait, name="tui-profiler-hang-up", daemon=True).start()
