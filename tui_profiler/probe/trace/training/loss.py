"""The loss of a training step, made from what the model returns in training mode.

| output | loss |
|---|---|
| has a ``loss``, as Hugging Face's models have where they are given labels | the model's own |
| a dictionary of numbers, as torchvision's detectors give where given targets | their sum |
| anything else with floating-point tensors | the sum of the mean squares of each |
"""

from collections.abc import Mapping
from typing import NamedTuple

import torch

from tui_profiler.probe.cost.call import tensors_in

OWN = "the model's own loss"
SUMMED = "the sum of the losses that the model returns"
SQUARES = "mean of squares of the outputs"


class NoLossError(Exception):
    """Nothing that a model returns can be trained on."""


class Loss(NamedTuple):
    """A loss, and what it is."""

    value: torch.Tensor
    kind: str


def loss_of(output: object) -> Loss:
    """Return the loss of what a model gave.

    Raises:
        NoLossError: no floating-point output has a gradient.
    """
    own = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
    if isinstance(own, torch.Tensor) and own.requires_grad:
        return Loss(own if own.dim() == 0 else own.sum(), OWN)
    if isinstance(output, Mapping) and output:
        parts = [one for one in output.values() if _is_number(one)]
        if len(parts) == len(output):
            return Loss(torch.stack([one.reshape(()) for one in parts]).sum(), SUMMED)
    found = {id(one): one for one in tensors_in(_plain(output)) if one.requires_grad}
    if not found:
        raise NoLossError("no floating-point output has a gradient")
    squares = [_mean_of_squares(one) for one in found.values()]
    return Loss(squares[0] if len(squares) == 1 else torch.stack(squares).sum(), SQUARES)


def _is_number(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.numel() == 1 and value.requires_grad


def _plain(output: object) -> object:
    """Return the values of a data class in place of it: models give their outputs as such too."""
    fields = getattr(type(output), "__dataclass_fields__", None)
    if fields is None or isinstance(output, Mapping):
        return output
    return [getattr(output, name, None) for name in fields]


def _mean_of_squares(tensor: torch.Tensor) -> torch.Tensor:
    real = tensor.abs() if tensor.is_complex() else tensor
    return real.float().square().mean()
