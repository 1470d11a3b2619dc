"""What watching costs a program that is not ours, estimated.

Our own worker compares watched with bare forwards. A program that is not ours runs none for us, and
its forwards differ from one another, so the cost is put together: recorded calls times what one
costs and what telling their inputs apart took, as a share of the time that the forwards take, and
the processor time of the thread that adds them up, as a share of all time: it may hold up whatever
else the program does.
"""

from __future__ import annotations

import time
from collections import deque

from torch import nn

from tui_profiler.messages import Overhead
from tui_profiler.probe.measure.clock.call_recorder import Watching
from tui_profiler.probe.measure.clock.overhead import interval_of_share
from tui_profiler.probe.process.yielding import rest

_CALLS = 500
_REPEATS = 5
CACHE_FACTOR = 2.0
"""Between operators that fill the caches a recorded call costs up to 1.9 times what it costs in a
tight loop (0.70 against 0.38 us, see ``timed_call.py``): the upper end of the interval."""
_INTERVALS = 40


class _Leaf(nn.Module):
    def forward(self) -> None:
        return None


class _Calls(nn.Module):
    """Calls a leaf many times, through whatever it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.leaf = _Leaf()
        self.call = nn.Module.__call__

    def forward(self) -> None:
        leaf, call = self.leaf, self.call
        for _ in range(_CALLS):
            call(leaf)


def call_seconds() -> float:
    """Measure what recording adds to one call of a module, in a tight loop; takes a few ms.

    Nothing is exchanged for it: calls of other modules are not touched.
    """
    model = _Calls()
    plain = nn.Module.__call__
    watching = Watching(plain, _CALLS * _REPEATS * 4)
    watching.watch(model)
    best_plain = best_watched = float("inf")
    for _ in range(_REPEATS):
        rest()
        model.call = plain
        began = time.perf_counter()
        plain(model)
        best_plain = min(best_plain, time.perf_counter() - began)
        model.call = watching.call
        began = time.perf_counter()
        watching.call(model)
        best_watched = min(best_watched, time.perf_counter() - began)
        watching.take()
    watching.close()
    return max(best_watched - best_plain, 0.0) / _CALLS


class EstimatedCost:
    """Adds up what is recorded, and gives what it costs."""

    def __init__(self) -> None:
        self._call_seconds = call_seconds()
        self._intervals: deque[tuple[int, float, float, float, float]] = deque(maxlen=_INTERVALS)

    def add(
        self,
        calls: int,
        forward_seconds: float,
        thread_seconds: float,
        elapsed_seconds: float,
        *,
        asking_seconds: float = 0.0,
    ) -> None:
        """Take in one interval.

        Args:
            calls: that were recorded.
            forward_seconds: of the forwards that they were in.
            thread_seconds: processor time of the thread that adds up and sends.
            elapsed_seconds: how long the interval was.
            asking_seconds: before the forwards, what it took to tell their inputs apart.
        """
        self._intervals.append(
            (calls, forward_seconds, thread_seconds, elapsed_seconds, asking_seconds)
        )

    @property
    def between(self) -> float:
        """What is paid beside the calls, as a share of all time."""
        return interval_of_share([(cpu, of) for _, _, cpu, of, _ in self._intervals])[0]

    def recording(self) -> Overhead | None:
        """Give what recording every forward costs, and nothing else; None before there are any."""
        running = sum(seconds for _, seconds, *_ in self._intervals)
        if running <= 0:
            return None
        low = self._call_seconds * sum(calls for calls, *_ in self._intervals) / running
        high = CACHE_FACTOR * low
        asking = sum(asking for *_, asking in self._intervals) / running
        return Overhead((low + high) / 2 + asking, low + asking, high + asking, pairs=0)

    def overhead(self, share: float = 1.0) -> Overhead | None:
        """Give the estimate where a share of forwards is recorded; None before there are any."""
        recording = self.recording()
        if recording is None:
            return None
        between, least, most = interval_of_share(
            [(cpu, of) for _, _, cpu, of, _ in self._intervals]
        )
        return Overhead(
            share * recording.ratio + between,
            share * recording.low + least,
            share * recording.high + most,
            pairs=0,
            share=share,
        )
