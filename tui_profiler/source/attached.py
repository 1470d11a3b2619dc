"""A program that is not ours, over a socket that it listens at, here or on another host.

1. A viewer only reads: it asks for nothing but to be told, and hanging up changes nothing there.
2. Only a process of the same user is spoken to, by the kernel's word and not by the socket's name.
3. What it sends is checked like what anyone sends: nonsense ends the conversation with a failure.
4. Its messages count seconds since it is watched; here they count since this command was started,
   as everyone's do. What was before that is at 0.
"""

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from tui_profiler.connection.sockets import (
    Place,
    is_same_user,
    place_at,
    places,
    remove_if_not_listening,
)
from tui_profiler.connection.wire import WireError, encode, message_decoder
from tui_profiler.formatting.text import safe
from tui_profiler.injection.processes import InjectionError
from tui_profiler.messages import (
    WIRE_VERSION,
    Ended,
    Failed,
    Hello,
    LoopState,
    Message,
    Observe,
    Program,
    Request,
)
from tui_profiler.source.torch_processes import UsersPrograms, descendants

READ_BYTES = 256 * 1024
HELLO_SECONDS = 3.0
"""How long a program may take to say who it is: its interpreter may be busy for a while."""
CALL_AGAIN_SECONDS = 0.01
MOST_AT_ONCE = 16
UPGRADE = "the same version of tui-profiler for the program and for this command"


class AttachError(Exception):
    """A program cannot be attached to.

    Args:
        why: one sentence.
        instead: what to try; empty where the caller knows better.
    """

    def __init__(self, why: str, instead: str = "") -> None:
        super().__init__(why)
        self.instead = instead


class Found(NamedTuple):
    """A watched model that answered, or did not."""

    place: Place
    program: Program | None
    """None where it did not answer."""
    why_not: str = ""
    instead: str = ""
    """What to try; empty where nothing is known."""
    listens: bool = True
    """False for a program that was not prepared: ``unprepared`` has it listen."""


def find(among: Collection[int] | None = None) -> list[Found]:
    """Ask every watched model of this user who it is; sockets without a listener are removed.

    Args:
        among: the processes that are asked; None: all.
    """
    wanted = [one for one in places() if among is None or one.pid in among]
    with ThreadPoolExecutor(MOST_AT_ONCE) as pool:  # One that is stopped must not hide the others.
        return [found for found in pool.map(_asked, wanted) if found is not None]


def family(pid: int) -> list[Found]:
    """Ask a process and its descendants who they are; those that listen, in the order of their ids.

    Workers of data loaders are left out: they run no model.

    Args:
        pid: of the process.
    """
    found = find({pid, *descendants(pid)})
    return [one for one in found if one.program is None or not one.program.role]


def not_listening(torch: UsersPrograms, listening: Iterable[Found]) -> list[Found]:
    """Return the user's programs that have torch loaded and do not listen.

    Args:
        torch: what was seen of them before.
        listening: those that do.
    """
    known = {one.place.pid for one in listening}
    return [
        Found(
            Place(Path(f"/proc/{one.pid}"), one.pid, 0, one.name),
            Program(
                one.name, one.pid, one.name, one.started_at, max(time.time() - one.started_at, 0.0)
            ),
            listens=False,
        )
        for one in torch.look()
        if one.pid not in known
    ]


def unprepared(pid: int) -> Found:
    """Have a program that does not listen do so, and ask it who it is.

    Raises:
        AttachError: it cannot be done.
    """
    # ctypes and the rest, where a program does not listen alone.
    from tui_profiler.injection.inject import start_listener  # noqa: PLC0415

    try:
        place = place_at(start_listener(pid))
    except InjectionError as error:
        raise AttachError(str(error), error.instead) from error
    found = None if place is None else _asked(place)
    if found is None:
        raise AttachError(f"process {pid} listened, and has ended")
    return found


def _asked(place: Place) -> Found | None:
    try:
        connected = connect(place)
        with connected:
            return Found(place, said_hello(connected, HELLO_SECONDS).program)
    except (ConnectionRefusedError, FileNotFoundError):
        remove_if_not_listening(place.path)
        return None
    except (OSError, AttachError) as error:
        instead = error.instead if isinstance(error, AttachError) else ""
        return Found(place, None, str(error) or type(error).__name__, instead)


class Attached:
    """A conversation with one watched model.

    Args:
        connected: is this object's from now on.
        hello: what the program has said already.
        started_at: Unix time when this command was started; None: now.
        last_words: returns why the conversation ended, where something between us knows.
    """

    def __init__(
        self,
        connected: socket.socket,
        hello: Hello,
        started_at: float | None = None,
        last_words: Callable[[], str] = str,
    ) -> None:
        assert hello.program is not None
        self._socket = connected
        self._hello = hello
        self._last_words = last_words
        self.program = hello.program
        self.started_at = time.time() if started_at is None else started_at
        self._began = time.monotonic()
        self._began_at = time.time() - self.started_at
        self._offset = hello.program.at - self._began_at
        self._writer: asyncio.StreamWriter | None = None
        self._is_closed = False
        self._is_finished = False

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
                    self._is_finished |= _is_last(message)
                    yield self._on_our_clock(message)
        except WireError as error:
            yield Failed("attach", f"the program sent an invalid message: {error}")
        except ConnectionError:
            pass  # It is gone; the next message reports it.
        finally:
            await self._hang_up()
        yield Ended(
            code=0,
            expected=self._is_closed or self._is_finished,
            last_line="" if self._is_closed else self._last_words(),
            pid=self.program.pid,
            seconds=time.monotonic() - self._began,
            attached=True,
        )

    def _on_our_clock(self, message: Message) -> Message:
        at = getattr(message, "at", None)
        if not isinstance(at, float):
            return message
        # It was sent before now. The first message may have lain unread: the least delay counts.
        now = self._began_at + time.monotonic() - self._began
        self._offset = max(self._offset, at - now)
        return replace(message, at=max(at - self._offset, 0.0))

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


def attached(place: Place, started_at: float | None = None) -> Attached:
    """Call a program of this host.

    Raises:
        AttachError: it cannot be spoken to.
    """
    try:
        connected = connect(place)
        return Attached(connected, said_hello(connected, HELLO_SECONDS), started_at)
    except OSError as error:
        raise AttachError(f"process {place.pid} does not respond: {error}") from error


def connect(place: Place) -> socket.socket:
    """Call a program, and say nothing yet.

    Raises:
        OSError: nobody listens, or not in time.
        AttachError: it is not one of this user's.
    """
    connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _call(connected, str(place.path))
        if not is_same_user(connected):
            raise AttachError("it belongs to another user")
        connected.settimeout(None)
    except BaseException:
        connected.close()
        raise
    return connected


def _call(connected: socket.socket, path: str) -> None:
    deadline = time.monotonic() + HELLO_SECONDS
    connected.settimeout(HELLO_SECONDS)
    while True:
        try:
            connected.connect(path)
        except BlockingIOError:  # Its backlog is full: of a Unix socket that is not waited for.
            if time.monotonic() >= deadline:
                raise
            time.sleep(CALL_AGAIN_SECONDS)
        else:
            return


def said_hello(connected: socket.socket, seconds: float) -> Hello:
    """Wait for a program's first message, at most so long; on failure the socket is closed.

    Raises:
        OSError: it did not come in time.
        AttachError: it is another one, or of another version.
    """
    deadline = time.monotonic() + seconds
    try:
        length = _exactly(connected, 4, deadline)
        size = int.from_bytes(length, "big")
        if size > READ_BYTES:
            raise AttachError(f"not the protocol of tui-profiler: {safe(repr(length))}", UPGRADE)
        body = _exactly(connected, size, deadline)
        connected.settimeout(None)
        return _checked(length + body)
    except BaseException:
        connected.close()
        raise


def _checked(frame: bytes) -> Hello:
    try:
        for message in message_decoder().feed(frame):
            if isinstance(message, Hello) and message.version != WIRE_VERSION:
                theirs = f"it has protocol version {message.version}, this command {WIRE_VERSION}"
                raise AttachError(theirs, UPGRADE)
            if isinstance(message, Hello) and message.program is not None:
                return message
            if isinstance(message, Failed):  # It has no free slot: it says so, and disconnects.
                remedy = message.remedies[0].command if message.remedies else ""
                raise AttachError(safe(message.what), safe(remedy))
    except WireError as error:
        raise AttachError(f"not the protocol of tui-profiler: {error}", UPGRADE) from error
    raise AttachError("it did not identify itself", UPGRADE)


def _exactly(connected: socket.socket, size: int, deadline: float) -> bytes:
    data = b""
    while len(data) < size:
        connected.settimeout(max(deadline - time.monotonic(), 0.001))
        part = connected.recv(size - len(data))
        if not part:
            raise AttachError("it disconnected")
        data += part
    return data


def _is_last(message: Message) -> bool:
    return isinstance(message, LoopState) and message.state == "finished"
