"""The inference loop of our own worker: forwards in turn, requests between them, one tick at most.

1. The model runs on the main thread and waits for no one: ``Link.send`` never blocks.
2. Between two forwards nothing takes long: requests are looked at, and four times a second (less
   often where that would cost too much) the events of the clock are added up and sent as running
   totals.
3. What watching costs is measured as it goes: now and then a pair of short batches runs, one
   watched and one without the clock, in turn; bare forwards are in no figure. The clock is taken
   off a bounded number of times (rule 2 of ``measure/clock/clock.py``), first often, then seldom.
4. Now and then a forward runs in an operator window.
5. Where watching costs more than the budget, only a share of the forwards is recorded.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from itertools import chain

import torch

from tui_profiler import messages
from tui_profiler.messages.live import State
from tui_profiler.messages.model import Phase
from tui_profiler.probe.cost.call import tensors_in
from tui_profiler.probe.measure.clock.clock import ModuleClock
from tui_profiler.probe.measure.clock.device_clock import device_clock_of
from tui_profiler.probe.measure.clock.overhead import (
    TICK_SECONDS,
    MeasuredCost,
    seconds_to_next_tick,
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

FIRST_PAIRS = 30
MOST_PAIRS = 300
PAIR_EVERY_SECONDS = 0.5
LATER_PAIR_EVERY_SECONDS = 30.0
PAIR_BATCH_SECONDS = 0.05
"""A batch of a pair holds as many forwards as fit in this, at least one."""
WINDOW_FORWARDS = 2
"""The most that an operator window runs."""


class Loop:
    """Runs one model on one set of inputs until asked to stop."""

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
        self._inputs = traced.inputs
        self._phase = phase
        self._energy = energy or EnergyWatch(())
        self.asides = Interruptions(link, spec, now, model, traced, phase, self._energy)
        self._forwards_done = 0
        self._asked: deque[messages.Request] = deque()
        self._clock = ModuleClock(model, device=device_clock_of(model))
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
        # When it is asked: the first forward may make caches that are kept.
        held = None if self._clock.device is not None else partial(_held, model, traced.inputs)
        self._windows = OperatorWindows(traced.nodes, model, spec.budget, held=held)
        self._windows.why_none = why_no_windows
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
        self.on_tick: Callable[[messages.Tick], object] | None = None
        """Is given every tick after it was sent."""
        self._times.start()

    def close(self) -> None:
        """Take the clock off."""
        self._energy.become("other")
        self._times.close()

    def forward_seconds(self) -> float:
        """Return how long the forward that is running now has taken; called from another thread."""
        began = self._forward_began
        return 0.0 if began is None else time.perf_counter() - began

    def work(self) -> float:
        """Return the forwards so far; one under way counts for its part; from any thread."""
        done, usual = self._forwards_done, self._last_seconds
        under_way = min(self.forward_seconds() / usual, 1.0) if usual else 0.0
        return done + under_way

    def first_run(self) -> float:
        """Run one forward, in no figure; gives its seconds."""
        self._clock.recording = False
        return self._forward()

    def run(self) -> messages.Request | None:
        """Run forwards until stopped or enough were run.

        Returns:
            the request that ended it (``Stop``, ``SetBatch`` or ``SetPhase``), None when enough was
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
                self._energy.become("other")  # A single step is no idle power.
            self._one_forward()
            if self._state == "paused":
                self._energy.become("idle")
        self._tick()
        return None

    def _one_forward(self) -> None:
        if self._times.governor.share < 1.0:
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

    def _forward(self) -> float:
        keywords = self._inputs.keywords()
        began = self._forward_began = time.perf_counter()
        try:
            with torch.no_grad():
                self._model(*self._inputs.args, **keywords)
        finally:
            self._forward_began = None
            self._forwards_done += 1
        return time.perf_counter() - began

    def _is_enough(self) -> bool:
        forwards, seconds = self._spec.forwards, self._spec.seconds
        if forwards is not None and self._left() <= 0:
            self.why_finished = f"{forwards} forwards were asked for"
        elif seconds is not None and self._ran_seconds >= seconds:
            self.why_finished = f"{seconds:g} s were asked for"
        return bool(self.why_finished)

    def _left(self) -> float:
        """Return how many forwards may still run, whether they are timed or not."""
        if self._spec.forwards is None:
            return math.inf
        return self._spec.forwards - (self._forwards_done - self._not_asked)

    def _requests(self) -> messages.Request | None:
        """Carry out what was asked; gives the request that ends this loop."""
        wait = None if self._state == "paused" and not self._steps else 0.0
        if wait is None:
            self._clock.note_gap()
        while (request := self._next_request(wait)) is not None:
            wait = 0.0
            match request:
                case messages.Pause():
                    self._tick()  # Nothing waits for it, and all that ran is known while paused.
                    self._become("paused")
                case messages.Resume():
                    self._become("running")
                case messages.Step():
                    self._steps += 1
                case (
                    messages.ReplayNode()
                    | messages.Try()
                    | messages.AnalyseParameters()
                    | messages.MeasureSensitivity()
                ):
                    self._set_aside(request)
                case messages.SetBatch() | messages.SetPhase() | messages.Stop():
                    return request
                case _:
                    pass  # Start and ListModels come once, before there is a loop.
        return messages.Stop() if self._link.is_closed else None

    def _next_request(self, wait: float | None) -> messages.Request | None:
        return self._asked.popleft() if self._asked else self._link.next_request(wait)

    def _set_aside(self, request: Aside) -> None:
        """Hold the model, and do with it what is no figure of this run."""
        self._energy.become("other")
        why, batch, before = WHY[type(request)], self._inputs.batch, self._forwards_done
        self._link.send(messages.LoopState("paused", self._now(), batch, why, self._phase))
        runs_here = isinstance(request, messages.ReplayNode | messages.MeasureSensitivity)
        with self._clock.removed() if runs_here else nullcontext():
            self.asides.carry_out(request, self._forward, self._asked)
        if self._state == "running":
            self._bare(1)  # The caches hold what was looked at, and not what a forward leaves.
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
        for message in chain(self._times.modes(at), self._times.figures(at, dropped)):
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
        # Nothing passes between our forwards, after a gap neither.
        taken = [one if one.since is not None else one._replace(since=one.began) for one in taken]
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

    def _pair(self) -> None:
        """Run a watched and a bare batch in turn, and tell what watching costs."""
        forwards = max(1, min(200, int(PAIR_BATCH_SECONDS / max(self._last_seconds, 1e-6))))
        if 2 * forwards > self._left():
            return
        self._pairs += 1
        # Which of the two goes first changes with each pair, so that a drift falls on both.
        bare = self._bare(forwards) if self._pairs % 2 else 0.0
        self._clock.recording = True
        watched = sum(self._forward() for _ in range(forwards))
        bare = bare or self._bare(forwards)
        if self._times.is_warm:
            self._ran_seconds += watched
        self._since_tick_seconds += watched
        self._cost.add(watched, bare)
        found = self._times.govern()
        if found is not None:
            self._link.send(found)
        often = self._pairs < FIRST_PAIRS
        pause = PAIR_EVERY_SECONDS if often else LATER_PAIR_EVERY_SECONDS
        if self._pairs >= MOST_PAIRS:
            pause = math.inf
        self._next_pair = time.perf_counter() + max(pause, 4 * (watched + bare))

    def _bare(self, forwards: int) -> float:
        with self._clock.removed():
            return sum(self._forward() for _ in range(forwards))


def _held(model: torch.nn.Module, inputs: Inputs) -> PermanentBytes:
    """Return the bytes of the storages that live before a forward and after it."""
    storages = {
        key: tensor.untyped_storage().nbytes()
        for tensor in tensors_in((inputs.args, inputs.kwargs))
        if (key := storage_key(tensor)) is not None
    }
    return PermanentBytes(held_bytes(model), sum(storages.values()))
