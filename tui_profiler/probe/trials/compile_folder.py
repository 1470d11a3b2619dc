"""A folder for what a trial compiles, which goes when its owner does, however that ends.

A shell of its own waits for the end of a pipe that only the owner holds, ends the processes of the
trial and removes the folder: an owner that was killed does neither, and the kernel ends the trial
itself with it but not a compiler that it began. What a power cut leaves, the next trial removes.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import psutil

PREFIX = "tui-profiler-trial-"
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


class Folder:
    """Made at once; removed by ``close``, or by the death of this process."""

    def __init__(self) -> None:
        """Make it.

        Raises:
            OSError: it cannot be made, or watched.
        """
        self.path = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
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
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        owner = folder.name.removeprefix(PREFIX).partition("-")[0]
        if owner.isdigit() and not psutil.pid_exists(int(owner)) and _is_ours(folder):
            shutil.rmtree(folder, ignore_errors=True)


def _is_ours(folder: Path) -> bool:
    try:
        return folder.lstat().st_uid == os.getuid() and not folder.is_symlink()
    except OSError:
        return False
