"""A job as a shell starts it: a process group of its own in the foreground of a terminal."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import termios
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

_Answer = TypeVar("_Answer")


class Job:
    """A command in a new session on a pty, under a process that does for it what a shell does.

    Args:
        command: the program and its arguments.
        environment: all of it.
        ignored: signals that are ignored in it, as ``nohup`` has it.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: dict[str, str],
        ignored: Sequence[signal.Signals] = (),
    ) -> None:
        self.raw = bytearray()
        self.master, self._slave = pty.openpty()
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.modes_before = termios.tcgetattr(self._slave)
        orders, self._orders = os.pipe()
        self._told, told = os.pipe()
        self._shell = os.fork()
        if self._shell == 0:
            try:
                for theirs in (self._orders, self._told, self.master):
                    os.close(theirs)
                _shell(self._slave, orders, told, command, environment, ignored)
            finally:
                os._exit(0)
        os.close(orders)
        os.close(told)
        self._words: list[str] = []
        self._closing = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.pid = int(self.wait(lambda: self._words[:1], "a process id")[0])

    def _read(self) -> None:
        unread = b""
        while not self._closing:
            for ready in select.select([self.master, self._told], [], [], 0.1)[0]:
                with contextlib.suppress(OSError):
                    data = os.read(ready, 65536)
                    if ready == self.master:
                        self.raw += data
                        continue
                    unread += data
                    *lines, unread = unread.split(b"\n")
                    self._words += [line.decode() for line in lines]
                    if not data:
                        time.sleep(0.02)

    def wait(self, question: Callable[[], _Answer], what: str, seconds: float = 120) -> _Answer:
        """Wait until the answer is true and return it."""
        deadline = time.monotonic() + seconds
        while not (answer := question()):
            assert time.monotonic() < deadline, f"no {what}; {bytes(self.raw)[-2000:]!r}"
            time.sleep(0.01)
        return answer

    @property
    def exit_code(self) -> int | None:
        """Its exit code, or minus the signal; None while it runs."""
        ends = [word.split()[1] for word in self._words if word.startswith("ended")]
        return int(ends[0]) if ends else None

    def wait_for_exit(self) -> int:
        return int(
            self.wait(lambda: [str(self.exit_code)] if self.exit_code is not None else [], "end")[0]
        )

    @property
    def stops(self) -> int:
        """How often the shell has seen it stop."""
        return self._words.count("stopped")

    def foreground(self) -> None:
        """Let it go on, as ``fg`` does."""
        os.write(self._orders, b"f")

    def send(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def modes_are_restored(self) -> bool:
        return termios.tcgetattr(self._slave) == self.modes_before

    def close(self) -> None:
        if self.exit_code is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        os.close(self._orders)
        os.waitpid(self._shell, 0)
        self._closing = True
        self._reader.join()
        for descriptor in (self.master, self._slave, self._told):
            os.close(descriptor)


def _shell(
    terminal: int,
    orders: int,
    told: int,
    command: Sequence[str],
    environment: dict[str, str],
    ignored: Sequence[signal.Signals],
) -> None:
    os.setsid()
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
    for descriptor in (0, 1, 2):
        os.dup2(terminal, descriptor)
    job = os.fork()
    if job == 0:
        os.setpgid(0, 0)
        os.tcsetpgrp(0, os.getpid())
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        for number in ignored:
            signal.signal(number, signal.SIG_IGN)
        os.closerange(3, 256)
        os.execvpe(command[0], list(command), environment)
    os.write(told, f"{job}\n".encode())
    while True:
        pid, status = os.waitpid(job, os.WUNTRACED | os.WCONTINUED | os.WNOHANG)
        if pid and os.WIFSTOPPED(status):
            os.tcsetpgrp(0, os.getpid())
            os.write(told, b"stopped\n")
        elif pid and not os.WIFCONTINUED(status):
            os.tcsetpgrp(0, os.getpid())
            os.write(told, f"ended {os.waitstatus_to_exitcode(status)}\n".encode())
            os.read(orders, 1)
            return
        if select.select([orders], [], [], 0.01)[0]:
            if not os.read(orders, 1):
                return
            os.tcsetpgrp(0, job)
            os.killpg(job, signal.SIGCONT)


def state(pid: int) -> str:
    """What the kernel says that a process does: ``S``, ``T``, ``Z``; empty where there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""
