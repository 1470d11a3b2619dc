"""One node run by itself, again and again, so that its energy can be told from a counter.

1. At least three times, each at least 5 s and ten steps of the counter, with the spread told.
2. Between parts of 50 ms lie pauses of up to 25 ms, at random: a sensor that looks away most of the
   time, in step with the loop, would see the same piece of it for ever. What the idle machine draws
   in the pauses is taken out.
3. The inputs are copies of those of the module's first call in one forward, its state is put back.
4. It ends by itself after a bounded time, and at once when anything else is asked.
"""

import random
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import nn

from tui_profiler.messages import Account, EnergyTotals, Replayed, Unknown
from tui_profiler.messages.hardware import LEAST_SECONDS, LEAST_STEPS, Activity, Replay
from tui_profiler.probe.measure.energy.meter import EnergyWatch
from tui_profiler.probe.torch_compat.kv_cache import remade
from tui_profiler.system import real_time as time

LEAST_REPLAYS = 3
PART_SECONDS = 0.05
MOST_PAUSE_SECONDS = 0.025
MOST_SECONDS = 15.0
"""Of one replay: a counter that has not made its steps by then does not move."""
MOST_INPUT_BYTES = 1 << 30
_MOST_REASON = 200
_PLAIN = (torch.Tensor, str, bytes, int, float, complex, bool, type(None))


class Pace(NamedTuple):
    """Time, as a replay sees it."""

    now: Callable[[], float] = time.perf_counter
    sleep: Callable[[float], None] = time.sleep
    pause: Callable[[], float] = lambda: random.uniform(0.0, MOST_PAUSE_SECONDS)
    """Returns the seconds of the next pause."""
    least_seconds: float = LEAST_SECONDS


class Replayer:
    """Runs one call again and again against one counter.

    Args:
        energy: the counters, looked at meanwhile by threads of their own.
        counter: which one.
        is_over: tells that something else is wanted.
        pace: time.
    """

    def __init__(
        self,
        energy: EnergyWatch,
        counter: EnergyTotals,
        is_over: Callable[[], bool],
        pace: Pace | None = None,
    ) -> None:
        self._energy = energy
        self._counter = counter
        self._is_over = is_over
        self._pace = pace or Pace()
        self._calls = 0.0

    def run(self, node: int, call: Callable[[], None], wait: Callable[[], None]) -> Replayed:
        """Replay a call.

        Args:
            node: which one it is.
            call: runs it once.
            wait: returns when everything that was begun is done, on the GPU too.
        """
        idle_watts = self._idle_watts()
        replays: list[Replay] = []
        seconds: list[float] = []
        try:
            for _ in range(LEAST_REPLAYS):
                one = self._once(call, wait, idle_watts or 0.0)
                if isinstance(one, Unknown):
                    return refused(node, one.reason)
                replays.append(one)
                seconds.append(one.seconds / one.calls)
        finally:
            self._energy.become("other")
        return Replayed(
            node=node,
            of=self._counter.name,
            source=self._counter.source,
            replays=tuple(replays),
            idle_watts=idle_watts,
            seconds_per_call=sum(seconds) / len(seconds),
        )

    def _idle_watts(self) -> float | None:
        """Return the power of the idle machine; measured now, where it was not before."""
        account = self._account("idle")
        if account.steps < LEAST_STEPS:
            self._energy.become("idle")
            until = self._pace.now() + self._pace.least_seconds
            while self._pace.now() < until and not self._is_over():
                self._pace.sleep(0.1)
            self._energy.become("other")
            account = self._account("idle")
        if account.steps < LEAST_STEPS or account.seconds <= 0:
            return None
        return account.joules / account.seconds

    def _account(self, activity: Activity) -> Account:
        return self._energy.account(self._counter.of, self._counter.gpu, activity)

    def _once(
        self, call: Callable[[], None], wait: Callable[[], None], idle_watts: float
    ) -> Replay | Unknown:
        pace = self._pace
        self._calls = 0.0
        busy_seconds = 0.0
        began = pace.now()
        self._energy.become("replay", lambda: self._calls, anew=True)
        while True:
            account = self._account("replay")
            if account.steps >= LEAST_STEPS and account.seconds >= pace.least_seconds:
                break
            if self._is_over():
                return Unknown("cancelled by another request")
            if pace.now() - began > MOST_SECONDS:
                steps = account.steps
                return Unknown(f"window too short: {steps} counter steps in {MOST_SECONDS:.0f} s")
            busy_seconds += self._part(call, wait)
            pace.sleep(pace.pause())
        self._energy.become("other")
        running = account.work * busy_seconds / self._calls
        in_pauses = max(account.seconds - running, 0.0) * idle_watts
        joules = (account.joules - in_pauses) / account.work
        return Replay(running, max(round(account.work), 1), joules)

    def _part(self, call: Callable[[], None], wait: Callable[[], None]) -> float:
        began = self._pace.now()
        while True:
            call()
            self._calls += 1
            if self._pace.now() - began >= PART_SECONDS:
                break
        wait()
        return self._pace.now() - began


class Captured(NamedTuple):
    """One call of a module: what it was given."""

    module: nn.Module
    arguments: tuple[object, ...]
    keywords: dict[str, object]


def captured(model: nn.Module, path: str, forward: Callable[[], object]) -> Captured | Unknown:
    """Run one forward, and give what a module was given in its first call.

    Args:
        model: the root.
        path: of the module in it; empty for the root.
        forward: runs the model once.
    """
    try:
        target = model.get_submodule(path)
    except AttributeError:
        return Unknown("the model has no module of this name any more")
    found: list[Captured | Unknown] = []
    # Not a hook: those switch fused paths off, and then another model would run.
    replaced = nn.Module.__call__

    def call(self: nn.Module, *arguments: object, **keywords: object) -> object:
        if self is target and not found:
            found.append(_copied(target, arguments, keywords))
        return replaced(self, *arguments, **keywords)

    nn.Module.__call__ = call  # type: ignore[method-assign] # the same to every caller
    try:
        forward()
    finally:
        nn.Module.__call__ = replaced  # type: ignore[method-assign]
    return found[0] if found else Unknown("no forward calls this module")


def refused(node: int, reason: str) -> Replayed:
    """Return the answer for a node that is not replayed."""
    return Replayed(node, "", "counter", (), None, 0.0, reason[:_MOST_REASON])


def _copied(
    module: nn.Module, arguments: tuple[object, ...], keywords: dict[str, object]
) -> Captured | Unknown:
    size_bytes = 0

    def copy(tensor: torch.Tensor) -> torch.Tensor:
        nonlocal size_bytes
        size_bytes += tensor.numel() * tensor.element_size()
        return tensor.detach().clone() if size_bytes <= MOST_INPUT_BYTES else tensor

    if not all(_is_plain(value) for value in (*arguments, *keywords.values())):
        return Unknown("an input is a growing cache")
    copies = remade((arguments, keywords), copy)
    if size_bytes > MOST_INPUT_BYTES:
        return Unknown("its inputs are over 1 GiB, too much to keep a copy of")
    assert isinstance(copies, tuple)
    return Captured(module, *copies)


def _is_plain(value: object) -> bool:
    """Tell tensors and containers of them from objects that a call may change for the next."""
    if isinstance(value, dict):
        return all(map(_is_plain, value.values()))
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, value))
    return isinstance(value, (*_PLAIN, torch.dtype, torch.device, torch.Size))
