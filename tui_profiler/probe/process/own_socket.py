"""A socket in a program that may close every descriptor, as daemons do.

1. The program's next file or socket then gets our number. So whether it is still ours is asked
   before each use: nothing of ours is written into what is the program's, read from it, or closes
   it.
2. Nothing here waits inside of ``recv`` or ``send``: the kernel begins those again after a signal,
   by the number. What waits is ``poll``, which does nothing to what it waits for.
3. SIGPIPE is never raised: a program may end by it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import socket

WAIT_SECONDS = 1.0
"""After which a socket that is waited for is looked at again: the program may have closed it."""
_SO_COOKIE = 57
"""A number that no other socket ever gets. Source: include/uapi/asm-generic/socket.h, Linux 4.12.

Python asks for it without giving up the interpreter, as it does for ``fstat``: none of the
program's threads can come between that and the use."""
_COOKIE_BYTES = 8


class OwnSocket:
    """A socket of the probe; what is asked of it raises OSError once it is not ours any more."""

    def __init__(self, made: socket.socket) -> None:
        """Take over a socket.

        Args:
            made: ours now; used and closed by nobody else from now on.
        """
        made.setblocking(False)  # Rule 2, whatever default timeout the program has set.
        self._socket = made
        self._identity = _identity(made)

    @property
    def is_ours(self) -> bool:
        """Whether the program has left it to us, and it was not closed."""
        try:
            return _identity(self._socket) == self._identity
        except OSError:
            return False

    def own(self) -> socket.socket:
        """Return the socket, for one use at once.

        Raises:
            OSError: it is not ours any more.
        """
        if not self.is_ours:
            self._socket.detach()
            raise OSError(errno.EBADF, "the program has closed it")
        return self._socket

    def send(self, content: bytes | memoryview) -> int:
        """Return how many bytes were written; never waits.

        Raises:
            BlockingIOError: there is no room.
            OSError: the other end is gone, or the socket is.
        """
        return self.own().send(content, socket.MSG_NOSIGNAL)

    def send_all(self, content: bytes) -> None:
        """Write everything, and wait for room.

        Raises:
            OSError: the other end is gone, or the socket is.
        """
        left = memoryview(content)
        while left:
            try:
                left = left[self.send(left) :]
            except BlockingIOError:
                self._wait(select.POLLOUT)

    def receive(self, most: int) -> bytes:
        """Wait for bytes; none where the other end has hung up.

        Raises:
            OSError: the other end is gone, or the socket is.
        """
        while True:
            self._wait(select.POLLIN)
            with contextlib.suppress(BlockingIOError):
                return self.own().recv(most)

    def hang_up(self) -> None:
        """End the conversation in both directions, also where a thread waits for it."""
        with contextlib.suppress(OSError):  # The other end may have hung up first.
            self.own().shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close it, where it is ours. May be called twice."""
        with contextlib.suppress(OSError):
            self.own().close()

    def fileno(self) -> int:
        """Return its number, to be waited for; -1 once it is known not to be ours."""
        return self._socket.fileno()

    def _wait(self, event: int) -> None:
        asked = select.poll()
        asked.register(self.own(), event)
        asked.poll(WAIT_SECONDS * 1000)


def _identity(made: socket.socket) -> bytes | tuple[int, int]:
    """Return what tells a socket from every other file of this process.

    Raises:
        OSError: it is closed, or its number is that of no socket.
    """
    try:
        return made.getsockopt(socket.SOL_SOCKET, _SO_COOKIE, _COOKIE_BYTES)
    except OSError as error:
        if error.errno not in (errno.ENOPROTOOPT, errno.EOPNOTSUPP):  # As gVisor has it.
            raise
        status = os.fstat(made.fileno())
        return status.st_dev, status.st_ino
