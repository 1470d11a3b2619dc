"""Holds up who imports a library, as a slow disk would, until a pipe is opened for writing.

The pipe is named by the environment: ``GATE_textual``, ``GATE_torch``. On ``PYTHONPATH`` this is
imported by every Python that a test starts.
"""

from __future__ import annotations

import os
import select
import sys
from importlib.abc import MetaPathFinder


class _Gate(MetaPathFinder):
    def find_spec(self, name: str, *_: object) -> None:
        pipe = os.environ.pop(f"GATE_{name}", "")
        if pipe:
            _wait(pipe)


def _wait(pipe: str) -> None:
    """Wait until someone has opened a pipe for writing; signals are handled meanwhile.

    A signal may reach another thread, and its handler runs on this one when it comes back from C.
    """
    descriptor = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    waits = select.poll()
    waits.register(descriptor, select.POLLIN | select.POLLHUP)
    while not waits.poll(20):
        pass
    os.close(descriptor)


sys.meta_path.insert(0, _Gate())
