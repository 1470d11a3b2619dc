"""The ways of looking at a model that runs, put on and taken off around a batch of forwards."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple

import torch
from torch import nn

from tui_profiler.connection.wire import encode
from tui_profiler.probe.measure.clock.clock import ModuleClock
from tui_profiler.probe.measure.clock.overhead_budget import (
    TICK_SECONDS,
    MeasuredCost,
    seconds_to_next_tick,
)
from tui_profiler.probe.measure.clock.time_recorder import TimeRecorder
from tui_profiler.probe.measure.operators.windows import OperatorWindows
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.trace.trace import trace

PRODUCT_BUDGET = 0.02


class Spent(NamedTuple):
    """Seconds."""

    wall: float
    cpu: float


Between = Callable[[], None]
"""What a way of watching does between forwards."""
Way = Callable[[], AbstractContextManager[Between]]


def nothing() -> None:
    pass


class Watching:
    """The product's own way."""

    def __init__(self, model: nn.Module, inputs: Inputs) -> None:
        self.clock = ModuleClock(model)
        nodes = trace(model, (inputs,)).nodes
        self.cost = MeasuredCost()
        self.times = TimeRecorder(self.clock, nodes, model, self.cost, PRODUCT_BUDGET)
        self.times.start()
        self._cycle_seconds = 0.0
        self._cycle_began: float | None = None
        self.windows = OperatorWindows(nodes, model, PRODUCT_BUDGET, self._cycled)
        self.opened = 0
        """Operator windows so far."""
        self.in_windows = Spent(0.0, 0.0)
        """With the forwards that they are of, since this was last set to nothing."""
        self.window_costs: list[tuple[float, float]] = []
        """Seconds that each took more than its forwards take otherwise, and until the next."""
        self._model, self._inputs = model, inputs
        self._usual_seconds = 0.0
        self.socket, theirs = socket.socketpair()
        self.reader = subprocess.Popen(["cat"], stdin=theirs.fileno(), stdout=subprocess.DEVNULL)
        theirs.close()
        self.next_tick = 0.0
        self.until_tick = TICK_SECONDS
        """Seconds of watched forwards until the next tick: batches are shorter than that."""

    @contextmanager
    def every_forward(self) -> Iterator[Between]:
        self.clock.recording = True
        self.next_tick = time.perf_counter() + self.until_tick
        yield self.tick
        self.until_tick = max(self.next_tick - time.perf_counter(), 0.0)

    def off(self, way: Way) -> Way:
        """Return another way without this one: it is installed once, as the product does it."""

        @contextmanager
        def removed() -> Iterator[Between]:
            with self.clock.removed(), way() as between:
                yield between

        return removed

    @contextmanager
    def within_budget(self) -> Iterator[Between]:
        with self.every_forward():
            yield self.govern if self.times.governor.share < 1.0 else self.tick

    @contextmanager
    def operator_cycle(self) -> Iterator[Between]:
        self._cycle_began = time.perf_counter()
        with self.within_budget() as between:
            yield lambda: self._between_windows(between)
        self._cycle_seconds, self._cycle_began = self._cycled(), None

    def _cycled(self) -> float:
        """Return the seconds in which windows may be opened: other ways run between them."""
        began = self._cycle_began
        return self._cycle_seconds + (time.perf_counter() - began if began is not None else 0.0)

    def _between_windows(self, between: Between) -> None:
        between()
        if not self.windows.is_due:
            return
        wall, cpu = time.perf_counter(), time.process_time()
        self._open_window()
        spent = Spent(time.perf_counter() - wall, time.process_time() - cpu)
        self.in_windows = Spent(*map(sum, zip(self.in_windows, spent, strict=True)))

    def _open_window(self) -> None:
        usual = self._usual_seconds or self._forward()
        self._add_up()
        self.socket.sendall(
            encode(self.windows.run(self.clock, self._forward, usual, time.perf_counter()))
        )
        if self.windows.times is not None:
            self.socket.sendall(encode(self.windows.times))
        self._usual_seconds = usual
        self.opened += 1
        if self.windows.cost_seconds:  # The first one only sets up torch's profiler.
            self.window_costs.append((self.windows.cost_seconds, self.windows.pause_seconds))

    def _forward(self) -> float:
        began = time.perf_counter()
        self._model(*self._inputs.args)
        return time.perf_counter() - began

    @contextmanager
    def recording_only(self) -> Iterator[Between]:
        with self.every_forward():
            yield nothing

    @contextmanager
    def governed_only(self) -> Iterator[Between]:
        with self.every_forward():
            yield self.choose

    def choose(self) -> None:
        self.clock.recording = self.times.governor.records_next()

    def govern(self) -> None:
        # As the product's loop has it: no call more between two forwards.
        self.clock.recording = self.times.governor.records_next()
        now = time.perf_counter()
        if now >= self.next_tick:
            self.next_tick = now + seconds_to_next_tick(self.send(), PRODUCT_BUDGET)

    def tick(self) -> None:
        now = time.perf_counter()
        if now >= self.next_tick:
            self.next_tick = now + seconds_to_next_tick(self.send(), PRODUCT_BUDGET)

    def send(self) -> float:
        """Add up, encode and send; return the seconds that it took."""
        began = time.perf_counter()
        self._add_up()
        for message in (*self.times.modes(began), *self.times.figures(began, 0)):
            self.socket.sendall(encode(message))
        return time.perf_counter() - began

    def _add_up(self) -> None:
        taken = self.clock.take()
        self.times.add(taken)
        self.times.look_at(taken)

    def close(self) -> None:
        self.times.close()
        self.socket.close()
        self.reader.wait()


@contextmanager
def bare() -> Iterator[Between]:
    yield nothing


@contextmanager
def hooks() -> Iterator[Between]:
    events: list[tuple[nn.Module, float]] = []
    before = nn.modules.module.register_module_forward_pre_hook(
        lambda module, args: events.append((module, time.perf_counter()))
    )
    after = nn.modules.module.register_module_forward_hook(
        lambda module, args, output: events.append((module, time.perf_counter())),
        always_call=True,
    )
    try:
        yield events.clear
    finally:
        before.remove()
        after.remove()


@contextmanager
def profiler() -> Iterator[Between]:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        yield nothing
