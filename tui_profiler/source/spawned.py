"""A worker process, started as a child.

1. Messages come over an inherited socket, so that nothing the model prints can corrupt them.
2. What it prints is read from a pipe into ``Printed`` messages, bounded: more is counted, not kept.
3. It is a session leader: when it is stopped, all that it started is stopped too.
4. It dies with us: its socket closes, and the kernel sends it SIGKILL when our process goes.
5. Every way for it to end becomes one ``Ended`` message.
6. Closing takes a second at most: a process of many gigabytes needs longer to give its memory back
   after SIGKILL, and nobody waits for that but the next child, before its first request.
"""

import asyncio
import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Protocol

from tui_profiler.connection.wire import WireError, encode, message_decoder
from tui_profiler.messages import Ended, Failed, Message, Printed, Request
from tui_profiler.system.control_group import OutOfMemoryKills, Verdict

READ_BYTES = 256 * 1024
PRINTED_BYTES_PER_SECOND = 64 * 1024
GRACE_SECONDS = 2.0
KILL_AFTER_SECONDS = 0.5
LEAVE_AFTER_SECONDS = 1.0
"""From the start of closing: a child that is still alive then is no longer waited for."""
_LEAVING_SECONDS = 60.0
"""How long a new child waits for those that are leaving, at most."""
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
        """Return its exit code; None while it runs."""
        ...


_LEAVING: list[Child] = []
"""Children that were killed and were not gone yet when they were left."""


class Spawned:
    """A child process on the wire. It starts at once, before any event loop runs."""

    _is_users = False
    """A program of the user's is not killed for what comes over the wire."""
    _on_output: Callable[[bytes], None] | None = None

    def __init__(
        self,
        command: Sequence[str],
        first: Sequence[Request] = (),
        *,
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] = SILENT,
        owns_terminal: bool = False,
        passed: Sequence[int] = (),
        in_child: Callable[[], None] | None = None,
        on_output: Callable[[bytes], None] | None = None,
    ) -> None:
        """Start a child.

        Args:
            command: what to run; the number of the inherited socket follows it.
            first: requests to send at once.
            arguments: what follows that number.
            environment: what it has beside ours.
            owns_terminal: it reads, writes and is interrupted as if it had been started by itself;
                nothing of what it prints comes as a message.
            passed: file descriptors that it inherits.
            in_child: called in the new process before it becomes the command.
            on_output: called with what it prints, all of it, as it is read.
        """

        def start(theirs: int) -> Child:
            return subprocess.Popen(
                [*command, str(theirs), *arguments],
                pass_fds=[theirs, *passed],
                stdin=None if owns_terminal else subprocess.DEVNULL,
                stdout=None if owns_terminal else subprocess.PIPE,
                stderr=None if owns_terminal else subprocess.STDOUT,
                start_new_session=not owns_terminal,
                env={**os.environ, **environment},
                preexec_fn=in_child,  # noqa: PLW1509 # given only where there is one thread
            )

        self._begin(start, first, owns_terminal=owns_terminal)
        self._on_output = on_output

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
        self._kills = OutOfMemoryKills(Path(f"/proc/{self._child.pid}"))
        self._first = tuple(first)
        self._owns_terminal = owns_terminal
        self._queue: asyncio.Queue[_Item] = asyncio.Queue(maxsize=1024)
        self._writer: asyncio.StreamWriter | None = None
        self._asked_to_stop = False
        self._closing_since: float | None = None
        self._has_hung_up = False
        self._output_end = b""
        self._output_second = self._output_room = 0
        """Of which second, and how many bytes more of it become messages."""
        self._output_dropped = 0

    @property
    def pid(self) -> int:
        """Process identity of the child."""
        return self._child.pid

    async def messages(self) -> AsyncIterator[Message]:
        """Yield what the child sends and prints, then how it ended."""
        reader, self._writer = await asyncio.open_connection(sock=self._socket, limit=READ_BYTES)
        # What they hold would be taken for memory that is not free.
        await _others_gone()
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
            # What it has started may have the other end of the pipe, and run for days.
            await asyncio.wait(tasks[1:], timeout=GRACE_SECONDS)
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
        """Stop the child and all that it started, and wait a moment until they are gone."""
        self._asked_to_stop = True
        if self._closing_since is None:
            self._closing_since = time.monotonic()
        if self._writer is not None and not self._writer.is_closing():
            self._writer.close()
        elif self._writer is None:
            self._socket.close()
        if self._child.poll() is None:
            self._signal(signal.SIGTERM)
            if not await self._is_gone(self._closing_since + KILL_AFTER_SECONDS):
                self._signal(signal.SIGKILL)
                if not await self._is_gone(self._closing_since + LEAVE_AFTER_SECONDS):
                    if self._child not in _LEAVING:
                        _LEAVING.append(self._child)
                    return
        if not self._owns_terminal:
            # What it left behind in its own process group has no one else to stop it.
            self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if self._owns_terminal:
                os.kill(self._child.pid, number)  # Its group is ours.
            else:
                os.killpg(self._child.pid, number)

    async def _is_gone(self, until: float) -> bool:
        """Wait until it is gone, or that time has come."""
        try:
            await asyncio.wait_for(self._wait(), max(until - time.monotonic(), 0.0))
        except TimeoutError:
            return self._child.poll() is not None
        return True

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
            if not self._is_users:
                self._signal(signal.SIGKILL)
        except ConnectionError:
            pass  # The child is gone; its exit code shows how it ended.
        finally:
            self._has_hung_up = True
            with contextlib.suppress(asyncio.QueueFull):
                self._queue.put_nowait(None)

    async def _read_output(self) -> None:
        if self._child.stdout is None:
            return
        # Nothing is read ahead: what is not read when this is cancelled is still in the pipe.
        output, loop = self._child.stdout.fileno(), asyncio.get_running_loop()
        os.set_blocking(output, False)
        is_over = loop.create_future()

        def read() -> None:
            data = self.read_output()
            if data == b"" and not is_over.done():
                is_over.set_result(None)
            self._queue_output(data or b"")

        loop.add_reader(output, read)
        try:
            await is_over
        finally:
            loop.remove_reader(output)
            if self._output_dropped and not self._queue.full():
                self._queue.put_nowait(Printed("", self._output_dropped))

    def read_output(self) -> bytes | None:
        """Return what it has printed since this was asked; None: nothing, empty: it is over."""
        assert self._child.stdout is not None
        try:
            data = os.read(self._child.stdout.fileno(), READ_BYTES)
        except BlockingIOError:
            return None
        self._output_end = (self._output_end + data)[-_KEPT_BYTES:]
        if self._on_output is not None:
            self._on_output(data)
        return data

    def _queue_output(self, data: bytes) -> None:
        if int(time.monotonic()) != self._output_second:
            self._output_second, self._output_room = int(time.monotonic()), PRINTED_BYTES_PER_SECOND
        kept = data[: self._output_room]
        self._output_room = max(self._output_room - len(data), 0)
        self._output_dropped += len(data) - len(kept)
        if not kept:
            return
        if self._queue.full():
            self._output_dropped += len(kept)
        else:
            printed = Printed(kept.decode(errors="replace"), self._output_dropped)
            self._queue.put_nowait(printed)
            self._output_dropped = 0

    def verdict(self, code: int) -> Verdict:
        """Return whether the kernel killed it for memory; of an exit code other than -9 nothing."""
        return self._kills.verdict() if code == -signal.SIGKILL else Verdict(None, "")

    def _ended(self, code: int) -> Ended:
        verdict = self.verdict(code)
        return Ended(
            code=code,
            # Code 0 is no excuse: a worker waits for us, but a model may end its process.
            expected=self._asked_to_stop,
            last_line=_last_words(self._output_end),
            pid=self._child.pid,
            seconds=time.monotonic() - self._started,
            out_of_memory=verdict.by_kernel,
            why=verdict.why,
        )


async def _others_gone() -> None:
    """Wait until the children that were left are gone."""
    until = time.monotonic() + _LEAVING_SECONDS
    while _LEAVING and time.monotonic() < until:
        _LEAVING[:] = [child for child in _LEAVING if child.poll() is None]
        if _LEAVING:
            await asyncio.sleep(0.02)


def worker_command() -> list[str]:
    """Return command of our worker; ``-P`` keeps the user's folder from shadowing our imports."""
    return [sys.executable, "-P", "-m", "tui_profiler.probe"]


def worker(request: Request) -> Spawned:
    """Start a worker with its first request."""
    return Spawned(worker_command(), first=[request])


_KEPT_BYTES = 32 * 1024
"""Of the end of its output: a fault prints the stacks of all threads."""
_MOST_CHARACTERS = 1000
_FAULT = re.compile(r"^Fatal Python error: (.+)$", re.MULTILINE)
_PLACE = re.compile(r'^Current thread .*\n((?:  File ".*", line \d+ in .*\n?)+)', re.MULTILINE)
_FRAME = re.compile(r'File "(.*)", line (\d+) in ')


def _last_words(output: bytes) -> str:
    """Return last line printed; of a fault, what it was and the line of the user's nearest to it.

    Args:
        output: the end of what the child printed, ``_KEPT_BYTES`` of it at most.
    """
    text = output.decode(errors="replace").replace("\r\n", "\n")
    fault = next(reversed(list(_FAULT.finditer(text))), None)
    if fault is None:
        return text.strip().rpartition("\n")[2].strip()[:_MOST_CHARACTERS]
    place = _PLACE.search(text, fault.end())
    frames = _FRAME.findall(place[1]) if place is not None else []
    at = next((f" at {file}:{line}" for file, line in frames if not _is_library(file)), "")
    return f"{fault[1].strip()}{at}"[:_MOST_CHARACTERS]


def _is_library(file: str) -> bool:
    return "/lib/python" in file or file.startswith("<")
