"""Times of a model that its own program runs: the clock, what it adds up to, what that costs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from math import inf

import torch

from tui_profiler.messages import Message, Node
from tui_profiler.probe.measure.clock.aggregate import Aggregator
from tui_profiler.probe.measure.clock.backward import BackwardPasses
from tui_profiler.probe.measure.clock.clock import ModuleClock
from tui_profiler.probe.measure.clock.device_clock import Device, DeviceAggregator, DeviceClock
from tui_profiler.probe.measure.clock.mode import Modes
from tui_profiler.probe.measure.clock.overhead import TICK_SECONDS, Governor, seconds_to_next_tick
from tui_profiler.probe.measure.clock.overhead_estimate import EstimatedCost
from tui_profiler.probe.measure.ranks.steps import Steps
from tui_profiler.probe.torch_compat.entry_method import EntryMethod
from tui_profiler.probe.torch_compat.forward_kind import Kind
from tui_profiler.probe.watch.windows import OwnWindows

MOST_CREDIT_SECONDS = 0.1
"""Of recording at once, where only a share of the time is recorded and nothing ran for a while."""


MOST_APART_SECONDS = 1.0
"""Of two clocks in a quarter of a second: more than a hundredth, which one of them counts in."""


def _clocks() -> tuple[float, float]:
    """Return the clock that forwards are timed by, and one that ``libfaketime`` leaves alone."""
    return time.perf_counter(), os.times().elapsed


class RecordedTimes:
    """A clock on a model, from now until ``close``.

    Args:
        model: whose program runs it.
        nodes: of its tree.
        budget: what watching may cost, as a share.
        device: where its kernels run, None where they run on the host.
        traced: what tells forwards like the one that the tree is made of from others.
        strangers: told of each module called while the model does not run, on its thread; tells
            whether it is another model, whose calls are timed.
        entry: the method that stands for the model's forward; None: the forward itself.
        clock: that records the model's calls already; None: one is put on now.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        nodes: Sequence[Node],
        budget: float,
        device: Device | None = None,
        *,
        traced: Kind | None = None,
        strangers: Callable[[torch.nn.Module], bool] | None = None,
        entry: EntryMethod | None = None,
        clock: ModuleClock | None = None,
    ) -> None:
        self._device_times = DeviceAggregator(nodes, model)
        self._clock = clock or clock_on(
            model, device, traced=traced, strangers=strangers, entry=entry
        )
        self._on_device = self._clock.device
        self._asked_before = self._clock.asking_seconds
        self._clocks = _clocks()
        self._misdated = 0
        """Forwards left out because the clock was set while they ran."""
        self._aggregator = Aggregator(nodes, model)
        self._cost = EstimatedCost()
        self._governor = Governor(budget)
        self._last_forward = time.monotonic()
        self._cpu_before = time.thread_time()
        self._taken_at = time.monotonic()
        self._credit = inf
        """Seconds of forwards that may be recorded; negative where too many were."""
        self._charged_since = 0.0
        """Second of ``time.perf_counter`` before which all forwards were recorded, on no credit."""
        self._waits_since = self._taken_at
        self._credited_at = self._taken_at
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
        self._windows = OwnWindows(nodes, model, budget)
        self._steps = Steps(model)
        self._modes = Modes(self._clock.passes, is_on_gpu=device is not None)
        self._clock.install()

    @property
    def model_seconds(self) -> dict[int, float]:
        """Seconds in calls of this model and of others, by id."""
        return self._clock.model_seconds

    @property
    def records_all(self) -> bool:
        """Whether every forward is recorded, not a share of them."""
        return self._governor.share >= 1.0

    @property
    def idle_seconds(self) -> float:
        """How long ago the last forward was, or the last time at which none would be seen."""
        return time.monotonic() - max(self._last_forward, self._waits_since)

    def close(self) -> None:
        """Take the clock off."""
        self._windows.close()
        self._steps.close()
        self._clock.uninstall()

    def take(self) -> float:
        """Add up the forwards that finished; gives for how many seconds there was none."""
        finished = [] if self._windows.is_under_way else self._clock.take()
        (timed, steady), clocks_before = _clocks(), self._clocks
        self._clocks = timed, steady
        apart = (timed - clocks_before[0]) - (steady - clocks_before[1])
        if abs(apart) > MOST_APART_SECONDS:
            self._misdated += len(finished)
            self._clock.note_gap()
            finished = []
            self._began = -inf  # Of another time; the tree was made long ago.
        self.forwards += sum(one.began >= self._began for one in finished)
        self._steps.add(finished)
        self._modes.add(finished)
        if self._on_device is not None:
            self._device_times.add(self._on_device.read())
        forwards = self._windows.without_windowed(finished)
        now = time.monotonic()
        if forwards:
            self._is_new = True
            self._last_forward = now
            early = [one for one in forwards if one.began < self._began]
            self._aggregator.add(early, is_early=True)
            forwards = [one for one in forwards if one.began >= self._began]
            self._aggregator.add(forwards)
            self._is_cold_new = not self._aggregator.is_warm
            cpu, before = time.thread_time(), self._cpu_before
            self._cpu_before = cpu
            self.pause = seconds_to_next_tick(cpu - before, self._budget)
            asking, asked_before = self._clock.asking_seconds, self._asked_before
            self._asked_before = asking
            if forwards:  # Of early ones it is not known what passed between them.
                self._cost.add(
                    asking_seconds=asking - asked_before,
                    calls=sum(forward.calls for forward in forwards),
                    forward_seconds=sum(forward.seconds for forward in forwards),
                    thread_seconds=cpu - before,
                    elapsed_seconds=now - self._taken_at,
                )
            self._taken_at = now
        elif not self._is_new:
            self._aggregator.let_go()  # A model that is not called may be gone.
        if self._clock.is_busy or not self._clock.waits:
            self._waits_since = now
        charged = (one.seconds for one in finished if one.began >= self._charged_since)
        self._credit -= sum(charged)
        return self.idle_seconds

    def record_next(self) -> None:
        """Record a share of the time from now on, where all of it would cost too much.

        Not by the clock on the wall: a forward that is called seldom would seldom fall into it.
        Call it when all else is done: what this thread does meanwhile, forwards wait for, and where
        few are recorded it would be those.
        """
        share, now = self._governor.share, time.monotonic()
        if self._credit == inf:
            self._charged_since = time.perf_counter()
        credit = self._credit + share * max(now - self._credited_at, 0.0)
        self._credit = inf if share >= 1.0 else min(credit, MOST_CREDIT_SECONDS)
        self._credited_at = now
        # A forward in a window is laid onto what the clock records of it.
        self._clock.record_for(self._credit, one_at_least=self._windows.is_open)

    def messages(self, at: float, dropped: int, *, or_cold: bool = False) -> Iterator[Message]:
        """Give the figures, where forwards finished since they were given last.

        Args:
            at: seconds since the program is watched.
            dropped: messages that viewers were too slow for.
            or_cold: give those of the warm-up where there are no others.
        """
        yield from self._steps.messages(at)
        yield from self._modes.messages(at)
        or_cold = or_cold and self._is_cold_new
        if not self._is_new and not or_cold:
            return
        self._is_new = False
        self._is_cold_new &= not or_cold
        yield self._aggregator.tick(
            at, dropped + self._clock.dropped + self._misdated, or_cold=or_cold
        )
        if self._on_device is not None:
            yield self._device_times.message(at, self._on_device)
        recording = self._cost.recording()
        if recording is not None:
            self._governor.update(recording, self._cost.between)
        found = self._cost.overhead(self._governor.share)
        if found is not None:
            yield found
        if self._windows.is_due:
            self._windows.open(self._clock)
        yield from self._windows.messages(at)


def clock_on(
    model: torch.nn.Module,
    device: Device | None,
    *,
    traced: Kind | None,
    strangers: Callable[[torch.nn.Module], bool] | None,
    entry: EntryMethod | None,
) -> ModuleClock:
    """Return a clock for a model; it is not put on. The arguments are as in ``RecordedTimes``."""
    on_device = DeviceClock(device) if device is not None else None
    return ModuleClock(
        model,
        device=on_device,
        traced=traced,
        strangers=strangers,
        entry=entry,
        passes=BackwardPasses(model),
    )
