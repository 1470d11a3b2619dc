"""Finds every whole frame in a file, and what lies between them.

Damage is passed over: from the first byte that is no frame, the next mark is looked for whose frame
has the right checksum. A file made to be slow to read is given up after a bounded amount of work.

A file that was put together from parts is told from a damaged one. Frames of another recording
have another salt; frames that were repeated or moved have the right checksum and a number that was
read already; where frames were cut out, numbers are missing and no bytes lie between. None of them
is read: figures of two recordings, or of one in another order, never stand in one session.
"""

import math
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from tui_profiler.messages import Splice
from tui_profiler.recording.frames import (
    HEAD_BYTES,
    MARK,
    MAX_BODY_BYTES,
    PREAMBLE_BYTES,
    SALT_BYTES,
    Frame,
    head,
    is_whole,
    salt_of,
)

Read: TypeAlias = Callable[[int, int], bytes]
"""Returns that many bytes from an offset; fewer at the end."""

_CHUNK_BYTES = 1024 * 1024
_MOST_MARKS = 64
"""In one gap, that are searched for a frame of another recording."""
_WASTED_TIMES = 8
"""How often all bytes of a file may be checked in vain before the rest is given up."""


class Entry(NamedTuple):
    """A whole frame, and where it lies."""

    offset: int
    """Of its head."""
    frame: Frame
    at: float
    """When its message came; never before that of the entry before."""


class DamagedRange(NamedTuple):
    """Bytes between two whole frames that are none."""

    offset: int
    length: int
    entry: int
    """Position of the entry that follows it; the number of entries where none does."""
    frames: int
    """How many frames are missing here, by their numbers; at the end at least one."""
    splice: Splice = ""
    """What shows that it was made on purpose; empty for damage."""


class Scanned(NamedTuple):
    """Everything whole in a file."""

    salt: bytes
    entries: tuple[Entry, ...]
    holes: tuple[DamagedRange, ...]


def scan(read: Read, total_bytes: int) -> Scanned | None:
    """Find all whole frames; None where there is no sign of a recording.

    Args:
        read: returns bytes of the file.
        total_bytes: how long it is.

    Raises:
        RecordingError: a newer version wrote it in another format.
    """
    salt = salt_of(read(0, PREAMBLE_BYTES))
    start = PREAMBLE_BYTES
    if salt is None:
        start, salt = 0, _salt_of_first_frame(read, total_bytes)
        if salt is None:
            return None
    return _Scan(read, total_bytes, salt).run(start)


def _salt_of_first_frame(read: Read, total_bytes: int) -> bytes | None:
    """Find the file's own number where its first bytes are damaged: any whole frame has it."""
    search = _Search(read, total_bytes, MARK)
    budget = total_bytes * _WASTED_TIMES + MAX_BODY_BYTES
    offset = search.find(0)
    while offset is not None and budget > 0:
        data = read(offset, HEAD_BYTES)
        salt = data[len(MARK) : len(MARK) + SALT_BYTES]
        found = head(data, salt)
        if found is not None:
            budget -= found.length
            if is_whole(data, read(offset + HEAD_BYTES, found.length), found, salt):
                return salt
        offset = search.find(offset + 1)
    return None


class _Scan:
    """One pass over a file."""

    def __init__(self, read: Read, total_bytes: int, salt: bytes) -> None:
        self._read = read
        self._total = total_bytes
        self._salt = salt
        self._search = _Search(read, total_bytes, MARK + salt)
        self._budget = total_bytes * _WASTED_TIMES + MAX_BODY_BYTES
        self._entries: list[Entry] = []
        self._holes: list[DamagedRange] = []
        self._next = 0
        self._at = 0.0
        self._misplaced = 0
        """Whole frames since the last entry whose numbers were read already."""

    def run(self, start: int) -> Scanned:
        end_of_whole = offset = start
        while offset < self._total:
            found = self._frame(offset)
            if found is not None:
                if offset > end_of_whole or found.sequence > self._next:
                    self._hole(end_of_whole, offset, found.sequence - self._next)
                self._add(offset, found)
                end_of_whole = offset = offset + HEAD_BYTES + found.length
                continue
            after = self._search.find(offset + 1) if self._budget > 0 else None
            offset = self._total if after is None else after
        if end_of_whole < self._total:
            self._hole(end_of_whole, self._total, 0 if self._misplaced else 1)
        return Scanned(self._salt, tuple(self._entries), tuple(self._holes))

    def _frame(self, offset: int) -> Frame | None:
        data = self._read(offset, HEAD_BYTES)
        found = head(data, self._salt)
        if found is None or offset + HEAD_BYTES + found.length > self._total:
            return None
        if is_whole(data, self._read(offset + HEAD_BYTES, found.length), found, self._salt):
            if found.sequence >= self._next:
                return found
            self._misplaced += 1
        self._budget -= found.length
        return None

    def _add(self, offset: int, found: Frame) -> None:
        if math.isfinite(found.at):
            self._at = max(self._at, found.at)
        self._entries.append(Entry(offset, found, self._at))
        self._next = found.sequence + 1

    def _hole(self, start: int, stop: int, frames: int) -> None:
        splice: Splice = ""
        if self._misplaced:
            splice, self._misplaced = "repeated", 0
        elif start == stop:
            splice = "cut out"
        elif self._holds_another(start, stop):
            splice = "another recording"
        self._holes.append(DamagedRange(start, stop - start, len(self._entries), frames, splice))

    def _holds_another(self, start: int, stop: int) -> bool:
        """Whether a whole frame of another recording lies there."""
        search = _Search(self._read, stop, MARK)
        offset = search.find(start)
        for _ in range(_MOST_MARKS):
            if offset is None or self._budget <= 0:
                return False
            data = self._read(offset, HEAD_BYTES)
            salt = data[len(MARK) : len(MARK) + SALT_BYTES]
            found = head(data, salt)
            if found is not None and salt != self._salt:
                body = self._read(offset + HEAD_BYTES, found.length)
                if is_whole(data, body, found, salt):
                    return True
                self._budget -= found.length
            offset = search.find(offset + 1)
        return False


class _Search:
    """Looks for bytes in a file, a piece at a time."""

    def __init__(self, read: Read, total_bytes: int, wanted: bytes) -> None:
        self._read = read
        self._total = total_bytes
        self._wanted = wanted
        self._piece = b""
        self._piece_at = 0

    def find(self, start: int) -> int | None:
        """Return the next place at or after ``start``; None where there is none."""
        while start < self._total:
            if not self._piece_at <= start < self._piece_at + len(self._piece):
                self._piece, self._piece_at = self._read(start, _CHUNK_BYTES), start
            found = self._piece.find(self._wanted, start - self._piece_at)
            if found >= 0:
                return self._piece_at + found
            after = self._piece_at + len(self._piece)
            if not self._piece or after >= self._total:
                return None
            # What is looked for may lie across the end of this piece.
            start = max(start + 1, after - len(self._wanted) + 1)
            self._piece = b""
        return None
