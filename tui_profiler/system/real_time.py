"""The clocks of the operating system, whatever the program has put in their place.

Tests and simulators replace ``time.time``, ``time.perf_counter`` and others, in the module ``time``
and wherever they were imported to (freezegun searches all modules for them). These functions are
those of a second copy of that built-in module, so that neither reaches them, also if the program
had replaced its clocks before this file was imported.

What runs in a program's process reads its clocks from here only: a test looks for other imports.
"""

from collections.abc import Callable
from importlib.machinery import BuiltinImporter
from importlib.util import module_from_spec
from types import ModuleType


def _copy() -> ModuleType:
    """Return another ``time``, which is in no one's ``sys.modules``."""
    spec = BuiltinImporter.find_spec("time")
    assert spec is not None  # Built into every CPython.
    assert spec.loader is not None
    copy = module_from_spec(spec)
    spec.loader.exec_module(copy)
    return copy


_TIME = _copy()

perf_counter: Callable[[], float] = _TIME.perf_counter
perf_counter_ns: Callable[[], int] = _TIME.perf_counter_ns
monotonic: Callable[[], float] = _TIME.monotonic
monotonic_ns: Callable[[], int] = _TIME.monotonic_ns
thread_time: Callable[[], float] = _TIME.thread_time
thread_time_ns: Callable[[], int] = _TIME.thread_time_ns
process_time: Callable[[], float] = _TIME.process_time
process_time_ns: Callable[[], int] = _TIME.process_time_ns
clock_gettime_ns: Callable[[int], int] = _TIME.clock_gettime_ns
time: Callable[[], float] = _TIME.time
time_ns: Callable[[], int] = _TIME.time_ns
sleep: Callable[[float], None] = _TIME.sleep
