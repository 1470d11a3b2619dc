"""What module calls take on a GPU: events on the current stream, before and after.

Two events around each call take the host about as long as some calls do. So most forwards have
them around the root alone, which says how long a forward takes, and now and then one has them
around each call, which says how that time is divided.

In recorded steps of training, the backward as well: an event where it comes to a marked node.

1. Nothing here waits for the device: what has ended is asked with ``query``, later, between
   forwards.
2. At most ``most_events`` events exist. When none is free, whole forwards are dropped and counted:
   half a forward would be a wrong figure.
3. While a CUDA graph is captured no event is recorded: it would become a part of the graph.
4. What the device's library raises ends the timing, with its words as the reason; it never reaches
   the program.

5. In a stream that waits for the host, setting marks takes time between the marks. Of such
   forwards it is taken off, by the calls inside of each; then all are scaled to the forwards with
   marks around the root alone.

The only lines that touch ``torch.cuda`` are those of ``torch_compat/cuda_events.py``; everything
else is tested on a simulated device.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from contextlib import AbstractContextManager
from statistics import median
from typing import NamedTuple, Protocol
from weakref import WeakKeyDictionary

import numpy as np
from torch import nn

from tui_profiler.messages import Node
from tui_profiler.messages.windows import DeviceTimes
from tui_profiler.probe.measure.clock.forward_pattern import Pattern, Patterns
from tui_profiler.probe.measure.clock.totals_columns import Columns, Floats, own_of_calls
from tui_profiler.probe.measure.clock.tree_index import TreeIndex
from tui_profiler.probe.torch_compat.cuda_events import CudaDevice
from tui_profiler.probe.torch_compat.modules import each_parameter
from tui_profiler.system.real_time import perf_counter

MOST_EVENTS = 20_000
"""Of all forwards that wait to be read; a decoder of 500 modules has 20 forwards under way."""
MOST_IN_STEPS = 10_000
"""Forwards of recorded steps that wait to be asked for."""
MOST_SECONDS = 0.004
"""Of reading times at once, for one forward at least: what was not read then is not in any figure,
and there are enough others."""
DETAIL_SECONDS = 0.1
"""From one forward with marks around each call to the next, at least."""
DETAIL_BUDGET = 0.004
"""Share of all time that setting those marks may take."""
DETAIL_CALL_SECONDS = 20e-6
"""What marks around a call take on a slow host, until it is known."""
ENOUGH_ROOTS = 4
"""Forwards with marks around the root alone, to scale others to."""
MARK_FACTOR = 1.5
"""Between operators a mark costs once to twice what it costs in a tight loop
(``CACHE_FACTOR`` of ``overhead_budget.py``)."""
LAST_ASKED = 256
"""Forwards that it is told of whether the device had caught up with the host."""
WINDOW = 64
"""The last forwards that medians speak of."""


class DeviceEvent(Protocol):
    """A mark in a device's stream."""

    def record(self) -> None:
        """Set the mark behind what was launched so far, on the current stream."""
        ...

    def query(self) -> bool:
        """Say whether the device has reached it."""
        ...


class Device(Protocol):
    """Where a model's kernels run."""

    def event(self) -> DeviceEvent:
        """Make a mark that is not set yet."""
        ...

    def seconds_between(self, began: DeviceEvent, ended: DeviceEvent) -> float:
        """Return the time between two marks of its own; both were reached."""
        ...

    def is_capturing(self) -> bool:
        """Say whether what is launched now becomes part of a graph, instead of running."""
        ...

    def asking(self) -> AbstractContextManager[None]:
        """Return what questions about events are asked in, so that they disturb no capture."""
        ...


class DeviceForward(NamedTuple):
    """One forward as the device ran it."""

    modules: list[nn.Module]
    """Of each call, in the order in which the calls ended on the host; none where the root alone
    was marked."""
    times: bytes
    """float64: when each call began on the host, then when each ended."""
    seconds: list[float]
    """Between the two marks of each call; of the root alone where it alone was marked."""
    has_caught_up: bool | None = None
    """Whether the device had come to the last call inside when the host left the model; None where
    it was not asked."""


class DeviceMark:
    """A mark that goes back to where it is from when nobody holds it any more."""

    __slots__ = ("_free", "event")

    def __init__(self, event: DeviceEvent, free: deque[DeviceEvent]) -> None:
        self.event = event
        self._free = free

    def __del__(self) -> None:
        self._free.append(self.event)


class DeviceSpan(NamedTuple):
    """Marks at the beginning and the end of something; None where one could not be set."""

    began: DeviceMark | None = None
    ended: DeviceMark | None = None


class CallTimes(NamedTuple):
    """When the calls of one forward began and ended on the device; seconds since it began."""

    began: list[float]
    ended: list[float]


class Marks(list[object]):
    """The host's events of one forward, with the pairs of marks of the same calls beside them."""

    def __init__(self, *, is_root_only: bool = False) -> None:
        super().__init__()
        self.pairs: list[tuple[DeviceEvent, DeviceEvent]] = []
        self.is_whole = True
        self.is_captured = False
        self.is_root_only = is_root_only
        self.begun = -1
        """Calls inside that have begun; -1 before the root has."""
        self.late: DeviceEvent | None = None
        """Before the call that began last in the forward before, where the root alone is marked."""
        self.newest: DeviceEvent | None = None
        """Before the call inside that began last, where each is marked."""


class _Waiting(NamedTuple):
    modules: list[nn.Module]
    times: bytes
    pairs: list[tuple[DeviceEvent, DeviceEvent]]
    as_traced: bool
    is_in_step: bool
    has_caught_up: bool | None


class DeviceClock:
    """Sets the marks of one model's calls, and reads those that the device has reached."""

    def __init__(
        self, device: Device, most_events: int = MOST_EVENTS, *, details: bool | None = None
    ) -> None:
        """Begin with no marks.

        Args:
            device: to set marks on.
            most_events: that exist at once.
            details: whether forwards have marks around each call; None: now and then.
        """
        self._device = device
        self._details = details
        self._detail_due = 0.0
        self._last_call = 0
        """How many calls were begun inside of the last forward."""
        self.call_seconds = DETAIL_CALL_SECONDS
        """That marks around one call take on the host."""
        self.detail_seconds = 0.0
        """That marks around calls have taken so far, outside of recorded steps."""
        self._free: deque[DeviceEvent] = deque()
        self._left_to_make = most_events
        self._waiting: deque[_Waiting] = deque()
        self._in_steps: dict[int, tuple[bytes, CallTimes | None]] = {}
        """Forwards of recorded steps, by ``id`` of their times; None where they were not timed."""
        self.dropped = 0
        """Forwards that could not be timed."""
        self.captured = 0
        """Forwards in which a graph was captured."""
        self.why_none = ""
        """Why no more forwards are timed; empty while they are."""

    def another(self, *, details: bool) -> DeviceClock:
        """Return a clock of the same device that knows nothing yet; ``details`` as above."""
        return DeviceClock(self._device, details=details)

    def new_forward(self) -> list[object]:
        """Return the list for the host's events of a forward that begins."""
        if self.why_none:
            return []
        return Marks(is_root_only=not self._is_detail_due())

    def _is_detail_due(self) -> bool:
        if self._details is not None:
            return self._details
        now = perf_counter()
        if now < self._detail_due:
            return False
        spent = self._last_call * self.call_seconds
        self._detail_due = now + max(DETAIL_SECONDS, spent / DETAIL_BUDGET)
        return True

    def begin(self, events: list[object]) -> DeviceEvent | None:
        """Set a mark before a call; None where none is to be, or can be."""
        if not isinstance(events, Marks) or not events.is_whole:
            return None
        events.begun += 1
        if events.is_root_only and events.begun:
            if events.begun == self._last_call:
                events.late = self._set()
            return None
        mark = self._set()
        if mark is None:
            events.is_whole = False
            events.is_captured = self._is_capturing()
        elif events.begun:
            events.newest = mark
        return mark

    def end(self, events: list[object], began: DeviceEvent | None) -> None:
        """Set a mark after the call that ``began`` stands before."""
        if began is None:
            return
        assert isinstance(events, Marks)
        ended = self._set() if events.is_whole else None
        if ended is None:
            events.is_captured = events.is_captured or (events.is_whole and self._is_capturing())
            events.is_whole = False
            self._free.append(began)
        else:
            events.pairs.append((began, ended))

    def finish(
        self,
        events: list[object],
        modules: list[nn.Module],
        times: bytes,
        *,
        as_traced: bool = True,
        is_in_step: bool = False,
    ) -> None:
        """Take in a forward that has ended on the host.

        Args:
            events: of it.
            modules: of its calls.
            times: of them, on the host.
            as_traced: whether it is in the figures of all forwards.
            is_in_step: whether its step is recorded: ``take_calls`` is asked for it.
        """
        if not isinstance(events, Marks):
            return
        self._last_call = max(events.begun, 0)
        wanted = 1 if events.is_root_only else len(modules)
        if events.is_whole and len(events.pairs) == wanted:
            has_caught_up = self._has_caught_up(events)
            of = [] if events.is_root_only else modules
            if of and not is_in_step:
                self.detail_seconds += len(of) * self.call_seconds
            self._waiting.append(
                _Waiting(of, times, events.pairs, as_traced, is_in_step, has_caught_up)
            )
        elif as_traced:
            self.drop(events)
        else:
            self.leave_out(events)

    def _seconds_of(self, pairs: list[tuple[DeviceEvent, DeviceEvent]]) -> list[float] | None:
        """Return the time of each call; None where one is on a stream that is not as far."""
        try:
            return [self._device.seconds_between(*pair) for pair in pairs]
        except RuntimeError:
            # CUDA's "device not ready", or torch's own words for it since 2.12: asked, not read.
            if all(began.query() and ended.query() for began, ended in pairs):
                raise
            return None

    def mark(self) -> DeviceMark | None:
        """Set a mark behind what was launched so far; None where it cannot be. Never raises."""
        try:
            event = self._set()
        except Exception as error:  # Whatever it is: a hook of ours must not raise.
            self.why_none = f"{type(error).__name__}: {error}"
            return None
        return None if event is None else DeviceMark(event, self._free)

    def is_reached(self, mark: DeviceMark) -> bool:
        """Say whether the device has come to a mark; yes where nothing is timed any more."""
        try:
            with self._device.asking():
                return bool(self.why_none) or mark.event.query()
        except RuntimeError as error:
            self._fail(error)
            return True

    def seconds_since(self, began: DeviceMark, mark: DeviceMark) -> float | None:
        """Return the time between two marks, None where the device has not come to both."""
        try:
            with self._device.asking():
                if self.why_none or not (began.event.query() and mark.event.query()):
                    return None
                return self._device.seconds_between(began.event, mark.event)
        except RuntimeError as error:
            self._fail(error)
            return None

    def lend(self, events: Marks) -> list[tuple[DeviceMark, DeviceMark]]:
        """Return the marks of calls that belong to no forward, in the order of their ends."""
        pairs, events.pairs = events.pairs, []
        return [(DeviceMark(b, self._free), DeviceMark(e, self._free)) for b, e in pairs]

    def take_calls(self, times: bytes) -> CallTimes | None:
        """Return when the calls of a forward ran on the device, None where that is not known.

        Ask it once, when the end of its step was reached.

        Args:
            times: of the forward.
        """
        known, found = self._in_steps.pop(id(times), (b"", None))
        return found if known is times else None

    def drop(self, events: list[object]) -> None:
        """Take in a forward that is not kept."""
        if isinstance(events, Marks):
            self.captured += events.is_captured
            self.dropped += not events.is_captured and not self.why_none
        self.leave_out(events)

    def leave_out(self, events: list[object]) -> None:
        """Take in a forward that is to be in no figure."""
        if isinstance(events, Marks):
            self._give_back(events.pairs)
            if events.late is not None:
                self._free.append(events.late)
                events.late = None

    def read(self) -> list[DeviceForward]:
        """Return the forwards that the device has run since the last time, those in steps all."""
        found: list[DeviceForward] = []
        try:
            with self._device.asking():
                self._read(found)
        except RuntimeError as error:
            self._fail(error)
        return found

    def _read(self, found: list[DeviceForward]) -> None:
        end = perf_counter() + MOST_SECONDS
        while self._waiting and _is_reached(self._waiting[0].pairs):
            modules, times, pairs, as_traced, is_in_step, caught_up = self._waiting.popleft()
            if is_in_step or not found or perf_counter() < end:
                seconds = self._seconds_of(pairs)
                if seconds is None:
                    self.dropped += as_traced
                    self._give_back(pairs)
                    continue
                if as_traced:
                    found.append(DeviceForward(modules, times, seconds, caught_up))
                if is_in_step and len(self._in_steps) < MOST_IN_STEPS:
                    self._in_steps[id(times)] = times, self._call_times(pairs, seconds)
            self._give_back(pairs)

    def close(self) -> None:
        """Forget every forward; their events are used again."""
        self._in_steps.clear()
        while self._waiting:
            self._give_back(self._waiting.popleft().pairs)

    def _call_times(
        self, pairs: list[tuple[DeviceEvent, DeviceEvent]], seconds: list[float]
    ) -> CallTimes:
        first = pairs[-1][0]  # Of the root, which ends last.
        began = [self._device.seconds_between(first, begin) for begin, _ in pairs]
        return CallTimes(began, [one + length for one, length in zip(began, seconds, strict=True)])

    def _set(self) -> DeviceEvent | None:
        try:
            if self.why_none or self._device.is_capturing():
                return None
            mark = self._take()
            if mark is not None:
                mark.record()
            return mark
        except RuntimeError as error:
            self._fail(error)
            return None

    def _take(self) -> DeviceEvent | None:
        try:
            return self._free.popleft()
        except IndexError:
            if self._left_to_make <= 0:
                return None
            self._left_to_make -= 1
            return self._device.event()

    def _is_capturing(self) -> bool:
        try:
            return not self.why_none and self._device.is_capturing()
        except RuntimeError as error:
            self._fail(error)
            return False

    def _fail(self, error: RuntimeError) -> None:
        self.why_none = str(error).partition("\n")[0] or type(error).__name__
        self._waiting.clear()
        self._free.clear()

    def _has_caught_up(self, events: Marks) -> bool | None:
        """Say whether the device has come to the last call inside of a forward that just ended.

        Returns:
            None where no mark stands before that call.
        """
        late, events.late = events.late, None
        try:
            with self._device.asking():
                if late is not None:
                    return late.query()
                return None if events.newest is None else events.newest.query()
        except RuntimeError as error:
            self._fail(error)
            return None
        finally:
            if late is not None:
                self._free.append(late)

    def _give_back(self, pairs: list[tuple[DeviceEvent, DeviceEvent]]) -> None:
        for pair in pairs:
            self._free.extend(pair)


def _is_reached(pairs: list[tuple[DeviceEvent, DeviceEvent]]) -> bool:
    # The root's end is the last. A module may have run on another stream: its time then says so.
    return pairs[-1][1].query()


class DeviceAggregator:
    """Adds up what the device took, by node."""

    def __init__(self, nodes: Sequence[Node], model: nn.Module, call_seconds: float = 0.0) -> None:
        """Begin with nothing.

        Args:
            nodes: of the model's tree.
            model: whose forwards are timed.
            call_seconds: that timing one call takes on the host.
        """
        self._call_seconds = MARK_FACTOR * call_seconds
        self._inside: WeakKeyDictionary[Pattern, Floats] = WeakKeyDictionary()
        """Calls inside of each call of a pattern, itself counted half."""
        self._patterns = Patterns(TreeIndex(nodes, model))
        self._columns = Columns(len(nodes), WINDOW)
        self._roots: deque[float] = deque(maxlen=WINDOW)
        """Seconds of the last forwards with marks around the root alone."""
        self._divided: deque[float] = deque(maxlen=WINDOW)
        """Of the last with marks around each call, without what setting them took."""
        self._forwards = 0
        self._since_root = 0
        """Forwards with marks around each call since the last without."""
        self._caught_up: deque[bool] = deque(maxlen=LAST_ASKED)
        """Of the last forwards of which that was asked: whether the device had caught up."""

    def add(self, forwards: Sequence[DeviceForward]) -> None:
        """Take in forwards."""
        for forward in forwards:
            self._forwards += 1
            if not forward.modules:
                self._roots.append(forward.seconds[-1])
                self._since_root = 0
                if forward.has_caught_up is not None:
                    self._caught_up.append(forward.has_caught_up)
                continue
            self._since_root += 1
            if self._since_root > WINDOW:
                self._roots.clear()  # They are of another time, such as before the training.
            pattern = self._pattern(forward)
            seconds = np.array([forward.seconds], np.float64)
            if forward.has_caught_up and self._call_seconds:
                seconds -= self._marking(pattern, forward, seconds[0])
            self._divided.append(float(seconds[0, -1]))
            self._columns.add(pattern, seconds * self._scale())

    def let_go(self) -> None:
        """Keep no module alive: the model may be gone before its next forward."""
        self._patterns.forget()

    def _scale(self) -> float:
        """Return what a forward takes over what it takes with marks around each call."""
        if len(self._roots) < ENOUGH_ROOTS:
            return 1.0
        divided = median(self._divided)
        return median(self._roots) / divided if divided > 0 else 1.0

    def message(self, at: float, clock: DeviceClock) -> DeviceTimes:
        """Return everything so far, ``at`` seconds since the command was started."""
        self._patterns.forget_unused()
        latencies = self._roots if len(self._roots) >= ENOUGH_ROOTS else self._divided
        return DeviceTimes(
            at=at,
            forwards=self._forwards,
            dropped=clock.dropped,
            captured=clock.captured,
            why_none=clock.why_none,
            mean_forwards=self._columns.mean_forwards,
            window=WINDOW,
            asked=len(self._caught_up),
            caught_up=sum(self._caught_up),
            latency_p50=float(np.quantile(latencies, 0.5)) if latencies else math.nan,
            latency_p95=float(np.quantile(latencies, 0.95)) if latencies else math.nan,
            **self._columns.packed(),
        )

    def _marking(self, pattern: Pattern, forward: DeviceForward, seconds: Floats) -> Floats:
        """Return (calls,) what setting the marks of a forward took inside of each call.

        At most so much that no call's own time is less than nothing.
        """
        inside = self._inside.get(pattern)
        if inside is None:
            count = len(forward.modules)
            starts, ends = np.frombuffer(forward.times, np.float64).reshape(2, count)
            inside = self._inside[pattern] = calls_inside(starts, ends) + 0.5
        own = own_of_calls(pattern, seconds[pattern.calls])
        marks = own_of_calls(pattern, inside[pattern.calls])
        each = min(self._call_seconds, float((own / marks).min(initial=self._call_seconds)))
        return max(each, 0.0) * inside

    def _pattern(self, forward: DeviceForward) -> Pattern:
        starts = np.frombuffer(forward.times, np.float64)[: len(forward.modules)]
        for pattern in self._patterns.like(forward.modules):
            if pattern.matches(starts[None])[0]:
                return pattern
        return self._patterns.learn(forward.modules, starts)


def calls_inside(starts: Floats, ends: Floats) -> Floats:
    """Return (calls,) how many calls lie inside of each, in the order of their ends."""
    found = np.zeros(len(starts))
    open_calls: list[int] = []
    for call, start in enumerate(starts.tolist()):
        while open_calls and starts[open_calls[-1]] >= start:
            found[call] += found[open_calls.pop()] + 1
        open_calls.append(call)
    return found


def device_clock_of(model: nn.Module) -> DeviceClock | None:
    """Return a clock of the GPU that runs a model's kernels, None where that is none of CUDA's."""
    parameter = next(each_parameter(model), None)
    if parameter is None or parameter.device.type != "cuda":
        return None
    return DeviceClock(CudaDevice(parameter.device.index or 0))
