"""One forward in a raw window of torch's profiler: every operator that ran, with its times.

``torch.profiler`` itself takes ten times as long to open and to read. Every private name of torch
that this needs is here; where one is gone, ``unavailable`` says so and operators have no times.

1. A window is opened and closed on the thread that runs the model: elsewhere it sees nothing.
2. It is not opened while another profiler runs: that one would lose its events.
3. ``KINETO_LOG_LEVEL=99`` must be in the environment before torch is imported, or it prints.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import torch

try:
    from torch._C._profiler import _ExperimentalConfig
    from torch.autograd import (  # type: ignore[attr-defined]  # not in its list of names
        ProfilerActivity,
        ProfilerConfig,
        ProfilerState,
        _disable_profiler,
        _enable_profiler,
        _prepare_profiler,
    )
    from torch.autograd import profiler as _profiler

    _GONE = "" if hasattr(_profiler, "_is_profiler_enabled") else "_is_profiler_enabled is gone"
except ImportError as error:
    _GONE = str(error)


_CLOCK_TRIES = 5


class Seen(NamedTuple):
    """An operator that ran; those that it called follow, inside its times."""

    name: str
    """``aten::convolution``."""
    start: float
    """Seconds of ``time.perf_counter``."""
    end: float


class WindowError(Exception):
    """A window could not be opened or closed; says why."""


class Window:
    """Around one forward; afterwards it holds what was seen."""

    def __init__(self, *, reads_later: bool = False) -> None:
        """Make one; with ``reads_later`` what was seen is read by ``read``, on any thread."""
        self._reads_later = reads_later
        self._result: Any = None
        self.seen: list[Seen] = []
        """In the order in which they began, on this thread; an operator before those it calls."""
        self.seconds = 0.0
        """What opening, closing and reading took."""
        self._offset = 0

    def __enter__(self) -> Window:
        reason = unavailable()
        if reason:
            raise WindowError(reason)
        began = time.perf_counter()
        activities = {ProfilerActivity.CPU}
        # What is asked for: no shapes, no memory, no stacks, no FLOPs, no modules.
        config = ProfilerConfig(
            ProfilerState.KINETO, False, False, False, False, False, _ExperimentalConfig()
        )
        try:
            _prepare_profiler(config, activities)
            _enable_profiler(config, activities)
        except RuntimeError as error:
            raise WindowError(str(error).partition("\n")[0]) from error
        # Its events carry the time of day, which may be set while the program runs, but hardly
        # within one forward.
        self._offset = _clock_offset()
        self.seconds = time.perf_counter() - began
        return self

    def __exit__(self, *_: object) -> None:
        began = time.perf_counter()
        try:
            self._result = _disable_profiler()
        except RuntimeError as error:
            raise WindowError(str(error).partition("\n")[0]) from error
        if not self._reads_later:
            self.read()
        self.seconds += time.perf_counter() - began

    def read(self) -> list[Seen]:
        """Read what was seen, once."""
        result, self._result = self._result, None
        self.seen = [] if result is None else _read(result, self._offset)
        return self.seen


def unavailable() -> str:
    """Give the reason why no window can be opened now; empty where one can."""
    if _GONE:
        return f"torch {torch.__version__} has no raw profiler: {_GONE}"
    if _profiler._is_profiler_enabled:
        return "another profiler runs"
    return ""


def _clock_offset() -> int:
    """Give nanoseconds to add to the time of day to get those of ``time.perf_counter``."""
    tries = []
    for _ in range(_CLOCK_TRIES):
        before = time.perf_counter_ns()
        day = time.time_ns()
        after = time.perf_counter_ns()
        tries.append((after - before, (before + after) // 2 - day))
    # The one with the least between its readings: on a busy machine we may have to wait there.
    return min(tries)[1]


def _read(result: Any, offset: int) -> list[Seen]:
    events = result.events()
    if not events:
        return []
    rows = [(e.start_ns(), -e.duration_ns(), e.name(), e.start_thread_id()) for e in events]
    # The thread that opened it has the first number; autograd's or the user's have their own.
    thread = min(row[3] for row in rows)
    return [
        Seen(name, (start + offset) / 1e9, (start - less + offset) / 1e9)
        for start, less, name, on in sorted(rows)
        if on == thread
    ]
