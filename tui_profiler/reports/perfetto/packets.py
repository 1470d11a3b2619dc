"""The packets of a Perfetto trace, down to protobuf's bytes: tracks, slices, counters.

Numbers of fields are those of protos/perfetto/trace/{trace,trace_packet}.proto and of
track_event/*.proto in github.com/google/perfetto, v59; a test reads what is written here with the
classes that are made from these files.
"""

import struct
from collections.abc import Mapping
from enum import IntEnum
from typing import TypeAlias

from tui_profiler.formatting.text import printable

_VARINT, _FIXED64, _BYTES = 0, 1, 2
Value: TypeAlias = bool | int | float | str | bytes
"""A whole message is its bytes."""


def message(*fields: tuple[int, Value]) -> bytes:
    """Return a message of fields, each its number and its value, in their order.

    Integers are written as varints: unsigned, or two's complement of 64 bits where negative.
    """
    return b"".join(_field(number, value) for number, value in fields)


def _field(number: int, value: Value) -> bytes:
    if isinstance(value, float):
        return _varint(number << 3 | _FIXED64) + struct.pack("<d", value)
    if isinstance(value, str):
        # Halves of a pair of code units are no characters, and no other program would read them.
        value = value.encode("utf-8", "replace")
    if isinstance(value, bytes):
        return _varint(number << 3 | _BYTES) + _varint(len(value)) + value
    return _varint(number << 3 | _VARINT) + _varint(int(value) & 0xFFFFFFFFFFFFFFFF)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


Annotations: TypeAlias = Mapping[str, bool | int | float | str]

_PACKET = 1
_TIMESTAMP, _SEQUENCE, _TRACK_EVENT, _TRACK_DESCRIPTOR = 8, 10, 11, 60
_ANNOTATIONS, _TYPE, _TRACK, _NAME, _INTEGER, _DOUBLE = 4, 9, 11, 23, 30, 44
_BEGIN, _END, _INSTANT, _COUNTER = 1, 2, 3, 4


class Unit(IntEnum):
    """What a counter counts (``CounterDescriptor.Unit``)."""

    NONE = 0
    NANOSECONDS = 1
    COUNT = 2
    BYTES = 3


class Writer:
    """Collects packets of one sequence; a trace is their bytes, and two traces are one."""

    def __init__(self, sequence: int) -> None:
        self._sequence = sequence
        self._packets: list[bytes] = []

    def trace(self) -> bytes:
        """Return all that was written."""
        return b"".join(self._packets)

    def process(self, track: int, pid: int, name: str) -> None:
        """Declare a process, which groups the tracks below it."""
        process = message((1, pid), (6, printable(name)))
        self._track(track, (3, process))

    def thread(self, track: int, parent: int, ids: tuple[int, int], name: str) -> None:
        """Declare a thread of a process, whose slices nest; ``ids`` are its process's and its."""
        thread = message((1, ids[0]), (2, ids[1]), (5, printable(name)))
        self._track(track, (4, thread), (5, parent))

    def counter(self, track: int, parent: int, name: str, unit: Unit, words: str = "") -> None:
        """Declare a counter; ``words`` name the unit where it is none of ``Unit``."""
        described = message(*(((6, words),) if words else ((3, int(unit)),)))
        self._track(track, (2, printable(name)), (5, parent), (8, described))

    def begin(self, track: int, at: int, name: str, annotations: Annotations) -> None:
        """Begin a slice at so many nanoseconds."""
        noted = ((_ANNOTATIONS, _annotation(label, value)) for label, value in annotations.items())
        self._event(track, at, _BEGIN, (_NAME, printable(name)), *noted)

    def end(self, track: int, at: int) -> None:
        """End the slice that was begun last."""
        self._event(track, at, _END)

    def instant(self, track: int, at: int, name: str) -> None:
        """Mark a moment."""
        self._event(track, at, _INSTANT, (_NAME, printable(name)))

    def count(self, track: int, at: int, value: int | float) -> None:
        """Return the value of a counter from that moment on."""
        number = _DOUBLE if isinstance(value, float) else _INTEGER
        self._event(track, at, _COUNTER, (number, value))

    def _event(self, track: int, at: int, kind: int, *fields: tuple[int, Value]) -> None:
        event = message((_TYPE, kind), (_TRACK, track), *fields)
        self._packet((_TIMESTAMP, at), (_SEQUENCE, self._sequence), (_TRACK_EVENT, event))

    def _track(self, track: int, *fields: tuple[int, Value]) -> None:
        described = message((1, track), *fields)
        self._packet((_SEQUENCE, self._sequence), (_TRACK_DESCRIPTOR, described))

    def _packet(self, *fields: tuple[int, Value]) -> None:
        self._packets.append(message((_PACKET, message(*fields))))


def _annotation(label: str, value: bool | int | float | str) -> bytes:
    if isinstance(value, bool):
        return message((10, label), (2, value))
    if isinstance(value, str):
        return message((10, label), (6, printable(value)))
    return message((10, label), (5 if isinstance(value, float) else 4, value))
