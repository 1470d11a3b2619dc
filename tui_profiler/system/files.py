"""Files written whole or not at all, and those that only the user may read.

The program keeps its own files and directories as follows:

1. A directory has mode 0700 and a file 0600, whatever the umask; an older directory with wider
   rights is tightened. Files that the user asked for (reports, exports) follow the umask instead.
2. The program's are the directory named ``tui-profiler`` and what is below it. What is above
   (``~/.cache``) is the user's: it may be a symbolic link, is made with 0700 where it is missing,
   as the XDG specification says, and is never changed.
3. Nothing is kept where another user could read or replace it: a directory that belongs to someone
   else or is a symbolic link, or one above that other users can write to, is refused with a reason.
"""

import errno
import os
import shutil
import stat
from pathlib import Path

from tui_profiler.system import real_time as time


def write_whole(path: Path, data: bytes) -> None:
    """Write a file, in place of the one that may be there; its permissions stay.

    Raises:
        OSError: it cannot be written; what was there is as it was.
    """
    part = path.with_name(f".tui-profiler-{os.getpid()}-{time.monotonic_ns()}.part")
    try:
        with part.open("xb") as file:
            file.write(data)
        if path.exists():
            shutil.copymode(path, part)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


PROGRAM = "tui-profiler"
NEW = ".new"
"""Suffix of a file that is not whole yet; its name begins with a dot."""
_OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def private_directory(path: Path) -> Path:
    """Return a directory that only this user can enter, made where it is missing.

    Args:
        path: the directory named ``tui-profiler``, or one in it.

    Raises:
        OSError: It cannot be made or used; ``strerror`` says why.
    """
    path = path.absolute()
    ours = [path.parent, path] if path.parent.name == PROGRAM else [path]
    above = ours[0].parent
    missing: list[Path] = []
    while not above.exists():
        missing.insert(0, above)
        above = above.parent
    _refuse_if_replaceable(above)
    for one in (*missing, *ours):
        _make_private(one)
    return path


def write_private(path: Path, data: bytes) -> None:
    """Write a file of mode 0600, whole or not at all, in place of the one that may be there.

    Raises:
        OSError: It cannot be written; what was there is as it was.
    """
    new = path.with_name(f".{os.getpid()}-{time.monotonic_ns()}{NEW}")
    descriptor = os.open(new, _NEW_FILE, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(data)
        new.replace(path)
    except OSError:
        new.unlink(missing_ok=True)
        raise


def open_private(path: Path, most_bytes: int) -> int:
    """Return a descriptor of a file to read, which must be this user's own, not a link.

    Raises:
        OSError: It cannot be read, is another user's, or longer than ``most_bytes``.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    status = os.fstat(descriptor)
    is_own = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
    if is_own and status.st_size <= most_bytes:
        return descriptor
    os.close(descriptor)
    raise OSError("it is too long" if is_own else "it is not a regular file of this user")


def _make_private(path: Path) -> None:
    """Make a directory, or take away what others may do with it.

    Raises:
        OSError: It is not a directory of this user's.
    """
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        if path.is_symlink():
            raise _refused(path, "is a symbolic link") from None
    if path.lstat().st_uid != os.geteuid():
        raise _refused(path, "belongs to another user")
    try:
        descriptor = os.open(path, _OPEN_DIRECTORY)
    except PermissionError:
        os.chmod(path, 0o700)  # Made under a umask that left not even this user anything.
        return
    try:
        status = os.fstat(descriptor)  # Of what was opened: it may have been exchanged since.
        if status.st_uid != os.geteuid():
            raise _refused(path, "belongs to another user")
        if stat.S_IMODE(status.st_mode) != 0o700:
            os.fchmod(descriptor, 0o700)
    finally:
        os.close(descriptor)


def _refuse_if_replaceable(above: Path) -> None:
    """Refuse a place where another user could put a directory in place of the program's.

    Raises:
        OSError: It is one.
    """
    status = above.stat()
    if status.st_uid not in (os.geteuid(), 0):
        raise _refused(above, "belongs to another user")
    if status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX:
        raise _refused(above, "can be written to by every user")


def _refused(path: Path, why: str) -> OSError:
    return OSError(errno.EPERM, f"{path} {why}")
