"""Which lines of the program the thread that trains is in, by samples of its stack.

The sampling thread reads the frames of one other thread, at most fifty times per second and no more
often than a part of the budget allows; less often if ``other``, which the lines divide, is a small
part of the step. Nothing is traced, and no frame is kept. Each sample delays the other thread
by about ``WAIT_SECONDS``, because it takes the GIL. Without the GIL frames cannot be read, and
nothing is sampled.
"""

import linecache
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable
from math import inf
from types import CodeType, FrameType
from typing import NamedTuple

from tui_profiler.messages.training import LONGEST_LINE, SourceLine
from tui_profiler.probe.process.interpreter_lock import NO_FRAMES, is_locked
from tui_profiler.probe.process.source_line import is_users, library_of
from tui_profiler.system.real_time import perf_counter, thread_time

LEAST_PAUSE_SECONDS = 0.02
SHARE_OF_BUDGET, SHARE_LATER = 0.1, 0.05
"""The second from ``FIRST_SECONDS`` after the first ``start``: by then most lines are known."""
FIRST_SECONDS = 60.0
LARGE_OTHER, LEAST_FACTOR = 0.1, 0.3
"""If ``other`` has less than the first share of a step, the sampling rate is reduced in proportion,
at most to the second times the full rate: a slow step may be slow in ``other``. A finding needs as
large a share (``LINE_SHARE`` in ``findings/execution/training.py``)."""
MOST_SAMPLES = 10_000
"""That wait to be taken: more than three minutes of them."""
MOST_FRAMES = 200
MOST_LINES = 8
"""Lines of the program that are reported."""
WAIT_SECONDS = 150e-6
"""Delay of the sampled thread by one sample, beside the CPU time of the sampling thread: the GIL
changes hands twice (``benchmarks/training/line_samples.py``)."""
_FIRST_COST_SECONDS = 60e-6 + WAIT_SECONDS


class Line(NamedTuple):
    """A line of the program's code."""

    function: str
    file: str
    number: int


class Sample(NamedTuple):
    """The innermost line of the user's own code at one moment."""

    at: float
    """Second of ``time.perf_counter``."""
    line: Line


class LineSampler:
    """Samples the stack of one thread, from ``start`` until ``stop``.

    Args:
        budget: what watching may cost, as a share.
        are_locked: returns whether frames of other threads can be read.
    """

    def __init__(self, budget: float, are_locked: Callable[[], bool] = is_locked) -> None:
        self._budget = budget
        self._are_locked = are_locked
        self.why_not = ""
        """Why nothing is sampled; empty if samples are taken."""
        self._samples: deque[Sample] = deque(maxlen=MOST_SAMPLES)
        self._stopped = threading.Event()
        self._forward: CodeType | None = None
        self._thread: threading.Thread | None = None
        self._watched = 0
        self._began = inf
        """Second of ``time.perf_counter`` of the first ``start``."""
        self.other_share = 1.0
        """Of the step, 0 to 1; 1 while it is not known."""
        self.cost_seconds = 0.0
        """What sampling has cost so far."""

    def start(self, thread: int, forward: CodeType | None) -> None:
        """Sample one thread from now on.

        Args:
            thread: its ident.
            forward: of the model: what runs inside of it is not a sample.
        """
        self._watched, self._forward = thread, forward
        self._began = min(self._began, perf_counter())
        self.why_not = "" if self._are_locked() else NO_FRAMES
        if self._thread is None and not self.why_not:
            self._stopped = threading.Event()
            self._thread = threading.Thread(
                target=self._run, args=(self._stopped,), name="tui-profiler lines", daemon=True
            )
            self._thread.start()

    def stop(self) -> None:
        """Sample no more."""
        self._stopped.set()
        self._thread = None
        self._samples.clear()

    def take(self) -> list[Sample]:
        """Return the samples since the last time."""
        return [self._samples.popleft() for _ in range(len(self._samples))]

    def _run(self, stopped: threading.Event) -> None:
        cost = _FIRST_COST_SECONDS
        while not stopped.wait(self._pause_seconds(cost)):
            began = thread_time()
            line = _innermost(sys._current_frames().get(self._watched), self._forward)
            if line is not None:
                self._samples.append(Sample(perf_counter(), line))
            took = thread_time() - began + WAIT_SECONDS
            self.cost_seconds += took
            cost += (took - cost) / 8

    def _pause_seconds(self, cost_seconds: float) -> float:
        is_late = perf_counter() - self._began > FIRST_SECONDS
        return pause_seconds(cost_seconds, self._budget, self.other_share, is_late=is_late)


def pause_seconds(
    cost_seconds: float, budget: float, other_share: float = 1.0, *, is_late: bool
) -> float:
    """Return how long to wait between two samples.

    Args:
        cost_seconds: of one.
        budget: what watching may cost, as a share.
        other_share: of the step, 0 to 1.
        is_late: whether the first seconds are over.
    """
    share = SHARE_LATER if is_late else SHARE_OF_BUDGET
    share *= min(max(other_share / LARGE_OTHER, LEAST_FACTOR), 1.0)
    return max(LEAST_PAUSE_SECONDS, cost_seconds / max(share * budget, 1e-6))


def running_line() -> Line | None:
    """Return the line of the user's innermost frame on this thread, or else of a library's."""
    return _innermost(sys._getframe(1), None)


def _innermost(frame: FrameType | None, forward: CodeType | None) -> Line | None:
    """Return the line of the user's innermost frame, or else of the innermost in a library.

    None where the model's forward runs.
    """
    of_user = of_library = None
    for _ in range(MOST_FRAMES):
        if frame is None:
            break
        code = frame.f_code
        if code is forward:
            return None
        if of_user is None and is_users(code.co_filename) and not code.co_filename.startswith("<"):
            if library_of(code.co_filename):
                of_library = of_library or frame
            else:
                of_user = frame
                if forward is None:
                    break
        frame = frame.f_back
    found = of_user or of_library
    if found is None:
        return None
    code = found.f_code
    return Line(code.co_qualname, code.co_filename, found.f_lineno or 0)


def source_lines(lines: Counter[Line]) -> tuple[SourceLine, ...]:
    """Return lines by the number of samples that fell into them, most first."""
    total = lines.total()
    return tuple(
        SourceLine(function, file, number, count / total, text_of(file, number))
        for (function, file, number), count in lines.most_common(MOST_LINES)
    )


def text_of(file: str, number: int) -> str:
    """Return what stands in a line of a file, cut; empty where that cannot be read."""
    return linecache.getline(file, number).strip()[:LONGEST_LINE]
