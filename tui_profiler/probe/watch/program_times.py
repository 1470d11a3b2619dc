"""Times and energy of the forwards that a program runs by itself.

1. Nothing here runs the model, and nothing waits for it: ``take`` adds up what has finished.
2. Where recording every forward would cost too much, a share of the *time* is recorded, not of the
   forwards: nobody knows when the next one comes.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from math import inf

import torch
from msgspec.structs import replace

from tui_profiler.messages import Message, Node, Sample, Tick, Unknown
from tui_profiler.messages.hardware import Activity
from tui_profiler.messages.live import State
from tui_profiler.probe.measure.clock.backward import ENGINE
from tui_profiler.probe.measure.clock.clock import ModuleClock
from tui_profiler.probe.measure.clock.forward import Forward
from tui_profiler.probe.measure.clock.overhead_budget import (
    TICK_SECONDS,
    EstimatedCost,
    seconds_to_next_tick,
)
from tui_profiler.probe.measure.clock.recent_kinds import RecentKinds
from tui_profiler.probe.measure.clock.time_recorder import TimeRecorder
from tui_profiler.probe.measure.energy.meter import EnergyWatch
from tui_profiler.probe.measure.generation.requests import Requests
from tui_profiler.probe.measure.ranks.steps import Steps
from tui_profiler.probe.measure.step.marks import MARKS
from tui_profiler.probe.measure.step.recorder import StepRecorder
from tui_profiler.probe.measure.step.steps import LEAST_STEPS, AfterSteps, TrainingSteps
from tui_profiler.probe.torch_compat.forward_kind import Kind
from tui_profiler.probe.watch.windows import ProgramWindows
from tui_profiler.system import real_time as time

MOST_CREDIT_SECONDS = 0.1
"""Of recording at once, where only a share of the time is recorded and nothing ran for a while."""
MOST_IN_A_ROW = 15
"""Steps of training that are recorded one after another."""
MOST_APART_SECONDS = 1.0
"""Of two clocks between two ticks, which are at most a second apart, before one of them was set."""
NOT_ALL_COUNTED = Unknown(
    "only a share of the forwards is recorded, so energy per forward is not known"
)


class ProgramTimes:
    """The times of one model, from now until ``close``.

    Args:
        model: whose program runs it.
        nodes: of its tree.
        budget: what watching may cost, as a share.
        clock: of the model; it may be on, and have recorded forwards.
    """

    def __init__(
        self, model: torch.nn.Module, nodes: Sequence[Node], budget: float, clock: ModuleClock
    ) -> None:
        self._clock = clock
        self._asked_before = clock.asking_seconds
        self._told_before = _telling_seconds(clock)
        self._set_clock = _SetClock()
        self._misdated = 0
        """Forwards left out because the clock was set while they ran."""
        self._cost = EstimatedCost(clock.device)
        self._recorder = TimeRecorder(clock, nodes, model, self._cost, budget)
        self._credit = _Credit()
        self._cpu_before = time.thread_time()
        self.sampling_seconds = 0.0
        """CPU time of reading the machine's counters so far; only that thread writes it."""
        self._last_forward = self._taken_at = self._waits_since = time.monotonic()
        self._counted_calls = 0
        self._is_new = False
        self._is_cold_new = False
        """Whether the warm-up has had forwards since a cold tick was given."""
        self._began = time.perf_counter()
        """Forwards before it shared the interpreter with the making of the tree."""
        self._budget = budget
        self.pause = TICK_SECONDS
        """Seconds until the figures are due again: adding up a large model's costs more."""
        self.forwards = 0
        """Recorded so far."""
        self._windows = ProgramWindows(nodes, model, budget)
        self._steps = Steps(model)
        self._kinds = RecentKinds(clock.traced)
        self._requests = Requests(is_on_device=clock.device is not None)
        self._governor = self._recorder.governor
        self._in_a_row = 0
        """Steps of training that were recorded."""
        self._step_recorder = StepRecorder(clock, self._records_step, self._governor)
        self._training = TrainingSteps(nodes, model, clock, self._step_recorder, budget)
        self._window_due, self._reading_due = AfterSteps(), AfterSteps()
        self._recorder.start()
        self._training.start()

    @property
    def model_seconds(self) -> dict[int, float]:
        """Seconds in calls of this model and of others, by id."""
        return self._clock.model_seconds

    @property
    def records_all(self) -> bool:
        """Whether every forward is recorded, not a share of them."""
        return self._recorder.governor.share >= 1.0

    @property
    def idle_seconds(self) -> float:
        """How long ago the last forward was, or the last time at which none would be seen."""
        return time.monotonic() - max(self._last_forward, self._waits_since)

    @property
    def steps(self) -> int:
        """Training steps that have ended."""
        return self._training.steps

    @property
    def has_trained(self) -> bool:
        """Whether enough training steps have ended for their figures to be told."""
        return self._training.steps >= LEAST_STEPS

    @property
    def trained_beside(self) -> set[int]:
        """The ``id`` of models that are trained in the same steps; as ``TrainingSteps`` has it."""
        return self._training.trained_beside

    @property
    def untraced_mode(self) -> tuple[bool, bool] | None:
        """Mode that the model is trained in; as ``TrainingSteps`` has it."""
        return self._training.untraced_mode

    @property
    def kind_to_follow(self) -> Kind | None:
        """Kind of forward that runs now in place of the recorded one; None where there is none.

        Not of a program that trains: its evaluations are no other use of the model.
        """
        return None if self._training.steps else self._kinds.to_follow()

    @property
    def threads(self) -> set[int]:
        """That ran the model with autograd."""
        return self._clock.passes.threads if self._clock.passes is not None else set()

    def module_in_backward(self, at: float, *, is_inside: bool) -> torch.nn.Module | str:
        """Return the module whose backward was under way; as ``TrainingSteps`` has it."""
        if self._windows.is_under_way:
            return "an operator window was open in this step"
        return self._training.module_in_backward(at, is_inside=is_inside)

    def read_values(self, *, wanted: bool) -> None:
        """Read values in a step of training now and then, or no more."""
        self._training.values.is_wanted = wanted

    def close(self) -> None:
        """Take the clock off."""
        self._windows.close()
        self._training.close()
        self._steps.close()
        self._recorder.close()

    def take(self) -> float:
        """Add up the forwards that finished; return for how many seconds there was none."""
        finished = self._finished()
        self.forwards += sum(one.began >= self._began for one in finished)
        self._steps.add(finished)
        self._recorder.look_at(finished)
        self._kinds.add(finished)
        forwards = self._windows.without_windowed(finished)
        if not self._training.decides:
            self._windows.give_up_step()
        if not self._windows.is_under_way:
            kept = {id(one) for one in forwards}
            windowed = [one for one in finished if one.used or id(one) not in kept]
            self._training.take(finished, windowed, time.perf_counter())
        kept = {id(one) for one in forwards}
        slowed = {id(one) for one in finished if id(one) not in kept or one.began < self._began}
        self._requests.add(finished, slowed, time.perf_counter())
        forwards = [one for one in forwards if one.values is None]
        now = time.monotonic()
        if forwards:
            self._is_new = True
            self._last_forward = now
            early = [one for one in forwards if one.began < self._began]
            self._recorder.add(early, is_early=True)
            forwards = [one for one in forwards if one.began >= self._began]
            training = self._training
            requested = self._recorder.requested_readings
            self._recorder.may_read = not training.decides or self._reading_due.is_now(training)
            self._recorder.add(forwards)
            if self._recorder.requested_readings > requested:
                self._reading_due.wait(training)
            self._is_cold_new = not self._recorder.is_warm
            self._note_cost(forwards, now - self._taken_at)
            self._taken_at = now
        elif self._training.decides:
            self._note_cost([], now - self._taken_at)
            self._taken_at = now
        elif not self._is_new:
            self._recorder.let_go()  # A model that is not called may be gone.
        counted, self._counted_calls = self._counted_calls, self._clock.counted_calls
        if counted != self._counted_calls:
            self._last_forward = now
        is_seen = self._clock.waits or self._clock.is_counting
        is_unseen = not is_seen and not self._training.lacks_forwards
        if self._clock.is_busy or is_unseen or self._is_in_step(time.perf_counter()):
            self._waits_since = now
        self._credit.charge(finished)
        return self.idle_seconds

    def _is_in_step(self, now: float) -> bool:
        """Return whether a step of training is under way, however long its backward takes."""
        return ENGINE.is_under_way or MARKS.is_updating or self._training.is_in_pace(now)

    def _finished(self) -> list[Forward]:
        finished = [] if self._windows.is_under_way else self._clock.take()
        if not self._set_clock.was_set():
            return finished
        self._misdated += len(finished)
        self._clock.note_gap()
        self._began = -inf  # Of another time; the tree was made long ago.
        return []

    def _note_cost(self, forwards: list[Forward], elapsed_seconds: float) -> None:
        training = self._training
        cpu, cpu_before = time.thread_time(), self._cpu_before
        asking, asked_before = self._clock.asking_seconds, self._asked_before
        told, told_before = _telling_seconds(self._clock), self._told_before
        told += training.brief_seconds + training.cost_seconds + self.sampling_seconds
        self._cpu_before, self._asked_before, self._told_before = cpu, asking, told
        self.pause = seconds_to_next_tick(cpu - cpu_before, self._budget)
        calls = sum(forward.calls for forward in forwards)
        running = sum(forward.seconds for forward in forwards)
        asked, call = asking - asked_before, None
        if training.decides and training.cost is not None:
            calls, running = training.take_recorded()
            asked, call = 0.0, training.cost.call  # Asking is in what is learned.
        # Of early forwards it is not known what passed between them.
        if forwards or training.decides:
            self._cost.add(
                calls=calls,
                forward_seconds=running,
                thread_seconds=cpu - cpu_before + told - told_before,
                elapsed_seconds=elapsed_seconds,
                asking_seconds=asked,
                call=call,
                is_whole=not training.decides and self._credit.seconds > running,
            )

    def _records_step(self) -> bool:
        """Decide whether the next step of training is recorded; on the program's thread."""
        self._in_a_row += 1
        # Where all could be, one in so many is not: what recording costs is learned from it.
        is_recorded = self._governor.records_next() and self._in_a_row <= MOST_IN_A_ROW
        if not is_recorded:
            self._in_a_row = 0
        return is_recorded

    def record_next(self) -> None:
        """Record a share of the time from now on, where all of it would cost too much.

        Call it when all else is done: what this thread does meanwhile, forwards wait for, and where
        few are recorded it would be those.
        """
        if self._training.decides:
            return
        self._credit.grant(self._recorder.governor.share)
        # A forward in a window is laid onto what the clock records of it.
        is_one_wanted = self._windows.is_open or (
            self._credit.seconds <= 0 and self._kinds.wants_one(time.monotonic())
        )
        self._clock.record_for(self._credit.seconds, one_at_least=is_one_wanted)

    def messages(self, at: float, dropped: int, *, or_cold: bool = False) -> Iterator[Message]:
        """Yield the figures, where forwards finished since they were given last.

        Args:
            at: seconds since the program is watched.
            dropped: messages that viewers were too slow for.
            or_cold: give those of the warm-up where there are no others.
        """
        yield from self._steps.messages(at)
        of_training = tuple(self._training.messages(at, or_few=or_cold))
        yield from of_training
        yield from self._recorder.modes(at)
        if or_cold:
            self._requests.finish()  # No forward has come for a while.
        yield from self._requests.messages(at)
        or_cold = or_cold and self._is_cold_new
        is_new = self._is_new or or_cold
        if is_new:
            self._is_new = False
            self._is_cold_new &= not or_cold
            for figure in self._recorder.figures(at, dropped + self._misdated, or_cold=or_cold):
                is_tick = isinstance(figure, Tick)
                yield replace(figure, other_kinds=self._kinds.others()) if is_tick else figure
        # Once: of two that wait for a viewer, one counts as dropped.
        if is_new or of_training:
            if (found := self._recorder.govern(self._step_seconds)) is not None:
                yield found
            self._step_recorder.decide_if_more()
        if not is_new:
            return
        is_free = not self._training.decides or self._window_due.is_now(self._training)
        if self._windows.is_due and is_free:
            self._window_due.wait(self._training)
            self._open_window()
        yield from self._windows.messages(at)

    @property
    def _step_seconds(self) -> float:
        """Duration of a training step; infinite if steps are not recorded, or it is unknown."""
        usual = self._step_recorder.usual_seconds
        return usual if self._training.decides and usual > 0.0 else inf

    def _open_window(self) -> None:
        if self._training.decides and not self._windows.wants_memory_next:
            self._windows.open_on_step(self._step_recorder)
        else:
            self._windows.open(self._clock)


def _telling_seconds(clock: ModuleClock) -> float:
    """Return what it took so far to tell of backward passes, optimizers and the device."""
    detail = 0.0 if clock.device is None else clock.device.detail_seconds
    return ENGINE.spent + MARKS.spent + clock.search_seconds + clock.noting_seconds + detail


class _Credit:
    """Seconds of forwards that may be recorded, where only a share of the time is.

    They are not cut off by the clock on the wall: a forward that is called seldom would seldom fall
    into them.
    """

    def __init__(self) -> None:
        self.seconds = inf
        """Negative where too many were recorded."""
        self._granted_at = time.monotonic()
        self._charged_since = 0.0
        """Second of ``time.perf_counter`` before which all forwards were recorded, on no credit."""

    def charge(self, forwards: Iterable[Forward]) -> None:
        """Take off what was recorded."""
        charged = (one.seconds for one in forwards if one.began >= self._charged_since)
        self.seconds -= sum(charged)

    def grant(self, share: float) -> None:
        """Add a share of the time since it was granted last."""
        now = time.monotonic()
        if self.seconds == inf:
            self._charged_since = time.perf_counter()
        credit = self.seconds + share * max(now - self._granted_at, 0.0)
        self.seconds = inf if share >= 1.0 else min(credit, MOST_CREDIT_SECONDS)
        self._granted_at = now


class _SetClock:
    """Tells whether the clock that forwards are timed by was set, as ``libfaketime`` sets it."""

    def __init__(self) -> None:
        self._read = _clocks()

    def was_set(self) -> bool:
        """Tell whether it was since this was asked last."""
        (timed_before, steady_before), self._read = self._read, _clocks()
        timed, steady = self._read
        return abs((timed - timed_before) - (steady - steady_before)) > MOST_APART_SECONDS


def _clocks() -> tuple[float, float]:
    """Return the clock that forwards are timed by, and one that ``libfaketime`` leaves alone."""
    return time.perf_counter(), os.times().elapsed


class ProgramEnergy:
    """Tells the counters what the program does, while there are any.

    The counters are another thread's, which takes them up and puts them down with ``watch``.
    """

    def __init__(self) -> None:
        self.watch: EnergyWatch | None = None
        """The counters, while someone has them looked at."""
        self._times: ProgramTimes | None = None

    def follow(self, state: State, times: ProgramTimes) -> None:
        """Take note of what the program does now, and of what is recorded of it."""
        self._times = times
        activity: Activity = "idle" if state == "waiting" else "running"
        self._become(activity if times.records_all else "other")

    def rest(self) -> None:
        """Nothing is recorded any more."""
        self._times = None
        self._become("other")

    def beside(self, sample: Sample) -> Sample:
        """Return a sample without energy where not every forward is counted beside it."""
        is_whole = self._times is None or self._times.records_all
        return sample if is_whole else replace(sample, energy=NOT_ALL_COUNTED)

    def _become(self, activity: Activity) -> None:
        watch = self.watch
        if watch is not None and watch.activity != activity:
            watch.become(activity, self._work)

    def _work(self) -> float:
        """Return the forwards that were recorded; from any thread."""
        times = self._times
        return float(times.forwards) if times is not None else 0.0
