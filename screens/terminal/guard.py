"""The terminal is restored, and nothing is left running, whatever happens to it or to us.

- SIGTERM, SIGHUP, SIGQUIT and SIGINT end the app through its own exit, which restores the terminal.
- A terminal that is gone (its other end closed, the connection lost) ends the program at once, also
  where SIGHUP is ignored: a thread waits in ``poll`` for the hang-up, without waking.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import threading
import time
from collections.abc import Callable

SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGINT)
HANG_UP_CODE = 128 + signal.SIGHUP
_GRACE_SECONDS = 0.7


def end_on_signals(end: Callable[[int], None]) -> None:
    """Call ``end`` with the exit code when a signal asks us to stop."""
    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
            loop.add_signal_handler(number, end, 128 + number)


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
