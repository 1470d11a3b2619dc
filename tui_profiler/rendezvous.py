"""Where watched processes wait for viewers: one socket for each watched model.

1. A socket lies in a directory of the user's alone (mode 0700): other users cannot reach it. There
   is no listener on the network.
2. A process takes the first directory that it can use; a viewer looks into all of them, because a
   service may not see the ``$XDG_RUNTIME_DIR`` that a shell sees.
3. A socket is given its name once it listens: one that refuses a call was left by a process that
   is gone, and may be removed.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

VARIABLE = "TUI_PROFILER_DIR"
"""Environment variable that names the directory instead, for the process and for the viewer."""

LONGEST_PATH = 107
"""Bytes: ``sun_path`` of ``unix(7)``, its final zero left out."""
_LONGEST_NAME = 32
_NAME = re.compile(r"(\d+)-(\d+)-(.*)\.sock")
_UNFIT = re.compile(r"[^A-Za-z0-9._+-]+")


class NoPlaceError(Exception):
    """No directory can be used; the text says why."""


class Place(NamedTuple):
    """A socket that a process made."""

    path: Path
    pid: int
    ordinal: int
    """Of the watched model in its process, from 0."""
    name: str
    """What its file name could hold of the model's name."""


def candidates() -> Iterator[Path]:
    """Give the directories that may hold sockets, the first to use first."""
    user = os.getuid()
    named = os.environ.get(VARIABLE)
    if named:
        yield Path(named)
        return
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime:
        yield Path(runtime) / "tui-profiler"
    usual = Path(f"/run/user/{user}")
    if str(usual) != runtime and usual.is_dir():
        yield usual / "tui-profiler"
    yield Path(f"/tmp/tui-profiler-{user}")  # made and checked by _prepared


def directory() -> Path:
    """Give a directory for sockets, made where it is not there.

    Raises:
        NoPlaceError: none can be used.
    """
    reasons = []
    for candidate in candidates():
        try:
            return _prepared(candidate)
        except (OSError, NoPlaceError) as error:
            reasons.append(f"{candidate}: {error}")
    raise NoPlaceError("; ".join(reasons))


def socket_path(folder: Path, pid: int, ordinal: int, name: str) -> Path:
    """Give the path of a process's socket, short enough for one.

    Raises:
        NoPlaceError: the folder's own path leaves no room.
    """
    fit = _UNFIT.sub("-", name)[:_LONGEST_NAME]
    path = folder / f"{pid}-{ordinal}-{fit}.sock"
    over = len(os.fsencode(path)) - LONGEST_PATH
    if over > len(fit):
        raise NoPlaceError(f"{folder}: a socket's path holds {LONGEST_PATH} bytes")
    return path if over <= 0 else folder / f"{pid}-{ordinal}-{fit[:-over]}.sock"


def places() -> list[Place]:
    """Give every socket there is, by process; whether anyone listens shows when it is called."""
    found = []
    for folder in candidates():
        try:
            _check(folder)
            paths = sorted(folder.iterdir())
        except (OSError, NoPlaceError):
            continue  # Not there, or not ours: nothing of ours is in it.
        for path in paths:
            parts = _NAME.fullmatch(path.name)
            if parts is not None:
                found.append(Place(path, int(parts[1]), int(parts[2]), parts[3]))
    return sorted(found, key=lambda place: (place.pid, place.ordinal))


def _prepared(folder: Path) -> Path:
    folder.mkdir(mode=0o700, parents=False, exist_ok=True)
    _check(folder)
    return folder


def _check(folder: Path) -> None:
    """Refuse a directory that another user could have made, or can write to.

    Raises:
        NoPlaceError: it is one.
    """
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise NoPlaceError("is not a directory")
    if status.st_uid != os.getuid():
        raise NoPlaceError("belongs to another user")
    if stat.S_IMODE(status.st_mode) & 0o077:
        raise NoPlaceError("is open to other users")
