"""Which child processes of a script have torch loaded, read from ``/proc``.

1. Nothing is asked of the processes themselves.
2. A process that has not loaded torch is looked at again after as long as it has lived under our
   eyes, so that many of them cost little: the list of mapped files is read about ten times in the
   first quarter of an hour.
3. Workers of a data loader have torch loaded and run no model: torch names them.
"""

from __future__ import annotations

import time
from pathlib import Path

from tui_profiler.messages import TorchChildren

MOST_PIDS = 64
NAMED_SECONDS = 1.0
"""A forked process has torch from its start, and its name a little later."""
_LIBRARY = b"libtorch_python"
_DATA_WORKER = b"pt_data_worker"
_PROC = Path("/proc")


class TorchProcesses:
    """Descendants of one process that have torch loaded, ended ones included.

    Args:
        pid: of that process.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._first_seen: dict[int, float] = {}
        self._due: dict[int, float] = {}
        self._found: list[int] = []

    def new(self) -> TorchChildren | None:
        """Look once; None where there is nothing new."""
        now, before = time.monotonic(), len(self._found)
        alive = set(descendants(self._pid))
        for gone in self._first_seen.keys() - alive:
            del self._first_seen[gone], self._due[gone]
        for pid in sorted(alive - set(self._found)):
            since = self._first_seen.setdefault(pid, now)
            if now < self._due.setdefault(pid, now + NAMED_SECONDS):
                continue
            self._due[pid] = now + (now - since)
            if _has_torch(pid):
                self._found.append(pid)
        if len(self._found) == before:
            return None
        return TorchChildren(tuple(self._found[:MOST_PIDS]), len(self._found))


def descendants(pid: int) -> list[int]:
    """Return the process ids of the children of a process, of their children, and so on."""
    found: list[int] = []
    left = [pid]
    while left:
        for task in (_PROC / str(left.pop()) / "task").glob("*/children"):
            children = [int(word) for word in _read(task).split()]
            left += children
            found += children
    return found


def _has_torch(pid: int) -> bool:
    if _read(_PROC / str(pid) / "comm").strip() == _DATA_WORKER:
        return False
    return _LIBRARY in _read(_PROC / str(pid) / "maps")


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # It has ended, or is another user's.
        return b""
