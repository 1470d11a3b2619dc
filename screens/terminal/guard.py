"""The terminal is restored, and nothing is left running, whatever happens to it or to us.

- SIGTERM, SIGHUP, SIGQUIT and SIGINT end the app through its own exit, which restores the terminal.
  A terminal that takes no more bytes (a stuck connection) blocks the event loop, and with it that
  exit: then the program ends without it.
- A terminal that is gone (its other end closed, the connection lost) ends the program at once, also
  where SIGHUP is ignored: a thread waits in ``poll`` for the hang-up, without waking.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import termios
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGINT)
HANG_UP_CODE = 128 + signal.SIGHUP
MOST_SECONDS = 4.0
"""From a signal to the end: a worker may take two of them."""
_GRACE_SECONDS = 0.7
_MODES = b"".join(b"\x1b[?%dl" % mode for mode in (1000, 1003, 1006, 2004, 2048, 1004, 1049))
_LEAVE = b"\x1b[<u" + _MODES + b"\x1b[?7h\x1b[?25h"
"""The keyboard's mode first: each of the two screens has its own."""


def ending(
    end: Callable[[int], None], last: Callable[[int], None] | None = None, descriptor: int = 0
) -> Callable[[int], None]:
    """Return what to call, on any thread, when a signal asks us to stop.

    Args:
        end: leaves the app; gets the exit code.
        last: called where that takes too long; gets the exit code. None: restores the terminal, and
            exits.
        descriptor: of the terminal.
    """
    loop = _running_loop()

    def leave(code: int) -> None:
        try:
            time.sleep(MOST_SECONDS)
        finally:  # Where the clock is not the kernel's (libfaketime), even that may raise.
            if last is not None:
                last(code)
            else:
                restore(descriptor)
                os._exit(code)

    def ask(number: int) -> None:
        with contextlib.suppress(RuntimeError):  # The loop is closed: we are leaving already.
            loop.call_soon_threadsafe(end, 128 + number)
        wait = threading.Thread(target=leave, args=(128 + number,), daemon=True)
        wait.start()

    return ask


def end_on_signals(end: Callable[[int], None], descriptor: int = 0) -> None:
    """Call ``end`` with the exit code when a signal asks us to stop; exit if that takes too long.

    Args:
        end: leaves the app.
        descriptor: of the terminal.
    """
    ask = ending(end, descriptor=descriptor)
    for number in SIGNALS:
        with contextlib.suppress(ValueError):  # Not the main thread.
            # A handler of the loop's would wait for the loop, which may be what is stuck.
            signal.signal(number, lambda number, frame: ask(number))


def restore(descriptor: int) -> None:
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


def stop_while_in_background(descriptor: int) -> None:
    """Stop until the terminal is this process's: a shell's ``bg`` continues it without.

    Args:
        descriptor: of the terminal.
    """
    while not _is_in_foreground(descriptor):
        os.kill(os.getpid(), signal.SIGSTOP)


def _is_in_foreground(descriptor: int) -> bool:
    try:
        return os.tcgetpgrp(descriptor) == os.getpgrp()
    except OSError:  # Not the controlling terminal, or gone: no shell to wait for.
        return True


def end_on_hang_up(
    descriptor: int, end: Callable[[int], None], last: Callable[[int], None] = os._exit
) -> None:
    """Call ``end`` when the terminal at ``descriptor`` is gone, and exit if that takes too long."""
    loop = _running_loop()

    def wait() -> None:
        poll = select.poll()
        poll.register(descriptor, 0)  # No events asked for: only a hang-up or an error wakes it.
        poll.poll()
        try:
            _write_nowhere(descriptor)
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(end, HANG_UP_CODE)
            time.sleep(_GRACE_SECONDS)
        finally:
            # Writing to a dead terminal can block the app's own exit, and what reads from it finds
            # its end at every turn, on a whole core; there is nothing to restore.
            last(HANG_UP_CODE)

    threading.Thread(target=wait, name="tui-profiler-hang-up", daemon=True).start()


def _running_loop() -> AbstractEventLoop:
    import asyncio  # noqa: PLC0415 # a first frame is drawn before that is imported

    return asyncio.get_running_loop()


def _write_nowhere(descriptor: int) -> None:
    """Open stdout and stderr on ``/dev/null`` where they are the terminal that is gone.

    Python exits with 120, whatever the code was, where a buffer cannot be written at the exit.
    """
    terminal, nowhere = os.fstat(descriptor), os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        with contextlib.suppress(OSError):  # It is closed.
            if os.path.samestat(os.fstat(stream), terminal):
                os.dup2(nowhere, stream)
    os.close(nowhere)
