"""A socket at which viewers call for one watched model."""

from __future__ import annotations

import contextlib
import os
import socket
from dataclasses import dataclass
from pathlib import Path

from tui_profiler.connection.rendezvous import directory, socket_path
from tui_profiler.probe.process.own_socket import OwnSocket

BACKLOG = 32
"""Calls that wait to be taken; more are made to wait by the kernel."""


@dataclass
class Calling:
    """A socket that listens, and its name."""

    socket: OwnSocket
    path: Path

    def close(self) -> None:
        """Listen no more, and leave nothing behind. May be called twice."""
        self.socket.close()
        with contextlib.suppress(OSError):  # Someone else has cleaned up, or may write no more.
            self.path.unlink(missing_ok=True)

    def abandon(self) -> None:
        """Let go of it in a forked child: it is the parent's."""
        self.socket.close()


def calling_at(name: str, ordinal: int) -> Calling:
    """Listen for this process's model; the socket gets its name once it listens.

    Args:
        name: of the model.
        ordinal: tells several in this process apart.

    Raises:
        NoPlaceError: there is no place for sockets.
        OSError: it cannot be made.
    """
    path = socket_path(directory(), os.getpid(), ordinal, name)
    unnamed = path.with_suffix(".new")
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        unnamed.unlink(missing_ok=True)
        listening.bind(str(unnamed))
        # Not by umask, which is the whole program's; meanwhile the directory keeps others out.
        os.chmod(unnamed, 0o600)
        listening.listen(BACKLOG)
        unnamed.rename(path)
    except OSError:
        listening.close()
        raise
    return Calling(OwnSocket(listening), path)
