"""A program on another host, over ssh; there is no listener on the network.

``ssh`` runs ``tui-profiler relay --stdio`` there, with the user's own settings and keys. What it
asks (a passphrase, an unknown host) it asks on the terminal, before anything is drawn.

The relay passes bytes between the program's socket and two descriptors:

1. Nothing is understood or changed on the way. A viewer that reads slowly holds up the relay, and
   then the program's link drops ticks: no queue grows.
2. ``MARK`` comes first: what a shell prints when it starts is before it.
3. When either side ends, both do.
"""

import os
import re
import shlex
import socket
import subprocess
import threading
import time
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from tui_profiler.formatting.text import safe
from tui_profiler.source.attached import Attached, AttachError, said_hello

SCHEME = "ssh://"
MARK = b"\0tui-profiler relay 1\n"
READ_BYTES = 65536
CONNECT_SECONDS = 10
HELLO_SECONDS = 60.0
"""Long enough to type a passphrase."""
MOST_NOISE_BYTES = 65536
"""What a shell there may print before the relay's first message."""
_KEPT_BYTES = 4096

_HOST = re.compile(r"[A-Za-z0-9_.:%][A-Za-z0-9_.:%-]*")
_USER = re.compile(r"[A-Za-z0-9_.+][A-Za-z0-9_.+-]*")


class Address(NamedTuple):
    """Where to look: ``ssh://[user@]host[:port][/NAME|PID]``."""

    host: str
    user: str
    port: int | None
    who: str

    @property
    def login(self) -> str:
        """The destination for ssh."""
        return f"{self.user}@{self.host}" if self.user else self.host


def address(text: str) -> Address:
    """Read an address.

    Raises:
        AttachError: it is none, or would be an option to ssh.
    """
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise _no_address(text) from error
    user, host = unquote(parts.username or ""), _host(parts)
    if not _HOST.fullmatch(host) or (user and not _USER.fullmatch(user)) or parts.query:
        raise _no_address(text)
    return Address(host, user, port, unquote(parts.path.strip("/")))


def _host(parts: SplitResult) -> str:
    # urlsplit lowers the case, and hosts of ssh's settings may have capitals.
    host = parts.netloc.rpartition("@")[2]
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]


def _no_address(text: str) -> AttachError:
    return AttachError(f"{safe(text)!r} is not an address", "ssh://user@host:port/NAME")


def command(to: Address, python: str = "") -> list[str]:
    """Return what is run here; what it runs there is one argument, quoted for a shell.

    Args:
        to: where.
        python: an interpreter there; empty: ``tui-profiler`` is found there by itself.

    Raises:
        AttachError: the interpreter's path would be an option to ssh.
    """
    if python.startswith("-"):
        raise AttachError(
            f"{safe(python)!r} is not an interpreter", "--remote-python /path/to/python"
        )
    program = f"{shlex.quote(python)} -m tui_profiler" if python else "tui-profiler"
    there = f"{program} relay --stdio" + (f" -- {shlex.quote(to.who)}" if to.who else "")
    port = ["-p", str(to.port)] if to.port is not None else []
    return ["ssh", "-T", "-o", f"ConnectTimeout={CONNECT_SECONDS}", *port, to.login, there]


def remote(
    to: Address,
    python: str = "",
    started_at: float | None = None,
    seconds: float = HELLO_SECONDS,
) -> Attached:
    """Call a program on another host.

    Args:
        to: where.
        python: an interpreter there.
        started_at: Unix time when this command was started.
        seconds: how long it may take to answer.

    Raises:
        AttachError: it cannot be spoken to.
    """
    ssh = _Ssh(command(to, python))
    try:
        deadline = time.monotonic() + seconds
        _skip_noise(ssh.socket, deadline)
        hello = said_hello(ssh.socket, max(deadline - time.monotonic(), 0.001))
    except AttachError as error:
        if error.instead:  # It answers, in another version.
            raise AttachError(f"{safe(to.host)}: {error}", error.instead) from error
        raise ssh.failure(to, python) from error
    except OSError as error:
        if isinstance(error, TimeoutError):
            why = f"{safe(to.host)} did not respond in {seconds:.0f} s"
            raise AttachError(why, shlex.join(["ssh", to.login, "true"])) from error
        raise ssh.failure(to, python) from error
    finally:
        if not ssh.socket.fileno() >= 0:
            ssh.end()
    return Attached(ssh.socket, hello, started_at, ssh.last_line)


class _Ssh:
    """The ssh child process, and the last lines of its standard error."""

    def __init__(self, arguments: Sequence[str]) -> None:
        self.socket, theirs = socket.socketpair()
        self._complaint = b""
        with theirs:
            try:
                self._child = subprocess.Popen(
                    arguments, stdin=theirs.fileno(), stdout=theirs.fileno(), stderr=subprocess.PIPE
                )
            except OSError as error:
                self.socket.close()
                raise AttachError(f"ssh cannot be run: {error}", "installing OpenSSH") from error
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._child.stderr is not None
        with self._child.stderr as stream:
            while data := os.read(stream.fileno(), _KEPT_BYTES):
                self._complaint = (self._complaint + data)[-_KEPT_BYTES:]
        self._child.wait()

    def end(self) -> None:
        """Stop it, if it runs."""
        self._child.terminate()

    def last_line(self) -> str:
        """Return what it said last, once it has had a moment to say it."""
        self._reader.join(1.0)
        lines = self._complaint.decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def failure(self, to: Address, python: str) -> AttachError:
        """Say why it ended before the program spoke."""
        self.socket.close()
        said = safe(self.last_line()) or "the connection was closed"
        code = self._child.poll()
        login = shlex.join(["ssh", to.login])
        if code == 255:
            return AttachError(f"ssh: {said}", f"{login} true: it must succeed")
        if code in (126, 127) or "No module named" in said:
            what = f"{safe(to.host)} has no tui-profiler: {said}"
            return AttachError(
                what, "--remote-python PATH: the python of the program's environment"
            )
        if "No such command" in said or "No such option" in said:
            what = f"{safe(to.host)} has an older tui-profiler: {said}"
            return AttachError(what, "the same version of tui-profiler on both hosts")
        names = "" if to.who else f"{SCHEME}{to.login}/NAME, or "
        return AttachError(f"{safe(to.host)}: {said}", f"{names}{login} tui-profiler attach --list")


def _skip_noise(connected: socket.socket, deadline: float) -> None:
    """Read up to the relay's mark.

    Raises:
        AttachError: it does not come.
        OSError: not in time.
    """
    heard = b""
    while not heard.endswith(MARK):
        connected.settimeout(max(deadline - time.monotonic(), 0.001))
        part = connected.recv(1)
        if not part or len(heard) > MOST_NOISE_BYTES:
            connected.close()
            raise AttachError("the connection was closed")
        heard += part


def relay(connected: socket.socket, source: int, sink: int) -> None:
    """Carry bytes both ways until one side ends.

    Args:
        connected: to the program.
        source: descriptor of what the viewer says.
        sink: descriptor of what it hears.
    """
    over = threading.Event()

    def up() -> None:
        try:
            while data := os.read(source, READ_BYTES):
                connected.sendall(data)
        except OSError:
            pass  # Either end is gone: so are we.
        over.set()

    def down() -> None:
        try:
            _write(sink, MARK)
            while data := connected.recv(READ_BYTES):
                _write(sink, data)
        except OSError:
            pass
        over.set()

    for carry in (up, down):
        threading.Thread(target=carry, daemon=True).start()
    over.wait()
    connected.close()


def _write(sink: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(sink, left) :]
