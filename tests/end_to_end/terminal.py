"""The real program in a real pty, read by a real terminal emulator."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil
import pyte
import wcwidth

from screens.terminal.crash_report import CRASHED

_SCRIPT = Path(sys.executable).with_name("tui-profiler")
_NOT_THE_USERS = ("NO_COLOR", "CI", "COLUMNS", "LINES", "TERM_PROGRAM", "PYTHONDONTWRITEBYTECODE")
_SYNCHRONIZED, _PLACE = b"\x1b[?2026$p", b"\x1b[6n"
COMMAND = [str(_SCRIPT)] if _SCRIPT.exists() else [sys.executable, "-m", "tui_profiler"]


class Screen(pyte.Screen):
    """A terminal's screen that keeps what was written beyond its last column."""

    def __init__(self, columns: int, lines: int) -> None:
        self.beyond: list[str] = []
        super().__init__(columns, lines)

    def draw(self, data: str) -> None:
        if wcwidth.wcswidth(data) > self.columns - self.cursor.x:
            self.beyond.append(data)
        super().draw(data)


class Terminal:
    """Starts a program on a pty of its own and keeps what its screen shows."""

    def __init__(
        self,
        command: Sequence[str],
        columns: int = 120,
        rows: int = 40,
        environment: dict[str, str] | None = None,
        folder: str | None = None,
        *,
        answers: bool = False,
        bytes_per_second: float | None = None,
    ) -> None:
        """Start it.

        Args:
            command: the program and its arguments.
            columns: of the terminal.
            rows: of the terminal.
            environment: what differs from ours.
            folder: where to start it.
            answers: whether it knows synchronized output, and says where its cursor is when it
                has read the question.
            bytes_per_second: of the link; None: as fast as it goes.
        """
        self._answers = answers
        self._bytes_per_second = bytes_per_second
        self.reads: list[tuple[float, int]] = []
        """When something was read, in seconds since the start, and the bytes until then."""
        self._screen = Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)
        self._drawn = 0
        """How many of the reads the screen shows already."""
        self._text = ""
        """What it showed when it was asked last; empty: to be read again."""
        self._lock = threading.Lock()
        self.bytes_read = 0
        self.raw = bytearray()
        self.started = time.perf_counter()
        self.first_text_after: float | None = None
        self.master, slave = pty.openpty()
        self._set_size(columns, rows)
        self.modes_before = termios.tcgetattr(slave)
        self._slave = slave
        usual = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8"}
        ours = {name: value for name, value in os.environ.items() if name not in _NOT_THE_USERS}
        environment = {**ours, **usual, **(environment or {})}
        self.pid = os.fork()
        if self.pid == 0:
            os.setsid()
            # As in a user's terminal, whatever the tests were started under (nohup, say).
            for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
                signal.signal(number, signal.SIG_DFL)
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
            for descriptor in (0, 1, 2):
                os.dup2(slave, descriptor)
            os.closerange(3, 256)
            if folder is not None:
                os.chdir(folder)
            os.execvpe(command[0], list(command), environment)
        self.exit_status: int | None = None
        self._closing = self._is_feeding = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _set_size(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def resize(self, columns: int, rows: int) -> None:
        with self._lock:
            self._draw()
            self._screen.resize(rows, columns)
            self._text = ""
        self._set_size(columns, rows)

    def _read(self) -> None:
        limit = 65536 if self._bytes_per_second is None else 256
        while not self._closing:
            try:
                ready, _, _ = select.select([self.master], [], [], 0.1)
                self._is_feeding = False
                if not ready:
                    continue
                self._is_feeding = True
                data = os.read(self.master, limit)
            except (OSError, ValueError):
                return
            if not data:
                return
            if self._bytes_per_second is not None:
                select.select([], [], [], len(data) / self._bytes_per_second)
            with self._lock:
                self.bytes_read += len(data)
                self.reads.append((self.seconds(), self.bytes_read))
                self.raw += data
            self._reply(_SYNCHRONIZED, b"\x1b[?2026;%d$y" % (2 * self._answers), len(data))
            if self._answers:
                self._reply(_PLACE, b"\x1b[1;1R", len(data))

    def _reply(self, question: bytes, answer: bytes, size: int) -> None:
        """Answer what the last ``size`` bytes asked, a question that was cut in two included."""
        asked = bytes(self.raw[-size - len(question) + 1 :]).count(question)
        with contextlib.suppress(OSError):
            if asked:
                os.write(self.master, answer * asked)

    @property
    def screen(self) -> Screen:
        """The screen as it is now."""
        with self._lock:
            self._draw()
            return self._screen

    def _draw(self) -> None:
        # Not where it is read: the emulator takes ten times as long as a terminal, and what waited
        # for it would be counted as the program's.
        for at, count in self.reads[self._drawn :]:
            before = self.reads[self._drawn - 1][1] if self._drawn else 0
            self._stream.feed(bytes(self.raw[before:count]))
            self._drawn += 1
            self._text = ""
            if self.first_text_after is None and any(map(str.strip, self._screen.display)):
                self.first_text_after = at

    def text(self) -> str:
        """What the screen shows now."""
        with self._lock:
            self._draw()
            # Of 4,800 cells, fifty times a second while something is waited for.
            self._text = self._text or "\n".join(self._screen.display)
            return self._text

    def forget_output(self) -> None:
        """Drop what was read so far: over hours it is gigabytes. The screen is not known then."""
        with self._lock:
            del self.raw[:], self.reads[:]
            self.bytes_read = self._drawn = 0

    def send(self, keys: str) -> None:
        """Type."""
        os.write(self.master, keys.encode())

    def wait_for(self, wanted: str | Callable[[str], bool], seconds: float = 120) -> str:
        """Wait until the screen shows a text, or a claim about it holds."""
        holds = wanted if callable(wanted) else lambda shown: wanted in shown
        deadline = time.monotonic() + seconds
        while not holds(shown := self.text()):
            if time.monotonic() > deadline or not self.is_alive():
                raise AssertionError(f"{wanted!r} is not on the screen:\n{shown}")
            select.select([], [], [], 0.02)
        return shown

    def seconds(self) -> float:
        """Since the program was started."""
        return time.perf_counter() - self.started

    def has_read(self) -> bool:
        """Whether the program has taken in all that was typed."""
        waiting = fcntl.ioctl(self._slave, termios.FIONREAD, struct.pack("i", 0))
        return struct.unpack("i", waiting) == (0,)

    def pause(self, seconds: float) -> None:
        """Let it run on: for benchmarks, never for a test."""
        select.select([], [], [], seconds)

    def is_alive(self) -> bool:
        if self.exit_status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.exit_status = os.waitstatus_to_exitcode(status)
        return self.exit_status is None

    def wait_for_exit(self, seconds: float = 240) -> int:
        deadline, ends = time.monotonic() + seconds, self.seconds() + seconds
        while self.is_alive():
            assert time.monotonic() < deadline, f"still running:\n{self.text()}"
            select.select([], [], [], 0.02)
        assert self.exit_status is not None
        # What it wrote last may still be on its way to the screen.
        while not self._closing and self.seconds() < ends and self._is_behind():
            select.select([], [], [], 0.02)
        if self.exit_status == CRASHED:
            print(self.text())  # What crashed: shown where a test fails.
        return self.exit_status

    def _is_behind(self) -> bool:
        waiting = fcntl.ioctl(self.master, termios.FIONREAD, struct.pack("i", 0))
        return struct.unpack("i", waiting) != (0,) or self._is_feeding

    def workers(self) -> list[psutil.Process]:
        """The worker processes that it started."""
        if not self.is_alive():
            return []
        return [
            child
            for child in psutil.Process(self.pid).children(recursive=True)
            if "tui_profiler.probe" in " ".join(child.cmdline())
        ]

    def modes_are_restored(self) -> bool:
        """Whether the terminal's modes are those from before."""
        return termios.tcgetattr(self._slave) == self.modes_before

    def hang_up(self) -> None:
        """Close our end, as a lost connection does."""
        self._closing = True
        self._reader.join()
        os.close(self._slave)
        os.close(self.master)

    def stop_reading(self) -> None:
        """Take no more of what it writes, as a stuck connection does."""
        self._closing = True
        self._reader.join()

    def close(self) -> None:
        if self.is_alive():
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        # The reader must be gone first: its descriptor's number is used again.
        self._closing = True
        self._reader.join()
        for descriptor in (self.master, self._slave):
            with contextlib.suppress(OSError):
                os.close(descriptor)


def alternate_screen_is_left(raw: bytes) -> bool:
    """Whether the last word on the alternate screen was to leave it, with the cursor shown."""
    return raw.rfind(b"\x1b[?1049l") > raw.rfind(b"\x1b[?1049h") and raw.rfind(
        b"\x1b[?25h"
    ) > raw.rfind(b"\x1b[?25l")
