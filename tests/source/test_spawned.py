"""A worker in a child process: every way for it to speak, print and end."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time

import psutil
import pytest

from tui_profiler.messages import Ended, Failed, Hello, Message, Pause, Printed
from tui_profiler.source.spawned import PRINTED_BYTES_PER_SECOND, Spawned

SPEAK = """
import os, socket, sys
from tui_profiler.messages import Hello
from tui_profiler.connection.wire import encode
link = socket.socket(fileno=int(sys.argv[-1]))
def say(*words): link.sendall(encode(Hello(1, os.getpid(), words)))
"""


def child(code: str) -> Spawned:
    return Spawned([sys.executable, "-c", SPEAK + code])


async def everything(source: Spawned) -> list[Message]:
    return [message async for message in source.messages()]


async def test_messages_and_output_arrive_apart() -> None:
    got = await everything(child("print('a model may print', flush=True); say('ready')"))
    assert [m.accepts for m in got if isinstance(m, Hello)] == [("ready",)]
    assert "".join(m.text for m in got if isinstance(m, Printed)) == "a model may print\n"
    assert isinstance(got[-1], Ended)
    assert (got[-1].code, got[-1].expected) == (0, False)  # nobody asked it to end


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("print('no CUDA', flush=True); sys.exit(3)", 3),
        ("os._exit(7)", 7),
        ("os.kill(os.getpid(), 9)", -signal.SIGKILL),
        ("import ctypes; ctypes.string_at(0)", -signal.SIGSEGV),
    ],
)
async def test_a_child_that_dies_says_how(code: str, expected: int) -> None:
    got = await everything(child(code))
    ended = got[-1]
    assert isinstance(ended, Ended)
    assert (ended.code, ended.expected) == (expected, False)


async def test_the_last_line_is_kept() -> None:
    got = await everything(child("print('first'); print('no CUDA', flush=True); sys.exit(3)"))
    assert isinstance(got[-1], Ended)
    assert got[-1].last_line == "no CUDA"


async def test_megabytes_of_output_are_bounded_and_counted() -> None:
    got = await everything(child("sys.stdout.write('x' * 20_000_000); sys.stdout.flush()"))
    printed = [m for m in got if isinstance(m, Printed)]
    kept = sum(len(m.text) for m in printed)
    assert kept + sum(m.dropped_bytes for m in printed) == 20_000_000
    assert kept <= 30 * PRINTED_BYTES_PER_SECOND


async def test_rubbish_on_the_wire_is_a_failure() -> None:
    got = await everything(child("link.sendall(b'\\xff' * 100); import time; time.sleep(600)"))
    assert any(isinstance(m, Failed) for m in got)


async def test_closing_ends_the_child_and_what_it_started() -> None:
    source = child(
        "import subprocess, time\n"
        "inner = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "say(str(inner.pid)); time.sleep(600)"
    )
    inner = 0
    async for message in source.messages():
        if isinstance(message, Hello):
            inner = int(message.accepts[0])
            break
    await source.close()
    assert not psutil.pid_exists(source.pid)
    psutil.wait_procs([psutil.Process(inner)] if psutil.pid_exists(inner) else [], timeout=240)
    assert not psutil.pid_exists(inner)


async def test_a_request_to_a_dead_child_is_lost_quietly() -> None:
    source = child("")
    await everything(source)
    source.send(Pause())


async def test_a_child_that_ignores_sigterm_is_killed() -> None:
    source = child(
        "import signal, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN); say('deaf'); time.sleep(600)"
    )
    async for message in source.messages():
        if isinstance(message, Hello):
            break
    await source.close()
    with pytest.raises(ProcessLookupError):
        os.kill(source.pid, 0)


class Slow(Spawned):
    """A child that frees its memory for long after it was killed, as one of many GB does."""

    def __init__(self) -> None:
        self.is_gone = threading.Event()

        def start(theirs: int) -> _SlowToEnd:
            code = SPEAK + "say('ready'); import time; time.sleep(600)"
            command = [sys.executable, "-c", code, str(theirs)]
            process = subprocess.Popen(
                command, pass_fds=[theirs], stdout=subprocess.PIPE, start_new_session=True
            )
            return _SlowToEnd(process, self.is_gone)

        self._begin(start, (), owns_terminal=False)


class _SlowToEnd:
    def __init__(self, process: subprocess.Popen[bytes], is_gone: threading.Event) -> None:
        self.pid, self.stdout = process.pid, process.stdout
        self._process, self._is_gone = process, is_gone

    def poll(self) -> int | None:
        return self._process.poll() if self._is_gone.is_set() else None


async def test_closing_does_not_wait_for_gigabytes_but_the_next_child_does() -> None:
    source = Slow()
    async for message in source.messages():
        if isinstance(message, Hello):
            break
    began = time.monotonic()
    await source.close()
    await source.close()  # The explorer does, and so does whoever reads.
    assert time.monotonic() - began < 2.0
    code = SPEAK + "link.recv(1); say('asked')"
    following = Spawned([sys.executable, "-c", code], first=(Pause(),))
    messages = following.messages()
    first = asyncio.ensure_future(anext(messages))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(first), 0.5)
    source.is_gone.set()
    assert isinstance(await first, Hello)
    await following.close()
    assert not psutil.pid_exists(source.pid)
