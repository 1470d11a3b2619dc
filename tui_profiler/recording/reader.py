"""A recording that is read: what is whole in it, and its messages when they are asked for.

The file is never mapped into memory: one that is cut shorter meanwhile would kill the reader.
"""

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from tui_profiler.connection.wire import Decoder, WireError, message_decoder
from tui_profiler.messages import Message
from tui_profiler.recording import frames
from tui_profiler.recording.kind import MAGIC, RecordingError
from tui_profiler.recording.scan import DamagedRange, Entry, scan

_Described = TypeVar("_Described", frames.Header, frames.End)
_NO_RECORDING: Final = "not a recording of tui-profiler"
_MAKE_ONE: Final = "tui-profiler record MODEL -o FILE"


class Recording:
    """The intact frames of a file, which is kept open."""

    def __init__(self, descriptor: int) -> None:
        """Look through an open file.

        Raises:
            RecordingError: it is no recording, or one of a newer format.
        """
        self._descriptor = descriptor
        self._decoder: Decoder[Message] = message_decoder()
        self.total_bytes = os.fstat(descriptor).st_size
        found = scan(self._read, self.total_bytes)
        if found is None and self.total_bytes >= frames.PREAMBLE_BYTES:
            raise RecordingError(_NO_RECORDING, _MAKE_ONE)
        if found is None and not MAGIC.startswith(self._read(0, len(MAGIC))):
            raise RecordingError(_NO_RECORDING, _MAKE_ONE)
        # Killed before its first bytes were written: a recording of nothing.
        self._salt: bytes = found.salt if found is not None else b""
        every: tuple[Entry, ...] = found.entries if found is not None else ()
        self.holes: tuple[DamagedRange, ...] = found.holes if found is not None else ()
        """What is damaged; positions count all frames, the header's included."""
        self.header: frames.Header | None = self._described(
            every[:1], frames.Kind.HEADER, frames.Header
        )
        """None where it is damaged."""
        self.end: frames.End | None = self._described(every[-1:], frames.Kind.END, frames.End)
        """None where the recording was cut off."""
        self.entries = every
        """Every whole frame, in the order in which they were written."""
        self.broken: frozenset[int] = _broken_traces(every)
        """Numbers of the trees of which a part is missing."""
        self.unreadable = 0
        """Whole frames asked for so far that hold nothing this version knows."""

    @property
    def begins(self) -> float:
        """When the first message came, in seconds since the command was started."""
        return self.entries[0].at if self.entries else 0.0

    @property
    def ends(self) -> float:
        """When the last one came."""
        return self.entries[-1].at if self.entries else 0.0

    @property
    def skipped(self) -> int:
        """Frames that are missing."""
        return sum(hole.frames for hole in self.holes)

    def message(self, position: int) -> Message | None:
        """Return a message; None for a frame without one, or with one of a newer version."""
        entry = self.entries[position]
        if entry.frame.kind in (frames.Kind.HEADER, frames.Kind.END):
            return None
        try:
            found = list(self._decoder.feed(self._body(entry)))
        except (WireError, OSError):
            found = []
        if len(found) == 1:
            return found[0]
        self._decoder = message_decoder()  # After an error it must not be fed again.
        self.unreadable += 1
        return None

    def close(self) -> None:
        """Let go of the file; may be called twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _body(self, entry: Entry) -> bytes:
        """Read a body again, and check it again: the file may have changed since.

        Raises:
            WireError: it is not what it was.
        """
        data = self._read(entry.offset, frames.HEAD_BYTES + entry.frame.length)
        first, body = data[: frames.HEAD_BYTES], data[frames.HEAD_BYTES :]
        found = frames.head(first, self._salt)
        if found != entry.frame or not frames.is_whole(first, body, found, self._salt):
            raise WireError("the file has changed")
        return frames.unpacked(body, found.flags)

    def _described(
        self, entries: tuple[Entry, ...], kind: frames.Kind, described: type[_Described]
    ) -> _Described | None:
        if not entries or entries[0].frame.kind != kind:
            return None
        try:
            return msgspec.msgpack.decode(self._body(entries[0]), type=described)
        except (
            WireError,
            msgspec.MsgspecError,
            UnicodeDecodeError,
            RecursionError,
            OverflowError,
        ):
            return None

    def _read(self, offset: int, size: int) -> bytes:
        return os.pread(self._descriptor, size, offset)


def open_recording(path: str | Path) -> Recording:
    """Open a recording, whatever its damage.

    Raises:
        RecordingError: the file cannot be read, or is no recording that this version reads.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise RecordingError(f"it cannot be read: {why}", "another path") from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise RecordingError("it cannot be read: not a file", "another path")
        return Recording(descriptor)
    except OSError as error:
        os.close(descriptor)
        raise RecordingError(f"it cannot be read: {error.strerror}", "another path") from error
    except RecordingError:
        os.close(descriptor)
        raise


def _broken_traces(entries: Sequence[Entry]) -> frozenset[int]:
    """Return the numbers of the trees of which a part is missing, or may be.

    A tree whose parts were still coming when the recording ended is not among them.
    """
    broken: set[int] = set()
    known, is_open, sequence = 0, False, -1
    for entry in entries:
        number, kind = entry.frame.trace, entry.frame.kind
        begins = kind == frames.Kind.TRACE_STARTED
        if is_open and entry.frame.sequence != sequence + 1:
            broken.add(known)
        if number > known:
            # Only its first part may come first; any tree in between is lost whole.
            broken.update(range(known + 1, number + (not begins)))
            is_open = begins
        elif begins:
            is_open = True
        if kind == frames.Kind.TRACE_DONE:
            is_open = False
        known, sequence = max(known, number), entry.frame.sequence
    return frozenset(broken)
