"""Signals that ``run`` receives, forwarded to its script once each.

1. Signals are blocked in every thread of this process from before the script starts, and one thread
   waits for them. The script starts with the mask and the dispositions that this process had.
2. In the terminal and the process group that it would have alone, the script gets what is sent to
   the whole group by itself. ``signal_witness.py`` tells which signals those were; only the others
   are passed on. Where the script leads its own session (in the explorer), what was sent to the
   group is passed on to the group of the script.
3. Whether the witness has a signal is certain for one that was sent to a group, since the kernel
   sends those under a lock that we take too. A supervisor that signals each process of a control
   group on its own is waited for ``EACH_SECONDS``.
4. A signal that the script sent is not passed back to it.
"""

import contextlib
import ctypes
import os
import resource
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tui_profiler.source import signal_witness

_FAULTS = {
    *(signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP, signal.SIGSYS),
    *(signal.SIGCHLD, signal.SIGPIPE, signal.SIGKILL, signal.SIGSTOP, signal.SIGXFSZ),
}
"""Not passed on: they speak of this process alone, or cannot be received."""
_TERMINALS = {signal.SIGWINCH, signal.SIGTTIN, signal.SIGTTOU}
"""The explorer needs them for its own terminal."""
_STOPS = {signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}
LEAVES = {signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM}
"""Ask a program to end: the explorer restores the terminal."""
EACH_SECONDS = 0.05
_SAME_SECONDS = 1.0
"""Longest time between two processes receiving one signal."""
_WITNESS_SECONDS = 5.0
"""How long the witness may take to answer: Python has to start, on a machine that may be busy."""
_STOP_SECONDS = 2.0
"""How long a script may take until it stops, where it handles SIGTSTP."""
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4
_KERNEL = 0
"""Who sends what is typed at the terminal."""
_CHANGED = ("SigIgn", "SigCgt")


class Relay:
    """Passes signals on to one script. To be made before the script starts, on the main thread.

    Args:
        arguments: the command line of the script.
        leads: whether the script leads its own session, else it shares the process group.
    """

    def __init__(self, arguments: Sequence[str], *, leads: bool) -> None:
        self._leads = leads
        self._passed = signal.valid_signals() - _FAULTS - (_TERMINALS if leads else set())
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, self._passed)
        self._pid = 0
        self._own = os.getpid()
        self._prctl = getattr(ctypes.CDLL(None, use_errno=True), "prctl", None)
        self._seen: list[tuple[int, int, float]] = []
        """What the witness received and we did not yet: (signal, sender, when)."""
        self._unread = b""
        self.passed: set[int] = set()
        """What was passed on so far, or reached the script with its group."""
        self.on_end: Callable[[int], None] | None = None
        """Called on another thread after a signal of ``LEAVES``."""
        self.on_stop: Callable[[], None] | None = None
        """Stops this process; None: as its group is stopped."""
        self.on_continue: Callable[[], None] | None = None
        self.on_report: Callable[[], None] | None = None
        """Called on another thread at SIGUSR2, in place of a script that does not handle it and
        shares the process group."""
        self.is_report_due = False
        """Whether that came before there was anything to call."""
        self._report, report = os.pipe()
        script, self._script = os.pipe()
        here = str(Path(signal_witness.__file__).resolve())
        told = [str(report), str(script), str(self._own), "leads" if leads else "shares"]
        self._witness = subprocess.Popen(
            [sys.executable, "-I", "-S", here, *told, *arguments],
            pass_fds=[report, script],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=lambda: self._die_with_parent(signal_witness.ORPHANED),  # noqa: PLW1509 # 1 thread
        )
        os.close(report)
        os.close(script)

    def in_child(self) -> None:
        """Prepare the process of the script, before it becomes another program."""
        self._die_with_parent(signal.SIGTERM)
        os.write(self._script, b"%d" % os.getpid())
        os.kill(self._witness.pid, signal_witness.SCRIPT_KNOWN)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def _die_with_parent(self, number: int) -> None:
        if self._prctl is not None:
            self._prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
        if os.getppid() != self._own:  # It was killed meanwhile.
            os._exit(1)

    def begin(self, pid: int) -> None:
        """Pass on to this process, which is a child, until this one ends."""
        self._pid = pid
        threading.Thread(target=self._wait, name="tui-profiler-signals", daemon=True).start()

    def close(self) -> None:
        """Let the witness go: the script has ended, as it should."""
        self._witness.kill()
        self._witness.wait()

    def _wait(self) -> None:
        while True:
            arrived = signal.sigwaitinfo(self._passed)
            self._take(arrived.si_signo, arrived.si_pid)

    def _take(self, number: int, sender: int) -> None:
        if sender == self._pid:
            return
        if number == signal.SIGUSR2 and not self._leads and not self._changes(number):
            self.is_report_due = True  # It would end the script, which has no use for it.
            if self.on_report is not None:
                self.on_report()
            return
        # A key of the explorer sends it here, and means all that runs.
        is_group = sender == self._own or self._reached_group(number, sender)
        self._pass_on(number, is_group=is_group)
        self.passed.add(number)
        if number in _STOPS:
            self._stop_too(number)
        elif number == signal.SIGCONT and self.on_continue is not None:
            self.on_continue()
        elif number in LEAVES and self.on_end is not None:
            self.on_end(number)

    def _pass_on(self, number: int, *, is_group: bool) -> None:
        if is_group and not self._leads:
            return  # The script has got it, or has left the group, as it would have alone.
        if number in _STOPS and self._leads and not self._changes(number):
            number = signal.SIGSTOP  # A session without a terminal is not stopped by the others.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if is_group:
                os.killpg(self._pid, number)
            else:
                os.kill(self._pid, number)

    def _changes(self, number: int) -> bool:
        """Whether the script handles or ignores a signal."""
        with contextlib.suppress(OSError, ValueError):
            status = Path(f"/proc/{self._pid}/status").read_text(encoding="ascii", errors="replace")
            masks = [line.split()[1] for line in status.splitlines() if line[:6] in _CHANGED]
            return any(int(mask, 16) >> (number - 1) & 1 for mask in masks)
        return False

    def _stop_too(self, number: int) -> None:
        """Stop this process where the script has stopped, so that a shell sees its job stop."""
        if self.on_stop is not None:
            self.on_stop()
            return
        # Pending until the script has stopped: a SIGCONT in between takes it back, as it should.
        os.kill(self._own, number)
        deadline = time.monotonic() + _STOP_SECONDS
        while not self._is_stopped():
            if signal.sigtimedwait({signal.SIGCONT}, 0.01) is not None:
                self._take(signal.SIGCONT, _KERNEL)
                return
            if time.monotonic() > deadline:  # It goes on, and so do we.
                signal.sigtimedwait({number}, 0)
                return
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        signal.pthread_sigmask(signal.SIG_BLOCK, {number})

    def _is_stopped(self) -> bool:
        options = os.WSTOPPED | os.WNOHANG | os.WNOWAIT
        with contextlib.suppress(ChildProcessError):
            return os.waitid(os.P_PID, self._pid, options) is not None
        return False

    def _reached_group(self, number: int, sender: int) -> bool:
        """Tell whether all of our process group got a signal that we got."""
        if self._witness.poll() is not None:
            return sender == _KERNEL and number != signal.SIGHUP  # A key of the terminal, then.
        group = os.getpgrp()
        if group:  # Rule 3: no sender is half way through the group after this.
            with contextlib.suppress(PermissionError):
                os.setpgid(0, group)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._witness.pid, signal_witness.TELL)
        if self._read_report(_WITNESS_SECONDS, told=True) and self._has_seen(number, sender):
            return True
        # Rule 3 again: to each on its own, and this process was earlier in the list.
        is_alone = sender == _KERNEL or not self._read_report(EACH_SECONDS, told=False)
        return not is_alone and self._has_seen(number, sender)

    def _read_report(self, seconds: float, *, told: bool) -> bool:
        """Read what the witness has received; until it said that it is all, or something came."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            if not select.select([self._report], [], [], left)[0]:
                break
            self._unread += os.read(self._report, 4096)
            *lines, self._unread = self._unread.split(b"\n")
            for line in lines:
                words = line.split()
                if len(words) == 3:
                    self._seen.append((int(words[0]), int(words[1]), float(words[2])))
            if not told or signal_witness.TOLD.rstrip() in lines:
                return True
        return False

    def _has_seen(self, number: int, sender: int) -> bool:
        now = time.monotonic()
        self._seen = [one for one in self._seen if now - one[2] < _SAME_SECONDS]
        for one in self._seen:
            if one[:2] == (number, sender):
                self._seen.remove(one)
                return True
        return False


def die_of(number: int) -> int:
    """End this process by a signal, as a child that ended by it did.

    Returns:
        The exit code that a shell would name, where a signal cannot end this process: it is the
        first one of a container.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    # The core that is worth keeping is the child's.
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    prctl = getattr(ctypes.CDLL(None, use_errno=True), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    with contextlib.suppress(OSError, ValueError):  # SIGKILL has no handler.
        signal.signal(number, signal.SIG_DFL)
    # In this order: else the thread that waits for signals would receive it.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)
    return 128 + number
