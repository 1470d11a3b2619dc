"""Steps of training as they pass, on the threads of the program that trains.

1. A step ends when the optimizer that steps most seldom has stepped; where no optimizer of torch's
   steps, when a backward pass has ended that reached the model. Which of them is told by whoever
   adds the steps up (``ends_at``), and how long they are: here is no history.
2. At each end, so between two steps, it is decided whether the next one is recorded whole: every
   forward in it, with marks on the graph, and every backward pass.
3. Nothing here raises or waits. All queues are bounded; what did not fit is counted. What another
   thread may take away meanwhile (a window, who reads values) is asked for once.
4. Where it is known that several steps in a row are not recorded, only times of them are kept, and
   no end decides (``BriefMarks``): that is most of what steps of 1 ms would cost.
"""

from collections import deque
from collections.abc import Callable
from math import inf
from threading import get_ident
from typing import NamedTuple, Protocol, TypeAlias

from torch.optim import optimizer

from tui_profiler.probe.measure.clock.backward import ENGINE, brief_pass_seconds
from tui_profiler.probe.measure.clock.call_recorder import OtherCall, OwnTime
from tui_profiler.probe.measure.clock.clock import ModuleClock
from tui_profiler.probe.measure.clock.device_clock import DeviceMark, DeviceSpan
from tui_profiler.probe.measure.clock.graph_marks import Recomputed
from tui_profiler.probe.measure.clock.overhead_budget import Governor
from tui_profiler.probe.measure.clock.thread_usage import Reading
from tui_profiler.probe.measure.step.marks import MARKS, BriefMarks, Mark, brief_mark_seconds
from tui_profiler.probe.measure.step.source_lines import Line, running_line
from tui_profiler.probe.measure.step.zero_grad import GradientWatch
from tui_profiler.probe.measure.values.step_values import StepValues
from tui_profiler.system.real_time import perf_counter

MOST_MARKS = 50_000
"""Of loaders, optimizers and clipping, that wait to be taken."""
MOST_PASSES = 10_000
MOST_ENDS = 10_000
FIRST_STEPS = 9
"""Recorded all, so that figures are there at once; what they cost counts afterwards."""
MORE_FACTOR = 2.0
"""Times the share that was to be recorded, from which on it is decided anew."""
LEAST_READ_SECONDS = 2e-3
"""Of a step, for what its thread used to be read where it is recorded."""
LEAST_READ_ALWAYS_SECONDS = 20e-3
"""Of a step, for it to be read in every step: 25 us of a transformer's."""


READ_AGAIN_SECONDS = 0.1
"""Between two of the shorter recorded steps in which it is read: two readings of 25 us."""


class Pass(NamedTuple):
    """An outermost backward pass."""

    thread: int
    began: float
    ended: float
    recomputed: tuple[Recomputed, ...] = ()
    """Calls of modules in it, by thread; none where its step was not recorded."""
    is_reached: bool = False
    """Whether it came to a marked node."""
    device: DeviceSpan | None = None
    """Of it, on a device; None without one, or where its step was not recorded."""
    is_compiled: bool = False
    """Whether it went through compiled autograd, past all marks."""
    is_all_seen: bool = True
    """Whether every recomputation in it was observed."""
    line: Line | None = None
    """Of the program, that it was begun in; None where its step was not recorded."""


class End(NamedTuple):
    """The end of a step, and the beginning of the next one."""

    at: float
    thread: int
    is_recorded: bool
    """Whether the step that ended was recorded whole."""
    usage: Reading | None
    """Of its thread, up to now; None where it is not known."""
    mark: DeviceMark | None = None
    """On a device: where that is then; None without one."""
    is_gap: bool = False
    """What ended is not a step, but a time between two of them."""
    values: StepValues | None = None
    """What read the values of the step; None: nobody did."""

    @property
    def is_plain(self) -> bool:
        """Whether it ends a step of which nothing but times is known."""
        return not self.is_recorded and not self.is_gap and self.values is None


BriefEnd: TypeAlias = float | tuple[float, Reading]
"""Of a step that only times are kept of: the second at which it ended; with what its thread used
up to then."""


class StepWindow(Protocol):
    """What a step runs in: told of its parts on the thread that trains; must not raise."""

    is_over: bool

    @property
    def is_waiting(self) -> bool:
        """Whether it is to begin with the next step."""
        ...

    def await_forward(self) -> None:
        """Take note that the step begins that it is to be open in."""
        ...

    def begin(self) -> None:
        """Begin, before the first forward of a step, or where that has no graph its backward."""
        ...

    def after_pass(self, one: Pass, *, is_one_of_several: bool) -> None:
        """Take note of a backward pass; the step before had several, or one."""
        ...

    def after_data(self) -> None:
        """Take note that data was fetched."""
        ...

    def after_step(self) -> None:
        """Take note that a step has ended."""
        ...


class StepRecorder:
    """Records steps of one model's training, from ``start`` until ``close``.

    Args:
        clock: of the model.
        records_next: tells whether the next step is to be recorded.
        governor: where that one is not, tells how many behind it are not either; None: that is
            asked at the end of each.
    """

    def __init__(
        self,
        clock: ModuleClock,
        records_next: Callable[[], bool],
        governor: Governor | None = None,
    ) -> None:
        self._clock = clock
        self._records_next = records_next
        self._governor = governor
        self._brief: BriefMarks | None = None
        """Steps that only times are kept of, from the present one on."""
        self._brief_share = inf
        """That was to be recorded when they were decided on."""
        self.marks: deque[Mark] = deque(maxlen=MOST_MARKS)
        self.passes: deque[Pass] = deque(maxlen=MOST_PASSES)
        self.ends: deque[End | BriefEnd] = deque(maxlen=MOST_ENDS)
        self.own: deque[OwnTime] = deque(maxlen=MOST_MARKS)
        """When the profiler itself worked at the ends of recorded steps and passes."""
        self.ends_at: int | None = 0
        """``id`` of the optimizer whose steps end a step; 0: any; None: backward passes do."""
        self.usual_seconds = 0.0
        """That a step takes."""
        self.thread = 0
        """That ends steps."""
        self.is_driving = False
        """Whether ends of steps decide which forwards are recorded."""
        self.peeks = False
        """Whether calls of the model before a step's own are counted in steps not recorded."""
        self.window: StepWindow | None = None
        """What the next recorded step runs in."""
        self.next_values: StepValues | None = None
        """What the values of the next step are to be read by; that step is recorded for it."""
        self._values: StepValues | None = None
        """What those of this step are read by."""
        self.gradients: GradientWatch | None = None
        """What tells whether gradients are kept from step to step."""
        self._passes = self._passes_before = 0
        """In this step, and in the one before."""
        self._ended_at = 0.0
        self._reads_usage = False
        self._reads_next = False
        """Whether usage is read at the end of a short step that has just begun."""
        self._read_next_at = -inf
        """When the last such step began."""
        self._is_recorded = False
        self._first = FIRST_STEPS
        self._is_open = False

    @property
    def is_recorded(self) -> bool:
        """Whether the present step is recorded whole."""
        return self._is_recorded

    def other_calls(self) -> list[OtherCall]:
        """Return calls of other models that were not added up so far."""
        return self._clock.others()

    def start(self) -> None:
        """Begin to listen."""
        if not self._is_open:
            self._is_open = True
            MARKS.listen(self)
            ENGINE.listen(self, needs_all=False)
            ENGINE.listen_to_roots(self)

    def close(self) -> None:
        """Listen no more."""
        if self._is_open:
            self._is_open = False
            self.is_driving = False
            self._brief = None
            ENGINE.tell_all()
            self._drop_values()
            MARKS.leave(self)
            ENGINE.leave(self)
            ENGINE.leave_roots(self)

    def before_update(self, stepped: optimizer.Optimizer, *, has_closure: bool) -> None:
        """Have gradients and weights read, where those of this step are."""
        if (values := self._values) is not None:
            values.before_update(stepped, has_closure=has_closure)

    def take_mark(self, mark: Mark) -> None:
        """Keep a mark; the step of an optimizer may end a step."""
        was_recorded = self._is_recorded
        self.marks.append(mark)
        if (values := self._values) is not None and mark.kind == "optimizer":
            values.after_update()
        if (window := self.window) is not None and mark.kind == "data":
            window.after_data()
        if mark.kind == "optimizer" and self.ends_at in (0, mark.subject):
            self._end(mark.ended)
        if was_recorded or self._is_recorded:
            self.own.append((mark.thread, mark.ended, perf_counter()))

    def before_roots(self, roots: object) -> None:
        """Have calls of modules inside of the pass recorded, where its step is."""
        if (window := self.window) is not None and self._clock.is_step_recorded:
            window.begin()
        self._clock.begin_pass(roots)

    def after_roots(self) -> None:
        """Have no more of them recorded."""
        self._clock.end_pass()

    def before_pass(self) -> None:
        """Tell gradients apart from those that the last update was made with."""
        if self.gradients is not None:
            began = perf_counter()
            self.gradients.before_pass()
            if self._is_recorded:
                self.own.append((get_ident(), began, perf_counter()))

    def after_pass(self, began: float, ended: float) -> None:
        """Keep a pass; it may end a step."""
        was_recorded = self._is_recorded
        line = running_line() if was_recorded else None
        one = Pass(get_ident(), began, ended, *self._clock.take_pass(), line)
        self.passes.append(one)
        self._passes += 1
        if (window := self.window) is not None:
            window.after_pass(one, is_one_of_several=self._passes_before > 1)
        if self.ends_at is None:
            self._end(ended)
        if was_recorded or self._is_recorded:
            self.own.append((one.thread, ended, perf_counter()))

    def begin(self) -> None:
        """Take note that a step begins now: what was since the last one is in none."""
        at = perf_counter()
        usage = self._clock.read_usage() if self._reads_usage else None
        mark = self._clock.mark_device() if self._is_recorded else None
        self.ends.append(End(at, get_ident(), False, usage, mark, is_gap=True))
        self._ended_at = at

    def forget_values(self) -> None:
        """Read values neither of this step nor of the next."""
        self.next_values = None
        self._drop_values()

    def record_next(self) -> None:
        """Record the step that begins now, whatever the share of those that are recorded is."""
        self._is_recorded = True
        self._clock.record_step(is_recorded=True, values=self._values)

    def record_first(self) -> None:
        """Record the next steps all, as the first ones are."""
        self._first = FIRST_STEPS
        self.decide_next()

    def decide_next(self) -> None:
        """Decide anew at the next end of a step, though more steps are not to be recorded."""
        brief = self._brief
        if brief is not None:
            brief.stop()

    def decide_if_more(self) -> None:
        """Decide anew where far more are to be recorded than when it was decided: steps got longer.

        Else as many would go by as when they were short.
        """
        governor = self._governor
        if governor is not None and governor.share > MORE_FACTOR * self._brief_share:
            self.decide_next()

    def watch_gap(self) -> None:
        """Count the model's calls up to the next step, and record nothing else of this one.

        It is far longer than others: something lies between two steps.
        """
        self._is_recorded = False
        self._drop_values()
        self._clock.record_step(is_recorded=False)
        self._clock.peek()

    def stop_driving(self) -> None:
        """Let the clock decide again which forwards are recorded: no step has ended for long."""
        self.is_driving = self._is_recorded = False
        self.decide_next()
        _tell_all()
        self._drop_values()
        self._clock.record_step(is_recorded=False)

    def _drop_values(self) -> StepValues | None:
        """Read no more values of this step; returns what read them."""
        values, self._values = self._values, None
        if values is not None:
            values.close()
        return values

    def _end(self, at: float) -> None:
        window = self.window
        if window is not None:
            window.after_step()
        self.thread = get_ident()
        self._leave_brief()
        self._passes, self._passes_before = 0, self._passes
        was_recorded, seconds = self._is_recorded, at - self._ended_at
        self._ended_at = at
        mark = self._clock.mark_device() if was_recorded else None
        values = self._drop_values()
        is_waiting = self.is_driving and window is not None and window.is_waiting
        self._is_recorded = self.is_driving and self._is_wanted(is_waiting=is_waiting)
        self._reads_usage = (
            self._reads_next
            or seconds >= LEAST_READ_ALWAYS_SECONDS
            or (seconds >= LEAST_READ_SECONDS and (was_recorded or self._is_recorded))
        )
        self._reads_next = self._is_recorded and at - self._read_next_at >= READ_AGAIN_SECONDS
        if self._reads_next:
            self._reads_usage, self._read_next_at = True, at
        usage = self._clock.read_usage() if self._reads_usage else None
        self.ends.append(End(at, self.thread, was_recorded, usage, mark, values=values))
        if self.is_driving:
            self._clock.record_step(is_recorded=self._is_recorded, values=self._values)
            if self._is_recorded and self.gradients is not None and self.ends_at is not None:
                self.gradients.after_update()
            if window is not None and is_waiting:
                window.await_forward()
                self._clock.call_before_next(window.begin)
            if not self._is_recorded and self.peeks:
                self._clock.peek()
            if not self._is_recorded and self._governor is not None:
                self._be_brief(self._governor)

    def _be_brief(self, governor: Governor) -> None:
        """Keep only times of the steps from now on, as many as are not recorded."""
        subject = self.ends_at
        if not subject or not MARKS.can_be_brief(subject) or not (steps := governor.pass_over()):
            return
        end: Callable[[float], object] = self.ends.append
        if self.usual_seconds >= LEAST_READ_ALWAYS_SECONDS:
            end = self._clock.noting_usage(self.ends.append) or end
        if self.peeks:
            end = self._clock.peeking(end)
        self._brief_share = governor.share
        self._brief = brief = BriefMarks(subject, steps, end)
        MARKS.be_brief(brief)
        ENGINE.be_brief()
        window = self.window
        if self.next_values is not None or (window is not None and window.is_waiting):
            brief.stop()  # Asked for meanwhile.
        if not self._is_open:  # Closed meanwhile, by another thread.
            self._brief = None
            _tell_all()

    def _leave_brief(self) -> None:
        """Take note that a step ends that is told as usual."""
        brief, self._brief = self._brief, None
        if brief is not None and self._governor is not None:
            self._governor.take_back(brief.left)
            ENGINE.tell_all()
            self._passes = self._passes_before  # Nobody was told how many it had.
            self._ended_at = brief.ended or self._ended_at

    def _is_wanted(self, *, is_waiting: bool) -> bool:
        """Decide whether the step that begins is recorded; a window may wait for it."""
        self._first = max(self._first - 1, 0)
        if not is_waiting:
            self._values, self.next_values = self.next_values, None
        is_asked_for = is_waiting or self._values is not None
        return self._first > 0 or is_asked_for or self._records_next()


def _tell_all() -> None:
    """Report every mark and pass from now on; callable on any thread."""
    MARKS.tell_all()
    ENGINE.tell_all()


def brief_step_seconds() -> float:
    """Measure what it takes to keep only times of one step with one pass, in a loop."""
    return brief_mark_seconds() + brief_pass_seconds()
