"""Another number of threads within operators."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace

import torch
from torch import nn

from tui_profiler.probe.measure.devices.machine import allowed_cores
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.trials.kinds.subject import (
    Change,
    ImpossibleError,
    Kind,
    Side,
    Subject,
    as_it_is,
    counted,
    device_of,
)

_LOOKED_AT_SECONDS = 0.3
"""For each number of threads, to choose the one that is tried; measured anew afterwards."""


def numbers(now: int, cores: int) -> tuple[int, ...]:
    """Return the numbers to look at: powers of two and all cores, without the present one."""
    powers = {2**power for power in range(cores.bit_length())}
    return tuple(sorted(n for n in {*powers, cores} if n <= cores and n != now))


def _change(subject: Subject) -> Change:
    baseline, now = as_it_is(subject), torch.get_num_threads()
    choices = {
        count: replace(baseline, around=with_threads(count, baseline))
        for count in numbers(now, len(allowed_cores()))
    }
    if not choices:
        raise ImpossibleError("there is one core, and one thread already")
    best = min(choices, key=lambda count: _seconds(choices[count]))
    sides = replace(baseline, around=with_threads(now, baseline)), choices[best]
    return Change(*sides, f"{counted(best, 'thread')} instead of {now}")


def with_threads(count: int, side: Side) -> Callable[[], AbstractContextManager[None]]:
    """Yield what sets the number of threads inside, and makes one call before the time counts."""

    @contextmanager
    def around() -> Iterator[None]:
        before = torch.get_num_threads()
        torch.set_num_threads(count)
        try:
            # Threads are started in the first call that uses them.
            side.call(side.prepare() if side.prepare else None)
            yield
        finally:
            torch.set_num_threads(before)

    return around


def _seconds(side: Side) -> float:
    """Return the least seconds of a call, of those that fit into a short time."""
    best, until = float("inf"), time.perf_counter() + _LOOKED_AT_SECONDS
    with side.around():
        while True:
            given = side.prepare() if side.prepare else None
            began = time.perf_counter()
            side.call(given)
            ended = time.perf_counter()
            best = min(best, ended - began)
            if ended > until:
                return best


def _why_not(module: nn.Module, inputs: Inputs) -> str:
    device = device_of(module).type
    if device != "cpu":
        return f"it computes on {device}, where threads of the CPU do not"
    if len(allowed_cores()) == 1 and torch.get_num_threads() == 1:
        return "there is one core, and one thread already"
    return ""


KIND = Kind(_change, _why_not)
