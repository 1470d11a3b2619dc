"""Finding programs and speaking to them: here, and elsewhere through a stand-in for ssh."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.probe.watch.watched_program import WatchedProgram, sockets_folder
from tests.viewer import place_of
from tui_profiler import messages
from tui_profiler.connection.sockets import Place, places
from tui_profiler.connection.wire import encode
from tui_profiler.source.attached import Attached, AttachError, attached, find
from tui_profiler.source.remote import address, command, remote

PROGRAM = """
model, x = Net().eval(), torch.randn(3, 8)
handle = tui_profiler.watch(model, "served")
say("ready")
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(3)), daemon=True).start()
while True:
    with torch.no_grad():
        model(x)
    time.sleep(0.001)
"""


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch, sockets_folder() as made:
        patch.setenv("TUI_PROFILER_DIR", str(made))
        yield made


@pytest.fixture(scope="module")
def program(folder: Path) -> Iterator[WatchedProgram]:
    with WatchedProgram(PROGRAM, folder) as running:
        running.said()
        yield running


@pytest.fixture
def empty(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with sockets_folder() as made:
        monkeypatch.setenv("TUI_PROFILER_DIR", str(made))
        yield made


async def first_tick(source: Attached) -> list[messages.Message]:
    heard: list[messages.Message] = []
    async with asyncio.timeout(120):
        async for message in source.messages():
            heard.append(message)
            if isinstance(message, messages.Tick) and message.forwards:
                await source.close()
    return heard


async def test_a_program_is_found_and_followed_on_our_own_clock(program: WatchedProgram) -> None:
    (found,) = find()
    assert found.program is not None
    assert (found.program.name, found.program.pid) == ("served", program.child.pid)
    started_at = time.time()
    heard = await first_tick(attached(found.place, started_at))
    ticks = [message for message in heard if isinstance(message, messages.Tick)]
    assert 0 <= ticks[-1].at <= time.time() - started_at
    assert isinstance(heard[-1], messages.Ended)
    assert (heard[-1].expected, heard[-1].attached) == (True, True)


async def test_no_time_is_ahead_of_our_clock_however_late_the_first_message_is_read() -> None:
    ours, theirs = socket.socketpair()
    # Its clock was at 100 s when it greeted, and at 160 s a moment after that was read.
    greeting = messages.Hello(
        messages.WIRE_VERSION, 1, (), "", messages.Program("odd", 1, "x", 0.0, 100.0)
    )
    source = Attached(ours, greeting, started_at=time.time() - 5.0)
    began = time.monotonic()
    theirs.sendall(
        b"".join(encode(messages.LoopState("running", at)) for at in (90.0, 160.0, 160.0, 161.0))
    )
    theirs.shutdown(socket.SHUT_WR)
    times = [one.at async for one in source.messages() if isinstance(one, messages.LoopState)]
    assert len(times) == 4
    assert times == sorted(times)
    assert times[0] == 0.0
    assert 5.0 <= times[-1] <= 5.0 + time.monotonic() - began
    assert times[-1] - times[-2] <= 1.0
    theirs.close()


class Speaker:
    """Listens like a program, and says what it is given."""

    def __init__(self, folder: Path, *parts: bytes) -> None:
        self.listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listening.bind(str(folder / f"{os.getpid()}-0-odd.sock"))
        self.listening.listen()
        self._parts = parts
        self.ended = threading.Event()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        connected, _ = self.listening.accept()
        with connected, contextlib.suppress(ConnectionError):  # Who is refused is hung up on.
            for part in self._parts:
                connected.sendall(part)
            self.ended.wait()
            connected.shutdown(socket.SHUT_WR)
            while connected.recv(4096):
                pass


def hello(version: int = messages.WIRE_VERSION) -> bytes:
    return encode(messages.Hello(version, 1, (), "", messages.Program("odd", 1, "x", 0.0, 0.0)))


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (hello(messages.WIRE_VERSION + 1), "has protocol version"),
        (encode(messages.LoopState("running", 0.0)), "it did not identify itself"),
        (b"\xff" * 64, "not the protocol of tui-profiler"),
        (b"HTTP/1.1 200 OK\r\n" * 40_000, "not the protocol of tui-profiler"),
    ],
)
def test_who_is_no_program_of_ours_is_refused_with_the_reason(
    empty: Path, said: bytes, why: str
) -> None:
    speaker = Speaker(empty, said)
    with pytest.raises(AttachError, match=why):
        attached(place_of("odd"))
    speaker.ended.set()


async def test_rubbish_after_a_hello_is_a_failure_and_the_end(empty: Path) -> None:
    speaker = Speaker(empty, hello(), b"\x00\x00\x00\x04rubb")
    heard = [message async for message in attached(place_of("odd")).messages()]
    speaker.ended.set()
    assert isinstance(heard[-2], messages.Failed)
    assert isinstance(heard[-1], messages.Ended)
    assert not heard[-1].expected


async def test_a_watching_that_is_ended_is_no_accident(empty: Path) -> None:
    speaker = Speaker(empty, hello(), encode(messages.LoopState("finished", 1.0, detail="over")))
    source = attached(place_of("odd"))
    speaker.ended.set()
    heard = [message async for message in source.messages()]
    assert isinstance(heard[-1], messages.Ended)
    assert heard[-1].expected


def test_a_socket_without_a_listener_is_removed(empty: Path) -> None:
    left = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    left.bind(str(empty / "1-0-left.sock"))
    left.close()
    assert len(places()) == 1
    assert find() == []
    assert places() == []


def test_a_socket_that_is_gone_is_refused() -> None:
    with pytest.raises(AttachError, match="does not respond"):
        attached(Place(Path("/nowhere/1-0-x.sock"), 1, 0, "x"))


SSH = """#!/bin/sh
printf '%s\\n' "$@" > {log}
for last; do :; done
{body}
"""


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "bin").mkdir()
    scripts = str(Path(sys.executable).parent)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{scripts}:{os.environ['PATH']}")
    stands_in(tmp_path, 'exec sh -c "$last"')
    return tmp_path


def stands_in(folder: Path, body: str) -> None:
    path = folder / "bin" / "ssh"
    path.write_text(SSH.format(log=folder / "log", body=body))
    path.chmod(0o755)


PYTHON = shlex.quote(sys.executable)


async def test_a_program_elsewhere_is_followed_whatever_the_shell_there_prints(
    program: WatchedProgram, ssh: Path
) -> None:
    stands_in(ssh, 'echo "Welcome to the other host"; exec sh -c "$last"')
    source = remote(address("ssh://me@host:2222/served"), sys.executable)
    heard = await first_tick(source)
    assert isinstance(heard[-1], messages.Ended)
    assert heard[-1].expected
    assert (ssh / "log").read_text().splitlines()[1:] == [
        *("-o", "ConnectTimeout=10", "-p", "2222", "me@host"),
        f"{sys.executable} -m tui_profiler relay --stdio -- served",
    ]


@pytest.mark.parametrize(
    ("body", "why", "instead"),
    [
        (
            'echo "ssh: Could not resolve hostname" >&2; exit 255',
            "Could not resolve",
            "ssh me@host",
        ),
        ('exec sh -c "tui-profiler-nowhere"', "has no tui-profiler", "--remote-python"),
        (f"exec {PYTHON} -m nowhere", "has no tui-profiler", "--remote-python"),
        ("echo \"Error: No such command 'relay'.\" >&2; exit 2", "older", "same version"),
        (
            'printf "\\0tui-profiler relay 1\\n"; sleep 0.2; printf "\\0\\0\\0\\1x"',
            "not the protocol",
            "same",
        ),
        ("exit 0", "was closed", "attach --list"),
        ("yes noise", "was closed|reset", "attach --list"),
        ("exec sleep 20", "did not respond in 1 s", "ssh me@host true"),
    ],
)
def test_what_goes_wrong_elsewhere_is_one_sentence(
    ssh: Path, body: str, why: str, instead: str
) -> None:
    stands_in(ssh, body)
    with pytest.raises(AttachError, match=why) as raised:
        remote(address("ssh://me@host/served"), seconds=1.0 if "sleep 20" in body else 120.0)
    assert instead in raised.value.instead
    assert "\n" not in str(raised.value)


def test_no_such_name_elsewhere_says_so(program: WatchedProgram, ssh: Path) -> None:
    with pytest.raises(AttachError, match="no program named 'other'"):
        remote(address("ssh://host/other"), sys.executable)


@pytest.mark.parametrize(
    "text",
    [
        *("ssh://-oProxyCommand=x/n", "ssh://-l@host", "ssh://", "ssh:///name", "ssh://host:x/n"),
        *("ssh://host:99999/n", "ssh://ho st/n", "ssh://$(x)/n", "ssh://a;b/n", "ssh://%2doX@h/n"),
    ],
)
def test_what_would_be_an_option_or_a_command_is_no_address(text: str) -> None:
    with pytest.raises(AttachError, match="not an address"):
        address(text)


def test_addresses_are_read_as_typed() -> None:
    assert address("ssh://me@Host.Example:22/a%20name") == ("Host.Example", "me", 22, "a name")
    assert address("ssh://[fe80::1%25eth0]/12") == ("fe80::1%25eth0", "", None, "12")
    assert command(address("ssh://h/x; rm -rf"))[-1] == "tui-profiler relay --stdio -- 'x; rm -rf'"
    with pytest.raises(AttachError, match="not an interpreter"):
        command(address("ssh://h"), "-oProxyCommand=x")
