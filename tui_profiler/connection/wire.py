"""Messages to bytes and back. No sockets here: bytes in, messages out.

1. A frame is a 4-byte big-endian length, then that many bytes of msgpack.
2. A frame longer than ``MAX_FRAME_BYTES`` is never made, and ends the conversation when received;
   so does a request longer than ``MAX_REQUEST_BYTES``.
3. The same bytes give the same messages, however they are split.
4. What cannot be read is a ``WireError``; after one, the decoder must not be fed again.
"""

import struct
import threading
from collections.abc import Iterator
from functools import cache
from typing import Generic, TypeVar

import msgspec

from tui_profiler.messages import Message, Request

MAX_FRAME_BYTES = 4 * 1024 * 1024
MAX_REQUEST_BYTES = 256 * 1024
"""A frame of a viewer's is no longer: many viewers' would fill the program's memory."""

_LENGTH = struct.Struct(">I")
_encode = msgspec.msgpack.Encoder().encode
_T = TypeVar("_T")


class WireError(Exception):
    """The bytes are not frames of the wire, or a message is too long for one."""


def encode(message: Message | Request) -> bytes:
    """Return one frame.

    Raises:
        WireError: the message is longer than a frame may be.
    """
    try:
        body = _encode(message)
    except UnicodeEncodeError:  # A name of a model's may hold half of a surrogate pair.
        body = _encode(_encodable(msgspec.to_builtins(message, builtin_types=(bytes,))))
    if len(body) > MAX_FRAME_BYTES:
        raise WireError(f"message of {len(body)} bytes; the limit is {MAX_FRAME_BYTES}")
    return _LENGTH.pack(len(body)) + body


def _encodable(value: object) -> object:
    """Write out what UTF-8 cannot hold, in every text of a message in built-in types."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, list | tuple):
        return [_encodable(item) for item in value]
    if isinstance(value, dict):
        return {key: _encodable(item) for key, item in value.items()}
    return value


class Decoder(Generic[_T]):
    """Collects bytes until they are messages."""

    def __init__(
        self, decoder: msgspec.msgpack.Decoder[_T], longest_bytes: int = MAX_FRAME_BYTES
    ) -> None:
        self._decode = decoder.decode
        self._longest_bytes = longest_bytes
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[_T]:
        """Add ``data`` and yield every message that is now complete.

        Raises:
            WireError: a frame is too long, or is not a message we know.
        """
        self._buffer += data
        start = 0
        try:
            while len(self._buffer) - start >= _LENGTH.size:
                (length,) = _LENGTH.unpack_from(self._buffer, start)
                if length > self._longest_bytes:
                    raise WireError(f"frame of {length} bytes; the limit is {self._longest_bytes}")
                end = start + _LENGTH.size + length
                if len(self._buffer) < end:
                    return
                # A view: a tick of a large model has 4 MB, which keys wait for while it is copied.
                with memoryview(self._buffer)[start + _LENGTH.size : end] as body:
                    message = self._message(body)
                start = end
                yield message
        finally:
            del self._buffer[:start]

    def _message(self, body: memoryview) -> _T:
        try:
            return self._decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, OverflowError) as error:
            raise WireError(f"unreadable frame of {len(body)} bytes: {error}") from error


def message_decoder() -> Decoder[Message]:
    """Return a decoder of what a probe sends."""
    # A type is half read where another thread decodes it at the same time: msgspec then crashes.
    with _READING:
        return Decoder(_of_messages())


def request_decoder() -> Decoder[Request]:
    """Return a decoder of what a viewer asks."""
    return Decoder(_of_requests(), MAX_REQUEST_BYTES)


_READING = threading.Lock()
"""Held while the annotations of messages are read. Not for requests: a program may fork, and has
read theirs before its first viewer (``preload.py``)."""


@cache
def _of_messages() -> msgspec.msgpack.Decoder[Message]:
    # msgspec accepts a union at run time, which no annotation describes.
    return msgspec.msgpack.Decoder(Message)


@cache
def _of_requests() -> msgspec.msgpack.Decoder[Request]:
    # Once: reading the annotations of all requests compiles a hundred of them.
    return msgspec.msgpack.Decoder(Request)
