"""Several times as many items per call; the speed-up is per item.

The items of the batch are repeated, so that the outputs can be compared.
"""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import nn

from tui_profiler.probe.cost.call import tensors_in
from tui_profiler.probe.torch_compat.forward_inputs import Inputs, TensorMaker
from tui_profiler.probe.torch_compat.kv_cache import remade
from tui_profiler.probe.trace.batch_axis import resized
from tui_profiler.probe.trace.measured_peak import most_allocated
from tui_profiler.probe.trace.snapshot import Snapshot
from tui_profiler.probe.trials.kinds import change

_TIMES = (2, 4, 8, 16)
_LONGEST_SECONDS = 3.0
"""Longer calls are not tried."""
_LEAST_GAIN = 0.98
"""Of the time per item: a larger batch that saves less is not worth its memory."""


def _change(subject: change.Subject) -> change.Change:
    baseline = subject.baseline()
    snapshot = Snapshot(subject.module)
    before = baseline.least_seconds()
    room = _room(subject, baseline)
    chosen, best = None, before
    for times in _TIMES:
        if times > room or before * times > _LONGEST_SECONDS:
            break
        side = change.plain(subject.module, repeated(subject.inputs, times), items=times)
        snapshot.restore()
        seconds = side.least_seconds() / times
        if chosen is not None and seconds > best * _LEAST_GAIN:
            break
        chosen, best = side, min(seconds, best)
    snapshot.restore()
    if chosen is None:
        why = "twice the batch needs more memory than the limit"
        if room >= _TIMES[0]:
            why = f"one call already takes {before:.1f} s"
        raise change.ImpossibleError(why)
    batch = subject.inputs.batch or 1
    return change.Change(
        baseline, chosen, f"{batch * chosen.items} items per call instead of {batch}"
    )


def repeated(inputs: Inputs, times: int) -> Inputs:
    """Return inputs with every tensor repeated along the batch axis.

    That is the one that was found; where the library of the model knows it, the first axis of all
    tensors that are as long there as the batch.

    Raises:
        ImpossibleError: no tensor has it there.
    """
    batch = inputs.batch or 1
    if inputs.batch_axes is not None:
        return resized(inputs, batch * times)
    found = False

    def more(tensor: torch.Tensor) -> torch.Tensor:
        nonlocal found
        found = found or _has_items(tensor, batch)
        return _repeated(tensor, batch, times)

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
        raise change.ImpossibleError("no input has the batch as its first axis")
    renewed = _renewed(inputs, times)
    return replace(inputs, args=args, kwargs=kwargs, batch=batch * times, renewed=renewed)


def _has_items(tensor: torch.Tensor, batch: int) -> bool:
    return tensor.dim() > 0 and tensor.shape[0] == batch


def _repeated(tensor: torch.Tensor, batch: int, times: int) -> torch.Tensor:
    if not _has_items(tensor, batch):
        return tensor
    return tensor.repeat(times, *(1 for _ in tensor.shape[1:]))


def _is_a_list_of_items(value: object, batch: int) -> bool:
    """Return whether a value is a list with one image per item, as detectors take them."""
    return (
        isinstance(value, list)
        and len(value) == batch
        and all(isinstance(part, torch.Tensor) and part.dim() == 3 for part in value)
    )


def _renewed(inputs: Inputs, times: int) -> Callable[[TensorMaker], dict[str, object]] | None:
    renewed, batch = inputs.renewed, inputs.batch or 1
    if renewed is None:
        return None

    def more(make: TensorMaker) -> dict[str, object]:
        return renewed(lambda like: _repeated(make(like), batch, times))

    return more


def _room(subject: change.Subject, baseline: change.Side) -> float:
    """Return how many times the batch fits into the memory limit."""
    if subject.most_bytes is None:
        return float("inf")
    given = baseline.prepare() if baseline.prepare else None
    once = most_allocated(lambda: baseline.call(given), subject.device)
    inputs = sum(tensor.nbytes for tensor in tensors_in(subject.inputs.args))
    return 0.5 * subject.most_bytes / max(once + inputs, 1)


def _why_not(module: nn.Module, inputs: Inputs) -> str:
    why = f": {inputs.why_no_batch}" if inputs.why_no_batch else ""
    return "" if inputs.batch else f"its inputs have no batch axis{why}"


KIND = change.Kind(_change, _why_not)
