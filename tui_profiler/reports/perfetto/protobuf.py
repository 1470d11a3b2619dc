"""Protocol Buffers' wire format, as far as a trace needs it: messages out of fields.

Source: protobuf.dev/programming-guides/encoding. A field is its number and wire type as a varint,
then its value: a varint, eight bytes of a double, or a length and so many bytes.
"""

from __future__ import annotations

import struct
from typing import TypeAlias

_VARINT, _DOUBLE, _BYTES = 0, 1, 2
Value: TypeAlias = bool | int | float | str | bytes
"""A whole message is its bytes."""


def message(*fields: tuple[int, Value]) -> bytes:
    """Return a message of fields, each its number and its value, in their order.

    Integers are written as varints: unsigned, or two's complement of 64 bits where negative.
    """
    return b"".join(_field(number, value) for number, value in fields)


def _field(number: int, value: Value) -> bytes:
    if isinstance(value, float):
        return _varint(number << 3 | _DOUBLE) + struct.pack("<d", value)
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
