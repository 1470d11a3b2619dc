"""What a language model keeps of the tokens before: found in an output, and made anew.

A cache is any object that holds tensors, at any depth: Hugging Face's ``DynamicCache`` with its
layers, a list of pairs. A forward changes it, so that each call needs one of its own.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from tui_profiler.probe.torch_compat.forward_inputs import TensorMaker
from tui_profiler.probe.torch_compat.forward_tokens import CACHES

ENCODED = "encoder_last_hidden_state"
"""Under which a forward returns what its encoder made."""


@dataclass(frozen=True)
class ReturnedCache:
    """The cache that one forward gave back."""

    name: str
    """Under which the next forward takes it."""
    template: object
    """The same cache with tensors that take no memory, to make others from."""
    bytes: int
    """Of all its tensors."""
    encoded: torch.Tensor | None = None
    """What an encoder made of the input, of a model that has one, without memory: the next forward
    takes it too."""


def kept_in(output: object) -> ReturnedCache | None:
    """Find the cache in what ``forward`` returned; None where it gave none that holds tensors."""
    if not isinstance(output, Mapping):
        return None
    for name in CACHES:
        cache = output.get(name)
        if cache is not None and (size_bytes := bytes_of(cache)):
            encoded = output.get(ENCODED)
            return ReturnedCache(
                name,
                template(cache),
                size_bytes,
                _without_memory(encoded) if isinstance(encoded, torch.Tensor) else None,
            )
    return None


def tensors_of(cache: object) -> list[torch.Tensor]:
    """Return every tensor that a cache holds, each once."""
    found: dict[int, torch.Tensor] = {}

    def taken(tensor: torch.Tensor) -> torch.Tensor:
        found[id(tensor)] = tensor
        return tensor

    remade(cache, taken)
    return list(found.values())


def bytes_of(cache: object) -> int:
    """Return the bytes of all tensors that a cache holds."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors_of(cache))


def remade(value: object, make: TensorMaker) -> object:
    """Return copy with ``make(tensor)`` in the place of every tensor; what holds none is shared."""
    return _remade(value, make, {})


def template(cache: object) -> object:
    """Return the same with tensors that take no memory, to make others from."""
    return remade(cache, _without_memory)


def _without_memory(tensor: torch.Tensor) -> torch.Tensor:
    one = torch.zeros((), dtype=tensor.dtype, device=tensor.device)
    return one.expand(tuple(tensor.shape))


def _remade(value: object, make: TensorMaker, known: dict[int, object]) -> object:
    if id(value) in known:
        return known[id(value)]
    if isinstance(value, torch.Tensor):
        known[id(value)] = made = make(value)
        return made
    if isinstance(value, (list, tuple)):
        parts = [_remade(part, make, known) for part in value]
        if all(part is old for part, old in zip(parts, value, strict=True)):
            return value
        return parts if isinstance(value, list) else tuple(parts)
    if isinstance(value, dict):
        inside = {key: _remade(part, make, known) for key, part in value.items()}
        if all(inside[key] is value[key] for key in value):
            return value
        if type(value) is dict:
            return inside
        same = copy.copy(value)  # An output of transformers' has attributes as well.
        for key, part in inside.items():
            same[key] = part
        return same
    attributes = getattr(value, "__dict__", None)
    if not isinstance(attributes, dict) or isinstance(value, type):
        return value
    known[id(value)] = value  # An object that holds itself ends here.
    changed = {
        name: part
        for name, old in attributes.items()
        if (part := _remade(old, make, known)) is not old
    }
    if not changed:
        return value
    copied = copy.copy(value)
    vars(copied).update(changed)
    known[id(value)] = copied
    return copied
