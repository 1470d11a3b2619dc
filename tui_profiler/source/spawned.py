"""A worker of our own in a child process.

1. Messages come over an inherited socket, so that nothing the model prints can corrupt them.
2. What it prints is read from a pipe into ``Printed`` messages, bounded: more is counted, not kept.
3. It is a session leader: when it is stopped, all that it started is stopped too.
4. It dies with us: its socket closes, and the kernel sends it SIGKILL when our process goes.
5. Every way for it to end becomes one ``Ended`` message.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import IO, Protocol

from tui_profiler.messages import Ended, Failed, Message, Printed, Request
from tui_profiler.source.last_words import KEPT_BYTES, last_words
from tui_profiler.wire import WireError, encode, message_decoder

READ_BYTES = 256 * 1024
PRINTED_BYTES_PER_SECOND = 64 * 1024
GRACE_SECONDS = 2.0
SILENT = {"KINETO_LOG_LEVEL": "99"}
"""At any other level torch's profiler prints for each operator window."""

_Item = Message | None


class Child(Protocol):
    """A process that was started for us, as ``subprocess.Popen`` shows it."""

    @property
    def pid(self) -> int:
        """Its number, which is that of its group."""
        ...

    @property
    def stdout(self) -> IO[bytes] | None:
        """What it prints; None where that goes elsewhere."""
        ...

    def poll(self) -> int | None:
        """Give its exit code; None while it runs."""
        ...


class Spawned:
    """A child process that speaks the wire. It starts at once, before any event loop runs."""

    def __init__(
        self,
        command: Sequence[str],
        first: Sequence[Request] = (),
        *,
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] = SILENT,
        owns_terminal: bool = False,
    ) -> None:
        """Start a child.

        Args:
            command: what to run; the number of the inherited socket follows it.
            first: requests to send at once.
            arguments: what follows that number.
            environment: what it has beside ours.
            owns_terminal: it reads, writes and is interrupted as if it had been started by itself;
                nothing of what it prints comes as a message.
        """

        def start(theirs: int) -> Child:
            return subprocess.Popen(
                [*command, str(theirs), *arguments],
                pass_fds=[theirs],
                stdin=None if owns_terminal else subprocess.DEVNULL,
                stdout=None if owns_terminal else subprocess.PIPE,
                stderr=None if owns_terminal else subprocess.STDOUT,
                start_new_session=not owns_terminal,
                env={**os.environ, **environment},
            )

        self._begin(start, first, owns_terminal=owns_terminal)

    def _begin(
        self, start: Callable[[int], Child], first: Sequence[Request], *, owns_terminal: bool
    ) -> None:
        ours, theirs = socket.socketpair()
        self._socket = ours
        self._started = time.monotonic()
        try:
            with theirs:
                self._child = start(theirs.fileno())
        except BaseException:
            ours.close()
            raise
        self._first = tuple(first)
        self._owns_terminal = owns_terminal
        self._queue: asyncio.Queue[_Item] = asyncio.Queue(maxsize=1024)
        self._writer: asyncio.StreamWriter | None = None
        self._asked_to_stop = False
        self._has_hung_up = False
        self._output_end = b""

    @property
    def pid(self) -> int:
        """Process identity of the child."""
        return self._child.pid

    async def messages(self) -> AsyncIterator[Message]:
        """Yield what the child sends and prints, then how it ended."""
        reader, self._writer = await asyncio.open_connection(sock=self._socket, limit=READ_BYTES)
        for request in self._first:
            self.send(request)
        tasks = [
            asyncio.create_task(self._read_wire(reader)),
            asyncio.create_task(self._read_output()),
        ]
        try:
            while (item := await self._queue.get()) is not None:
                yield item
            code = await self._wait()
            await tasks[1]
            while not self._queue.empty():
                if (item := self._queue.get_nowait()) is not None:
                    yield item
            yield self._ended(code)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.close()

    def send(self, request: Request) -> None:
        """Write a request; it is lost when the child is gone."""
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(encode(request))

    async def close(self) -> None:
        """Stop the child and all that it started, and wait until they are gone."""
        self._asked_to_stop = True
        if self._writer is not None and not self._writer.is_closing():
            self._writer.close()
        elif self._writer is None:
            self._socket.close()
        if self._child.poll() is None:
            self._signal(signal.SIGTERM)
            try:
                await asyncio.wait_for(self._wait(), GRACE_SECONDS)
            except TimeoutError:
                self._signal(signal.SIGKILL)
                await self._wait()
        # What it left behind in its own process group has no one else to stop it.
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if self._owns_terminal:
                os.kill(self._child.pid, number)  # Its group is ours.
            else:
                os.killpg(self._child.pid, number)

    async def _wait(self) -> int:
        pause = 0.002
        while (code := self._child.poll()) is None:
            await asyncio.sleep(pause)
            pause = min(pause * 2, 0.1)
        return code

    async def _read_wire(self, reader: asyncio.StreamReader) -> None:
        decoder = message_decoder()
        try:
            while data := await reader.read(READ_BYTES):
                for message in decoder.feed(data):
                    await self._queue.put(message)
        except WireError as error:
            await self._queue.put(
                Failed("worker", f"the worker sent what is not a message: {error}")
            )
            self._signal(signal.SIGKILL)
        except ConnectionError:
            pass  # The child is gone; how it ended is told by its exit code.
        finally:
            self._has_hung_up = True
            with contextlib.suppress(asyncio.QueueFull):
                self._queue.put_nowait(None)

    async def _read_output(self) -> None:
        if self._child.stdout is None:
            return
        reader = asyncio.StreamReader(limit=READ_BYTES)
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), self._child.stdout
        )
        second, room, dropped = 0, 0, 0
        try:
            while data := await reader.read(READ_BYTES):
                if int(time.monotonic()) != second:
                    second, room = int(time.monotonic()), PRINTED_BYTES_PER_SECOND
                kept, room, dropped = data[:room], max(room - len(data), 0), dropped + len(data)
                dropped -= len(kept)
                self._output_end = (self._output_end + data)[-KEPT_BYTES:]
                if kept and not self._queue.full():
                    self._queue.put_nowait(Printed(kept.decode(errors="replace"), dropped))
                    dropped = 0
                else:
                    dropped += len(kept)
        finally:
            transport.close()
            if dropped and not self._queue.full():
                self._queue.put_nowait(Printed("", dropped))

    def _ended(self, code: int) -> Ended:
        return Ended(
            code=code,
            # Code 0 is no excuse: a worker waits for us, but a model may end its process.
            expected=self._asked_to_stop,
            last_line=last_words(self._output_end),
            pid=self._child.pid,
            seconds=time.monotonic() - self._started,
        )


def worker_command() -> list[str]:
    """Give the command of our worker; ``-P`` keeps the user's folder from shadowing our imports."""
    return [sys.executable, "-P", "-m", "tui_profiler.probe"]
