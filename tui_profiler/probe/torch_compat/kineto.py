"""One forward in a raw window of torch's profiler: every operator that ran, with its times.

``torch.profiler`` itself takes ten times as long to open and to read. Every private name of torch
that this needs is here; where one is gone, ``unavailable`` says so and operators have no times.

1. A window is opened and closed on the thread that runs the model: elsewhere it sees nothing.
2. It is not opened while another profiler runs: that one would lose its events.
3. ``KINETO_LOG_LEVEL=99`` must be in the environment before torch is imported, or it prints.
4. Allocations are read from ``experimental_event_tree``; where it is gone, none is measured.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import torch

from tui_profiler.system import real_time as time

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


class KinetoOperator(NamedTuple):
    """An operator that ran; those that it called follow, inside its times."""

    name: str
    """``aten::convolution``."""
    start: float
    """Seconds of ``time.perf_counter``."""
    end: float


class GraphOperator(NamedTuple):
    """An operator or a node of autograd's graph that ran; those that it called follow."""

    name: str
    start: float
    """Seconds of ``time.perf_counter``."""
    end: float
    number: int
    """Sequence number of the node, or of the one that the operator makes; -1 where it has none."""
    thread: int
    """That ran it; threads are numbered by the profiler."""
    forward_thread: int
    """That made the node."""


class Allocation(NamedTuple):
    """One event of an allocator."""

    size_bytes: int
    """Below 0 where memory is given back."""
    address: int
    at: float = 0.0
    """Second of the profiler's clock, the time of day."""


def allocations(events: Any) -> list[Allocation]:
    """Return what was allocated and freed in a profile with memory events, in order of time.

    Args:
        events: of Kineto, of a profile that has ended.
    """
    pending: list[Any] = list(events.experimental_event_tree())
    found: list[tuple[int, Allocation]] = []
    while pending:
        event = pending.pop()
        if event.name == "[memory]":
            extra = event.extra_fields
            size, address = int(extra.alloc_size), int(extra.ptr or 0)
            began = event.start_time_ns
            found.append((began, Allocation(size, address, began / 1e9)))
        pending.extend(event.children)
    return [allocation for _, allocation in sorted(found, key=lambda pair: pair[0])]


class WindowError(Exception):
    """A window could not be opened or closed; says why."""


class Window:
    """Around one forward; afterwards it holds what was seen."""

    def __init__(self, *, reads_later: bool = False, with_memory: bool = False) -> None:
        """Make one.

        Args:
            reads_later: what was seen is read by ``read``, on any thread.
            with_memory: what is allocated and freed is seen as well; operators take longer by it.
        """
        self._with_memory = with_memory
        self.allocations: list[Allocation] | None = None
        """In order of time, in seconds of ``time.perf_counter``; None where they were not read."""
        self._reads_later = reads_later
        self._result: Any = None
        self.seen: list[KinetoOperator] = []
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
        # What is asked for: no shapes, memory or not, no stacks, no FLOPs, no modules.
        config = ProfilerConfig(
            ProfilerState.KINETO,
            False,
            self._with_memory,
            False,
            False,
            False,
            _ExperimentalConfig(),
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

    def read(self) -> list[KinetoOperator]:
        """Read what was seen, once."""
        result, self._result = self._result, None
        self.seen = [] if result is None else _read(result, self._offset)
        if self._with_memory and hasattr(result, "experimental_event_tree"):
            self.allocations = [
                one._replace(at=one.at + self._offset / 1e9) for one in allocations(result)
            ]
        return self.seen

    def read_graph(self) -> list[GraphOperator]:
        """Read what was seen on all threads, with nodes of autograd's graph, once."""
        result, self._result = self._result, None
        events = [] if result is None else result.events()
        offset = self._offset
        rows = [
            GraphOperator(
                e.name(),
                (e.start_ns() + offset) / 1e9,
                (e.start_ns() + e.duration_ns() + offset) / 1e9,
                e.sequence_nr(),
                e.start_thread_id(),
                e.fwd_thread_id(),
            )
            for e in events
        ]
        return sorted(rows, key=lambda row: (row.start, -row.end))


def operators_during(
    seen: Sequence[GraphOperator], began: float, seconds: float
) -> list[KinetoOperator]:
    """Return what ran on the first thread in a time, in the order of ``seen``."""
    first = bisect_left(seen, began, key=attrgetter("start"))
    last = bisect_left(seen, began + seconds, key=attrgetter("start"))
    return [
        KinetoOperator(one.name, one.start, one.end)
        for one in seen[first:last]
        if one.thread == seen[0].thread
    ]


def unavailable() -> str:
    """Return the reason why no window can be opened now; empty where one can."""
    if _GONE:
        return f"torch {torch.__version__} has no raw profiler: {_GONE}"
    if _profiler._is_profiler_enabled:
        return "another profiler runs"
    return ""


def _clock_offset() -> int:
    """Return nanoseconds to add to the time of day to get those of ``time.perf_counter``."""
    tries = []
    for _ in range(_CLOCK_TRIES):
        before = time.perf_counter_ns()
        day = time.time_ns()
        after = time.perf_counter_ns()
        tries.append((after - before, (before + after) // 2 - day))
    # The one with the least between its readings: on a busy machine we may have to wait there.
    return min(tries)[1]


def _read(result: Any, offset: int) -> list[KinetoOperator]:
    events = result.events()
    if not events:
        return []
    rows = [(e.start_ns(), -e.duration_ns(), e.name(), e.start_thread_id()) for e in events]
    # The thread that opened it has the first number; autograd's or the user's have their own.
    thread = min(row[3] for row in rows)
    return [
        KinetoOperator(name, (start + offset) / 1e9, (start - less + offset) / 1e9)
        for start, less, name, on in sorted(rows)
        if on == thread
    ]
