"""Another number of intra-op threads."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace

import torch
from torch import nn

from tui_profiler.probe.measure.devices.machine import allowed_cores
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.trials.kinds import change

_ONE_CORE = "there is only one core, and one thread"


def numbers(now: int, cores: int) -> tuple[int, ...]:
    """Return the numbers to choose from: powers of two and all cores, without the current one."""
    powers = {2**power for power in range(cores.bit_length())}
    return tuple(sorted(n for n in {*powers, cores} if n <= cores and n != now))


def _change(subject: change.Subject) -> change.Change:
    baseline, now = subject.baseline(), torch.get_num_threads()
    choices = {
        count: replace(baseline, around=with_threads(count, baseline))
        for count in numbers(now, len(allowed_cores()))
    }
    if not choices:
        raise change.ImpossibleError(_ONE_CORE)
    best = min(choices, key=lambda count: choices[count].least_seconds())
    sides = replace(baseline, around=with_threads(now, baseline)), choices[best]
    return change.Change(*sides, f"{change.counted(best, 'thread')} instead of {now}")


def with_threads(count: int, side: change.Side) -> Callable[[], AbstractContextManager[None]]:
    """Return a context manager that sets the number of threads and makes one call, not timed."""

    @contextmanager
    def around() -> Iterator[None]:
        before = torch.get_num_threads()
        torch.set_num_threads(count)
        try:
            side.run()  # The first call starts the threads.
            yield
        finally:
            torch.set_num_threads(before)

    return around


def _why_not(module: nn.Module, inputs: Inputs) -> str:
    device = change.device_of(module).type
    if device != "cpu":
        return f"the model is on {device}, where CPU threads do not matter"
    if len(allowed_cores()) == 1 and torch.get_num_threads() == 1:
        return _ONE_CORE
    return ""


KIND = change.Kind(_change, _why_not)
