"""Where watched processes wait for viewers: one socket for each watched model.

1. A socket lies in a directory of the user's alone (mode 0700): other users cannot reach it. There
   is no listener on the network.
2. A process takes the first directory that it can use; a viewer looks into all of them, because a
   service may not see the ``$XDG_RUNTIME_DIR`` that a shell sees.
3. A socket is given its name once it listens: one that refuses a call was left by a process that
   is gone, and may be removed.
4. Who is who is the kernel's word: an id that this user namespace does not know is nobody's.
"""

import errno
import os
import re
import socket
import stat
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

VARIABLE = "TUI_PROFILER_DIR"
"""Environment variable that names the directory instead, for the process and for the viewer."""

LONGEST_PATH = 107
"""Bytes: ``sun_path`` of ``unix(7)``, its final zero left out."""
_LONGEST_NAME = 32
_CREDENTIALS = struct.Struct("3i")
_OVERFLOW = Path("/proc/sys/kernel/overflowuid")
_ALL_IDS = "4294967295"
_NAME = re.compile(r"(\d+)-(\d+)-(.*)\.sock")
_UNFIT = re.compile(r"[^A-Za-z0-9._+-]+")


class NoPlaceError(Exception):
    """No directory can be used; the text has the reason."""


class Place(NamedTuple):
    """A socket that a process made."""

    path: Path
    pid: int
    ordinal: int
    """Of the watched model in its process, from 0."""
    name: str
    """What its file name could hold of the model's name."""


def candidates() -> Iterator[Path]:
    """Yield the directories that may hold sockets, the first to use first."""
    user = os.geteuid()
    named = os.environ.get(VARIABLE)
    if named:
        yield Path(named).absolute()  # The program may go elsewhere before it ends.
        return
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime:
        yield Path(runtime) / "tui-profiler"
    usual = Path(f"/run/user/{user}")
    if str(usual) != runtime and usual.is_dir():
        yield usual / "tui-profiler"
    yield Path(f"/tmp/tui-profiler-{user}")  # made and checked by _prepared


def is_in_own_directory(place: Place) -> bool:
    """Return whether a socket is where a program started from this environment would make it."""
    return place.path.parent == next(candidates())


def directory() -> Path:
    """Return a directory for sockets, made where it is not there.

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
    """Return the path of a process's socket, short enough for one.

    Raises:
        NoPlaceError: the folder's own path leaves no room.
    """
    fit = _UNFIT.sub("-", name)[:_LONGEST_NAME]
    path = folder / f"{pid}-{ordinal}-{fit}.sock"
    over = len(os.fsencode(path)) - LONGEST_PATH
    if over > len(fit):
        raise NoPlaceError(f"{folder}: a socket's path has at most {LONGEST_PATH} bytes")
    return path if over <= 0 else folder / f"{pid}-{ordinal}-{fit[:-over]}.sock"


def places() -> list[Place]:
    """Return every socket there is, by process; whether anyone listens shows when it is called."""
    found: list[Place] = []
    for folder in candidates():
        try:
            _check(folder)
            paths = sorted(folder.iterdir())
        except (OSError, NoPlaceError):
            continue  # Missing, or another user's: no sockets of this user are in it.
        found += [place for place in map(place_at, paths) if place is not None]
    return sorted(found, key=lambda place: (place.pid, place.ordinal))


def place_at(path: Path) -> Place | None:
    """Return what the name of a socket says; None where it is not one of a process."""
    parts = _NAME.fullmatch(path.name)
    return None if parts is None else Place(path, int(parts[1]), int(parts[2]), parts[3])


def remove_stale() -> None:
    """Remove sockets whose process is gone; calls only those whose process is not seen here."""
    for place in places():
        try:
            os.kill(place.pid, 0)
        except ProcessLookupError:  # It is gone, or lives in a container that shares the directory.
            remove_if_not_listening(place.path)
        except OSError:
            continue


def remove_if_not_listening(path: Path) -> bool:
    """Remove a socket at which nobody listens; return whether it was removed."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller:
        caller.setblocking(False)
        try:
            answer = caller.connect_ex(str(path))
        except OSError:
            return False
    if answer == errno.ECONNREFUSED:
        path.unlink(missing_ok=True)
    return answer == errno.ECONNREFUSED


def is_same_user(connected: socket.socket) -> bool:
    """Tell whether the other end was opened by this user, or by root.

    Raises:
        OSError: the other end is gone.
    """
    raw = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, user, _ = _CREDENTIALS.unpack(raw)
    return user in (os.geteuid(), 0) and user != _nobody()


def _nobody() -> int | None:
    """Return the id of every user that this namespace does not map; None if there is none."""
    try:
        if Path("/proc/self/uid_map").read_text().split() == ["0", "0", _ALL_IDS]:
            return None
        return int(_OVERFLOW.read_text())
    except (OSError, ValueError):
        return None


def _prepared(folder: Path) -> Path:
    _check_around(folder.parent)
    folder.mkdir(mode=0o700, parents=False, exist_ok=True)
    _check(folder)
    return folder


def _check(folder: Path) -> None:
    """Refuse a directory that another user could have made, or can write to.

    Raises:
        NoPlaceError: it is one.
    """
    status = folder.lstat()
    if stat.S_ISLNK(status.st_mode):
        raise NoPlaceError("is a symbolic link")
    if not stat.S_ISDIR(status.st_mode):
        raise NoPlaceError("is not a directory")
    if status.st_uid != os.geteuid():
        raise NoPlaceError("belongs to another user")
    if stat.S_IMODE(status.st_mode) & 0o077:
        raise NoPlaceError("is open to other users")


def _check_around(parent: Path) -> None:
    """Refuse a place where another user could replace the directory.

    Raises:
        NoPlaceError: it is one.
    """
    status = parent.stat()
    is_shared = bool(stat.S_IMODE(status.st_mode) & 0o022)
    if status.st_uid not in (os.geteuid(), 0):
        raise NoPlaceError(f"{parent} belongs to another user")
    if is_shared and not status.st_mode & stat.S_ISVTX:
        raise NoPlaceError(f"others can write to {parent}")
