"""Frames: messages to bytes that are only ever appended, and back. No files here.

1. A file is a preamble, then frames. A frame is a head of 32 bytes and a body: the wire's own bytes
   of one message, compressed where that makes it smaller.
2. Every frame begins with a mark that holds a number of the file's own, chosen by chance: after
   damage the next mark is looked for, and no text inside a message can pass for a frame.
3. One CRC-32 covers the head and the body. A frame whose checksum differs is not a frame.
4. Sequence numbers go up by one, so that what is missing can be counted.
5. A head says which kind its message is of and when it came: a place in a recording is found, and
   what later totals repeat is passed over, without reading bodies.
"""

import struct
import zlib
from enum import IntEnum
from typing import NamedTuple

from tui_profiler import messages
from tui_profiler.connection.wire import MAX_FRAME_BYTES, WireError
from tui_profiler.messages import Part
from tui_profiler.recording.kind import MAGIC, RecordingError

FORMAT = 1
MARK = b"\xf5\x9cfr"
SALT_BYTES = 4
MAX_BODY_BYTES = MAX_FRAME_BYTES + 64
"""A message of the wire, with its length before it."""
COMPRESSED = 1
"""Flag: the body is a zlib stream."""
_LEAST_TO_COMPRESS = 256

_PREAMBLE = struct.Struct(">8sH4sI")
_HEAD = struct.Struct(">4s4sIIdBBHI")
_CHECKED = struct.Struct(">IIdBBH")
_CRC = struct.Struct(">I")
PREAMBLE_BYTES = _PREAMBLE.size
HEAD_BYTES = _HEAD.size


class Kind(IntEnum):
    """What a reader must know of a frame without its body."""

    MESSAGE = 0
    HEADER = 1
    END = 2
    TICK = 3
    SAMPLE = 4
    HEARTBEAT = 5
    OVERHEAD = 6
    TRACE_STARTED = 7
    TRACE_PART = 8
    TRACE_DONE = 9
    OPERATOR_TIMES = 10
    WINDOW_TIMES = 11
    DEVICE_TIMES = 12
    STEP_TIMES = 13
    MODE_SEEN = 14
    TRAINING_STEP = 15
    BACKWARD_OPERATORS = 16
    MODEL_VALUES = 17
    GENERATION = 18


_KINDS: dict[type, Kind] = {
    messages.Tick: Kind.TICK,
    messages.Sample: Kind.SAMPLE,
    messages.Heartbeat: Kind.HEARTBEAT,
    messages.Overhead: Kind.OVERHEAD,
    messages.OperatorTimes: Kind.OPERATOR_TIMES,
    messages.WindowTimes: Kind.WINDOW_TIMES,
    messages.DeviceTimes: Kind.DEVICE_TIMES,
    messages.StepTimes: Kind.STEP_TIMES,
    messages.ModeSeen: Kind.MODE_SEEN,
    messages.TrainingStep: Kind.TRAINING_STEP,
    messages.BackwardOperators: Kind.BACKWARD_OPERATORS,
    messages.ModelValues: Kind.MODEL_VALUES,
    messages.Generation: Kind.GENERATION,
    messages.TraceStarted: Kind.TRACE_STARTED,
    messages.Nodes: Kind.TRACE_PART,
    messages.Edges: Kind.TRACE_PART,
    messages.TraceDone: Kind.TRACE_DONE,
}


class Header(Part, frozen=True):
    """The first frame: where a recording comes from."""

    recorded_at: float
    """Unix time of its beginning."""
    host: str
    program: str
    """Version of the program that wrote it."""
    spec: messages.LoadSpec | None = None
    """What was asked for."""


class End(Part, frozen=True):
    """The last frame of a recording that was not cut off."""

    why: str
    dropped: int = 0
    """Messages that were not written, because the disk was slower than they came."""


class Frame(NamedTuple):
    """A frame as its head describes it."""

    length: int
    """Bytes of the body."""
    sequence: int
    at: float
    """When the message came: seconds since the command that recorded it was started."""
    kind: int
    flags: int
    trace: int
    """How many trees had been begun, this message included."""
    crc: int


def kind_of(message: messages.Message) -> Kind:
    """Return the kind of a message's frame."""
    return _KINDS.get(type(message), Kind.MESSAGE)


def preamble(salt: bytes) -> bytes:
    """Return the first bytes of a file."""
    checked = _PREAMBLE.pack(MAGIC, FORMAT, salt, 0)[: -_CRC.size]
    return checked + _CRC.pack(zlib.crc32(checked))


def salt_of(begin: bytes) -> bytes | None:
    """Return the number of the file's own from its first bytes; None where they are no preamble.

    Raises:
        RecordingError: a newer version wrote it in a format that this one does not read.
    """
    if len(begin) < PREAMBLE_BYTES or not begin.startswith(MAGIC):
        return None
    _, version, salt, crc = _PREAMBLE.unpack_from(begin)
    if crc != zlib.crc32(begin[: PREAMBLE_BYTES - _CRC.size]):
        return None
    if version != FORMAT:
        raise RecordingError(
            f"it is a recording of format {version}, and this version reads format {FORMAT}",
            "pip install --upgrade tui-profiler",
        )
    return bytes(salt)


def frame(body: bytes, salt: bytes, sequence: int, at: float, kind: Kind, trace: int = 0) -> bytes:
    """Return one frame, its body compressed where that makes it smaller."""
    flags = 0
    if len(body) >= _LEAST_TO_COMPRESS:
        smaller = zlib.compress(body, 1)
        if len(smaller) < len(body):
            body, flags = smaller, COMPRESSED
    checked = _CHECKED.pack(len(body), sequence, at, kind, flags, trace)
    crc = zlib.crc32(body, zlib.crc32(checked, zlib.crc32(salt)))
    return b"".join((MARK, salt, checked, _CRC.pack(crc), body))


def head(data: bytes, salt: bytes) -> Frame | None:
    """Read the head of a frame; None where these bytes cannot be one."""
    if len(data) < HEAD_BYTES:
        return None
    mark, its_salt, *fields = _HEAD.unpack_from(data)
    found = Frame(*fields)
    if mark != MARK or its_salt != salt or found.length > MAX_BODY_BYTES:
        return None
    return found


def is_whole(data: bytes, body: bytes, found: Frame, salt: bytes) -> bool:
    """Check the bytes of a head and of its body against the checksum."""
    checked = data[len(MARK) + SALT_BYTES : HEAD_BYTES - _CRC.size]
    crc = zlib.crc32(body, zlib.crc32(checked, zlib.crc32(salt)))
    return len(body) == found.length and crc == found.crc


def unpacked(body: bytes, flags: int) -> bytes:
    """Return a body as it was before it was compressed.

    Raises:
        WireError: it does not decompress, or not within what the wire allows.
    """
    if not flags & COMPRESSED:
        return body
    inflater = zlib.decompressobj()
    try:
        data = inflater.decompress(body, MAX_BODY_BYTES)
    except zlib.error as error:
        raise WireError(f"the body does not decompress: {error}") from error
    if not inflater.eof:
        raise WireError("the body has no end")
    return data
