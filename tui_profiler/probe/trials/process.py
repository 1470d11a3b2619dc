"""The process of one trial: started, listened to, held to its limits, and ended with all it began.

1. The kernel ends it when its parent goes (``probe/__main__.py``).
2. What it compiles goes into a folder of its own, which goes with it; of one whose owner was killed
   the next trial removes what was left.
3. Its memory is that of all its processes: a compiler is one of them.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType

import psutil

from tui_profiler.messages import Message, Request
from tui_profiler.wire import encode, message_decoder

_PREFIX = "tui-profiler-trial-"
_READ_BYTES = 65536
_CHILDREN_SECONDS = 0.5
"""Between two looks for processes that it started."""
_END_SECONDS = 5.0


class TrialProcess:
    """A worker that serves one request and ends; a context that leaves nothing behind."""

    def __init__(self, first: Request) -> None:
        """Start it.

        Args:
            first: what it is asked.

        Raises:
            OSError: it cannot be started.
        """
        remove_stale()
        self.folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
        self._socket, theirs = socket.socketpair()
        try:
            with theirs:
                self._child = subprocess.Popen(
                    _command(theirs.fileno()),
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    env=_environment(self.folder),
                )
        except OSError:
            self._socket.close()
            shutil.rmtree(self.folder, ignore_errors=True)
            raise
        self._decoder = message_decoder()
        self._family: list[psutil.Process] = []
        self._looked_at = 0.0
        with contextlib.suppress(OSError):  # It died at once: its end says so.
            self._socket.sendall(encode(first))

    def __enter__(self) -> TrialProcess:
        """Give itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End it and all that it started, and remove its folder."""
        for process in (*self._look(), *self._found()):
            with contextlib.suppress(psutil.Error):
                process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):  # In the kernel: it will go.
            self._child.wait(_END_SECONDS)
        self._socket.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def pid(self) -> int:
        """Its process identity."""
        return self._child.pid

    def messages(self, seconds: float) -> list[Message] | None:
        """Give what it said, waiting for so long; None when it has hung up.

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
        """Give how it ended, waiting a little; None where it has not."""
        try:
            return self._child.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            return None

    def memory_bytes(self) -> int:
        """Give what it and all that it started hold now."""
        if time.monotonic() - self._looked_at > _CHILDREN_SECONDS:
            self._family = self._look()
            self._looked_at = time.monotonic()
        held = 0
        for process in self._family:
            with contextlib.suppress(psutil.Error):  # It ended meanwhile.
                held += int(process.memory_info().rss)
        return held

    def _look(self) -> list[psutil.Process]:
        """Give its processes as they are now."""
        if self._child.poll() is not None:
            return []
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(self._child.pid)
            return [process, *process.children(recursive=True)]
        return []

    def _found(self) -> list[psutil.Process]:
        """Give those seen before: when it is dead, its children are no children of it any more."""
        return [process for process in self._family if process.is_running()]


def remove_stale() -> None:
    """Remove folders of trials whose owner is gone."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        owner = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if owner.isdigit() and not psutil.pid_exists(int(owner)) and _is_ours(folder):
            shutil.rmtree(folder, ignore_errors=True)


def _is_ours(folder: Path) -> bool:
    try:
        return folder.lstat().st_uid == os.getuid() and not folder.is_symlink()
    except OSError:
        return False


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
