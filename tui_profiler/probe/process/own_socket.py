"""A socket in a program that may close every descriptor, as daemons do.

1. The program's next file or socket then gets our number. So whether it is still ours is asked
   before each use: nothing of ours is written into what is the program's, read from it, or closes
   it. Question and use are one step for the program's threads: the interpreter is not given up
   between them, nor at the use itself, as Python's own ``send`` does. What remains is a program
   whose own call gives up the interpreter, as ``os.dup2`` does, and is preempted just there: its
   system call may then come between our two, which are about a microsecond apart.
2. Nothing here waits inside of ``recv`` or ``send``: the kernel begins those again after a signal,
   by the number. What waits is ``poll``, which does nothing to what it waits for.
3. SIGPIPE is never raised: a program may end by it.
4. No garbage in cycles: a program that disables garbage collection would keep it.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import select
import socket
from collections.abc import Callable
from functools import cache, partial
from typing import Protocol

WAIT_SECONDS = 1.0
"""After which a socket that is waited for is looked at again: the program may have closed it."""
_SO_COOKIE = 57
"""A number that no other socket ever gets; asm-generic/socket.h, since Linux 4.12."""
_COOKIE_BYTES = 8
_PIECE_BYTES = 256 * 1024
"""Written at once, at most: more than a socket takes."""


class OwnSocket:
    """A socket of the probe; its use raises OSError once it or the other end is gone."""

    def __init__(self, made: socket.socket) -> None:
        """Take over a socket, which nobody else uses or closes from now on."""
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

    def send(self, content: bytes) -> int:
        """Return how many bytes were written; ``BlockingIOError`` where there is no room."""
        return self._send(content, 0)

    def send_all(self, content: bytes) -> None:
        """Write everything, and wait for room."""
        written = 0
        while written < len(content):
            try:
                written += self._send(content, written)
            except BlockingIOError:
                self._wait(select.POLLOUT)

    def receive(self, most: int) -> bytes:
        """Wait for bytes; none where the other end has hung up."""
        while True:
            self._wait(select.POLLIN)
            with contextlib.suppress(BlockingIOError):
                return self.receive_at_once(most)

    def receive_at_once(self, most: int) -> bytes:
        """Return the bytes that are there; ``BlockingIOError`` where there are none yet."""
        there = _room_of(most)()
        return ctypes.string_at(there, self._use(_recv, there, most, socket.MSG_DONTWAIT))

    def accept(self) -> socket.socket:
        """Return the next connection; ``BlockingIOError`` where nobody calls."""
        return socket.socket(fileno=self._use(_accept4, None, None, socket.SOCK_CLOEXEC))

    def hang_up(self) -> None:
        """End the conversation in both directions, also where a thread waits for it."""
        with contextlib.suppress(OSError):  # The other end may have hung up first.
            self._use(_shutdown, socket.SHUT_RDWR)

    def close(self) -> None:
        """Close it, where it is ours. May be called twice."""
        with contextlib.suppress(OSError):
            self._use(_close)
            self._socket.detach()

    def fileno(self) -> int:
        """Return its number, to be waited for; -1 once it is known not to be ours."""
        return self._socket.fileno()

    def _send(self, content: bytes, begin: int) -> int:
        piece = content[begin : begin + _PIECE_BYTES]
        flags = socket.MSG_NOSIGNAL | socket.MSG_DONTWAIT
        return self._use(_send, piece, len(piece), flags)

    def _use(self, function: _Function, *arguments: object) -> int:
        """Return what a function of the C library returns for our number, if it is ours.

        Raises:
            OSError: it is not ours any more, or the function failed.
        """
        use: Callable[[object], int] = partial(function, self._socket.fileno(), *arguments)
        try:
            if isinstance(self._identity, bytes):
                # All of these loop in C, where threads do not take turns. The C library never
                # looks at the last argument, the answer that was right.
                asked = (socket.SOL_SOCKET,), (_SO_COOKIE,), (_COOKIE_BYTES,)
                answers = map(self._socket.getsockopt, *asked)
                outcome = next(map(use, filter(self._identity.__eq__, answers)), None)
            else:
                outcome = use(b"") if _identity(self._socket) == self._identity else None
        except OSError:  # The number is nobody's, or a file's.
            outcome = None
        if outcome is None:
            self._socket.detach()
            raise OSError(errno.EBADF, "the program has closed it")
        if outcome < 0:
            raise OSError(number := ctypes.get_errno(), os.strerror(number))
        return outcome

    def _wait(self, event: int) -> None:
        if not self.is_ours:
            self._socket.detach()
            raise OSError(errno.EBADF, "the program has closed it")
        asked = select.poll()
        asked.register(self._socket, event)
        asked.poll(WAIT_SECONDS * 1000)


@cache
def _room_of(size: int) -> type[ctypes.Array[ctypes.c_char]]:
    # One type for each size, which is garbage in a cycle: not one for each message (rule 4).
    return ctypes.c_char * size


class _Function(Protocol):
    def __call__(self, number: int, /, *arguments: object) -> int: ...


def _of_the_c_library(name: str, *kinds: object) -> _Function:
    function = getattr(_LIBRARY, name)
    function.argtypes = (ctypes.c_int, *kinds)
    made: _Function = function
    return made


_LIBRARY = ctypes.PyDLL(None, use_errno=True)
"""Which keeps the interpreter meanwhile: none of what is called may wait."""
_send = _of_the_c_library("send", ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
_recv = _of_the_c_library("recv", ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
_accept4 = _of_the_c_library("accept4", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)
_shutdown = _of_the_c_library("shutdown", ctypes.c_int)
_close = _of_the_c_library("close")


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
