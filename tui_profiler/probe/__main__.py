"""``python -P -m tui_profiler.probe FD``: the worker process, on an inherited socket."""

from __future__ import annotations

import faulthandler
import os
import signal
import socket
import sys
import threading
import time

from tui_profiler.probe.link import Link
from tui_profiler.probe.parent import signal_with_parent
from tui_profiler.probe.worker import Worker

_GRACE_SECONDS = 1.0


def main(descriptor: int) -> None:
    """Serve one viewer, and end when it is gone."""
    signal_with_parent(signal.SIGKILL)
    # The stack of a fault goes to the log: a segmentation fault otherwise leaves no word.
    faulthandler.enable()
    link = Link(socket.socket(fileno=descriptor), on_close=_end_soon)
    Worker(link).serve()
    link.flush(_GRACE_SECONDS)
    link.close()
    sys.stdout.flush()
    # A user's threads that are not daemons must not keep a worker that was told to stop.
    os._exit(0)


def _end_soon() -> None:
    """End the process soon, whatever the model does: a forward may never return."""

    def end() -> None:
        time.sleep(_GRACE_SECONDS)
        os._exit(0)

    threading.Thread(target=end, name="tui-profiler-end", daemon=True).start()


if __name__ == "__main__":
    main(int(sys.argv[1]))
