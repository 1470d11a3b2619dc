"""The user's script in a child process, profiled from its first forward on.

1. It gets every signal that this process gets, once (``signals.py``). When this process is
   killed, the kernel sends it SIGTERM, and ``signal_witness.py`` sees to the rest.
2. We end after it, however long it takes, and as it did: with its exit code, or by its signal.
3. In the explorer its output comes as ``Printed``, and is kept in a file of the log folder. Once
   the explorer is left, the rest goes to our standard output. Another process
   (``output_buffer.py``) and a thread read it: the script waits neither for a process that is
   stopped nor for an event loop that is held up.
"""

import asyncio
import contextlib
import fcntl
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import IO

import platformdirs
from msgspec.structs import replace

from tui_profiler.connection.wire import encode
from tui_profiler.formatting.text import safe
from tui_profiler.messages import (
    SCRIPT,
    Ended,
    Failed,
    Message,
    Observe,
    Printed,
    ReadValues,
    Remedy,
    Request,
    ShowModel,
)
from tui_profiler.queries.panel.failure import killed_likely
from tui_profiler.queries.panel.state import killer
from tui_profiler.session.apply import safe_line, without_colours
from tui_profiler.source import output_buffer
from tui_profiler.source.signals import LEAVES, Relay, die_of
from tui_profiler.source.spawned import PRINTED_BYTES_PER_SECOND, Spawned
from tui_profiler.source.torch_processes import TorchProcesses
from tui_profiler.system.files import PROGRAM, private_directory

LAST_LINES = 20
"""Of the output, which stay in the terminal when the explorer is left."""
PIPE_BYTES = 1024 * 1024
"""The maximum on Linux without privileges."""
_STOPPED = 128
_BEGIN = """import sys
if not sys.flags.safe_path: del sys.path[0]
from tui_profiler.probe.watch.script import main
main(*sys.argv[1:])"""
"""Instead of ``-P``, which the script and its children would have too. What is imported before the
first folder is gone, which is the user's, is a part of Python's core."""
_LOOK_SECONDS = 0.1
_CHILDREN_SECONDS = 1.0
_FIRST = 1
"""Process id of the first process of a container."""
_LOG = ("L", "shows the output of the script")


class Script(Spawned):
    """A script under way. It starts at once, before any event loop and any thread runs.

    Args:
        arguments: the file, ``-m`` and the module, ``-c`` and the code, or ``-`` for standard
            input; then the script's own.
        started_at: Unix time at which the command was started.
        budget: maximum profiling overhead, as a share of the model's time.
        owns_terminal: standard input, output and error are the script's own.
        model: pattern of the class to look at; empty: of whatever runs.
        reads_values: whether values of training steps are read, now and then, from the first on.
    """

    _is_users = True

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        started_at: float,
        budget: float,
        owns_terminal: bool = False,
        model: str = "",
        reads_values: bool = False,
    ) -> None:
        self._is_let_go = self._was_stopped = False
        self.is_line_begun = False
        """Whether the output that ``follow`` has written ends within a line."""
        self._failed = ""
        """How it failed, in one line; empty where it did not, or has not said it."""
        self._following = threading.Lock()
        self.log = LogFile()
        self._printing = threading.Lock()
        """Of what is below."""
        self._printed, self._unprinted = bytearray(), 0
        """What was read and is no message yet, and how many bytes more were read."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_told = False
        """Whether the loop was asked to make messages of it."""
        self._is_output_over, self._output_over = False, asyncio.Event()
        self._relay = Relay(arguments, leads=not owns_terminal)
        unbuffered = [] if owns_terminal else ["-u"]  # Else the log would be behind.
        try:
            super().__init__(
                [sys.executable, *unbuffered, "-c", _BEGIN],
                arguments=[repr(started_at), repr(budget), *arguments],
                environment={},
                owns_terminal=owns_terminal,
                passed=_inherited_descriptors(),
                in_child=self._relay.in_child,
                on_output=self.log.write,
            )
        except BaseException:
            self._relay.close()
            raise
        self._relay.begin(self.pid)
        self._wake, self._woken = socket.socketpair()
        self._reading = threading.Thread(target=self._read, name="tui-profiler-output", daemon=True)
        self._asked: socket.socket | None = None
        """Where the process between us and the script's output answers; None: there is none."""
        if self._child.stdout is not None:
            assert isinstance(self._child, subprocess.Popen)
            self._child.stdout, self._asked = _buffered(self._child.stdout)
            self._reading.start()
        if os.getpid() == _FIRST:
            threading.Thread(target=self._reap, name="tui-profiler-reaper", daemon=True).start()
        # At once: to write to a script that has ended would lose what it has said.
        with contextlib.suppress(OSError):
            asked: list[Request] = [Observe(), *([ShowModel(model)] if model else [])]
            asked += [ReadValues()] if reads_values else []
            self._socket.sendall(b"".join(map(encode, asked)))

    def _reap(self) -> None:
        """Reap orphans: as process 1 of a container this process is their parent."""
        own = set(_children())
        while True:
            time.sleep(_CHILDREN_SECONDS)
            for pid in set(_children()) - own:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)

    @property
    def is_running(self) -> bool:
        """Whether it has not ended; where it has said that it does, it is given time for that."""
        return self._child.poll() is None and not self._has_hung_up

    @property
    def was_asked_to_end(self) -> bool:
        """Whether a signal that asks programs to end has come."""
        return bool(self._relay.passed & LEAVES)

    @property
    def was_ended_by_signal(self) -> bool:
        """Whether it has ended by a signal that we got too."""
        code = self._child.poll()
        return code is not None and -code in self._relay.passed

    def on_signals(
        self,
        *,
        end: Callable[[int], None],
        stop: Callable[[], None],
        resume: Callable[[], None],
    ) -> None:
        """Say what else is to happen for signals, on another thread, once they were passed on.

        Args:
            end: for those that ask a program to end; gets the number.
            stop: stops this process, instead of the signal.
            resume: for SIGCONT.
        """
        self._relay.on_end, self._relay.on_stop, self._relay.on_continue = end, stop, resume

    def on_report(self, report: Callable[[], None]) -> None:
        """Say what happens at SIGUSR2, on another thread, if the script does not handle it."""
        self._relay.on_report = report
        if self._relay.is_report_due:
            report()

    async def messages(self) -> AsyncIterator[Message]:
        """Yield what it sends and prints, which children run torch, and how it ended."""
        looking = asyncio.create_task(self._look_at_children())
        try:
            async for message in super().messages():
                if isinstance(message, Failed) and message.stage == SCRIPT:
                    self._failed = without_colours(message).what
                elif isinstance(message, Ended) and not message.expected and not self._failed:
                    yield self._told_by_exit(message.code, message.last_line)
                yield message
        finally:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)

    def _told_by_exit(self, code: int, last_line: str) -> Failed:
        what, likely, why = f"exit code {code}", last_line, ""
        if code < 0:
            what, likely = f"ended by {_signal_name(-code)}", ""
        if code == -signal.SIGKILL:
            by_kernel, counters = self.verdict(code)
            why = counters if by_kernel else ""
            what, likely = f"{what}, {killer(by_kernel)}", killed_likely(by_kernel)
        self._failed = what
        return Failed(SCRIPT, what, why=why, likely=likely, remedies=(Remedy(*_LOG),))

    async def _look_at_children(self) -> None:
        children = TorchProcesses(self.pid)
        while True:
            await asyncio.sleep(_CHILDREN_SECONDS)
            found = await asyncio.to_thread(children.new)
            if found is not None and not self._queue.full():
                self._queue.put_nowait(found)

    def how_it_failed(self) -> str:
        """Say how it failed, in one line that is safe; empty where it did not, or was stopped."""
        code = self.wait()
        if code == 0 or self._was_stopped:
            return ""
        if not self._failed:
            self._told_by_exit(code, "")
        named = (
            self._failed
            if code < 0 or "exit code" in self._failed
            else f"{self._failed} (exit code {code})"
        )
        return safe(named)

    def let_go(self) -> None:
        """Let it run on when this is closed."""
        self._is_let_go = True

    async def close(self) -> None:
        """Hang up; ask the script to end, unless it was let go. ``follow`` waits for its end."""
        if self._writer is not None and not self._writer.is_closing():
            self._writer.close()
        elif self._writer is None:
            self._socket.close()
        is_kept = self._is_let_go or self._owns_terminal
        if self.is_running and not is_kept and not self._was_stopped:
            self._was_stopped = True
            self._signal(signal.SIGTERM)

    def _read(self) -> None:
        """Read its output on a thread: a stuck terminal would block the event loop."""
        assert self._child.stdout is not None
        output, woken, data = self._child.stdout.fileno(), self._woken.fileno(), None
        while data != b"":
            if woken in select.select([output, woken], [], [])[0]:
                return
            data = self.read_output()
            with self._printing:
                kept = (data or b"")[: PRINTED_BYTES_PER_SECOND - len(self._printed)]
                self._printed += kept
                self._unprinted += len(data or b"") - len(kept)
                self._tell_loop(self._tell_printed)
        with self._printing:
            self._is_output_over = True
            self._tell_loop(self._output_over.set)

    def _tell_loop(self, call: Callable[[], None]) -> None:
        if self._loop is None or (self._is_told and call == self._tell_printed):
            return
        with contextlib.suppress(RuntimeError):  # The explorer was left.
            self._loop.call_soon_threadsafe(call)
            self._is_told = True

    def _tell_printed(self) -> None:
        """Make messages of what was read; on the event loop."""
        with self._printing:
            data, self._printed = bytes(self._printed), bytearray()
            self._output_dropped += self._unprinted
            self._unprinted, self._is_told = 0, False
        self._queue_output(data)

    async def _read_output(self) -> None:
        if self._child.stdout is None:
            return
        with self._printing:
            self._loop, is_over = asyncio.get_running_loop(), self._is_output_over
        self._tell_printed()
        if not is_over:
            await self._output_over.wait()
        self._tell_printed()
        if self._output_dropped and not self._queue.full():
            self._queue.put_nowait(Printed("", self._output_dropped))

    def follow(self) -> None:
        """Write the last of what it printed to standard output, then the rest as it comes.

        Returns when it has ended. Where standard output takes no more, the rest is read all the
        same: the script is not to wait, or to fail, because a terminal was closed.
        """
        self._relay.on_end = self._relay.on_stop = self._relay.on_continue = None
        with self._following:
            self._follow()

    def _follow(self) -> None:
        if self._reading.is_alive():
            self._wake.send(b"\0")
            self._reading.join()
        write = self._printer()
        lines = self._output_end.decode(errors="replace").replace("\r\n", "\n").split("\n")
        for line in lines[-LAST_LINES - 1 : -1]:
            write(f"{safe_line(line)}\n".encode())
        write(safe_line(lines[-1]).encode())
        if self._child.stdout is None:
            return
        output, data, is_all = self._child.stdout.fileno(), None, False
        watched: list[int] = [output]
        while data != b"" and not (is_all and data is None):
            # What it printed before its end; what it has started may print for days.
            if len(watched) < 2 and self._asked is not None and self._child.poll() is not None:
                watched.append(self._asked.fileno())
                with contextlib.suppress(OSError):
                    self._asked.sendall(output_buffer.ASK)
            ready, _, _ = select.select(watched, [], [], _LOOK_SECONDS)
            is_all |= watched[1:] != [] and watched[-1] in ready
            data = self.read_output()
            write(data or b"")
        while self._child.poll() is None:  # It has closed its output, and goes on.
            time.sleep(_LOOK_SECONDS)

    def _printer(self) -> Callable[[bytes], None]:
        takes_more = True

        def write(data: bytes) -> None:
            nonlocal takes_more
            if data and takes_more:
                try:
                    sys.stdout.buffer.write(data)
                    sys.stdout.buffer.flush()
                    self.is_line_begun = not data.endswith(b"\n")
                except OSError:
                    takes_more = False

        return write

    def wait(self) -> int:
        """Wait until it has ended; returns its exit code, or minus the number of a signal."""
        assert isinstance(self._child, subprocess.Popen)  # It was started, not forked.
        return self._child.wait()

    def end(self) -> int:
        """Wait until it has ended, and end as it did.

        Returns:
            Its exit code. Where it ended by a signal this returns only if it was stopped by a key,
            or if this is the first process of a container: with 128 and the number of the signal.
        """
        code = self.wait()
        self._relay.close()
        if self._was_stopped and not self._owns_terminal:
            self._signal(signal.SIGKILL)  # What it left behind in its session.
        if code >= 0:
            return code
        return _STOPPED - code if self._was_stopped else die_of(-code)

    def _ended(self, code: int) -> Ended:
        ended = super()._ended(code)
        return replace(ended, expected=code == 0 or self._was_stopped, is_script=True)


def _inherited_descriptors() -> list[int]:
    """Return the file descriptors that a shell or supervisor has opened for the script.

    Such as ``/dev/fd/63`` of ``<(command)``, or 3 of ``3>log``. Python's own are not inheritable.
    """
    descriptors = (int(name) for name in os.listdir("/dev/fd"))
    opened = []
    for descriptor in descriptors:
        with contextlib.suppress(OSError):  # The one that listed them is closed.
            if descriptor > 2 and os.get_inheritable(descriptor):
                opened.append(descriptor)
    return opened


def _children() -> list[int]:
    """Return the process ids of this process's children, those that have ended included."""
    found: list[int] = []
    for task in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += [int(word) for word in task.read_text(encoding="ascii").split()]
    return found


def _buffered(printed: IO[bytes]) -> tuple[IO[bytes], socket.socket]:
    """Start the process that reads what a script prints at all times.

    Returns:
        Where to read what it passes on, and the socket on which it can be asked for all of it.
    """
    ours, theirs = socket.socketpair()
    output, target = os.pipe()
    for pipe in (printed.fileno(), output):
        with contextlib.suppress(OSError):  # More than this user may have.
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    passed = [printed.fileno(), target, theirs.fileno()]
    with theirs, printed:
        subprocess.Popen(
            [sys.executable, "-I", "-S", output_buffer.__file__, *map(str, passed)],
            pass_fds=passed,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(target)
    os.set_blocking(output, False)
    return os.fdopen(output, "rb", buffering=0), ours


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # SIGRTMIN + 1, say.
        return f"signal {number}"


class LogFile:
    """What a script printed, in a file of the user's log folder; the newest of it where it is much.

    The file is made when there is something to write.
    """

    MOST_BYTES = 32 * 1024 * 1024
    """Of one file. The one before it is kept beside it."""
    MOST_FILES = 20

    def __init__(self) -> None:
        self.path: Path | None = None
        self.why_none = ""
        """Why there is no file, though something was printed."""
        self._file = -1
        self._size = 0

    def write(self, data: bytes) -> None:
        """Append; never raises."""
        if self.why_none or not data:
            return
        try:
            if self._file < 0 or self._size + len(data) > self.MOST_BYTES:
                self._open()
            os.write(self._file, data)
            self._size += len(data)
        except OSError as error:
            self.why_none = error.strerror or type(error).__name__

    def _open(self) -> None:
        if self.path is None:
            folder = private_directory(Path(platformdirs.user_log_dir(PROGRAM, appauthor=False)))
            stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
            self.path = folder / f"run-{stamp}-{os.getpid()}.log"
            for old in sorted(folder.glob("run-*.log"))[: -self.MOST_FILES]:
                old.unlink(missing_ok=True)
                old.with_suffix(".log.1").unlink(missing_ok=True)
        else:
            os.close(self._file)
            self._file = -1
            self.path.replace(self.path.with_suffix(".log.1"))
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self._file, self._size = os.open(self.path, flags, 0o600), 0
        os.fchmod(self._file, 0o600)  # Under a umask that took the user's own rights too.
