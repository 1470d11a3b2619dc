"""Workers forked from a process that has imported torch once, instead of each importing it.

1. To whoever listens a forked worker is a spawned one: a session of its own, its output read from
   a pipe, its end told by its exit code.
2. ``probe/fork_server.py`` says why a fork is safe there. Where it is not, or the template is gone,
   there is a reason, and no worker.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from types import TracebackType
from typing import IO

from tui_profiler.messages import Request
from tui_profiler.source.spawned import SILENT, Spawned

_READY = b"ready"
_PID = b"pid "
_KILLED = -9


class TemplateError(Exception):
    """No worker can be forked; the text has the reason."""


class Template:
    """The process that is forked. It starts to import at once; leaving it ends all it forked."""

    def __init__(self, modules: Sequence[str]) -> None:
        """Start it.

        Args:
            modules: to be imported, in this order.
        """
        self._orders, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [*_command(), str(theirs.fileno()), *modules],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                # The threads of numpy's own library would be there before a fork.
                env={**os.environ, **SILENT, "OPENBLAS_NUM_THREADS": "1"},
            )

    def __enter__(self) -> Template:
        """Begin."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End it; the kernel ends what it forked."""
        self._orders.close()
        self._process.kill()
        self._process.wait()

    def wait(self) -> None:
        """Wait until all is imported.

        Raises:
            TemplateError: it cannot be forked.
        """
        said = self._orders.recv(4096)
        if said != _READY:
            raise TemplateError(said.decode() or "the import ended the process")

    def fork(self, wire: int) -> ForkedChild:
        """Fork a worker that uses this socket.

        Raises:
            TemplateError: the template is gone.
        """
        read_output, output = os.pipe()
        read_told, told = os.pipe()
        try:
            socket.send_fds(self._orders, [b"f"], [wire, output, told])
        except OSError as error:
            os.close(read_output)
            os.close(read_told)
            raise TemplateError("the template process has ended") from error
        finally:
            os.close(output)
            os.close(told)
        said = os.read(read_told, 64)
        if not said.startswith(_PID):
            os.close(read_output)
            os.close(read_told)
            raise TemplateError("the template process can no longer be forked")
        number = int(said.removeprefix(_PID))
        return ForkedChild(number, os.fdopen(read_output, "rb", buffering=0), read_told)


class ForkedChild:
    """A process that the template started, as ``subprocess`` would show it."""

    def __init__(self, pid: int, stdout: IO[bytes], told: int) -> None:
        """Take over its descriptors; its exit code arrives on ``told``."""
        self.pid = pid
        self.stdout = stdout
        self._told = told
        self._code: int | None = None
        os.set_blocking(told, False)

    def poll(self) -> int | None:
        """Return its exit code; None while it runs."""
        if self._code is None:
            try:
                said = os.read(self._told, 64)
            except BlockingIOError:
                return None
            os.close(self._told)
            self._code = int(said) if said else _KILLED  # With the template.
        return self._code


class Forked(Spawned):
    """A worker that was forked."""

    def __init__(self, template: Template, first: Sequence[Request] = ()) -> None:
        """Fork one.

        Args:
            template: that is ready.
            first: requests to send at once.

        Raises:
            TemplateError: the template is gone.
        """
        self._begin(template.fork, first, owns_terminal=False)


def _command() -> list[str]:
    return [sys.executable, "-P", "-m", "tui_profiler.probe.fork_server"]
