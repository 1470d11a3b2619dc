"""The process beside ``run`` that detects whether a signal reached its whole process group.

1. It is in the same process group as ``run``, with every signal blocked, and reports each one that
   arrives: a signal that both got was sent to the group, or to each of its processes.
2. Its command line ends as the script's does, so that ``pkill -f train.py`` reaches both or none.
3. When ``run`` is killed, the kernel sends the script SIGTERM. This process then ensures that the
   script ends: SIGKILL after ``IGNORED_SECONDS``, or after ``HANDLED_SECONDS`` where it
   handles SIGTERM (it may be saving a checkpoint).
4. It runs as a file, on its own: nothing but the standard library is imported.
"""

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

TELL = signal.SIGRTMAX
"""Asks for everything that has arrived so far; pending signals with lower numbers come first."""
ORPHANED = signal.SIGRTMAX - 1
"""From the kernel, when ``run`` has ended."""
SCRIPT_KNOWN = signal.SIGRTMAX - 2
"""The number of the script's process can be read."""
TOLD = b"all\n"
HANDLED_SECONDS = 600.0
IGNORED_SECONDS = 1.0
LEFT_BEHIND_SECONDS = 1.0
"""For what a script has left in its session, between SIGTERM and SIGKILL."""


def main(report: int, script: int, parent: int, *, leads: bool) -> None:
    """Report signals until ``run`` has ended.

    Args:
        report: descriptor to write to: a line per signal.
        script: descriptor to read the number of the script's process from.
        parent: process id of ``run``.
        leads: whether the script leads its own session.
    """
    everything = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
    signal.pthread_sigmask(signal.SIG_BLOCK, everything)
    opened = number = -1
    while os.getppid() == parent:
        arrived = signal.sigwaitinfo(everything)
        if arrived.si_signo == SCRIPT_KNOWN and number < 0:
            number = int(os.read(script, 32))
            with contextlib.suppress(OSError):  # A kernel without them: rule 3 is left undone.
                opened = os.pidfd_open(number)
        elif arrived.si_signo == TELL:
            _write(report, TOLD)
        elif arrived.si_signo != ORPHANED:
            line = f"{arrived.si_signo} {arrived.si_pid} {time.monotonic()}\n"
            _write(report, line.encode())
    if opened >= 0:
        _end(number, opened, leads=leads)


def _write(descriptor: int, line: bytes) -> None:
    with contextlib.suppress(OSError):  # ``run`` has ended.
        os.write(descriptor, line)


def _end(number: int, opened: int, *, leads: bool) -> None:
    """End a script that the kernel has sent SIGTERM already."""
    ended = select.poll()
    ended.register(opened, select.POLLIN)
    seconds = HANDLED_SECONDS if _handles(number, signal.SIGTERM) else IGNORED_SECONDS
    if not ended.poll(1000 * seconds):
        family = [] if leads else _descendants(number)
        signal.pidfd_send_signal(opened, signal.SIGKILL)
        for one in family:
            _send(os.kill, one, signal.SIGKILL)
    if leads and _send(os.killpg, number, signal.SIGTERM):
        time.sleep(LEFT_BEHIND_SECONDS)
        _send(os.killpg, number, signal.SIGKILL)


def _send(send: Callable[[int, int], None], number: int, what: signal.Signals) -> bool:
    try:
        send(number, what)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _handles(process: int, number: signal.Signals) -> bool:
    try:
        status = Path(f"/proc/{process}/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    caught = next((line.split()[1] for line in status.splitlines() if "SigCgt" in line), "0")
    return bool(int(caught, 16) >> (number - 1) & 1)


def _descendants(process: int) -> list[int]:
    """Return the process ids of all that descends from a process, itself not included."""
    found: list[int] = []
    left = [process]
    while left:
        for task in Path(f"/proc/{left.pop()}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                left += (numbers := [int(word) for word in task.read_text().split()])
                found += numbers
    return found


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), leads=sys.argv[4] == "leads")
