"""The process of one trial: started, listened to, held to its limits, and ended with all it began.

1. The kernel ends it when its parent goes (``probe/__main__.py``).
2. What it compiles goes into a folder of its own, which goes with it (``CompileFolder``).
3. Where this worker is confined the broker starts and ends it, confined as well; it then compiles
   nothing, and its temporary folder is that of its sandbox.
4. Its memory is that of all its processes: a compiler is one of them.

A shell of its own waits for the end of a pipe that only the owner holds, ends the processes of the
trial and removes the folder: an owner that was killed does neither, and the kernel ends the trial
itself with it but not a compiler that it began. What a power cut leaves, the next trial removes.
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
import time
from pathlib import Path
from types import TracebackType

import psutil

from tui_profiler.connection.wire import encode, message_decoder
from tui_profiler.messages import Message, Request
from tui_profiler.probe.sandbox.broker import BrokeredTrial
from tui_profiler.probe.sandbox.confinement import confinement

_PREFIX = "tui-profiler-trial-"
_DONE = "done"
"""Is told the shell by an owner that has ended the processes itself."""
# Once more after a second: a compiler that is being ended may still write.
_WAIT_AND_REMOVE = f"""
read group
read word
[ "$word" = {_DONE} ] || [ -z "$group" ] || kill -KILL "-$group"
rm -rf -- "$1" || {{ sleep 1; rm -rf -- "$1"; }}
"""
_END_SECONDS = 5.0


class _Folder:
    """Made at once; removed by ``close``, or by the death of this process."""

    def __init__(self) -> None:
        """Make it.

        Raises:
            OSError: it cannot be made, or watched.
        """
        self.path = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
        theirs, self._ours = os.pipe()
        try:
            self._remover = subprocess.Popen(
                ["/bin/sh", "-c", _WAIT_AND_REMOVE, "sh", str(self.path)],
                stdin=theirs,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # What ends this process and its group spares it.
            )
        except OSError:
            os.close(self._ours)
            shutil.rmtree(self.path, ignore_errors=True)
            raise
        finally:
            os.close(theirs)

    def guard(self, group: int) -> None:
        """Have a group of processes ended where this process cannot do it any more."""
        self._say(str(group))

    def close(self) -> None:
        """Remove it; the processes that were guarded are gone."""
        self._say(_DONE)
        os.close(self._ours)
        with contextlib.suppress(subprocess.TimeoutExpired):  # A slow disk: it goes on by itself.
            self._remover.wait(_END_SECONDS)

    def _say(self, word: str) -> None:
        with contextlib.suppress(BrokenPipeError):  # Someone ended the shell.
            os.write(self._ours, f"{word}\n".encode())


def remove_stale() -> None:
    """Remove folders of owners that are gone."""
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
"""Between two looks for processes that it started."""


class TrialProcess:
    """A worker that serves one request and ends; a context that leaves nothing behind."""

    def __init__(self, first: Request) -> None:
        """Start it.

        Args:
            first: what it is asked.

        Raises:
            OSError: it cannot be started.
        """
        self._socket, theirs = socket.socketpair()
        confined = confinement()
        try:
            with theirs:
                self._child: BrokeredTrial | _Child = (
                    _Child(theirs) if confined is None else confined.broker.start_trial(theirs)
                )
        except OSError:
            self._socket.close()
            raise
        self._decoder = message_decoder()
        self._family: list[psutil.Process] = []
        self._looked_at = 0.0
        with contextlib.suppress(OSError):  # It died at once: its end says so.
            self._socket.sendall(encode(first))

    def __enter__(self) -> TrialProcess:
        """Return itself."""
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
        """Its process identity."""
        return self._child.pid

    def messages(self, seconds: float) -> list[Message] | None:
        """Return what it said, waiting for so long; None when it has hung up.

        Raises:
            WireError: it sent what is no message.
        """
        ready, _, _ = select.select([self._socket], [], [], seconds)
        if not ready:
            return []
        try:
            received = self._socket.recv(_READ_BYTES)
        except ConnectionError:
            return None
        return list(self._decoder.feed(received)) if received else None

    def exit_code(self) -> int | None:
        """Return how it ended, waiting a little; None where it has not."""
        try:
            return self._child.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            return None

    def memory_bytes(self) -> int:
        """Return what it and all that it started hold now."""
        if time.monotonic() - self._looked_at > _CHILDREN_SECONDS:
            self._family = self._look()
            self._looked_at = time.monotonic()
        held = 0
        for process in self._family:
            with contextlib.suppress(psutil.Error):  # It ended meanwhile.
                held += int(process.memory_info().rss)
        return held

    def _look(self) -> list[psutil.Process]:
        """Return its processes as they are now."""
        if self._child.poll() is not None:
            return []
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(self._child.pid)
            return [process, *process.children(recursive=True)]
        return []


class _Child:
    """A child of this process, with its folder."""

    def __init__(self, wire: socket.socket) -> None:
        """Start it.

        Raises:
            OSError: it cannot be started.
        """
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
        # A number is given to nobody else while the group has members.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):  # In the kernel: it will go.
            self._process.wait(_END_SECONDS)
        self._folder.close()


def _command(descriptor: int) -> list[str]:
    # ``-P`` keeps the user's folder from shadowing our imports.
    return [sys.executable, "-P", "-m", "tui_profiler.probe", str(descriptor)]


def _environment(folder: Path) -> dict[str, str]:
    return {
        **os.environ,
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "TRITON_CACHE_DIR": str(folder / "triton"),
        # Compiling in processes of its own would leave some that do not end with it.
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        "TMPDIR": str(folder),
    }
