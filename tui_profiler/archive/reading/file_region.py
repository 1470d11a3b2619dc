"""A part of a file, read in pieces at given places.

Everything in this package reads through a Region, so that an archive inside an archive is read
where it lies, and no length that a file claims is ever passed to ``read`` before it was compared
with the bytes that there are.

Whatever reads, here and in the formats, raises ``ArchiveError`` where the file is damaged, or
breaks a rule or limit.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from stat import S_ISDIR, S_ISREG

from msgspec import Struct

from tui_profiler.formatting.text import safe


class ArchiveError(Exception):
    """A file cannot be looked into; ``what``, ``file`` and ``where`` say why, which and where."""

    def __init__(self, what: str, file: str, where: str = "") -> None:
        super().__init__(what, file, where)
        self.what = what
        """One sentence, without a point; safe to print."""
        self.file = file
        """The file's path; hostile text."""
        self.where = where
        """The place in it: ``data.pkl, byte 1042``; safe to print; empty for the whole file."""

    def __str__(self) -> str:
        place = f" ({self.where})" if self.where else ""
        return f"{safe(self.file)}{place}: {self.what}"


class Region(Struct, frozen=True):
    """Bytes ``start`` to ``start + size`` of an open file."""

    descriptor: int
    file: str
    """Path of the file, for errors."""
    start: int
    size: int
    where: str = ""
    """What the region is within the file: ``data.pkl``; empty for all of it."""

    def read(self, offset: int, count: int) -> bytes:
        """Return ``count`` bytes from ``offset`` on."""
        if offset < 0 or count < 0 or offset + count > self.size:
            raise self.error(f"{count} bytes are missing or lie outside of it", offset)
        data = b""
        while len(data) < count:
            try:
                piece = os.pread(
                    self.descriptor, count - len(data), self.start + offset + len(data)
                )
            except OSError as error:
                raise self.error(f"cannot be read: {error.strerror}", offset) from error
            if not piece:
                raise self.error("the file became shorter while it was read", offset)
            data = data + piece if data else piece
        return data

    def part(self, offset: int, size: int, where: str) -> Region:
        """Return a part of this region, named ``where``."""
        if offset < 0 or size < 0 or offset + size > self.size:
            raise self.error(f"{where} does not lie within the file", offset)
        return Region(self.descriptor, self.file, self.start + offset, size, where)

    def error(self, what: str, offset: int | None = None) -> ArchiveError:
        """Return the error that says ``what`` is wrong at ``offset`` of this region."""
        parts = [self.where] if self.where else []
        if offset is not None:
            parts.append(f"byte {offset}")
        return ArchiveError(what, self.file, ", ".join(parts))


@contextmanager
def open_file(path: Path) -> Iterator[Region]:
    """Open a file for reading as one region.

    Raises:
        ArchiveError: There is none, or it is no regular file (a pipe would wait for ever).
    """
    # Not blocking: opening a pipe that nobody writes to would wait for ever.
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ArchiveError(f"cannot be opened: {reason}", str(path)) from error
    try:
        status = os.fstat(descriptor)
        if not S_ISREG(status.st_mode):
            kind = "a directory" if S_ISDIR(status.st_mode) else "no regular file"
            raise ArchiveError(f"is {kind}", str(path))
        yield Region(descriptor, str(path), 0, status.st_size)
    finally:
        os.close(descriptor)
