"""``python -P -m tui_profiler.probe FD [confined [trial DEVICE]]``: the worker, on a socket.

The first request is read before there is any thread: it sets the memory limit. If it opens
a file that is not trusted, the process is confined before it opens it.
"""

import ctypes
import faulthandler
import os
import signal
import socket
import sys
import threading

from tui_profiler.messages import Failed, LoadSpec, Request, Sandbox
from tui_profiler.probe.measure.devices.machine import free_memory_bytes, memory_group
from tui_profiler.probe.process.link import Link, first_request
from tui_profiler.probe.process.memory_limit import limit_memory
from tui_profiler.probe.sandbox.broker import CONFINED, TRIAL
from tui_profiler.probe.sandbox.confinement import ConfinementError, confine
from tui_profiler.probe.worker.worker import Worker
from tui_profiler.system import real_time as time

_GRACE_SECONDS = 1.0
_PR_SET_PDEATHSIG = 1


def main(descriptor: int, *, always_confined: bool = False, trial_on: str = "") -> None:
    """Serve one viewer, and end when it is gone.

    Args:
        descriptor: of the socket to the viewer.
        always_confined: confine this process whatever is requested.
        trial_on: device of the confined worker whose trial this is; empty for a viewer's worker.
    """
    end_with_parent()
    # The stack of a fault goes to the log: a segmentation fault otherwise leaves no word.
    faulthandler.enable()
    connected = socket.socket(fileno=descriptor)
    first = first_request(connected)
    if first is None:
        os._exit(0)
    sandbox: Sandbox | str = ""
    refused = None
    try:
        sandbox = confine(first, descriptor, always=always_confined, trial_on=trial_on)
    except ConfinementError as error:
        refused = Failed("worker", str(error))
    _limit_memory(first)
    link = Link(connected, on_close=_end_soon, first=first)
    Worker(link, sandbox).serve(refused)
    link.flush(_GRACE_SECONDS)
    link.close()
    sys.stdout.flush()
    # A user's threads that are not daemons must not keep a worker that was told to stop.
    os._exit(0)


def end_with_parent() -> None:
    """Have the kernel end this process when the one that started it ends.

    Nothing happens where the C library has no ``prctl``.
    """
    prctl = getattr(ctypes.CDLL(None, use_errno=True), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _limit_memory(first: Request) -> None:
    """Limit the memory of this process, unless its model is on a GPU or there is none."""
    spec = getattr(first, "spec", None)
    if isinstance(spec, LoadSpec) and not spec.device.startswith("cuda"):
        limit_memory(spec.memory_limit_bytes, free_memory_bytes(memory_group()))


def _end_soon() -> None:
    """End the process soon, whatever the model does: a forward may never return."""

    def end() -> None:
        time.sleep(_GRACE_SECONDS)
        os._exit(0)

    threading.Thread(target=end, name="tui-profiler-end", daemon=True).start()


if __name__ == "__main__":
    options = sys.argv[2:]
    main(
        int(sys.argv[1]),
        always_confined=CONFINED in options,
        trial_on=options[-1] if TRIAL in options else "",
    )
