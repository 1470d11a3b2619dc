"""The loop of a worker: forwards, and between them requests and at most one tick.

1. The model runs on the main thread and never waits: ``Link.send`` does not block.
2. Nothing between two forwards takes long: requests are checked, and four times per second (less
   often if that costs too much) the events of the clock are added up and sent as totals. Weights
   are read in slices, within the rest of the budget (``slice_budget.py``); while the model is
   paused, all the time.
3. Profiler overhead is measured continuously: now and then a pair of short batches runs, one with
   and one without the clock; forwards without the clock do not count. The clock is removed a
   bounded number of times (rule 2 of ``measure/clock/clock.py``), first often, then rarely.
4. Now and then a forward runs in an operator window.
5. If the overhead exceeds the budget, only a share of the forwards is recorded.
6. If the model is trained, training steps run in the place of forwards: they are what is counted,
   run in pairs, and recorded in part.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

import torch
from msgspec.structs import replace

from tui_profiler import messages
from tui_profiler.messages.live import State
from tui_profiler.messages.model import Phase
from tui_profiler.probe.cost.call import tensors_in
from tui_profiler.probe.measure.clock.clock import ModuleClock
from tui_profiler.probe.measure.clock.device_clock import device_clock_of
from tui_profiler.probe.measure.clock.overhead_budget import (
    TICK_SECONDS,
    MeasuredCost,
    seconds_to_next_tick,
    total_overhead,
)
from tui_profiler.probe.measure.clock.time_recorder import TimeRecorder
from tui_profiler.probe.measure.energy.meter import EnergyWatch
from tui_profiler.probe.measure.operators.memory_window import PermanentBytes
from tui_profiler.probe.measure.operators.windows import OperatorWindows
from tui_profiler.probe.process.link import Channel
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.torch_compat.internals import storage_key
from tui_profiler.probe.trace.trace import Trace
from tui_profiler.probe.trace.tree.weights import held_bytes
from tui_profiler.probe.worker.interruptions import WHY, Aside, Interruptions
from tui_profiler.probe.worker.parameter_requests import WeightReader
from tui_profiler.probe.worker.slice_budget import SLICE_SECONDS, SliceBudget, share_left
from tui_profiler.system import real_time as time

if TYPE_CHECKING:
    from tui_profiler.probe.trace.training.optimizers import Choice
    from tui_profiler.probe.worker.generation import OwnGeneration
    from tui_profiler.probe.worker.training import OwnTraining

FIRST_PAIRS = 30
MOST_PAIRS = 300
PAIR_EVERY_SECONDS = 0.5
LATER_PAIR_EVERY_SECONDS = 30.0
PAIR_BATCH_SECONDS = 0.05
"""Of a batch of a pair; at least one forward."""
NO_KIND = ("none",)
"""Of no forward: none of a request is as the one that the tree is made of."""
NO_WINDOW = "not available with --generate"
WINDOW_FORWARDS = 2
"""Most forwards of an operator window."""


class Loop:
    """Runs one model on one set of inputs until stopped."""

    def __init__(
        self,
        link: Channel,
        spec: messages.LoadSpec,
        now: Callable[[], float],
        model: torch.nn.Module,
        traced: Trace,
        phase: Phase = "",
        energy: EnergyWatch | None = None,
        *,
        why_no_windows: str = "",
    ) -> None:
        self._link = link
        self._spec = spec
        self._now = now
        self._model = model
        self._traced = traced
        self._inputs = traced.inputs
        self._phase = phase
        self._energy = energy or EnergyWatch(())
        self.asides = Interruptions(link, spec, now, model, traced, phase, self._energy)
        self._forwards_done = 0
        self._asked: deque[messages.Request] = deque()
        answers = spec.generate is not None
        self._clock = ModuleClock(
            model,
            device=device_clock_of(model),
            traced=NO_KIND if answers else None,
            reads_tokens=answers,
        )
        self._cost = MeasuredCost()
        self._times = TimeRecorder(
            self._clock,
            traced.nodes,
            model,
            self._cost,
            spec.budget,
            batch=traced.inputs.batch or 1,
            device_warms_up=True,
        )
        # Computed when needed: the first forward may create caches that remain.
        held = None if self._clock.device is not None else partial(_held, model, traced.inputs)
        self._windows = OperatorWindows(traced.nodes, model, spec.budget, held=held)
        self.prompt = traced.inputs
        """Of requests: those of the prefill, whichever tree is shown."""
        self._windows.why_none = why_no_windows or NO_WINDOW * answers
        self.optimizer: Choice | None = None if spec.train is None else spec.train.optimizer
        """Of training steps; None where there are none."""
        self._training: OwnTraining | None = None
        self._generation: OwnGeneration | None = None
        self._records_all = False
        self._pairs = 0
        self._since_tick_seconds = 0.0
        self._state: State = "starting"
        self._steps = 0
        self._forward_began: float | None = None
        self._last_seconds = 0.0
        self._next_tick = 0.0
        self._next_pair = 0.0
        self._ran_seconds = 0.0
        self._not_asked = 0
        self.why_finished = ""
        self.reader: WeightReader | None = None
        """Reads the parameters between forwards; None where nobody can request it."""
        self._slices = SliceBudget()
        self._values_wanted = 0
        """How often values were requested, less how often no more."""
        self.on_tick: Callable[[messages.Tick], object] | None = None
        """Called with every tick after it was sent."""
        self._times.start()

    def close(self) -> None:
        """Remove the clock."""
        self._energy.become("other")
        if self._training is not None:
            self._training.close()
        self._times.close()

    def forward_seconds(self) -> float:
        """Return the seconds of the running forward so far; called from another thread."""
        began = self._forward_began
        return 0.0 if began is None else time.perf_counter() - began

    def work(self) -> float:
        """Return the forwards so far, with the part of a running one; from any thread."""
        done, usual = self._forwards_done, self._last_seconds
        under_way = min(self.forward_seconds() / usual, 1.0) if usual else 0.0
        return (done + under_way) * (self._spec.generate or 1)  # A request is as many forwards.

    def first_run(self) -> float:
        """Run one forward without counting it; return its seconds."""
        self._clock.recording = False
        train = self._spec.train
        if self._spec.generate is not None:
            return self._first_request(self._spec.generate)
        if train is None or self.optimizer is None:
            return self._forward()
        from tui_profiler.probe.worker.training import OwnTraining  # noqa: PLC0415 # few train

        model, budget = self._model, self._spec.budget
        self._training = OwnTraining(
            model, self._traced, train, self.optimizer, self._clock, self._records_next, budget
        )
        self._training.read_values(wanted=self._values_wanted > 0)
        return self._timed(self._training.first_step)

    def _first_request(self, tokens: int) -> float:
        from tui_profiler.probe.worker.generation import OwnGeneration  # noqa: PLC0415 # few do

        is_on_device = self._clock.device is not None
        self._generation = OwnGeneration(
            self._model, self.prompt, tokens, is_on_device=is_on_device
        )
        return self._timed(self._generation.first_request)

    @property
    def values_wanted(self) -> int:
        """How many want values of training steps to be read; each may ask for it, and say so."""
        return self._values_wanted

    @values_wanted.setter
    def values_wanted(self, viewers: int) -> None:
        self._values_wanted = max(viewers, 0)
        if self._training is not None:
            self._training.read_values(wanted=viewers > 0)

    def run(self) -> messages.Request | None:
        """Run forwards until stopped or enough were run.

        Returns:
            the request that ended it (``Stop``, ``SetBatch`` or ``SetPhase``); None if enough were
            run.
        """
        self._clock.recording = True
        self._not_asked = self._forwards_done
        self._energy.become("running", anew=True)
        self._become("running")
        self._next_pair = time.perf_counter() + PAIR_EVERY_SECONDS
        while not self._is_enough():
            ending = self._requests()
            if ending is not None:
                self._tick()
                return ending
            if self._state == "paused" and not self._steps:
                continue
            self._steps = max(self._steps - 1, 0)
            if self._state == "paused":
                self._energy.become("other")  # A step is not idle.
            self._one_forward()
            if self._state == "paused":
                self._energy.become("idle")
        self._tick()
        return None

    def _one_forward(self) -> None:
        if self._training is None and self._times.governor.share < 1.0:
            self._clock.recording = self._times.governor.records_next()
        self._last_seconds = self._forward()
        if self._times.is_warm:
            self._ran_seconds += self._last_seconds
        self._since_tick_seconds += self._last_seconds
        now = time.perf_counter()
        if now >= self._next_tick or self._state == "paused":
            self._tick()
        if now >= self._next_pair and self._state == "running":
            self._pair()
        is_due = self._windows.is_due and self._times.is_warm and self._state == "running"
        if is_due and self._left() >= WINDOW_FORWARDS:
            self._operator_window()
        if self.reader is not None and self.reader.is_reading and self._state == "running":
            self._read_weights(self.reader)

    def _share_left(self) -> float:
        """Return the share of the time for reading weights."""
        watching = total_overhead(self._cost, self._times.governor.share)
        return share_left(self._spec.budget, None if watching is None else watching.ratio)

    def _read_weights(self, reader: WeightReader) -> None:
        """Read a slice, if it is due."""
        share = self._share_left()
        self._slices.forward(self._last_seconds, share)
        if self._slices.is_due:
            began = time.perf_counter()
            reader.advance(SLICE_SECONDS, share)
            self._slices.slice(time.perf_counter() - began)
            if (found := total_overhead(self._cost, self._times.governor.share)) is not None:
                self._tell_overhead(found)

    def _tell_overhead(self, found: messages.Overhead) -> None:
        """Send the profiler overhead, reading weights included."""
        if self.reader is not None and self.reader.is_reading:
            cost = self._slices.cost
            found = replace(
                found, ratio=found.ratio + cost, low=found.low + cost, high=found.high + cost
            )
        self._link.send(found)

    def _forward(self) -> float:
        if self._training is not None:
            return self._timed(self._training.step)
        if self._generation is not None:
            return self._timed(self._generation.request)
        with torch.no_grad():
            return self._timed(self._model, *self._inputs.args, **self._inputs.keywords())

    def _timed(self, run: Callable[..., object], /, *args: object, **kwargs: object) -> float:
        """Run a forward, step or request and return its seconds."""
        began = self._forward_began = time.perf_counter()
        try:
            run(*args, **kwargs)
        finally:
            self._forward_began = None
            self._forwards_done += 1
        return time.perf_counter() - began

    def _is_enough(self) -> bool:
        forwards, seconds = self._spec.forwards, self._spec.seconds
        if forwards is not None and self._left() <= 0:
            what = "forwards" if self._training is None else "steps"
            what = what if self._generation is None else "requests"
            self.why_finished = f"{forwards} {what} were requested"
        elif seconds is not None and self._ran_seconds >= seconds:
            self.why_finished = f"{seconds:g} s were requested"
        return bool(self.why_finished)

    def _left(self) -> float:
        """Return how many forwards may still run, timed or not."""
        if self._spec.forwards is None:
            return math.inf
        return self._spec.forwards - (self._forwards_done - self._not_asked)

    def _requests(self) -> messages.Request | None:
        """Carry out requests; return one that ends this loop."""
        wait = None if self._state == "paused" and not self._steps else 0.0
        if wait is None:
            self._clock.note_gap()
        while (request := self._next_request(wait)) is not None:
            wait = 0.0
            match request:
                case messages.Pause():
                    self._tick()  # While paused, all forwards that ran are counted.
                    self._become("paused")
                case messages.Resume():
                    self._become("running")
                    if self.reader is not None:
                        self.reader.tell(self._share_left())
                case messages.Step():
                    self._steps += 1
                case messages.ReplayNode() | messages.Try() | messages.MeasureSensitivity():
                    self._set_aside(request)
                case messages.ReadValues():
                    self.values_wanted += 1 if request.wanted else -1
                case messages.AnalyseParameters() if self.reader is not None:
                    self._slices = SliceBudget()
                    self.reader.begin(request)
                    self.reader.tell(self._share_left())
                case messages.StopAnalysing() if self.reader is not None:
                    self.reader.stop()
                case messages.SetBatch() | messages.SetPhase() | messages.Stop():
                    return request
                case _:
                    pass  # Start and ListModels come once, before the loop.
        return messages.Stop() if self._link.is_closed else None

    def _next_request(self, wait: float | None) -> messages.Request | None:
        if self._asked:
            return self._asked.popleft()
        if wait is None and self.reader is not None:
            return self.reader.next_request()
        return self._link.next_request(wait)

    def _set_aside(self, request: Aside) -> None:
        """Pause the model, and carry out a request that does not count in its figures."""
        self._energy.become("other")
        why, batch, before = WHY[type(request)], self._inputs.batch, self._forwards_done
        self._link.send(messages.LoopState("paused", self._now(), batch, why, self._phase))
        runs_here = isinstance(request, messages.ReplayNode | messages.MeasureSensitivity)
        with self._clock.removed() if runs_here else nullcontext():
            self.asides.carry_out(request, self._forward, self._asked)
        if self._state == "running":
            self._bare(1)  # Refills the caches.
        self._not_asked += self._forwards_done - before
        self._become(self._state)

    def _become(self, state: State) -> None:
        self._state = state
        self._energy.become("running" if state == "running" else "idle", self.work)
        self._link.send(
            messages.LoopState(state, self._now(), self._inputs.batch, phase=self._phase)
        )

    def _tick(self) -> None:
        began = time.perf_counter()
        self._add_up()
        at, dropped = self._now(), self._link.dropped
        figures: Iterable[messages.Message] = ()
        if self._training is not None:
            figures = self._training.messages(at)
        elif self._generation is not None:
            figures = self._generation.messages(at)
        for message in chain(self._times.modes(at), self._times.figures(at, dropped), figures):
            self._link.send(message)
            if isinstance(message, messages.Tick) and self.on_tick is not None:
                self.on_tick(message)
        ended = time.perf_counter()
        if self._since_tick_seconds >= TICK_SECONDS / 2:
            self._cost.add_between(ended - began, self._since_tick_seconds)
        self._since_tick_seconds = 0.0
        self._next_tick = ended + seconds_to_next_tick(ended - began, self._spec.budget)

    def _add_up(self) -> None:
        taken = self._clock.take()
        # Nothing runs between these forwards, nor after a gap.
        taken = [one if one.since is not None else one._replace(since=one.began) for one in taken]
        if self._training is not None:
            self._training.add_up(taken)
            taken = [one for one in taken if one.values is None]  # They take longer.
        if self._generation is not None:
            self._generation.add_up(taken)
        self._times.add(taken)
        self._times.look_at(taken)

    def _operator_window(self) -> None:
        self._add_up()
        usual = self._last_seconds
        self._link.send(self._windows.run(self._clock, self._forward, usual, self._now()))
        if self._windows.times is not None:
            self._link.send(self._windows.times)
        if self._windows.memory is not None:
            self._link.send(self._windows.memory)
        self._cost.windows_share = self._windows.share
        if self._training is not None:
            self._training.skip()

    def _pair(self) -> None:
        """Run a batch with and one without the clock, and send the overhead."""
        forwards = max(1, min(200, int(PAIR_BATCH_SECONDS / max(self._last_seconds, 1e-6))))
        if 2 * forwards > self._left():
            return
        self._pairs += 1
        # The order alternates, so that drift affects both alike.
        bare = self._bare(forwards) if self._pairs % 2 else 0.0
        if self._training is None:
            self._clock.recording = True
        else:
            self._training.record_next()
        self._records_all = True
        watched = sum(self._forward() for _ in range(forwards))
        self._records_all = False
        bare = bare or self._bare(forwards)
        if self._times.is_warm:
            self._ran_seconds += watched
        self._since_tick_seconds += watched
        self._cost.add(watched, bare)
        found = self._times.govern()
        if found is not None:
            self._tell_overhead(found)
        often = self._pairs < FIRST_PAIRS
        pause = PAIR_EVERY_SECONDS if often else LATER_PAIR_EVERY_SECONDS
        if self._pairs >= MOST_PAIRS:
            pause = math.inf
        self._next_pair = time.perf_counter() + max(pause, 4 * (watched + bare))

    def _bare(self, forwards: int) -> float:
        if self._training is None:
            with self._clock.removed():
                return sum(self._forward() for _ in range(forwards))
        self._add_up()
        with self._clock.removed(), self._training.unwatched():
            return sum(self._forward() for _ in range(forwards))

    def _records_next(self) -> bool:
        """Return whether the next training step is recorded."""
        return self._records_all or self._times.governor.records_next()


def _held(model: torch.nn.Module, inputs: Inputs) -> PermanentBytes:
    """Return the bytes of the storages that exist before and after a forward."""
    storages = {
        key: tensor.untyped_storage().nbytes()
        for tensor in tensors_in((inputs.args, inputs.kwargs))
        if (key := storage_key(tensor)) is not None
    }
    return PermanentBytes(held_bytes(model), sum(storages.values()))
