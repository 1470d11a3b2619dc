"""The listener in a program that was never prepared, started by ``tui-profiler attach PID``.

1. It runs on a thread of its own. What it imports is imported in small steps: before each module it
   rests, and meanwhile threads change every half a millisecond instead of every 5 ms, so that a
   forward of a hundred operators does not wait a hundred times.
2. Libraries of extensions are loaded before Python imports them, without the GIL, which Python
   keeps: 26 ms of CPU time for one of the size of triton's.
3. No full collection of garbage is made, as it is in ``watch``: that is one pause.
4. No model is looked for: the one that is called when a viewer attaches is shown.
"""

import contextlib
import ctypes
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from importlib.machinery import ExtensionFileLoader, ModuleSpec, PathFinder
from types import ModuleType

from tui_profiler.probe.process.yielding import in_small_steps, pause

SWITCH_SECONDS = 0.0005
REST_SECONDS = 0.002


class _Resting:
    """Rests before each import of one thread, loads its library, and finds nothing."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if threading.get_ident() == self._thread:
            pause(REST_SECONDS)
            spec = PathFinder.find_spec(name, path, target)
            if spec is not None and isinstance(spec.loader, ExtensionFileLoader):
                _load(spec.loader.path)
        return None


def _load(path: str) -> None:
    """Load a library; where it cannot be, Python says so when it imports it."""
    ctypes.CDLL(None).dlopen(os.fsencode(path), os.RTLD_NOW)  # Functions of C run without the lock.


def listen() -> str:
    """Have this process listen for viewers, and return the path of its socket."""
    with _gently(), in_small_steps():
        from tui_profiler.probe.watch.preload import visit  # noqa: PLC0415 # rule 1
        from tui_profiler.probe.watch.watch import watch_process  # noqa: PLC0415

        return watch_process(visit)


@contextlib.contextmanager
def _gently() -> Iterator[None]:
    resting, before = _Resting(), sys.getswitchinterval()
    sys.meta_path.insert(0, resting)
    sys.setswitchinterval(min(before, SWITCH_SECONDS))
    ours = sys.getswitchinterval()
    try:
        yield
    finally:
        if sys.getswitchinterval() == ours:  # The program may have set its own.
            sys.setswitchinterval(before)
        # Another list: who goes through the present one, on another thread, misses none.
        sys.meta_path = [one for one in sys.meta_path if one is not resting]
