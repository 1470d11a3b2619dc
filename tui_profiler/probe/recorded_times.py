"""Times of a model that its own program runs: the clock, what it adds up to, what that costs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from math import inf

import torch

from tui_profiler.messages import Message, Node
from tui_profiler.probe.call_kind import Kind
from tui_profiler.probe.measure.aggregate import Aggregator
from tui_profiler.probe.measure.clock import ModuleClock
from tui_profiler.probe.measure.device_clock import Device, DeviceAggregator, DeviceClock
from tui_profiler.probe.measure.overhead import TICK_SECONDS, Governor, seconds_to_next_tick
from tui_profiler.probe.measure.steps import Steps
from tui_profiler.probe.measure.watching_cost import EstimatedCost
from tui_profiler.probe.own_windows import OwnWindows

MOST_CREDIT_SECONDS = 0.1
"""Of recording at once, where only a share of the time is recorded and nothing ran for a while."""


class RecordedTimes:
    """A clock on a model, from now until ``close``.

    Args:
        model: whose program runs it.
        nodes: of its tree.
        budget: what watching may cost, as a share.
        device: where its kernels run, None where they run on the host.
        traced: what tells forwards like the one that the tree is made of from others.
        strangers: told of each module called while the model does not run, on its thread.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        nodes: Sequence[Node],
        budget: float,
        device: Device | None = None,
        *,
        traced: Kind | None = None,
        strangers: Callable[[torch.nn.Module], None] | None = None,
    ) -> None:
        self._on_device = DeviceClock(device) if device is not None else None
        self._device_times = DeviceAggregator(nodes, model)
        self._clock = ModuleClock(model, device=self._on_device, traced=traced, strangers=strangers)
        self._asked_before = 0.0
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
        self._budget = budget
        self.pause = TICK_SECONDS
        """Seconds until the figures are due again: adding up a large model's costs more."""
        self.forwards = 0
        """Recorded so far."""
        self._windows = OwnWindows(nodes, model, budget)
        self._steps = Steps(model)
        self._clock.install()

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
        self.forwards += len(finished)
        self._steps.add(finished)
        if self._on_device is not None:
            self._device_times.add(self._on_device.read())
        forwards = self._windows.without_windowed(finished)
        now = time.monotonic()
        if forwards:
            self._is_new = True
            self._last_forward = now
            self._aggregator.add(forwards)
            cpu, before = time.thread_time(), self._cpu_before
            self._cpu_before = cpu
            self.pause = seconds_to_next_tick(cpu - before, self._budget)
            asking, asked_before = self._clock.asking_seconds, self._asked_before
            self._asked_before = asking
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
        credit = self._credit + share * (now - self._credited_at)
        self._credit = inf if share >= 1.0 else min(credit, MOST_CREDIT_SECONDS)
        self._credited_at = now
        # A forward in a window is laid onto what the clock records of it.
        self._clock.record_for(self._credit, one_at_least=self._windows.is_open)

    def messages(self, at: float, dropped: int) -> Iterator[Message]:
        """Give the figures, where forwards finished since they were given last.

        Args:
            at: seconds since the program is watched.
            dropped: messages that viewers were too slow for.
        """
        yield from self._steps.messages(at)
        if not self._is_new:
            return
        self._is_new = False
        yield self._aggregator.tick(at, dropped + self._clock.dropped)
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
