"""Which processes have torch loaded, read from ``/proc``: of a script's children, of the user's.

1. Nothing is asked of the processes themselves.
2. A process that has not loaded torch is looked at again after as long as it has lived under our
   eyes, so that many of them cost little: the list of mapped files is read about ten times in the
   first quarter of an hour.
3. Workers of a data loader have torch loaded and run no model: torch names them.
"""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tui_profiler.connection.sockets import VARIABLE
from tui_profiler.messages import TorchChildren

MOST_PIDS = 64
NAMED_SECONDS = 1.0
"""A forked process has torch from its start, and its name a little later."""
MOST_READ_BYTES = 4096
"""Of a command line."""
_LIBRARY = b"libtorch_python"
_DATA_WORKER = b"pt_data_worker"
_PROC = Path("/proc")
_OURS = "tui_profiler.probe"
_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")
MOST_REST_SECONDS = 10.0
"""Between two looks at one that has not loaded torch."""


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
            if _has_torch(_PROC / str(pid)):
                self._found.append(pid)
        if len(self._found) == before:
            return None
        return TorchChildren(tuple(self._found[:MOST_PIDS]), len(self._found))


class TorchProgram(NamedTuple):
    """A process that has torch loaded."""

    pid: int
    name: str
    """Its script or module."""
    started_at: float
    """Unix time."""


class UsersPrograms:
    """Processes of this user that run a program with torch loaded, but for those of this tool.

    Where ``$TUI_PROFILER_DIR`` is set, a program counts that was started with the same value.

    Args:
        proc: where processes are.
    """

    def __init__(self, proc: Path = _PROC) -> None:
        self._proc = proc
        self._first_seen: dict[int, tuple[float, float]] = {}
        """When each process was seen first, and is to be looked at again."""
        self._found: dict[int, TorchProgram] = {}

    def look(self) -> tuple[TorchProgram, ...]:
        """Look once: about 0.2 ms of CPU time for a process that is new or due."""
        now, alive, user = time.monotonic(), set[int](), os.geteuid()
        with os.scandir(self._proc) as entries:
            for entry in entries:
                if entry.name.isdecimal():
                    alive.add(int(entry.name))
        for gone in self._first_seen.keys() - alive:
            del self._first_seen[gone]
            self._found.pop(gone, None)
        for pid in alive - self._found.keys():
            since, due = self._first_seen.setdefault(pid, (now, now))
            if now < due:
                continue
            self._first_seen[pid] = since, now + min(now - since, MOST_REST_SECONDS)
            if self._is_users(pid, user) and (found := self._program(pid)) is not None:
                self._found[pid] = found
        return tuple(self._found[pid] for pid in sorted(self._found))

    def _is_users(self, pid: int, user: int) -> bool:
        try:
            return os.stat(self._proc / str(pid)).st_uid == user
        except OSError:
            return False

    def _program(self, pid: int) -> TorchProgram | None:
        folder = self._proc / str(pid)
        if not _has_torch(folder):
            return None
        arguments = _read(folder / "cmdline")[:MOST_READ_BYTES].decode(errors="replace").split("\0")
        variable = f"{VARIABLE}=".encode()
        there = [one for one in _read(folder / "environ").split(b"\0") if one.startswith(variable)]
        here = os.environ.get(VARIABLE)
        is_apart = there != ([] if here is None else [variable + os.fsencode(here)])
        if is_apart or pid == os.getpid() or any(_OURS in one for one in arguments):
            return None
        try:
            started_at = folder.stat().st_ctime
        except OSError:
            return None
        return TorchProgram(pid, script_of(arguments), started_at)


def script_of(arguments: Sequence[str]) -> str:
    """Return what a Python command line runs: the name of its script, or its module.

    Args:
        arguments: the interpreter first.
    """
    rest = iter(arguments[1:])
    for one in rest:
        if one in _WITH_VALUE:
            next(rest, "")
        elif one.startswith("-m"):
            return one[2:] or next(rest, "")
        elif one.startswith("-c"):
            break
        elif not one.startswith("-") and one:
            return Path(one).name
    return "python"


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


def _has_torch(folder: Path) -> bool:
    if _read(folder / "comm").strip() == _DATA_WORKER:
        return False
    return _LIBRARY in _read(folder / "maps")


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # It has ended, or is another user's.
        return b""
