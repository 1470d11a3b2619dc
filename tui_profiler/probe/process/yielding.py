"""Work of ours in a program's process, in small steps with rests between.

While one thread runs Python, another that comes back from an operator waits 5 ms for the
interpreter: a forward of a hundred operators would stand still as long as we work. Who rests gives
it away at once. Elsewhere, on a thread that was not told so, nothing rests.
"""

import select
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tui_profiler.system import real_time as time

WORK_SECONDS = 0.0005
REST_SECONDS = 0.002


class _Told(threading.local):
    rests_at: float | None = None


_told = _Told()


@contextmanager
def in_small_steps() -> Iterator[None]:
    """Have ``rest`` rest on this thread while the block runs."""
    _told.rests_at = time.perf_counter() + WORK_SECONDS
    try:
        yield
    finally:
        _told.rests_at = None


def pause(seconds: float) -> None:
    """Sleep, also under ``libfaketime``.

    There ``time.sleep`` raises or timed locks never end, by its settings (0.9.10, Python 3.11).
    """
    select.select((), (), (), seconds)


def free(*containers: list[Any] | dict[Any, Any]) -> None:
    """Empty containers one item at a time, and rest.

    Dropping the last reference to thousands of objects is one call into C: 6 to 11 ms for the
    recording of 2,000 modules, during which no other thread runs Python.
    """
    for container in containers:
        empty = container.popitem if isinstance(container, dict) else container.pop
        while container:
            empty()
            rest()


def rest() -> None:
    """Let other threads run, where this one was told to and has worked for long enough."""
    if _told.rests_at is not None and time.perf_counter() >= _told.rests_at:
        pause(REST_SECONDS)
        _told.rests_at = time.perf_counter() + WORK_SECONDS
