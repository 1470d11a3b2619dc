"""Several times as many items in one call; the speed-up is that of an item.

The items are those of the batch as it is, repeated, so that the outputs can be compared.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import nn

from tui_profiler.probe.cost.call import tensors_in
from tui_profiler.probe.torch_compat.forward_inputs import Inputs, TensorMaker
from tui_profiler.probe.torch_compat.kv_cache import remade
from tui_profiler.probe.trace.measured_peak import most_allocated
from tui_profiler.probe.trace.snapshot import Snapshot
from tui_profiler.probe.trials.kinds.subject import (
    Change,
    ImpossibleError,
    Kind,
    Side,
    Subject,
    as_it_is,
    plain,
)

_TIMES = (2, 4, 8, 16)
_LONGEST_SECONDS = 3.0
"""A call that would take longer is not tried."""
_LEAST_GAIN = 0.98
"""Of the time of an item: a larger batch that saves less is not worth its memory."""


def _change(subject: Subject) -> Change:
    baseline = as_it_is(subject)
    snapshot = Snapshot(subject.module)
    before = _seconds(baseline)
    room = _room(subject, baseline)
    chosen, best = None, before
    for times in _TIMES:
        if times > room or before * times > _LONGEST_SECONDS:
            break
        side = plain(subject.module, repeated(subject.inputs, times), items=times)
        snapshot.restore()
        seconds = _seconds(side) / times
        if chosen is not None and seconds > best * _LEAST_GAIN:
            break
        chosen, best = side, min(seconds, best)
    snapshot.restore()
    if chosen is None:
        why = "twice the batch would take more memory than allowed"
        if room >= _TIMES[0]:
            why = f"a call takes {before:.1f} s already"
        raise ImpossibleError(why)
    batch = subject.inputs.batch or 1
    return Change(baseline, chosen, f"{batch * chosen.items} items per call instead of {batch}")


def repeated(inputs: Inputs, times: int) -> Inputs:
    """Return inputs with every tensor that has the batch as its first axis repeated.

    Raises:
        ImpossibleError: no tensor has it there.
    """
    batch = inputs.batch or 1
    found = False

    def more(tensor: torch.Tensor) -> torch.Tensor:
        nonlocal found
        if not tensor.dim() or tensor.shape[0] != batch:
            return tensor
        found = True
        return tensor.repeat(times, *(1 for _ in tensor.shape[1:]))

    def larger(value: object) -> object:
        nonlocal found
        if _is_a_list_of_items(value, batch):
            assert isinstance(value, list)
            found = True
            return value * times
        return remade(value, more)

    args = tuple(larger(value) for value in inputs.args)
    kwargs = {name: larger(value) for name, value in inputs.kwargs.items()}
    if not found:
        raise ImpossibleError("no input has the batch as its first axis")
    renewed = _renewed(inputs, times)
    return replace(inputs, args=args, kwargs=kwargs, batch=batch * times, renewed=renewed)


def _is_a_list_of_items(value: object, batch: int) -> bool:
    """Tell a list with one image for each item, as detectors take them."""
    return (
        isinstance(value, list)
        and len(value) == batch
        and all(isinstance(part, torch.Tensor) and part.dim() == 3 for part in value)
    )


def _renewed(inputs: Inputs, times: int) -> Callable[[TensorMaker], dict[str, object]] | None:
    renewed, batch = inputs.renewed, inputs.batch
    if renewed is None:
        return None

    def more(make: TensorMaker) -> dict[str, object]:
        def larger(like: torch.Tensor) -> torch.Tensor:
            tensor = make(like)
            if not tensor.dim() or tensor.shape[0] != batch:
                return tensor
            return tensor.repeat(times, *(1 for _ in tensor.shape[1:]))

        return renewed(larger)

    return more


def _room(subject: Subject, baseline: Side) -> float:
    """Say how many times the batch fits into the memory that is allowed."""
    if subject.most_bytes is None:
        return float("inf")
    given = baseline.prepare() if baseline.prepare else None
    once = most_allocated(lambda: baseline.call(given), subject.device)
    return 0.5 * subject.most_bytes / max(once + _input_bytes(tensors_in(subject.inputs.args)), 1)


def _input_bytes(tensors: Sequence[torch.Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _seconds(side: Side) -> float:
    """Return the least seconds of a call, of two to five."""
    best, began = float("inf"), time.perf_counter()
    for call in range(5):
        given = side.prepare() if side.prepare else None
        at = time.perf_counter()
        made = side.call(given)
        _wait(made)
        best = min(best, time.perf_counter() - at)
        if call and time.perf_counter() - began > 0.3:
            break
    return best


def _wait(made: object) -> None:
    if torch.cuda.is_available() and torch.cuda.is_initialized():  # type: ignore[no-untyped-call] # torch has no types here
        torch.cuda.synchronize()


def _why_not(module: nn.Module, inputs: Inputs) -> str:
    return "" if inputs.batch else "its inputs have no batch axis"


KIND = Kind(_change, _why_not)
