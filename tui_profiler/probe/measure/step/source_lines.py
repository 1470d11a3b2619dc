"""Which lines of the program the thread that trains is in, by samples of its stack.

1. The sampling thread reads the frames of one other thread at random moments, at most fifty times
   per second on average and no more often than a part of the budget allows; less often if
   ``other``, which the lines divide, is a small part of the step. Nothing is traced, and no frame
   is kept. Each sample delays the other thread by about ``WAIT_SECONDS``, because it takes the
   GIL. Without the GIL frames cannot be read, and nothing is sampled.
2. A sample is due at a moment that does not depend on the program, but the stack is read only when
   the other thread gives up the GIL: at once in a sleep, a lock, I/O or an operator, later in
   Python. Python forces the holder to do so after ``sys.getswitchinterval`` (5 ms), so that the
   stack of a shorter piece of Python is always read in the line after it. Without a correction a
   loop of 3 ms beside a sleep of 3 ms has 5 % of the samples.
3. So a sample keeps the moment at which it was due (``Sample.at``) beside that at which the stack
   was read. Where those differ, the thread held the GIL in between, and the line was not seen:
   ``LineShares`` finds the lines that it can be.
4. What the profiler itself does in that thread is no sample of the line that called it.
5. The sampling thread's own wait for a core is no wait for the GIL: the moment at which a sample is
   due is later by it.
"""

import linecache
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable
from math import inf
from random import Random
from types import CodeType, FrameType
from typing import Literal, NamedTuple, TypeAlias

from tui_profiler.messages.training import LONGEST_LINE, SourceLine
from tui_profiler.probe.measure.clock.thread_usage import OwnSchedstat, waiting_seconds
from tui_profiler.probe.process.interpreter_lock import NO_FRAMES, is_locked
from tui_profiler.probe.process.source_line import is_probe, is_torch, is_users, library_of
from tui_profiler.system.real_time import perf_counter, thread_time

LEAST_PAUSE_SECONDS = 0.02
SHARE_OF_BUDGET, SHARE_LATER = 0.1, 0.05
"""The second from ``FIRST_SECONDS`` after the first ``start``: by then most lines are known."""
FIRST_SECONDS = 60.0
LARGE_OTHER, LEAST_FACTOR = 0.1, 0.3
"""If ``other`` has less than the first share of a step, the sampling rate is reduced in proportion,
at most to the second times the full rate: a slow step may be slow in ``other``. A finding needs as
large a share (``LINE_SHARE`` in ``findings/execution/training.py``)."""
LEAST_OF_PAUSE = 0.1
"""Shortest pause between two samples, as a share of the mean one; the longest is as far from it."""
MOST_SAMPLES = 10_000
"""That wait to be taken: more than three minutes of them."""
MOST_FRAMES = 200
MOST_LINES = 8
"""Lines of the program that are reported."""
WAIT_SECONDS = 150e-6
"""Delay of the sampled thread by one sample, beside the CPU time of the sampling thread: the GIL
changes hands twice (``benchmarks/training/line_samples.py``)."""
_FIRST_COST_SECONDS = 60e-6 + WAIT_SECONDS
MOST_CALLERS = 8
"""Frames of the user's code that are kept of a sample, the innermost ones."""
LATENESS_FACTOR, LATENESS_SECONDS = 2.0, 200e-6
"""A sample waited for the GIL if it is later than this factor times the least lateness of all, plus
these seconds: timers are late too, by 50 us of timer slack (prctl(2)) and what waking takes."""
FORCED_FROM = 0.95
"""Share of the switch interval after which a thread that got the GIL was given it in the middle of
Python code, not at an operator or a wait."""


class Line(NamedTuple):
    """A line of the program's code."""

    function: str
    file: str
    number: int


class Frame(NamedTuple):
    """A call of the user's code that was under way when a stack was read."""

    code: CodeType
    number: int
    """Line that is executed."""
    instruction: int
    """Offset of the last bytecode instruction."""

    @property
    def line(self) -> Line:
        """Line that is executed."""
        return Line(self.code.co_qualname, self.code.co_filename, self.number)


How: TypeAlias = Literal["seen", "forced", "hidden"]
"""How the line of a sample is known. seen: the stack was read when the sample was due. forced: it
was read in the middle of Python code, a switch interval later. hidden: the thread held the GIL when
the sample was due, and gave it up in a later line, which is the one that was read."""


class Sample(NamedTuple):
    """The innermost line of the user's own code at one moment."""

    at: float
    """Second of ``time.perf_counter`` at which the sample was due; of a forced one, was taken."""
    line: Line
    how: How = "seen"
    frames: tuple[Frame, ...] = ()
    """Calls of the user's code, innermost first; outside of the model's forward."""
    is_direct: bool = True
    """Whether the innermost of these called nothing, torch or the profiler: no Python code of a
    library or of the standard library ran inside of its line."""
    is_in_forward: bool = False
    """Whether the stack was read inside of the model's forward."""


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
        cost, least, schedstat = _FIRST_COST_SECONDS, inf, OwnSchedstat()
        chance = Random()
        while True:
            # Evenly spaced samples fall into the same lines of a loop whose steps are as even.
            pause = self._pause_seconds(cost) * chance.uniform(LEAST_OF_PAUSE, 2.0 - LEAST_OF_PAUSE)
            waited_before = _waited(schedstat)
            began = perf_counter()
            if stopped.wait(pause):
                return
            now, began_cpu = perf_counter(), thread_time()
            late = now - began - pause - (_waited(schedstat) - waited_before)
            least = min(least, max(late, 0.0))
            frame = sys._current_frames().get(self._watched)
            is_own = frame is not None and is_probe(frame.f_code.co_filename)
            sample = None if is_own else read_stack(frame, self._forward, now)
            del frame
            if sample is not None:
                self._samples.append(_as_due(sample, late, least))
            took = thread_time() - began_cpu + WAIT_SECONDS
            self.cost_seconds += took
            cost += (took - cost) / 8

    def _pause_seconds(self, cost_seconds: float) -> float:
        is_late = perf_counter() - self._began > FIRST_SECONDS
        return pause_seconds(cost_seconds, self._budget, self.other_share, is_late=is_late)


def _waited(schedstat: OwnSchedstat) -> float:
    """Return how long this thread has waited for a core; 0 where the kernel does not tell."""
    schedstat.read()
    return waiting_seconds(schedstat.told) or 0.0


def _as_due(sample: Sample, late: float, least: float) -> Sample:
    """Return a sample with the moment at which it was due, and how its line is known.

    Args:
        sample: at the second at which the stack was read.
        late: seconds from the end of the pause until then, without those of waiting for a core.
        least: of all samples.
    """
    if late >= FORCED_FROM * sys.getswitchinterval():
        return sample._replace(how="forced")
    if late > LATENESS_FACTOR * least + LATENESS_SECONDS:
        return sample._replace(at=sample.at - late, how="hidden")
    return sample


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
    found = read_stack(sys._getframe(1), None, 0.0)
    return None if found is None else found.line


def read_stack(frame: FrameType | None, forward: CodeType | None, at: float) -> Sample | None:
    """Return the user's frames of a stack, or else the innermost in a library; None without one.

    Args:
        frame: the innermost one.
        forward: of the model: what runs inside of it is not the line's.
        at: second of ``time.perf_counter``.
    """
    users: list[Frame] = []
    of_library: Frame | None = None
    called = ""
    is_direct, is_in_forward = True, False
    for _ in range(MOST_FRAMES):
        if frame is None:
            break
        code = frame.f_code
        file = code.co_filename
        if code is forward:
            users.clear()
            of_library, is_in_forward = None, True
        elif is_users(file) and not file.startswith("<"):
            here = Frame(code, frame.f_lineno or 0, frame.f_lasti)
            if library_of(file):
                of_library = of_library or here
            else:
                if not users:
                    is_direct = not called or is_in_forward or is_torch(called) or is_probe(called)
                users.append(here)
                if len(users) == MOST_CALLERS:
                    break
        called = file
        frame = frame.f_back
    frames = tuple(users) or ((of_library,) if of_library is not None else ())
    if not frames:
        return None
    return Sample(at, frames[0].line, "seen", frames, is_direct, is_in_forward)


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
