"""What tells a forward from one that may cost something else: its inputs, and how it runs.

A tree is made of one forward. Of a program that is not ours others may be of another length or
batch, of another mode, or a step after a prefill: what is known of the one is not true of them.

1. It is asked before every forward, on the thread that runs it: attributes are read and nothing is
   called, no operator runs and no device is waited for.
2. Nothing of the forward is kept alive by it.
3. Values of numbers and of tensors are not looked at: a time step is another in every forward.
"""

from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor, nn

from tui_profiler.probe.torch_compat.threads import without_torch_function

Kind: TypeAlias = tuple[object, ...]

MOST_PARTS = 32
"""What is told of one argument: a cache of a large model holds more, all of it alike."""
MOST_LEVELS = 5
"""Of what is inside of each other: a model's cache has layers, which have tensors."""


class FirstTensor(NamedTuple):
    """The first tensor that a forward is given."""

    shape: tuple[int, ...]
    is_ids: bool
    """Whether its values are of 32 or 64 bit integers, as ids of tokens are."""


_FIRST_ARGUMENT = 3
"""Items of a kind before those of its arguments."""
_OTHER_ARGUMENTS = "other arguments"
_PLAIN = frozenset({int, float, complex, str, bytes, torch.dtype, torch.device})


def kind_of(root: nn.Module, args: tuple[object, ...], kwargs: dict[str, object]) -> Kind:
    """Return what a call has in common with those that cost the same.

    Args:
        root: that is called.
        args: what it is given, as it is before the call: a cache grows in it.
        kwargs: likewise.
    """
    kind: list[object] = [root.training, torch.is_grad_enabled(), len(args)]
    try:
        with without_torch_function():
            for value in (*args, *kwargs.values()):
                parts: list[object] = []
                _tell(value, parts, MOST_LEVELS)
                kind += parts
    except Exception:  # A program's own classes, in the midst of the program: what they raise
        return (object(),)  # stays here, and such a forward is like no other.
    return (*kind, *kwargs)


def first_tensor(kind: Kind) -> FirstTensor | None:
    """Return what the first tensor of a forward of a kind is like; None where that is not known."""
    for place, part in enumerate(kind):
        if isinstance(part, torch.dtype):
            shape = kind[place + 1]
            is_ids = part in (torch.int64, torch.int32)
            return FirstTensor(tuple(shape), is_ids) if isinstance(shape, torch.Size) else None
    return None


def difference(kind: Kind, other: Kind) -> str:
    """Return in words how forwards of a kind differ from those of another one.

    Args:
        kind: to be named: ``inputs (3, 8)``, ``training mode``.
        other: that it is compared with.
    """
    if len(kind) < _FIRST_ARGUMENT or len(other) < _FIRST_ARGUMENT:
        return _OTHER_ARGUMENTS
    words = []
    first, first_other = first_tensor(kind), first_tensor(other)
    if first is not None and first != first_other:
        words.append(f"inputs {first.shape}")
    if kind[0] != other[0]:
        words.append("training mode" if kind[0] else "eval mode")
    if kind[1] != other[1]:
        words.append("with autograd" if kind[1] else "without autograd")
    return ", ".join(words) or _OTHER_ARGUMENTS


def _tell(value: object, parts: list[object], levels: int) -> None:
    """Add what tells a value from others; ``levels`` more may be inside of each other."""
    if len(parts) >= MOST_PARTS:
        return
    if isinstance(value, Tensor):
        # Of nested tensors there is no shape but one that must be reckoned out on the device.
        parts.append(value.dtype)
        parts.append(None if value.is_nested else value.shape)
    elif value is None or value is True or value is False:
        parts.append(value)
    elif type(value) in _PLAIN:
        parts.append(type(value).__name__)
    else:
        parts.append(type(value).__qualname__)
        if levels > 0:
            _tell_inside(value, parts, levels - 1)


def _tell_inside(value: object, parts: list[object], levels: int) -> None:
    if isinstance(value, tuple | list):
        parts.append(len(value))
        for item in value:
            if len(parts) >= MOST_PARTS:
                return
            _tell(item, parts, levels)
        return
    if not isinstance(value, nn.Module):
        # As they are kept, not as they give them out: the code of a class is not run.
        inside = value if isinstance(value, dict) else getattr(value, "__dict__", {})
        for name, item in dict.items(inside):
            if len(parts) >= MOST_PARTS:
                return
            parts.append(name if isinstance(name, str) else type(name).__name__)
            _tell(item, parts, levels)
