"""The process of one trial: starts it, and ends it with all processes that it started.

1. The kernel ends it with its parent (``probe/__main__.py``).
2. Compiled code goes into a temporary folder, which is removed with it (``_Folder``).
3. If this worker is confined, the broker starts and ends it, confined as well; it then compiles
   nothing, and its temporary folder is that of its sandbox.
4. Its memory is that of all its processes, a compiler included.

A killed owner cannot clean up, and the kernel ends the trial with it but not a compiler that it
started. So a shell waits for the end of a pipe that only the owner has open, ends the processes of
the trial and removes the folder. The next trial removes what a power cut leaves.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType

import psutil

from tui_profiler.connection.wire import encode, message_decoder
from tui_profiler.messages import Message, Request
from tui_profiler.probe.sandbox.broker import BrokeredTrial
from tui_profiler.probe.sandbox.confinement import confinement
from tui_profiler.system import real_time as time

_PREFIX = "tui-profiler-trial-"
_DONE = "done"
"""Sent to the shell by an owner that ended the processes itself."""
# Again after a second: a compiler that is being ended may still write.
_WAIT_AND_REMOVE = f"""
read group
read word
[ "$word" = {_DONE} ] || [ -z "$group" ] || kill -KILL "-$group"
rm -rf -- "$1" || {{ sleep 1; rm -rf -- "$1"; }}
"""
_END_SECONDS = 5.0


class _Folder:
    """A temporary folder; removed by ``close``, or when this process ends.

    Raises:
        OSError: it cannot be created, or the shell cannot be started.
    """

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
        theirs, self._ours = os.pipe()
        try:
            self._remover = subprocess.Popen(
                ["/bin/sh", "-c", _WAIT_AND_REMOVE, "sh", str(self.path)],
                stdin=theirs,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # A signal to this process group does not end it.
            )
        except OSError:
            os.close(self._ours)
            shutil.rmtree(self.path, ignore_errors=True)
            raise
        finally:
            os.close(theirs)

    def guard(self, group: int) -> None:
        """Let the shell end a process group if this process is killed."""
        self._say(str(group))

    def close(self) -> None:
        """Remove it, after the guarded processes ended."""
        self._say(_DONE)
        os.close(self._ours)
        with contextlib.suppress(subprocess.TimeoutExpired):  # A slow disk: the shell goes on.
            self._remover.wait(_END_SECONDS)

    def _say(self, word: str) -> None:
        with contextlib.suppress(BrokenPipeError):  # The shell was killed.
            os.write(self._ours, f"{word}\n".encode())


def remove_stale() -> None:
    """Remove folders of owners that ended."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        owner = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if owner.isdigit() and not psutil.pid_exists(int(owner)) and _is_ours(folder):
            shutil.rmtree(folder, ignore_errors=True)


def _is_ours(folder: Path) -> bool:
    try:
        return folder.lstat().st_uid == os.getuid() and not folder.is_symlink()
    except OSError:
        return False


_READ_BYTES = 65536
_CHILDREN_SECONDS = 0.5
"""Between two searches for processes that it started."""


class TrialProcess:
    """A worker that serves one request; a context manager that ends it.

    Args:
        first: the request.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self, first: Request) -> None:
        self._socket, theirs = socket.socketpair()
        broker = confinement()
        try:
            with theirs:
                self._child: BrokeredTrial | _Child = (
                    _Child(theirs) if broker is None else broker.start_trial(theirs)
                )
        except OSError:
            self._socket.close()
            raise
        self._decoder = message_decoder()
        self._family: list[psutil.Process] = []
        self._looked_at = 0.0
        self.ask(first)

    def __enter__(self) -> TrialProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End it and all that it started, and remove its folder."""
        self._child.kill()
        self._socket.close()

    @property
    def pid(self) -> int:
        """Process ID."""
        return self._child.pid

    def messages(self, seconds: float) -> list[Message] | None:
        """Return its messages, waiting for so long; None when it closed the connection.

        Raises:
            WireError: it sent something else.
        """
        ready, _, _ = select.select([self._socket], [], [], seconds)
        if not ready:
            return []
        try:
            received = self._socket.recv(_READ_BYTES)
        except ConnectionError:
            return None
        return list(self._decoder.feed(received)) if received else None

    def ask(self, request: Request) -> None:
        """Send another request; ignored by a process that ended."""
        with contextlib.suppress(OSError):
            self._socket.sendall(encode(request))

    def exit_code(self) -> int | None:
        """Return its exit code, waiting a little; None while it runs."""
        try:
            return self._child.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            return None

    def memory_bytes(self) -> int:
        """Return the resident memory of it and all processes that it started."""
        if time.monotonic() - self._looked_at > _CHILDREN_SECONDS:
            self._family = self._processes()
            self._looked_at = time.monotonic()
        held = 0
        for process in self._family:
            with contextlib.suppress(psutil.Error):  # It ended meanwhile.
                held += int(process.memory_info().rss)
        return held

    def _processes(self) -> list[psutil.Process]:
        if self._child.poll() is not None:
            return []
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(self._child.pid)
            return [process, *process.children(recursive=True)]
        return []


class _Child:
    """A child process, with its folder.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self, wire: socket.socket) -> None:
        remove_stale()
        self._folder = _Folder()
        try:
            self._process = subprocess.Popen(
                _command(wire.fileno()),
                pass_fds=[wire.fileno()],
                stdin=subprocess.DEVNULL,
                process_group=0,
                env=_environment(self._folder.path),
            )
        except OSError:
            self._folder.close()
            raise
        self._folder.guard(self._process.pid)

    @property
    def pid(self) -> int:
        return self._process.pid

    def poll(self) -> int | None:
        return self._process.poll()

    def wait(self, timeout: float) -> int:
        return self._process.wait(timeout)

    def kill(self) -> None:
        """End it and all that it started, and remove its folder."""
        # The ID is not reused while the group has members.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):  # In the kernel: it will end.
            self._process.wait(_END_SECONDS)
        self._folder.close()


def _command(descriptor: int) -> list[str]:
    # ``-P``: modules in the current folder do not shadow imports.
    return [sys.executable, "-P", "-m", "tui_profiler.probe", str(descriptor)]


def _environment(folder: Path) -> dict[str, str]:
    return {
        **os.environ,
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "TRITON_CACHE_DIR": str(folder / "triton"),
        # Worker processes of the compiler would outlive it.
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        "TMPDIR": str(folder),
    }
