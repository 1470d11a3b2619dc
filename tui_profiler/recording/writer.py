"""Writes a recording: whoever hands it messages never waits for the disk.

1. ``put`` queues; a thread of its own encodes, compresses and writes, one ``write`` a frame.
2. A frame that ``write`` took is in the system's cache: no death of this process can lose it. Once
   a second, and at the end, the file is synchronised to the disk: a power cut costs at most the
   last second or so.
3. The queue is bounded. When the disk is slower than messages come, of those that later ones
   repeat (ticks, samples, heartbeats) the new ones are left out, and counted.
4. A write that fails ends the recording: the file is cut back to its last whole frame. So does any
   other error of the thread, which is said and not lost with it.
"""

import contextlib
import errno
import os
import threading
import time
from collections import deque

import msgspec

from tui_profiler.connection.wire import WireError, encode
from tui_profiler.messages import Message, Printed
from tui_profiler.recording.frames import SALT_BYTES, End, Header, Kind, frame, kind_of, preamble
from tui_profiler.recording.kind import RecordingError

MOST_WAITING = 256
"""Messages that wait before those that later ones repeat are left out."""
MOST_WAITING_PRINTED = 4096
SYNC_SECONDS = 1.0
MODE = 0o600
"""A recording has paths, arguments and printed lines: not readable by other users."""
_REPEATED = (
    *(Kind.TICK, Kind.SAMPLE, Kind.HEARTBEAT, Kind.OVERHEAD),
    *(Kind.OPERATOR_TIMES, Kind.WINDOW_TIMES, Kind.DEVICE_TIMES, Kind.STEP_TIMES),
    *(Kind.MODE_SEEN, Kind.TRAINING_STEP, Kind.BACKWARD_OPERATORS, Kind.MODEL_VALUES),
    Kind.GENERATION,
)
_ANOTHER = "another FILE"
_MORE_ROOM = "another FILE, on a file system with more room"
_IN_OWN_FOLDER = "another FILE, in a folder that you can write to"
_IN_A_FOLDER = "another FILE, in a folder that exists"
_REMEDIES = {
    errno.ENOSPC: _MORE_ROOM,
    errno.EDQUOT: _MORE_ROOM,
    errno.EFBIG: "a larger file size limit (ulimit -f), or another file system",
    errno.EACCES: _IN_OWN_FOLDER,
    errno.EPERM: _IN_OWN_FOLDER,
    errno.EROFS: "another FILE, on a file system that is not read-only",
    errno.EIO: "another FILE, on another disk; the kernel log (dmesg) says what failed",
    errno.ENOENT: _IN_A_FOLDER,
    errno.ENOTDIR: _IN_A_FOLDER,
    errno.ENAMETOOLONG: "another FILE, with a shorter name",
}
"""Source: errno(3), write(2), open(2), fdatasync(2)."""


def create(path: str) -> int:
    """Make a new file to record to.

    Raises:
        RecordingError: there is one already, or it cannot be made.
    """
    return _opened(path, os.O_EXCL)


def overwrite(path: str) -> int:
    """Make a file to record to, in place of one that is there.

    Raises:
        RecordingError: it cannot be made, or what is there is no file.
    """
    if os.path.exists(path) and not os.path.isfile(path):
        raise RecordingError("cannot be written: not a file", _ANOTHER)
    return _opened(path, os.O_TRUNC)


def _opened(path: str, how: int) -> int:
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | how, MODE)
    except FileExistsError as error:
        raise RecordingError("it exists already", "--force: overwrites it") from error
    except OSError as error:
        why = error.strerror or str(error)
        raise RecordingError(f"cannot be written: {why}", remedy_of(error)) from error
    except ValueError as error:
        raise RecordingError(f"cannot be written: {error}", _ANOTHER) from error


def remedy_of(error: OSError) -> str:
    """Return what to try after a file could not be opened or written."""
    return _REMEDIES.get(error.errno or 0, _ANOTHER)


class Writer:
    """Appends messages to one file until it is closed, or until a write fails."""

    def __init__(self, descriptor: int, header: Header) -> None:
        self._descriptor = descriptor
        self._salt = os.urandom(SALT_BYTES)
        self._changed = threading.Condition()
        self._waiting: deque[tuple[Message, float]] = deque()
        self._ending: tuple[str, float] | None = None
        self._trace = 0
        self._synced_at = time.monotonic()
        self._is_dirty = False
        self.frames = 0
        """Frames that are in the file: no death of this process can lose them."""
        self.bytes_written = 0
        self.dropped = 0
        """Messages left out because the disk was slower, or longer than a frame may be."""
        self.failure = ""
        """Why nothing is written any more; empty while all is well."""
        self.remedies: tuple[str, ...] = ()
        """A line with a remedy for that failure; empty after an internal error."""
        self._write(preamble(self._salt))
        self._append(msgspec.msgpack.encode(header), 0.0, Kind.HEADER)
        self._thread = threading.Thread(target=self._run, name="tui-profiler-record", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Messages that are queued and not written yet."""
        return len(self._waiting)

    def put(self, message: Message, at: float) -> None:
        """Queue a message; never waits.

        Args:
            message: what came.
            at: when it came, in seconds since the command was started.
        """
        with self._changed:
            if self.failure or self._ending is not None:
                return
            if len(self._waiting) >= _most_waiting(message):
                self.dropped += 1
                return
            self._waiting.append((message, at))
            self._changed.notify()

    def close(self, why: str, at: float) -> None:
        """Write what waits and the last frame, synchronise, and let go of the file.

        Args:
            why: why it ends, in a few words.
            at: when it ends, in seconds since the command was started.
        """
        with self._changed:
            self._ending = self._ending or (why, at)
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        try:
            self._write_all()
        except Exception as error:  # A border: above is the end of the thread.
            self._fail(f"internal error: {type(error).__name__}: {error}")
        try:
            self._sync()
        finally:
            os.close(self._descriptor)

    def _write_all(self) -> None:
        while True:
            item = self._next()
            if item is not None:
                self._take(*item)
            elif self._is_over:
                break
            if self._is_dirty and time.monotonic() - self._synced_at >= SYNC_SECONDS:
                self._sync()
        if not self.failure and self._ending is not None:
            why, at = self._ending
            self._append(msgspec.msgpack.encode(End(why, self.dropped)), at, Kind.END)

    def _next(self) -> tuple[Message, float] | None:
        """Take what waits; None where nothing came for a while, or nothing comes any more."""
        with self._changed:
            if not self._waiting and not self._is_over:
                self._changed.wait(SYNC_SECONDS)
            return self._waiting.popleft() if self._waiting else None

    @property
    def _is_over(self) -> bool:
        return bool(self.failure) or self._ending is not None

    def _take(self, message: Message, at: float) -> None:
        kind = kind_of(message)
        self._trace += kind == Kind.TRACE_STARTED
        try:
            body = encode(message)
        except WireError:
            with self._changed:
                self.dropped += 1  # Longer than a frame may be, as on the wire.
            return
        self._append(body, at, kind)

    def _append(self, body: bytes, at: float, kind: Kind) -> None:
        # A lost number would read as damage, so it is used up by what was written alone.
        if self._write(frame(body, self._salt, self.frames, at, kind, min(self._trace, 0xFFFF))):
            self.frames += 1

    def _write(self, data: bytes) -> bool:
        if self.failure:  # Of the preamble: the header alone is no recording.
            return False
        try:
            left = memoryview(data)
            while left:
                left = left[os.write(self._descriptor, left) :]
        except OSError as error:
            self._fail(error.strerror or str(error), f"try {remedy_of(error)}")
            return False
        self.bytes_written += len(data)
        self._is_dirty = True
        return True

    def _fail(self, why: str, *remedies: str) -> None:
        """End the recording with its last whole frame."""
        with contextlib.suppress(OSError):  # A reader passes over half a frame at the end too.
            os.ftruncate(self._descriptor, self.bytes_written)
        with self._changed:
            self.failure, self.remedies = why, remedies
            self._waiting.clear()

    def _sync(self) -> None:
        self._synced_at, self._is_dirty = time.monotonic(), False
        try:
            os.fdatasync(self._descriptor)
        except OSError as error:
            if not self.failure:
                self._fail(error.strerror or str(error), f"try {remedy_of(error)}")


def _most_waiting(message: Message) -> float:
    if isinstance(message, Printed):
        return MOST_WAITING_PRINTED
    # Of everything else the amount is bounded by the model, not by time.
    return MOST_WAITING if kind_of(message) in _REPEATED else float("inf")
