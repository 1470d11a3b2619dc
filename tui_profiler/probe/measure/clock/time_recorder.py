"""The times of one model: the clock on it, what its forwards add up to, and what that may cost.

Our own loop and a watched program share it. What differs is theirs to give: a cost meter, which
forwards count and how, and when they are added up.
"""

import weakref
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from math import inf
from statistics import median

from msgspec.structs import replace
from torch import nn

from tui_profiler.messages import Message, ModeSeen, Node, Overhead, Unknown
from tui_profiler.messages.program import ENOUGH_FORWARDS, Setting
from tui_profiler.probe.measure.clock import forward
from tui_profiler.probe.measure.clock.aggregate import Aggregator
from tui_profiler.probe.measure.clock.backward import BackwardPasses
from tui_profiler.probe.measure.clock.clock import ModuleClock
from tui_profiler.probe.measure.clock.cpu_times import CpuReadings
from tui_profiler.probe.measure.clock.device_clock import DeviceAggregator
from tui_profiler.probe.measure.clock.forward import Forward
from tui_profiler.probe.measure.clock.overhead_budget import (
    CostMeter,
    Governor,
    call_seconds,
    total_overhead,
)
from tui_profiler.probe.process.interpreter_lock import copied
from tui_profiler.probe.torch_compat.compilations import Compiled
from tui_profiler.system.real_time import perf_counter


class TimeRecorder:
    """Turns what a clock records into figures, within a budget.

    Args:
        clock: of the model; ``start`` puts it on where it is not.
        nodes: of the model's tree.
        model: whose forwards are timed.
        cost: measures or estimates what watching costs.
        budget: what that may be, as a share.
        batch: items that each forward works on.
        device_warms_up: what a GPU ran before the steady state is in no figure of the GPU's.
    """

    def __init__(
        self,
        clock: ModuleClock,
        nodes: Sequence[Node],
        model: nn.Module,
        cost: CostMeter,
        budget: float,
        *,
        batch: int = 1,
        device_warms_up: bool = False,
    ) -> None:
        self._clock = clock
        self._cost = cost
        self._device_warms_up = device_warms_up
        self._totals = Aggregator(nodes, model, batch=batch)
        device = clock.device
        if device is not None:
            device.call_seconds = call_seconds(device.another(details=True))
        marking = 0.0 if device is None else device.call_seconds
        self._device_totals = DeviceAggregator(nodes, model, marking)
        self._readings = CpuReadings(budget)
        self.may_read = True
        """Whether calls may be made to read what their thread uses."""
        self.requested_readings = 0
        """Forwards whose calls were made to, so far."""
        self._modes = Modes(clock.passes, is_on_gpu=clock.device is not None)
        self._compiled = Compiled()
        self._model = weakref.ref(model)
        self.governor = Governor(budget)

    @property
    def is_warm(self) -> bool:
        """Whether a forward of the steady state was added up."""
        return self._totals.is_warm

    def start(self) -> None:
        """Put the clock on, where it is not."""
        self._clock.install()

    def close(self) -> None:
        """Take the clock off."""
        self._clock.uninstall()

    def add(self, forwards: Iterable[Forward], *, is_early: bool = False) -> None:
        """Add up forwards, in the order in which they ended.

        Args:
            forwards: that the clock recorded.
            is_early: their times could not be steady yet.
        """
        forwards = tuple(forwards)
        self._totals.add(forwards, is_early=is_early)
        for one in forwards:
            if one.used:
                self._readings.note(one.reading_seconds)
        self._readings.count(sum(not one.used for one in forwards))
        if self.may_read and self.is_warm and self._readings.is_due:
            self._clock.read_calls_next()
            self.requested_readings += 1

    def let_go(self) -> None:
        """Keep no module alive: the model may be gone before its next forward."""
        self._totals.let_go()
        self._device_totals.let_go()

    def look_at(self, forwards: Iterable[Forward]) -> None:
        """Take note of how forwards ran, and of what a GPU has run by now; nothing waits for it."""
        self._modes.add(forwards)
        if self._clock.device is not None:
            finished = self._clock.device.read()
            if self.is_warm or not self._device_warms_up:
                self._device_totals.add(finished)

    def modes(self, at: float) -> tuple[ModeSeen, ...]:
        """Return how the forwards ran where that is new, ``at`` seconds since the beginning."""
        return self._modes.messages(at)

    def figures(self, at: float, dropped: int, *, or_cold: bool = False) -> Iterator[Message]:
        """Yield all that was measured so far.

        Args:
            at: seconds since the beginning.
            dropped: messages and forwards dropped so far, but for those that the clock counts.
            or_cold: speak of warm-up forwards where there were no others.
        """
        yield self._totals.tick(at, dropped + self._clock.dropped, or_cold=or_cold)
        if (slow := self._totals.slow(at, perf_counter())) is not None:
            yield slow
        if self._clock.device is not None:
            yield self._device_totals.message(at, self._clock.device)
        if (compiled := self._compiled.new(at, self._model())) is not None:
            yield compiled

    def govern(self, step_seconds: float = inf) -> Overhead | None:
        """Decide anew which share is recorded; return what it costs, None while that is unknown.

        Args:
            step_seconds: duration of a training step; infinite if steps are not recorded.
        """
        recording = self._cost.recording()
        if recording is not None:
            between, *_ = self._cost.between()
            between += self._readings.share
            self.governor.update(recording, between, step_seconds=step_seconds)
        share = self._cost.recorded(self.governor.share)
        return total_overhead(self._cost, share, self._readings.share)


LAST_FORWARDS = 256
MOST_SETTINGS = 16
_ENQUEUED = Unknown("the program only enqueues the backward pass for a GPU")


class Modes:
    """What was observed of the forwards of one model.

    Args:
        passes: of the program; None: nothing runs a backward pass.
        is_on_gpu: a pass ends before its kernels do.
    """

    def __init__(self, passes: BackwardPasses | None = None, *, is_on_gpu: bool = False) -> None:
        self._passes = passes
        self._is_on_gpu = is_on_gpu
        self._last: deque[tuple[forward.Setting, bool]] = deque()
        self._counts: Counter[tuple[forward.Setting, bool]] = Counter()
        """Of those."""
        self._forwards = 0
        self._said: tuple[object, ...] | None = None

    def add(self, forwards: Iterable[Forward]) -> None:
        """Take forwards that the clock recorded."""
        for one in forwards:
            if one.setting is not None:
                self._last.append((one.setting, one.as_traced))
                self._counts[self._last[-1]] += 1
                self._forwards += 1
                if len(self._last) > LAST_FORWARDS:
                    self._counts[self._last.popleft()] -= 1

    def messages(self, at: float) -> tuple[ModeSeen, ...]:
        """Return what was observed where that differs from what was returned before.

        Args:
            at: seconds since the command was started.
        """
        if not self._last:
            return ()
        passes, observed, reached = self._passes, 0, 0
        trouble = ""
        if passes is not None:
            passes.refresh()
            trouble, observed, reached = passes.trouble, passes.passes, passes.reached
        most = [(kind, count) for kind, count in self._counts.most_common(MOST_SETTINGS) if count]
        kinds = frozenset(kind for kind, _ in most)
        said = (kinds, trouble or observed, reached, min(self._forwards, ENOUGH_FORWARDS))
        if said == self._said:
            return ()
        self._said = said
        found = ModeSeen(
            at,
            tuple(Setting(*setting, as_traced, count) for (setting, as_traced), count in most),
            self._forwards,
            Unknown(trouble) if trouble else observed,
            reached,
        )
        if passes is not None and passes.seconds:
            seconds = _ENQUEUED if self._is_on_gpu else median(copied(passes.seconds))
            found = replace(found, pass_seconds=seconds)
        return (found,)
