"""A program that is not ours, over a socket that it listens at.

1. A viewer only reads: it asks for nothing but to be told, and hanging up changes nothing there.
2. Only a process of the same user is spoken to, by the kernel's word and not by the socket's name.
3. What it sends is checked like what anyone sends: nonsense ends the conversation with a failure.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator
from typing import NamedTuple

from tui_profiler.messages import Ended, Failed, Hello, Message, Observe, Program, Request
from tui_profiler.rendezvous import Place, is_same_user, places
from tui_profiler.wire import WireError, encode, message_decoder

READ_BYTES = 256 * 1024
HELLO_SECONDS = 3.0
"""How long a program may take to say who it is: its interpreter may be busy for a while."""


class AttachError(Exception):
    """A program cannot be attached to; the text says why."""


class Found(NamedTuple):
    """A watched model that answered, or did not."""

    place: Place
    program: Program | None
    """None where it did not answer."""
    why_not: str = ""


def find() -> list[Found]:
    """Ask every watched model of this user who it is; sockets without a listener are removed."""
    found = []
    for place in places():
        try:
            connected, hello = _called(place)
        except ConnectionRefusedError:
            place.path.unlink(missing_ok=True)
            continue
        except (OSError, AttachError) as error:
            found.append(Found(place, None, str(error) or type(error).__name__))
            continue
        connected.close()
        found.append(Found(place, hello.program))
    return found


class Attached:
    """A conversation with one watched model. It is called at once, before any event loop runs.

    Raises:
        AttachError: it cannot be spoken to.
    """

    def __init__(self, place: Place) -> None:
        try:
            self._socket, hello = _called(place)
        except OSError as error:
            raise AttachError(f"process {place.pid} does not answer: {error}") from error
        assert hello.program is not None
        self.program = hello.program
        self.started_at = time.time() - hello.program.at
        """Unix time, on this host's clock, from which its messages count."""
        self._hello = hello
        self._writer: asyncio.StreamWriter | None = None
        self._is_closed = False
        self._began = time.monotonic()

    async def messages(self) -> AsyncIterator[Message]:
        """Yield what it sends, then that it ended."""
        self._socket.setblocking(False)
        reader, self._writer = await asyncio.open_connection(sock=self._socket, limit=READ_BYTES)
        self.send(Observe())
        decoder = message_decoder()
        try:
            yield self._hello
            while data := await reader.read(READ_BYTES):
                for message in decoder.feed(data):
                    yield message
        except WireError as error:
            yield Failed("attach", f"the program sent what is not a message: {error}")
        except ConnectionError:
            pass  # It is gone; what follows says so.
        finally:
            await self._hang_up()
        yield Ended(
            code=0,
            expected=self._is_closed,
            pid=self.program.pid,
            seconds=time.monotonic() - self._began,
            attached=True,
        )

    def send(self, request: Request) -> None:
        """Write a request; it is lost when the program is gone."""
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(encode(request))

    async def close(self) -> None:
        """Hang up; the program goes on."""
        self._is_closed = True
        await self._hang_up()

    async def _hang_up(self) -> None:
        if self._writer is None:
            self._socket.close()
        elif not self._writer.is_closing():
            self._writer.close()
            with contextlib.suppress(OSError):
                await self._writer.wait_closed()


def _called(place: Place) -> tuple[socket.socket, Hello]:
    """Call a program, and give its first message.

    Raises:
        OSError: nobody listens, or not in time.
        AttachError: it is not one of this user's, or speaks otherwise.
    """
    connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connected.settimeout(HELLO_SECONDS)
        connected.connect(str(place.path))
        if not is_same_user(connected):
            raise AttachError("it belongs to another user")
        hello = _hello(connected)
    except BaseException:
        connected.close()
        raise
    connected.settimeout(None)
    return connected, hello


def _hello(connected: socket.socket) -> Hello:
    length = _exactly(connected, 4)
    body = _exactly(connected, min(int.from_bytes(length, "big"), READ_BYTES))
    try:
        for message in message_decoder().feed(length + body):
            if isinstance(message, Hello) and message.program is not None:
                return message
    except WireError as error:
        raise AttachError(f"it speaks another language: {error}") from error
    raise AttachError("it does not say who it is")


def _exactly(connected: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = connected.recv(size - len(data))
        if not part:
            raise AttachError("it hung up")
        data += part
    return data
