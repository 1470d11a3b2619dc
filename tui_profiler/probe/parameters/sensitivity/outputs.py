"""What a model gives for the same inputs, again and again, as if nothing had run before."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import nn

from tui_profiler.messages import Unknown
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.torch_compat.kv_cache import NAMES, remade, tensors_of
from tui_profiler.probe.trace.snapshot import Snapshot

_CHUNK = 1 << 20
"""Values compared at once, in float64."""
MOST_BUFFER_BYTES = 1 << 30
"""Of buffers, that are copied so that each forward finds them as the first one did."""


class Distance(NamedTuple):
    """How far one output is from another."""

    relative: float
    """‖y′ − y‖₂ / ‖y‖₂."""
    largest: float
    """Largest |y′ − y|."""


class Outputs:
    """Runs a model from the same state, with copies of the same inputs.

    Args:
        model: its state is put back before each forward, and by ``restore``.
        inputs: what it is given.
    """

    def __init__(self, model: nn.Module, inputs: Inputs) -> None:
        self._model = model
        self._inputs = inputs
        self._snapshot = Snapshot(model)
        buffers = [buffer for buffer in model.buffers() if buffer is not None]
        if sum(buffer.numel() * buffer.element_size() for buffer in buffers) <= MOST_BUFFER_BYTES:
            self._snapshot.before_write(buffers)

    def restore(self) -> None:
        """Make the model what it was, and the random generators."""
        self._snapshot.restore()

    def run(self) -> list[torch.Tensor]:
        """Return the tensors of numbers that one forward gives, in order.

        What it keeps for the next forward is not among them.
        """
        self._snapshot.restore()
        copies = remade((self._inputs.args, self._inputs.keywords()), torch.clone)
        assert isinstance(copies, tuple)
        arguments, keywords = copies
        found = self._model(*arguments, **keywords)
        if isinstance(found, Mapping):
            found = {name: value for name, value in found.items() if name not in NAMES}
        return [tensor for tensor in tensors_of(found) if _is_of_numbers(tensor)]


def distance(
    reference: Sequence[torch.Tensor], found: Sequence[torch.Tensor]
) -> Distance | Unknown:
    """Compare two outputs, all their tensors together, in float64."""
    if [one.shape for one in reference] != [one.shape for one in found]:
        return Unknown("the output has a different shape with the change")
    squares, squared_errors, largest = 0.0, 0.0, 0.0
    for one, other in zip(reference, found, strict=True):
        for before, after in zip(_parts(one), _parts(other), strict=True):
            exact = before.double()
            error = after.double() - exact
            squares += float(exact.square().sum())
            squared_errors += float(error.square().sum())
            largest = max(largest, float(error.abs().max()))
    if not math.isfinite(squares) or not math.isfinite(squared_errors):
        return Unknown("the output holds NaN or infinite values")
    if not squares:
        return Unknown("the output is all zeros")
    return Distance(math.sqrt(squared_errors / squares), largest)


def largest_of(outputs: Sequence[torch.Tensor]) -> float:
    """Return the largest magnitude."""
    return max(float(_flat(one).abs().max()) for one in outputs)


def norm_of(outputs: Sequence[torch.Tensor]) -> float:
    """Return the L2 norm of all tensors together."""
    squares = 0.0
    for one in outputs:
        for part in _parts(one):
            squares += float(part.double().square().sum())
    return math.sqrt(squares)


def _parts(tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return torch.split(_flat(tensor), _CHUNK)


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    flat = tensor.detach()
    return (torch.view_as_real(flat) if flat.is_complex() else flat).reshape(-1)


def _is_of_numbers(tensor: torch.Tensor) -> bool:
    is_plain = tensor.layout is torch.strided and not tensor.is_nested and tensor.numel() > 0
    return is_plain and (tensor.is_floating_point() or tensor.is_complex())
