"""Steps of training added up: their parts, and each module's forward, backward and recomputation.

1. Means are over one set of steps, the same for every figure: recorded whole, among the last, and
   no outliers. So the parts add up to the step, and a node's own time and its children's to its.
2. The length of every step is known, recorded or not: percentiles and the rate are of all.
3. A step is added up when its end was told; what is told of it later is not waited for.
4. Of most steps that are not recorded only times are kept (``BriefMarks``). They are added up all
   together, and taken apart where one was slow or a sample fell into it.
5. Each moment of a step belongs to one part (``divide``). What lies between two steps, such as an
   evaluation, belongs to none, and to no length of a step (``between_steps.py``).
6. Memory is bounded by the number of nodes and by ``MOST_WAITING`` items of one step.
"""

import math
import weakref
from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter, itemgetter, sub
from types import CodeType
from typing import Generic, Literal, NamedTuple, TypeAlias, TypeVar

from msgspec.structs import replace
from torch import distributed, nn

from tui_profiler.messages import (
    Figure,
    LoaderSettings,
    Message,
    Node,
    OptimizerSettings,
    SlowStep,
    ThreadTime,
    TrainingStep,
    Unknown,
)
from tui_profiler.messages.training import StepEnd, StepParts
from tui_profiler.probe.measure.clock.aggregate import quantiles, thread_time
from tui_profiler.probe.measure.clock.backward import ENGINE
from tui_profiler.probe.measure.clock.call_recorder import OtherCall, RootCall
from tui_profiler.probe.measure.clock.clock import ModuleClock
from tui_profiler.probe.measure.clock.device_clock import DeviceClock
from tui_profiler.probe.measure.clock.forward import Forward
from tui_profiler.probe.measure.clock.graph_marks import Reached
from tui_profiler.probe.measure.clock.overhead_budget import StepCost, marked_call_seconds
from tui_profiler.probe.measure.clock.thread_usage import ThreadUsage, usage_between
from tui_profiler.probe.measure.clock.tree_index import TreeIndex
from tui_profiler.probe.measure.ranks.collectives import PROCESS, PendingCollectives
from tui_profiler.probe.measure.step.backward_calls import StepTimes
from tui_profiler.probe.measure.step.between_steps import (
    Batch,
    BetweenSteps,
    Gap,
    Interval,
    is_inside,
)
from tui_profiler.probe.measure.step.between_totals import BetweenTotals
from tui_profiler.probe.measure.step.items import items_of, tokens_of
from tui_profiler.probe.measure.step.line_shares import (
    LineShares,
    Placed,
    Region,
    RegionFinder,
    seconds_of_regions,
)
from tui_profiler.probe.measure.step.loader_iterators import MOST_LOADERS, Fetch
from tui_profiler.probe.measure.step.marks import MARKS, BriefTime
from tui_profiler.probe.measure.step.outside_modules import (
    UNDIVIDED,
    UNSEEN_AGAIN,
    OtherModels,
    backward_lines,
    pass_figures,
    recompute,
    why_undivided,
)
from tui_profiler.probe.measure.step.recorder import (
    BriefEnd,
    End,
    Pass,
    StepRecorder,
    brief_step_seconds,
)
from tui_profiler.probe.measure.step.source_lines import Line, LineSampler, Sample
from tui_profiler.probe.measure.step.step_set import FigureName, StepSet
from tui_profiler.probe.measure.step.zero_grad import GradientWatch
from tui_profiler.probe.measure.values.model_values import ValueReader
from tui_profiler.probe.torch_compat.forward_kind import FirstTensor
from tui_profiler.system.real_time import perf_counter

LAST_STEPS = 256
"""Of which percentiles, the rate and what is an outlier are told."""
LEAST_STEPS = 8
"""Before one can be an outlier, or steps are told of."""
LEAST_FOR_SLOW = 100
LEAST_WITHOUT_FORWARD = 3
"""Recorded steps, after which it is not waited for as one whose forwards are not recorded."""
LEAST_UNTRACED = 3
"""Recorded steps in a row without a forward as traced, after which the mode of these is told."""
LEAST_WITHOUT_OTHERS = 8
"""Recorded steps in a row without a call of another model, after which samples of steps that are
not recorded are told again: a model that is called in every second step is missed in one of 256."""
FAR_OUT = 3.0
LEAST_FACTOR = 1.5
"""As of forwards (``clock/aggregate.py``)."""
MOST_WAITING = 200_000
OPTIMIZER_STEPS = 64
"""The last ones, of which it is told which optimizer steps most seldom."""
LAST_BATCHES = 64
"""Of which it is told how they are loaded."""
BRIEF_FACTOR, BRIEF_SHARE = 24.0, 0.05
"""Cost of an unrecorded step: its cost in a tight loop times the factor, because in training the
caches are cold; for short steps, whose caches stay warmer, at most this share of the step.

Measured: 12 to 17 us of 2.5 ms, 15 of 1.4 ms, 14 of 0.7 ms, 4.8 of 95 us; in a loop 0.6.
"""
PATIENCE_SECONDS = 5.0
"""Seconds without the end of a step, at least, after which the clock falls back to recording single
forwards; longer where steps, or what lies between them, take longer."""
FIRST_PATIENCE_SECONDS = 60.0
"""Likewise, until it is known how long a step takes."""
LONG_FACTOR = 4.0
"""Times the median step: from there on, something lies between two steps."""
LONG_SECONDS = 0.5
"""From which on it is looked at, at least: it is done between two ticks."""
PEEKED_STEP_SECONDS = 5e-3
"""Length of steps from which on the model's calls before the step's own are always counted, also in
steps that are not recorded: 3 us per step. In shorter ones, once something lay between steps."""
MOST_CALLS = 2_000
"""Calls of the model between two steps that are kept apart; older ones are added up."""
LEAST_PLAIN, PACED_SECONDS = 3, 0.2
"""Recorded steps between two in which values or operators are read, if steps take that long."""
LEAST_SLOW_STEPS, SLOW_SECONDS = 3, 3.0
"""Minimum number of steps before slow steps are reported, and seconds that they take together."""

PartName: TypeAlias = Literal[
    "data",
    "transfer",
    "forward",
    "backward",
    "clip",
    "optimizer",
    "communication",
    "other",
    "between",
]
"""Part of a step; ``between`` is what belongs to none."""

T = TypeVar("T")

_NO_COPIES = Unknown("nothing is copied to a GPU")
_NOT_TIMED = Unknown("copies to a GPU are not timed")
_ONE_PROCESS = Unknown("the program is one process")
_NOT_RECORDED = Unknown("this step was not recorded")
_NO_ITEMS = {
    "items": Unknown("the inputs have no batch axis"),
    "tokens": Unknown("the model is not given token ids"),
}
_NOT_CALLED = Unknown("the model was not called in recorded steps")
_TOO_FEW_INPUTS = Unknown("inputs change, and too few steps were recorded so far")
_TOO_FEW = Unknown("too few steps so far")
_REGION, _FORWARD_IN = "region", "forward in region"
"""Figures of a step: seconds of each region of ``other``, and in which of them forwards run."""
_OTHERS_UNKNOWN = "whether samples lie in other models is known in recorded steps only"
_UNSEEN = {
    "data": "no DataLoader was seen",
    "clip": "no clipping by norm was seen",
    "optimizer": "no step of a torch.optim optimizer was seen",
    "backward": "no backward pass was seen",
}


class Span(NamedTuple):
    """A time in which the thread did one thing; seconds of ``time.perf_counter``."""

    part: PartName | Literal["profiler"]
    """Part of the step; or the profiler's own work, which is in no part and in no step's time."""
    began: float
    ended: float
    fetch: Fetch | None = None
    """Of ``data``: from which loader."""


class Division(NamedTuple):
    """What a step was divided into."""

    seconds: dict[str, float]
    """Of each part, ``other`` and ``profiler`` included: they add up to the step."""
    other: list[tuple[float, float]]
    """From when to when ``other`` was, in the order of time."""

    def parts(self) -> dict[str, float]:
        """Return the seconds of each part, without the profiler's own work."""
        return {name: spent for name, spent in self.seconds.items() if name != "profiler"}


class _Lengths:
    """Seconds of the last steps."""

    def __init__(self) -> None:
        self._last: deque[float] = deque(maxlen=LAST_STEPS)
        self._own: deque[float] = deque(maxlen=LAST_STEPS)
        self.usual = self.slow = math.inf
        """Above which a step is an outlier, or slower than 99 of 100; told at ``refresh``."""
        self.p50 = self.p95 = 0.0

    def __len__(self) -> int:
        return len(self._last)

    @property
    def are_enough(self) -> bool:
        """Whether steps are reported."""
        is_slow = len(self) >= LEAST_SLOW_STEPS and sum(self._last) >= SLOW_SECONDS
        return is_slow or len(self) >= LEAST_STEPS

    @property
    def per_second(self) -> float:
        """Steps per second over them."""
        return len(self._last) / sum(self._last)

    def longer(self) -> list[float]:
        """Seconds of those that took far longer."""
        pairs = zip(self._last, self._own, strict=True)
        return [seconds for seconds, own in pairs if own > self.usual]

    def longer_share(self) -> float:
        """Return the share of the time of all that those took."""
        return sum(self.longer()) / sum(self._last) if self._last else 0.0

    def add(self, seconds: Sequence[float], own: Sequence[float]) -> None:
        """Add steps.

        Args:
            seconds: of each.
            own: likewise, without waiting for its batch where it is longer than usual and fetched
                as many as others: that wait, however seldom, is a part of steps.
        """
        self._last.extend(seconds)
        self._own.extend(own)

    def refresh(self) -> None:
        """Tell anew what is usual; each step would cost as much."""
        if not self._last:
            return
        low, self.p50, high, self.p95, p99 = quantiles(
            sorted(self._last), (0.25, 0.5, 0.75, 0.95, 0.99)
        )
        if len(self._last) < LEAST_STEPS:
            return
        self.usual = max(high + FAR_OUT * (high - low), LEAST_FACTOR * self.p50)
        self.slow = p99 if len(self._last) >= LEAST_FOR_SLOW else math.inf


class _Queue(Generic[T]):
    """Items by time, which are taken step by step."""

    def __init__(self, second: Callable[[T], float]) -> None:
        self._second = second
        self._items: list[T] = []

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[T]:
        return iter(self._items)

    def add(self, items: Iterable[T]) -> None:
        """Add items; threads tell theirs in any order."""
        self._items += items
        self._items.sort(key=self._second)  # Nearly sorted: one pass.

    def between(self, began: float, ended: float) -> list[T]:
        """Return the items in a time."""
        first, last = (bisect_left(self._items, at, key=self._second) for at in (began, ended))
        return self._items[first:last]

    def replace(self, items: list[T]) -> None:
        """Keep other items, in order, instead of those."""
        self._items = items

    def until(self, end: float) -> list[T]:
        """Take the items before a second."""
        if not self._items or self._second(self._items[0]) >= end:
            return []  # As of most steps, which are not recorded.
        place = bisect_left(self._items, end, key=self._second)
        taken, self._items = self._items[:place], self._items[place:]
        return taken


class _BriefTimes:
    """When parts of steps that nobody was told of began and ended."""

    def __init__(self) -> None:
        self._times: dict[PartName, tuple[list[float], list[float], list[Fetch | None]]] = {}
        """When they began, when they ended (in order), and which loader was waited for."""

    def add(self, part: PartName, times: Sequence[BriefTime]) -> None:
        """Add times at which one began and ended."""
        began, ended, fetches = self._times.setdefault(part, ([], [], []))
        began += [one for one, _, _ in times]
        ended += [one for _, one, _ in times]
        fetches += [one for _, _, one in times]

    def inside(self, since: float, until: float) -> list[Span]:
        """Return what ended in a time; the innermost first where one is inside of another."""
        return [span for part in self._times for span in self.of(part, since, until)]

    def of(self, part: PartName, since: float, until: float) -> list[Span]:
        """Return what ended of one part in a time."""
        if part not in self._times:
            return []
        began, ended, fetches = self._times[part]
        places = range(bisect_right(ended, since), bisect_right(ended, until))
        return [Span(part, began[place], ended[place], fetches[place]) for place in places]

    def drop(self, until: float) -> None:
        """Drop what ended before a second."""
        for began, ended, fetches in self._times.values():
            place = bisect_right(ended, until)
            del began[:place], ended[:place], fetches[:place]


class _Told(NamedTuple):
    """What was told of one step."""

    spans: list[tuple[int, Span]]
    """With the thread of each."""
    forwards: list[Forward]
    is_windowed: bool
    """Whether one of them ran in an operator window."""
    passes: list[Pass]
    marks: list[Reached]
    """Nodes that backward passes came to."""
    others: list[OtherCall]
    samples: list[Sample]
    calls: list[RootCall]
    """Of the model, that were not recorded."""

    def without(self, gaps: Sequence[Gap]) -> "_Told":
        """Return the same without what lies between steps."""
        if not gaps:
            return self
        return self._replace(
            spans=[one for one in self.spans if not is_inside(one[1].began, one[1].ended, gaps)],
            forwards=[one for one in self.forwards if not is_inside(one.began, one.ended, gaps)],
            others=[one for one in self.others if not is_inside(one.began, one.ended, gaps)],
            samples=[one for one in self.samples if not is_inside(one.at, one.at, gaps)],
        )


class _Waiting:
    """What was told of steps that have not ended."""

    def __init__(self) -> None:
        self.spans: _Queue[tuple[int, Span]] = _Queue(lambda one: one[1].began)
        self.forwards: _Queue[Forward] = _Queue(attrgetter("began"))
        self.passes: _Queue[Pass] = _Queue(attrgetter("began"))
        self.marks: _Queue[Reached] = _Queue(itemgetter(1))
        self.others: _Queue[OtherCall] = _Queue(attrgetter("began"))
        self.samples: _Queue[Sample] = _Queue(attrgetter("at"))
        self.calls: _Queue[RootCall] = _Queue(attrgetter("began"))
        self.in_windows: set[int] = set()
        """``id`` of forwards that ran in an operator window."""

    def until(self, end: float) -> _Told:
        """Take what began before a second."""
        forwards = self.forwards.until(end)
        windowed = self.in_windows.intersection(map(id, forwards))
        self.in_windows -= windowed
        return _Told(
            self.spans.until(end),
            forwards,
            bool(windowed),
            self.passes.until(end),
            self.marks.until(end),
            self.others.until(end),
            self.samples.until(end),
            self.calls.until(end),
        )

    @property
    def is_full(self) -> bool:
        """Whether a step is longer than there is room for."""
        queues = (self.spans, self.forwards, self.passes, self.marks, self.others, self.samples)
        return any(len(one) > MOST_WAITING for one in queues)


class _Row:
    """Steps in a row that were not recorded."""

    def __init__(self) -> None:
        self.thread = 0
        """That ended them; 0 where there are none."""
        self.ends: list[End | BriefEnd] = []


class _Ends:
    """Ends of steps as they were told, with their threads."""

    def __init__(self) -> None:
        self._ahead: deque[End | BriefEnd] = deque()
        """That a device has not come to."""
        self._thread = 0

    def reached(
        self, ends: Iterable[End | BriefEnd], device: DeviceClock | None
    ) -> Iterator[tuple[End | BriefEnd, int]]:
        """Yield those that the device has come to, all without one; and on which thread each was.

        Ends that only times are kept of follow one that was told, on the same thread.
        """
        self._ahead += ends
        while self._ahead:
            first = self._ahead[0]
            if isinstance(first, End):
                mark = first.mark
                if device is not None and mark is not None and not device.is_reached(mark):
                    return
                self._thread = first.thread
            yield self._ahead.popleft(), self._thread

    def clear(self) -> None:
        """Forget those that a device has not come to."""
        self._ahead.clear()


class _Lately:
    """Which forwards the last recorded steps had."""

    def __init__(self) -> None:
        self.without_own = 0
        """Recorded steps since the last one that had a forward of the model."""
        self.without_others = 0
        """The same, since the last one in which its thread called another model."""
        self.untraced = 0
        """The same, since the last one that had a forward as traced; those without any are none."""
        self.mode: tuple[bool, bool] | None = None
        """Of the last forward, whether the model was in training mode, and autograd on."""

    def note(self, told: _Told, thread: int) -> None:
        """Take note of a recorded step of a thread."""
        is_other = any(one.thread == thread for one in told.others)
        self.without_others = 0 if is_other else self.without_others + 1
        self.without_own = 0 if told.forwards else self.without_own + 1
        if told.forwards:
            is_traced = any(one.as_traced for one in told.forwards)
            self.untraced = 0 if is_traced else self.untraced + 1
            setting = told.forwards[-1].setting
            self.mode = setting and (setting.training, setting.autograd == "grad")


class _Enders:
    """Which optimizer ends steps: of those that are in use, the one that steps most seldom.

    Of several that step equally often it is the one that was seen last, for data is fetched after
    it. A window that ends between them has one step more of some: that decides nothing.
    """

    def __init__(self) -> None:
        self._last: deque[int] = deque(maxlen=OPTIMIZER_STEPS)
        self._seen: dict[int, None] = {}
        """All of them, in the order in which they stepped first."""
        self._counted: Counter[int | None] = Counter()
        """Steps by what has ended them; None: backward passes, 0: any of several optimizers."""

    def add(self, subject: int) -> None:
        """Take note that an optimizer has stepped."""
        self._last.append(subject)
        self._seen[subject] = None

    def count(self, steps: int, ends_at: int | None) -> None:
        """Take note that steps were counted that ended so (``StepRecorder.ends_at``)."""
        if ends_at == 0 and len(self._seen) == 1:
            ends_at = next(iter(self._seen))
        self._counted[ends_at] += steps

    def choose(self) -> int | None:
        """Return which one ends steps; None where none is in use."""
        counts = Counter(self._last)
        for one in [one for one in counts if not self._is_used(one)]:
            del counts[one]
        if not counts:
            return None
        least = min(counts.values())
        return max((one for one in counts if counts[one] <= least + 1), key=list(self._seen).index)

    def _is_used(self, subject: int) -> bool:
        """Tell whether one still steps: phases of a training may have an optimizer each."""
        places = [place for place, one in enumerate(self._last) if one == subject]
        age = len(self._last) - 1 - places[-1]
        if len(places) == 1:
            return age <= OPTIMIZER_STEPS // 2
        return age <= 2 * (places[-1] - places[0]) / (len(places) - 1) + 1

    def were_parts(self, subject: int) -> bool:
        """Tell whether counted steps were parts of those that this optimizer ends.

        Steps of an earlier phase, with another optimizer alone, were none.
        """
        others = +self._counted
        del others[subject]
        if None in others or 0 in others:
            return True
        places = [place for place, one in enumerate(self._last) if one == subject]
        if not others or len(places) < 2:
            return False
        last = list(self._last)
        before, between = last[: places[0]], last[places[0] + 1 : places[1]]
        is_part = len(last) < OPTIMIZER_STEPS and any(
            one in between and before.count(one) <= between.count(one) for one in others
        )
        self._counted = Counter({subject: self._counted[subject]})
        return is_part

    def forget(self) -> None:
        """Take note that what was counted is dropped."""
        self._counted.clear()


class AfterSteps:
    """Has what makes a step longer wait for ``LEAST_PLAIN`` recorded steps without it.

    Only where steps take ``PACED_SECONDS`` or more: each of them would have it, if it was due by
    the clock alone, and none would be in the means.
    """

    def __init__(self) -> None:
        self._after = LEAST_PLAIN

    def wait(self, training: "TrainingSteps") -> None:
        """Wait for the next recorded steps."""
        self._after = training.recorded + LEAST_PLAIN

    def is_now(self, training: "TrainingSteps") -> bool:
        """Return whether they have ended."""
        self._after = min(self._after, training.recorded + LEAST_PLAIN)
        return training.recorded >= self._after or training.usual_seconds < PACED_SECONDS


class TrainingSteps:
    """The steps of one model's training.

    Args:
        nodes: of its tree.
        model: it is not kept alive.
        clock: of the model.
        recorder: of its steps.
        budget: what watching may cost, as a share.
        items: of a forward, where that is known; else it is what the tree shows.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        model: nn.Module,
        clock: ModuleClock,
        recorder: StepRecorder,
        budget: float,
        items: Figure | None = None,
    ) -> None:
        self._clock = clock
        self._recorder = recorder
        self._traced_input = _first_input(nodes)
        self._traced_items, self._traced_tokens = _given_as_traced(nodes, model, items)
        self._index = TreeIndex(nodes, model)
        self._forward_code: CodeType | None = getattr(type(model).forward, "__code__", None)
        self._model = weakref.ref(model)
        self.values = ValueReader(self._index, budget)
        """Reads the values of steps, while that is wanted."""
        self._values_due = AfterSteps()
        self._sampler = LineSampler(budget)
        self._waiting, self._brief, self._ends = _Waiting(), _BriefTimes(), _Ends()
        self._collectives: PendingCollectives | None = None
        self._before: End | None = None
        self._seen: set[str] = set()
        """What was ever told of."""
        self._optimizers: deque[tuple[int, OptimizerSettings]] = deque(maxlen=OPTIMIZER_STEPS)
        self._enders = _Enders()
        self._since = 0.0
        """Second from which on ends of steps count."""
        self._loaders: deque[LoaderSettings] = deque(maxlen=LAST_BATCHES)
        self._batch_of: dict[int, int] = {}
        """Items in a whole batch, by number of the loader."""
        self._lengths = _Lengths()
        self._lines = LineShares()
        self._between, self._totals = BetweenSteps(), BetweenTotals()
        self._seen_from = 0.0
        """Second since which the model's calls are counted in the present step, where that began
        before."""
        self._set = StepSet()
        self._others = OtherModels()
        self._so_far = [0.0] * len(StepParts.__struct_fields__)
        """Seconds in each part of all recorded steps."""
        self._recorded_so_far = 0
        self._steps = self._dropped = 0
        self._lately, self._slowest = _Lately(), 0.0
        self._slow: tuple[SlowStep, float] | None = None
        """With the second of ``time.perf_counter`` at which it began."""
        self._is_new, self._trouble = False, ""
        """``_trouble``: why the steps recorded last have no backward of modules, or not of all."""
        self._unmarked = ""
        """Why nodes were not marked since."""
        self._is_timed = False
        """Whether a step was added to the means since the last time."""
        self.cost: StepCost | None = None
        """What recording a step costs; None where no step has been recorded for its own sake."""
        self._recorded_calls, self._recorded_seconds = 0, 0.0
        self._brief_step_seconds = 0.0
        """What it takes to keep only times of one step; 0: not known yet."""
        self.brief_seconds = 0.0
        """The same of all such steps so far."""

    @property
    def is_training(self) -> bool:
        """Whether steps have ended."""
        return self._steps > 0

    @property
    def cost_seconds(self) -> float:
        """Seconds that the threads of lines and values cost so far, the delay by lines included."""
        return self._sampler.cost_seconds + self.values.seconds

    @property
    def decides(self) -> bool:
        """Whether ends of steps decide which forwards are recorded."""
        return self._recorder.is_driving

    @property
    def usual_seconds(self) -> float:
        """Median of the last steps; 0 while unknown."""
        return self._lengths.p50

    @property
    def recorded(self) -> int:
        """Steps that were recorded, and in which nothing else was done."""
        return self._recorded_so_far

    @property
    def steps(self) -> int:
        """Steps that have ended so far."""
        return self._steps

    def is_in_pace(self, now: float) -> bool:
        """Return whether a step of the model is under way that takes no longer than others may.

        Args:
            now: second of ``time.perf_counter``.
        """
        if self._before is None or not self._recorder.is_driving or self.lacks_forwards:
            return False
        return not self._lengths or now - self._before.at <= LONG_FACTOR * self._lengths.p50

    @property
    def trained_beside(self) -> set[int]:
        """The ``id`` of other models that half of the recorded steps call, with a backward."""
        is_enough = self._set.steps >= LEAST_STEPS and self._set.mean("forwards") > 0.0
        return self._others.trained(self._set) if is_enough else set()

    @property
    def lacks_forwards(self) -> bool:
        """Whether steps go on without the model: what trains is another one, or another method."""
        return self._lately.without_own >= LEAST_WITHOUT_FORWARD

    @property
    def untraced_mode(self) -> tuple[bool, bool] | None:
        """Whether steps run the model in training mode, and with autograd.

        None where they are not known to run it in another way than the one that was traced.
        """
        return self._lately.mode if self._lately.untraced >= LEAST_UNTRACED else None

    def module_in_backward(self, at: float, *, is_inside: bool) -> nn.Module | str:
        """Return the innermost module whose backward a pass was in, or why it is not known.

        Args:
            at: second of ``time.perf_counter``, in the step that has not ended.
            is_inside: whether the pass was under way then; else it is the last one before.
        """
        before = [one for one in self._waiting.passes if one.began < at]
        began = 0.0
        if before:
            last = before[-1]
            began = last.ended if is_inside and last.ended < at else last.began
        came = [one for one in self._waiting.marks if began <= one.seconds <= at and one.number > 0]
        if not came:
            is_recorded = self._recorder.is_recorded
            return "it had not reached a module" if is_recorded else "this step was not recorded"
        mark = came[-1]
        for forward in reversed([*self._waiting.forwards]):
            numbers = forward.numbers
            if numbers is None or forward.thread != mark.thread:
                continue
            # In the order of the exits: of those around a node the innermost is first.
            calls = zip(forward.modules, numbers[::2], numbers[1::2], strict=True)
            for module, first, stop in calls:
                if first <= mark.number < stop:
                    return module  # type: ignore[no-any-return]  # three types in one zip
        return "it was outside of the model"

    def start(self) -> None:
        """Begin to listen."""
        model = self._model()
        if self._recorder.gradients is None and model is not None:
            self._recorder.gradients = GradientWatch(model)
        self._recorder.start()

    def close(self) -> None:
        """Listen no more."""
        self._recorder.close()
        self._sampler.stop()
        if self._collectives is not None:
            PROCESS.leave(self._collectives)
            self._collectives = None

    def forget_means(self) -> None:
        """Begin the set of steps anew."""
        self._set = StepSet()

    def take_recorded(self) -> tuple[int, float]:
        """Return calls of modules in the steps recorded since the last time, and their seconds."""
        found = self._recorded_calls, self._recorded_seconds
        self._recorded_calls, self._recorded_seconds = 0, 0.0
        return found

    def take(self, forwards: Iterable[Forward], in_windows: Iterable[Forward], now: float) -> None:
        """Add up the steps that have ended.

        Args:
            forwards: that were recorded since the last time.
            in_windows: those among them that ran in an operator window; their steps are in no mean.
            now: second of ``time.perf_counter``.
        """
        waiting, recorder, counted = self._waiting, self._recorder, self._steps
        # Ends first: what a step consists of is told before its end is.
        ends = [one for one in _taken(recorder.ends) if _second(one) >= self._since]
        if recorder.is_driving or self._before is None:
            waiting.forwards.add(forwards)
        else:
            waiting.calls.add(map(_as_call, forwards))  # Nothing else of them is needed.
        waiting.in_windows |= {id(one) for one in in_windows}
        self._take_told()
        self._is_timed = False
        row = _Row()
        for end, thread in self._ends.reached(ends, self._clock.device):
            if not isinstance(end, End) or end.is_plain:
                if row.thread not in (0, thread):
                    self._add_row(row)
                    row = _Row()
                row.thread = thread
                row.ends.append(end)
                continue
            self._add_row(row)
            row = _Row()
            told = waiting.until(end.at)
            before, self._before = self._before, end
            is_step = before is not None and before.thread == end.thread and not end.is_gap
            if before is not None and is_step and end.at > before.at:
                gaps = self._judged(told, before, end)
                seconds = end.at - before.at - sum(one.seconds for one in gaps)
                told = told.without(gaps)
                self._compare(told, end, seconds)
                self._add(told, before, end, now, gaps)
                continue
            if self.cost is not None:
                self.cost.skip()
            if end.values is not None:
                self.values.give_up()
        self._add_row(row)
        self._enders.count(self._steps - counted, recorder.ends_at)
        if ends:
            self._lengths.refresh()
            recorder.usual_seconds = self._lengths.p50
            if self._before is not None:
                self._brief.drop(self._before.at)
        if self._is_timed:
            self._trouble, self._unmarked = self._unmarked, ""
        if waiting.is_full:
            self._forget()
            self._dropped += 1
        elif self._before is None:
            self._forget()  # What is kept keeps the model alive, and no step has begun.
        self._follow(now)

    def _take_told(self) -> None:
        """Take what was told of steps, but for their ends and forwards."""
        waiting, recorder = self._waiting, self._recorder
        marks, passes = _taken(recorder.marks), _taken(recorder.passes)
        waiting.spans.add(
            (one.thread, Span(one.kind, one.began, one.ended, one.fetch)) for one in marks
        )
        waiting.spans.add((one.thread, Span("backward", one.began, one.ended)) for one in passes)
        own = [*_taken(recorder.own), *self._clock.take_own()]
        waiting.spans.add((thread, Span("profiler", began, ended)) for thread, began, ended in own)
        self._take_brief()
        waiting.spans.add(self._waits())
        others = self._clock.take_others()
        waiting.others.add(others)
        waiting.spans.add((one.thread, Span("forward", one.began, one.ended)) for one in others)
        waiting.passes.add(passes)
        reached, trouble = self._clock.take_marks()
        waiting.marks.add(reached)
        self._unmarked = trouble or self._unmarked
        waiting.samples.add(self._sampler.take())
        waiting.calls.add(self._clock.take_root_calls())
        if len(waiting.calls) > MOST_CALLS:
            waiting.calls.replace(_added_up([*waiting.calls]))
        self._seen |= {one.kind for one in marks} | ({"backward"} if passes else set())
        for one in marks:
            match one.settings:
                case OptimizerSettings():
                    self._optimizers.append((one.subject, one.settings))
                    self._enders.add(one.subject)
                case LoaderSettings():
                    self._loaders.append(one.settings)
                    batch = one.settings.batch
                    if one.fetch is not None and batch and len(self._batch_of) < MOST_LOADERS:
                        self._batch_of[one.fetch.fetcher.loader] = batch

    def skip(self) -> None:
        """Forget what was told since the last end of a step that was added up."""
        recorder = self._recorder
        for queue in (recorder.ends, recorder.marks, recorder.passes, recorder.own, self._ends):
            queue.clear()
        self._take_brief()
        self._clock.take_marks()
        self._clock.take_own()
        self._clock.take_others()
        self.values.give_up()
        self._forget()

    def _take_brief(self) -> None:
        """Take times of what nobody was told of."""
        for kind, kept in MARKS.brief.items():
            marks = _taken(kept)
            self._brief.add(kind, marks)
            if marks:
                self._seen.add(kind)
            if kind == "optimizer":
                most = BRIEF_SHARE * self._lengths.p50 or math.inf
                self.brief_seconds += min(self._brief_step_seconds, most) * len(marks)
        times = _taken(ENGINE.brief)
        self._brief.add("backward", [(began, ended, None) for began, ended in times])
        if times:
            self._seen.add("backward")
            if self._clock.passes is not None:
                self._clock.passes.count_alike(_outermost_seconds(times))

    def _add_row(self, row: _Row) -> None:
        """Add steps in a row that were not recorded, of one thread."""
        if not row.ends:
            return
        thread, last = row.thread, row.ends
        before, self._before = self._before, _as_end(last[-1], thread)
        if before is None or before.thread != thread or before.at >= _second(last[0]):
            before, last = _as_end(last[0], thread), last[1:]
            if self.cost is not None:
                self.cost.skip()
        if not last:
            return
        ends = [*map(_second, last)]
        begins = [before.at, *ends[:-1]]
        lengths = list(map(sub, ends, begins))
        self._totals.seconds += ends[-1] - begins[0]
        gaps = self._gaps_in_row(thread, begins, ends)
        for place, between in gaps.items():
            lengths[place] -= sum(one.seconds for one in between)
        if self.cost is not None:
            # Steps are compared where one of two was recorded: at either end of the row.
            for seconds in lengths if len(lengths) < 2 else (lengths[0], lengths[-1]):
                self.cost.add(seconds, 0)
        lines = self._lines_in_row(thread, begins, ends, gaps)
        longest = max(lengths)
        if self._is_slow(longest):
            place = lengths.index(longest)
            here = gaps.get(place, ())
            spans = self._spans_between(thread, begins[place], ends[place])
            division = divide_around(begins[place], ends[place], spans, here)
            step_before = _as_end(last[place - 1], thread) if place else before
            step, step_end = self._steps + place + 1, _as_end(last[place], thread)
            kept = () if lines is None else lines.get(place, ())
            self._note_slow(step, step_before, step_end, division, kept, here)
        self._steps += len(lengths)
        self._is_new = True
        usual = self._lengths.usual
        if lines is None:
            for _ in range(min(len(lengths), LAST_STEPS)):
                self._lines.add((), is_untold=True)
        else:
            told = 0
            for place, found in lines.items():  # In the order of samples.
                self._lines.add_none(place - told)
                self._lines.add(found if lengths[place] <= usual else ())
                told = place + 1
            self._lines.add_none(len(lengths) - told)
        own = lengths
        if longest > usual or usual == math.inf:
            own = [
                self._own_seconds(seconds, begins[place], ends[place], thread, gaps.get(place, ()))
                for place, seconds in enumerate(lengths)
            ]
        self._lengths.add(lengths, own)
        self._waiting.until(ends[-1])

    def _own_seconds(
        self, seconds: float, began: float, ended: float, thread: int, gaps: Sequence[Gap]
    ) -> float:
        """Return the seconds of a step without waiting for its batch (``_Lengths.add``)."""
        if seconds <= self._lengths.usual < math.inf:
            return seconds
        spans = outside(self._spans_between(thread, began, ended), gaps)
        return self._without_wait(seconds, divide_around(began, ended, spans, gaps), spans)

    def _gaps_in_row(
        self, thread: int, begins: list[float], ends: list[float]
    ) -> dict[int, tuple[Gap, ...]]:
        """Return what lies before steps in a row, by place of the step."""
        since, until = begins[0], ends[-1]
        calls = [one for one in self._waiting.calls.between(since, until) if one.thread == thread]
        batches = [
            Batch(one.began, one.ended, one.fetch)
            for one in self._spans_between(thread, since, until, "data")
            if one.fetch is not None
        ]
        gaps: dict[int, tuple[Gap, ...]] = {}
        are_known = any(one.is_grad for one in calls)
        if self._between.is_plain(batches, calls):
            self._between.pass_plain(len(ends), are_calls_known=are_known)
            self._totals.steps += len(ends)
            return gaps
        batches.sort()
        for place, (began, ended) in enumerate(zip(begins, ends, strict=True)):
            here = (bisect_left(batches, (began,)), bisect_left(batches, (ended,)))
            there = [bisect_left(calls, at, key=attrgetter("began")) for at in (began, ended)]
            own_batches, own_calls = batches[slice(*here)], calls[slice(*there)]
            if self._between.is_plain(own_batches, own_calls):
                is_known = any(one.is_grad for one in own_calls)
                self._between.pass_plain(1, are_calls_known=is_known)
                self._totals.steps += 1
                continue
            passes = self._spans_between(thread, began, ended, "backward")
            works = [one.began for one in passes]
            samples = self._waiting.samples.between(began, ended)
            found = self._judge(began, ended, own_batches, own_calls, works, samples)
            if found:
                gaps[place] = found
        return gaps

    def _judged(self, told: _Told, before: End, end: End) -> tuple[Gap, ...]:
        """Return what lies before one step, that was recorded or told of."""
        spans = [span for thread, span in told.spans if thread == end.thread]
        spans += self._brief.inside(before.at, end.at)
        batches = [Batch(one.began, one.ended, one.fetch) for one in spans if one.fetch is not None]
        calls = [
            *(one for one in told.calls if one.thread == end.thread),
            *(_as_call(one) for one in told.forwards if one.thread == end.thread),
        ]
        works = [one.began for one in spans if one.part == "backward"]
        calls.sort(key=attrgetter("began"))
        self._totals.seconds += end.at - before.at
        return self._judge(before.at, end.at, sorted(batches), calls, works, told.samples)

    def _judge(
        self,
        began: float,
        ended: float,
        batches: Sequence[Batch],
        calls: Sequence[RootCall],
        works: Sequence[float],
        samples: Sequence[Sample],
    ) -> tuple[Gap, ...]:
        """Return what lies before one step, and add it up."""
        is_known = any(one.is_grad for one in calls)
        seen_from = self._seen_from if began < self._seen_from < ended else 0.0
        interval = Interval(began, ended, batches, calls, works, is_known, seen_from)
        gaps = self._between.judge(interval)
        if self._between.was_mistaken and self._totals.steps < LAST_STEPS:
            self._totals, self._set = BetweenTotals(), StepSet()
        self._totals.add(gaps, _lines_between(gaps, samples, batches))
        self._totals.steps += 1
        return gaps

    def _without_wait(self, seconds: float, division: Division, spans: Iterable[Span]) -> float:
        """Return the same of a step that is divided.

        One that fetched more batches than others has an evaluation or a new epoch in it.
        """
        fetches = sum(span.part == "data" for span in spans)
        if fetches > max(round(self._set.mean("fetches")), 1):
            return seconds
        return seconds - division.seconds.get("data", 0.0)

    def _note_slow(
        self,
        step: int,
        before: End,
        end: End,
        division: Division,
        samples: Sequence[Placed],
        gaps: Sequence[Gap],
    ) -> None:
        """Keep a slow step, until it is told."""
        seconds, thread = sum(division.parts().values()), None
        if before.usage is not None and end.usage is not None and not gaps:
            thread = thread_time(seconds, usage_between(before.usage, end.usage))
        parts = self._parts(division.seconds, is_recorded=end.is_recorded)
        slow = SlowStep(0.0, step, seconds, parts, thread, self._lines.of(samples).lines)
        self._slow = slow, before.at

    def _lines_in_row(
        self,
        thread: int,
        begins: list[float],
        ends: list[float],
        gaps: Mapping[int, Sequence[Gap]],
    ) -> dict[int, list[Placed]] | None:
        """Return the samples that fell into the rest of steps in a row, by place; None: unknown.

        A hidden one that is near a forward may be in it: forwards are known in recorded steps only.
        """
        lines: dict[int, list[Placed]] = {}
        samples = self._waiting.samples.until(ends[-1])
        if samples and self._lately.without_others < LEAST_WITHOUT_OTHERS:
            # Their forwards are known in recorded steps only.
            return None
        self._lines.note(samples)
        with_forwards = self._set.subjects(_FORWARD_IN)
        for sample in samples:
            place = bisect_right(ends, sample.at)
            is_between = is_inside(sample.at, sample.at, gaps.get(place, ()))
            if sample.at < begins[place] or sample.is_in_forward or is_between:
                continue
            spans = self._spans_between(thread, begins[place], ends[place])
            if any(one.began <= sample.at < one.ended for one in spans):
                continue
            region = _regions(spans).at(sample.at)
            if sample.how != "hidden" or region not in with_forwards:
                lines.setdefault(place, []).append(Placed(sample, region))
        return lines

    def _spans_between(
        self, thread: int, began: float, ended: float, part: PartName | None = None
    ) -> list[Span]:
        """Return what a thread was told to have done, or only times are known of; or one part."""
        told = self._waiting.spans.between(began, ended)
        found = [span for one, span in told if one == thread and part in (None, span.part)]
        if part is not None:
            return found + self._brief.of(part, began, ended)
        return found + self._brief.inside(began, ended)

    def _forget(self) -> None:
        """Drop what was told since the last end of a step."""
        self._waiting, self._before = _Waiting(), None
        self._brief = _BriefTimes()

    def _waits(self) -> list[tuple[int, Span]]:
        """Return the times that threads waited for collectives."""
        if self._collectives is None:
            if not (distributed.is_available() and distributed.is_initialized()):
                return []
            self._collectives = PROCESS.listen(lambda reducer: False)
        self._seen.add("communication")
        spans, lost = self._collectives.take()
        if lost:
            self._before = None  # What is missing would be taken for other parts.
            self._dropped += 1
        return [
            (one.thread, Span("communication", one.began, one.ended))
            for one in spans
            if one.kind == "wait"
        ]

    def _compare(self, told: _Told, end: End, seconds: float) -> None:
        """Have learned from a step what recording one costs."""
        if self.cost is None:
            return
        calls = sum(one.calls for one in told.forwards) if end.is_recorded else 0
        is_like_others = end.values is None and not told.is_windowed
        if is_like_others and end.is_recorded == (calls > 0):
            self.cost.add(seconds, calls)
        else:
            self.cost.skip()

    def _add(self, told: _Told, before: End, end: End, now: float, gaps: Sequence[Gap]) -> None:
        """Add one step; what was told of it is without what lies before it."""
        seconds = end.at - before.at - sum(one.seconds for one in gaps)
        spans = [span for thread, span in told.spans if thread == end.thread]
        spans += [
            Span("forward", one.began, one.ended)
            for one in told.forwards
            if one.thread == end.thread
        ]
        division = divide_around(before.at, end.at, spans, gaps)
        self._lines.note(told.samples)
        regions = _regions(spans)
        lines = _samples_in(division, told.samples, regions)
        if end.values is None and self._is_slow(seconds):
            self._note_slow(self._steps + 1, before, end, division, lines, gaps)
        self._steps, self._is_new = self._steps + 1, True
        if end.is_recorded:
            self._lately.note(told, end.thread)
        own = self._without_wait(seconds, division, spans)
        self._lengths.add([seconds], [own])
        # What a step that is in no mean did is no part of the mean: an evaluation, a checkpoint.
        self._lines.add(lines if seconds <= self._lengths.usual else ())
        if end.values is not None:
            self._values_due.wait(self)
            self.values.add(end.values, told.forwards, self._steps, now)
        if not end.is_recorded or told.is_windowed or end.values is not None:
            return
        self._recorded_seconds += seconds
        self._recorded_calls += sum(one.calls for one in told.forwards)
        self._recorded_so_far += 1
        for place, name in enumerate(StepParts.__struct_fields__):
            self._so_far[place] += division.seconds.get(name, 0.0)
        if own > self._lengths.usual:
            self._set.leave_out()
            return
        times = StepTimes(self._index, self._clock.device)
        for forward in told.forwards:
            times.add_forward(forward)
        for other in told.others:
            if (known_as := self._others.place(other.model)) is not None:
                times.add_other(other.thread, known_as, other.numbers)
        for one in told.passes:
            waits = [
                (span.began, span.ended)
                for thread, span in told.spans
                if span.part == "communication" and thread == one.thread
            ]
            times.add_pass(one, told.marks, waits)
        if times.why_not_timed:
            self._trouble = self._trouble if self._set.steps else times.why_not_timed
            self._dropped += 1
            return
        used = None
        if before.usage is not None and end.usage is not None and not gaps:
            used = usage_between(before.usage, end.usage)
        figures: dict[FigureName, float] = {
            **_usage_figures(used, seconds),
            "seconds": sum(division.parts().values()),
            "forwards": len(told.forwards),
            "passes": sum(one.thread == end.thread for one in told.passes),
            "fetches": sum(span.part == "data" for span in spans),
            "updates": sum(span.part == "optimizer" for span in spans),
            "traced": sum(one.as_traced for one in told.forwards),
            "recompute": times.recompute,
            **self._given(told.forwards),
            **self._fetched(spans),
        }
        figures.update(division.seconds.items())
        figures |= _region_figures(division, regions, told.forwards, end.thread)
        self._is_timed = True
        if times.why_not_divided:
            figures[UNDIVIDED, times.why_not_divided] = 1.0
        if times.why_no_recompute:
            figures[UNSEEN_AGAIN, times.why_no_recompute] = 1.0
        figures |= self._others.figures(told.others, told.forwards)
        figures |= {("backward", place): spent for place, spent in times.others.items()}
        for named, figure in pass_figures(times.passes):
            figures[named] = figures.get(named, 0.0) + figure
        self._set.add(figures, times.columns)

    def _is_slow(self, seconds: float) -> bool:
        """Tell whether a step is slower than 99 of 100 or than all, and than the one kept."""
        if self._slow is not None and self._slow[0].seconds >= seconds:
            return False
        found = seconds > min(self._lengths.slow, self._slowest or math.inf)
        if found:
            self._slowest = max(self._slowest, seconds)
        return found

    def _follow(self, now: float) -> None:
        """Decide what ends a step, and whether ends of steps decide what is recorded."""
        recorder = self._recorder
        ender = self._enders.choose()
        if ender is not None:
            recorder.ends_at = ender
            if self._enders.were_parts(ender):
                self._begin_anew()
        elif "backward" in self._seen and not self._optimizers and not MARKS.is_updating:
            recorder.ends_at = None
        if self._before is None:
            return
        elapsed, usual = now - self._before.at, self._lengths.p50
        is_known = len(self._lengths) >= LEAST_SLOW_STEPS
        patience = max(PATIENCE_SECONDS, LONG_FACTOR * usual, 2 * self._totals.longest)
        is_late = elapsed > (patience if self._lengths else FIRST_PATIENCE_SECONDS)
        if is_late and not self._lengths:
            # Each step may be as long: its end is waited for, and nothing else of it is kept.
            self._waiting, self._brief = _Waiting(), _BriefTimes()
        is_long = is_known and elapsed > max(LONG_SECONDS, LONG_FACTOR * usual)
        if is_long and recorder.is_driving and self._seen_from < self._before.at:
            self._seen_from = now
            recorder.watch_gap()
        recorder.peeks = self._totals.is_seen or usual >= PEEKED_STEP_SECONDS
        if is_late and recorder.is_driving:
            recorder.stop_driving()
            self.values.give_up()
            self._sampler.stop()
            if self._lengths and not self._is_between:
                self._forget()
        elif not is_late and not recorder.is_driving:
            self.cost = self.cost or StepCost(max(marked_call_seconds(self._clock.device), 1e-9))
            if not self._brief_step_seconds:
                self._brief_step_seconds = BRIEF_FACTOR * brief_step_seconds()
            recorder.is_driving = True
            self._sampler.start(recorder.thread, self._forward_code)
        if self._set.steps >= LEAST_STEPS:
            self._sampler.other_share = self._set.mean("other") / self._set.mean("seconds")
        if recorder.is_driving and recorder.next_values is None and self._values_due.is_now(self):
            recorder.next_values = self.values.next_step(self._model(), now)
            if recorder.next_values is not None:
                recorder.decide_next()

    @property
    def _is_between(self) -> bool:
        """Whether an evaluation or inference is under way, as far as it is known."""
        calls = (*self._waiting.calls, *map(_as_call, self._waiting.forwards))
        return any(not one.is_grad for one in calls)

    def _begin_anew(self) -> None:
        """Drop the steps so far: they ended where now none does, so they were none."""
        self._enders.forget()
        self._steps = self._recorded_so_far = 0
        self._so_far = [0.0] * len(self._so_far)
        self._lengths, self._set, self._lately = _Lengths(), StepSet(), _Lately()
        self._between, self._totals = BetweenSteps(), BetweenTotals()
        self._lines = LineShares()
        self._sampler.other_share = 1.0
        self._slowest, self._slow, self._is_new = 0.0, None, False
        self._forget()
        self._since = perf_counter()
        self._recorder.record_first()

    def messages(self, at: float, *, or_few: bool = False) -> Iterator[Message]:
        """Yield what is new.

        Args:
            at: seconds since the beginning.
            or_few: tell of fewer than ``LEAST_STEPS`` too, because no more may come.
        """
        if self._slow is not None:
            slow, began = self._slow
            yield replace(slow, at=at, began=at - max(perf_counter() - began, 0.0))
            self._slow = None
        is_enough = self._lengths.are_enough or (or_few and self._set.steps > 0)
        if self._is_new and is_enough:
            self._is_new = False
            yield self._message(at)
        yield from self.values.messages(at)

    def _message(self, at: float) -> TrainingStep:
        steps, mean = self._set.steps, self._set.mean
        nodes, columns = self._set.columns()
        forward, backward, recomputed = columns
        regions: dict[Region, float] = {
            one: self._set.mean((_REGION, one))
            for one in self._set.subjects(_REGION)
            if isinstance(one, tuple)
        }
        lines = self._lines.of(self._lines.samples, regions)
        items, tokens = self._items("items"), self._items("tokens")
        settings = Counter(one for _, one in self._optimizers)
        names = Counter(one.name for _, one in self._optimizers)
        loaders = Counter(self._loaders)
        watch = self._recorder.gradients
        others_unknown = _OTHERS_UNKNOWN if self._lines.untold else ""
        return TrainingStep(
            at=at,
            steps=self._steps,
            ended_by=self._ended_by,
            seconds=mean("seconds") if steps else _TOO_FEW,
            p50=self._lengths.p50,
            p95=self._lengths.p95,
            per_second=self._lengths.per_second,
            recorded=steps,
            outliers=self._set.outliers,
            parts=self._parts({name: mean(name) for name in StepParts.__struct_fields__}),
            forwards=mean("forwards"),
            passes=mean("passes"),
            updates=mean("updates"),
            items=items,
            tokens=tokens,
            optimizers=tuple(name for name, _ in names.most_common()),
            recompute=recompute(self._set) if steps else _TOO_FEW,
            lines=lines.lines,
            samples=lines.samples,
            why_no_lines=self._sampler.why_not or others_unknown,
            why_no_backward=self._trouble or why_undivided(self._set),
            dropped=self._dropped,
            nodes=nodes.tobytes(),
            forward=forward[0].tobytes(),
            own_forward=forward[1].tobytes(),
            backward=backward[0].tobytes(),
            own_backward=backward[1].tobytes(),
            recomputed=recomputed[0].tobytes(),
            own_recomputed=recomputed[1].tobytes(),
            thread=self._thread(),
            thread_steps=round(self._set.steps * mean("usage known")),
            on_device=self._clock.device is not None,
            recorded_so_far=self._recorded_so_far,
            seconds_so_far=tuple(self._so_far),
            loader=max(loaders, key=lambda one: loaders[one], default=None),
            optimizer_settings=tuple(one for one, _ in settings.most_common()),
            kept_gradients=None if watch is None else watch.kept(),
            backward_lines=backward_lines(self._set),
            other_models=self._others.messages(self._set, on_device=self._clock.device is not None),
            last=len(self._lengths),
            longer=len(self._lengths.longer()),
            longer_share=self._lengths.longer_share(),
            items_error=self._items_error("items"),
            tokens_error=self._items_error("tokens"),
            fetches=mean("fetches"),
            between=self._totals.messages(),
            calls_per_second=self._totals.calls_per_second(mean("forwards")) if steps else _TOO_FEW,
            lines_rest=lines.rest,
            lines_unsampled=lines.unsampled,
        )

    def _thread(self) -> ThreadTime | None:
        """Return what the thread that trains used in a step: means of those where it was read."""
        read = self._set.mean("usage known")
        if not read:
            return None
        usage = ThreadUsage(*(self._set.mean(name) / read for name in ThreadUsage._fields))  # type: ignore[arg-type]  # means of counts
        if self._set.mean("waiting known") < read:
            usage = usage._replace(waiting=None)
        return thread_time(self._set.mean("usage seconds") / read, usage)

    @property
    def _ended_by(self) -> StepEnd:
        return "backward" if self._recorder.ends_at is None else "optimizer"

    def _parts(self, seconds: dict[str, float], *, is_recorded: bool = True) -> StepParts:
        """Return parts of a step; what was never seen is unknown, and its time is in the rest."""
        found: dict[str, Figure] = {}
        for name in StepParts.__struct_fields__:
            why = _UNSEEN.get(name, "") if name not in self._seen else MARKS.why_not.get(name, "")
            found[name] = Unknown(why) if why else seconds.get(name, 0.0)
        found["transfer"] = _NO_COPIES if self._clock.device is None else _NOT_TIMED
        if "communication" not in self._seen:
            found["communication"] = _ONE_PROCESS
        if not is_recorded:
            found["forward"] = found["other"] = _NOT_RECORDED
        return StepParts(**found)

    def _given(self, forwards: Iterable[Forward]) -> dict[FigureName, float]:
        """Return the items and tokens of a step, and of how many forwards each is known."""
        found: Counter[FigureName] = Counter()
        for forward in forwards:
            items, tokens = self._traced_items, self._traced_tokens
            if not forward.as_traced:
                items, tokens = self._given_otherwise(forward.given)
            if not isinstance(items, Unknown):
                found["items"] += int(items)
                found["items of"] += 1
            if not isinstance(tokens, Unknown):
                found["tokens"] += int(tokens)
                found["tokens of"] += 1
        for what in ("items", "tokens"):
            found[f"{what} squared"] = found[what] ** 2
        return dict(found)

    def _given_otherwise(self, given: FirstTensor | None) -> tuple[Figure, Figure]:
        """Return the items and tokens of a forward with other inputs, by the axes as traced."""
        items, tokens, first = self._traced_items, self._traced_tokens, self._traced_input
        if given is None or first is None or len(given.shape) != len(first.shape):
            return _NO_ITEMS["items"], _NO_ITEMS["tokens"]
        if not isinstance(items, Unknown):
            axis = next((axis for axis, size in enumerate(first.shape) if size == items), None)
            items = _NO_ITEMS["items"] if axis is None else given.shape[axis]
        if not isinstance(tokens, Unknown):
            tokens = math.prod(given.shape) if given.is_ids else _NO_ITEMS["tokens"]
        return items, tokens

    def _items(self, what: Literal["items", "tokens"]) -> Figure:
        """Return items or tokens of a step: those of recorded ones, which are evenly spread.

        Their time tells no more, though a long input makes a long step: recording makes it longer.
        """
        mean = self._set.mean
        if not self._set.steps:
            return _TOO_FEW
        if not mean("forwards"):
            return _NOT_CALLED
        if mean(f"{what} of") < mean("forwards"):
            traced = self._traced_items if what == "items" else self._traced_tokens
            return traced if isinstance(traced, Unknown) else _NO_ITEMS[what]
        if self._set.steps < LEAST_STEPS and mean("traced") < mean("forwards"):
            return _TOO_FEW_INPUTS
        return mean(what) * self._share_fetched()

    def _fetched(self, spans: Iterable[Span]) -> dict[FigureName, float]:
        """Return the items of the batches that loaders gave in a step, where all are known."""
        fetches = [one.fetch for one in spans if one.fetch is not None and not one.fetch.is_over]
        batches = [self._batch_of.get(one.fetcher.loader, 0) for one in fetches]
        return {"fetched": sum(batches)} if batches and all(batches) else {"fetched unknown": 1.0}

    def _share_fetched(self) -> float:
        """Return the share of the items of all forwards that are not of a batch given before.

        A discriminator has the batch and what is made of it, a network with two views has it twice.
        One forward has each of its items once, whatever the loader calls an item.
        """
        mean = self._set.mean
        items, forwards, fetched = mean("items"), mean("forwards"), mean("fetched")
        if not items or forwards <= 1.0 or mean("fetched unknown") or fetched >= items:
            return 1.0
        return max(fetched / items, 1.0 / forwards)

    def _items_error(self, what: Literal["items", "tokens"]) -> float:
        """Return half a 95 % interval of items or tokens of a step, as a share of them."""
        steps, mean = self._set.steps, self._set.mean(what)
        if steps < LEAST_STEPS or not mean:
            return 0.0
        variance = max(self._set.mean(f"{what} squared") - mean**2, 0.0) / (steps - 1)
        return 1.96 * math.sqrt(variance) / mean if variance > 1e-12 * mean**2 else 0.0


def divide(began: float, ended: float, spans: Iterable[Span]) -> Division:
    """Give each moment of a step to the innermost span that it is in, or to ``other``."""
    seconds: dict[str, float] = {"other": 0.0}
    other: list[tuple[float, float]] = []
    inside: list[Span] = []
    now = began

    def until(moment: float) -> None:
        nonlocal now
        moment = min(moment, ended)
        if moment <= now:
            return
        part = inside[-1].part if inside else "other"
        seconds[part] = seconds.get(part, 0.0) + moment - now
        if part == "other":
            other.append((now, moment))
        now = moment

    for span in sorted(spans, key=lambda one: (one.began, -one.ended)):
        while inside and inside[-1].ended <= span.began:
            until(inside[-1].ended)
            inside.pop()
        until(span.began)
        # What ends after the span around it is cut there: a wait that DDP tells of afterwards.
        inside.append(
            span if not inside else span._replace(ended=min(span.ended, inside[-1].ended))
        )
    while inside:
        until(inside[-1].ended)
        inside.pop()
    until(ended)
    return Division(seconds, other)


def outside(spans: Iterable[Span], gaps: Sequence[Gap]) -> list[Span]:
    """Return what does not lie between steps."""
    return [one for one in spans if not is_inside(one.began, one.ended, gaps)]


def divide_around(
    began: float, ended: float, spans: Iterable[Span], gaps: Sequence[Gap]
) -> Division:
    """Divide what is left of an interval without what lies between steps."""
    if not gaps:
        return divide(began, ended, spans)
    between = [Span("between", one.began, one.ended) for one in gaps]
    division = divide(began, ended, [*outside(spans, gaps), *between])
    division.seconds.pop("between", None)
    return division


def _as_call(forward: Forward) -> RootCall:
    """Return a recorded forward as a call that was counted."""
    setting = forward.setting
    is_grad = setting is None or setting.autograd == "grad"
    items = forward.given.shape[0] if forward.given is not None and forward.given.shape else 0
    ended = forward.began if is_grad else forward.ended
    training = setting is None or setting.training
    return RootCall(forward.thread, forward.began, ended, training, is_grad, items)


def _added_up(calls: list[RootCall]) -> list[RootCall]:
    """Return calls of which those in a row that are alike are added up, but for the last ones."""
    found: list[RootCall] = []
    older = len(calls) - MOST_CALLS // 2
    for place, one in enumerate(calls):
        last = found[-1] if found else None
        is_alike = last is not None and not one.is_grad and last[3:6] == one[3:6]
        if last is not None and is_alike and last.thread == one.thread and place < older:
            found[-1] = last._replace(
                ended=one.ended, calls=last.calls + one.calls, spent=last.seconds + one.seconds
            )
        else:
            found.append(one)
    return found


def _lines_between(
    gaps: Sequence[Gap], samples: Iterable[Sample], batches: Iterable[Batch]
) -> list[Line]:
    """Return the lines of samples between steps that did not wait for a batch."""
    inside = [one for one in samples if is_inside(one.at, one.at, gaps)] if gaps else []
    if not inside:
        return []
    waits = [(one.began, one.ended) for one in batches]
    outside_model = (one for one in inside if not one.is_in_forward)
    return [one.line for one in outside_model if not any(a <= one.at < b for a, b in waits)]


def _given_as_traced(
    nodes: Sequence[Node], model: nn.Module, items: Figure | None
) -> tuple[Figure, Figure]:
    """Return the items and tokens of the traced forward; ``items`` where they are known."""
    if not nodes:
        return _NO_ITEMS["items"], _NO_ITEMS["tokens"]
    return items_of(nodes, model) if items is None else items, tokens_of(nodes)


def _first_input(nodes: Sequence[Node]) -> FirstTensor | None:
    """Return the first input that a tree was made with; None where it has none."""
    if not nodes or not nodes[0].inputs:
        return None
    first = nodes[0].inputs[0]
    return FirstTensor(tuple(first.shape), first.dtype in ("int64", "int32"))


def _usage_figures(used: ThreadUsage | None, seconds: float) -> dict[FigureName, float]:
    """Return what a thread used in a step of these seconds as figures of the set."""
    if used is None:
        return {"usage known": 0.0}
    known = {name: value for name, value in used._asdict().items() if value is not None}
    found: dict[FigureName, float] = {"usage known": 1.0, "usage seconds": seconds}
    found.update(known.items())
    found["waiting known"] = float(used.waiting is not None)
    return found


def _regions(spans: Iterable[Span]) -> RegionFinder:
    """Return what finds the times between parts of a step, forwards and our own work excepted."""
    return RegionFinder(
        (one.began, one.ended, one.part) for one in spans if one.part not in ("forward", "profiler")
    )


def _samples_in(
    division: Division, samples: Iterable[Sample], regions: RegionFinder
) -> list[Placed]:
    """Return the samples that fell into the rest of a step."""
    return [
        Placed(sample, regions.at(sample.at))
        for sample in samples
        if any(began <= sample.at < ended for began, ended in division.other)
        and not (sample.is_in_forward and sample.how != "hidden")
    ]


def _region_figures(
    division: Division, regions: RegionFinder, forwards: Iterable[Forward], thread: int
) -> dict[FigureName, float]:
    """Return the seconds of the regions of a step, and in which of them forwards ran."""
    found: dict[FigureName, float] = {
        (_REGION, one): spent for one, spent in seconds_of_regions(division.other, regions).items()
    }
    for one in forwards:
        if one.thread == thread:
            found[_FORWARD_IN, regions.at(one.began)] = 1.0
    return found


def _outermost_seconds(times: Sequence[tuple[float, float]]) -> list[float]:
    """Return the seconds of passes that are inside of no other: those end before the outer one."""
    found: list[float] = []
    outer = math.inf
    for began, ended in reversed(times):
        if ended <= outer:
            found.append(ended - began)
            outer = began
    return found[::-1]


def _second(end: End | BriefEnd) -> float:
    return end if isinstance(end, float) else end[0]


def _as_end(end: End | BriefEnd, thread: int) -> End:
    if isinstance(end, End):
        return end
    at, usage = (end, None) if isinstance(end, float) else end
    return End(at, thread, False, usage)


def _taken(queue: deque[T]) -> list[T]:
    return [queue.popleft() for _ in range(len(queue))]
