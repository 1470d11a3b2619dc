"""A few lines of the source file that a node names, read when they are looked at."""

import os
import stat
from itertools import islice

from msgspec import Struct

from tui_profiler.formatting.text import safe

MAX_BYTES = 4 * 1024 * 1024


class SourceText(Struct, frozen=True):
    """Lines of a file, safe to show; or why there are none."""

    file: str
    first: int
    """Number of the first line."""
    lines: tuple[str, ...]
    marked: int
    """Number of the line that was asked for."""
    missing: str = ""
    """Why there are no lines, a noun phrase."""
    function: str = ""
    """Name of the function that the line is in; empty where it is not shown."""


def read_source(place: str, before: int, after: int) -> SourceText:
    """Read the lines around ``file:line``; never raises, never waits on what is no plain file.

    Args:
        place: as a node names it.
        before: lines wanted above it.
        after: lines wanted below it.
    """
    file, _, number = place.rpartition(":")
    if not file or not number.isdecimal():
        return SourceText(safe(place), 0, (), 0, "no source file known")
    marked = int(number)
    first = max(marked - before, 1)
    try:
        lines = _read(file, first, marked + after)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        return SourceText(safe(file), first, (), marked, f"file not readable: {safe(reason)}")
    missing = "" if lines else f"the file has no line {marked} here"
    return SourceText(safe(file), first, lines, marked, missing)


def _read(file: str, first: int, last: int) -> tuple[str, ...]:
    # Opened without waiting and looked at before it is read: the name may be that of a pipe.
    with open(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as opened:
        found = os.fstat(opened.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_BYTES:
            raise OSError(0, "not a regular file, or too large")
        raw = tuple(islice(opened, first - 1, last))
    return tuple(safe(line.decode("utf-8", "replace").rstrip().expandtabs(4)) for line in raw)
