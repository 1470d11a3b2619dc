"""Tensors as they are shown: shape, type and size, with the names they were passed under."""

from collections.abc import Iterator, Sequence
from itertools import islice

import torch

from tui_profiler.messages import Tensor
from tui_profiler.probe.process.wire_names import writable
from tui_profiler.probe.torch_compat.internals import shape_of, stored_bytes

_MOST_SHOWN = 64
"""Tensors that one node shows at most; a model can pass thousands of states."""


def dtype_name(dtype: torch.dtype) -> str:
    """Return torch's name without prefix."""
    return str(dtype).removeprefix("torch.")


def described(value: object, name: str = "") -> tuple[Tensor, ...]:
    """Describe the tensors in a value, lists and dictionaries included."""
    return tuple(islice(_tensors(value, name), _MOST_SHOWN))


def described_by_name(names: Sequence[str], values: Sequence[object]) -> tuple[Tensor, ...]:
    """Describe the tensors of an operator's arguments."""
    pairs = zip(names, values, strict=False)
    every = (tensor for name, value in pairs for tensor in _tensors(value, name))
    return tuple(islice(every, _MOST_SHOWN))


def described_arguments(
    module: torch.nn.Module, args: tuple[object, ...], kwargs: dict[str, object]
) -> tuple[Tensor, ...]:
    """Describe what a module is called with, by the parameter names of its ``forward``."""
    code = getattr(module.forward, "__code__", None)
    names = list(code.co_varnames[1 : code.co_argcount]) if code is not None else []
    names += [""] * (len(args) - len(names))
    return described_by_name((*names[: len(args)], *kwargs), (*args, *kwargs.values()))


def _tensors(value: object, name: str) -> Iterator[Tensor]:
    """Walk without recursion, as values can be nested by a stranger's code."""
    pending = [(name, value)]
    while pending:
        label, item = pending.pop()
        if isinstance(item, torch.Tensor):
            yield _described(label, item)
        elif isinstance(item, list | tuple):
            pending.extend(reversed([(_dotted(label, i), part) for i, part in enumerate(item)]))
        elif isinstance(item, dict):
            pending.extend(reversed([(_dotted(label, key), part) for key, part in item.items()]))


def _described(name: str, tensor: torch.Tensor) -> Tensor:
    """Describe a tensor; equal ones share a description."""
    if tensor.is_nested or tensor.layout is not torch.strided:
        return _made(name, tensor)
    key = (name, tensor.shape, tensor.stride(), tensor.dtype, tensor.requires_grad)
    try:
        found = _shared.get(key)
    except TypeError:  # sizes that are not numbers yet
        return _made(name, tensor)
    if found is None:
        if len(_shared) >= _MOST_SHARED:
            _shared.clear()
        found = _shared[key] = _made(name, tensor)
    return found


_shared: dict[tuple[object, ...], Tensor] = {}
_MOST_SHARED = 4096


def _made(name: str, tensor: torch.Tensor) -> Tensor:
    return Tensor(
        shape=shape_of(tensor),
        dtype=dtype_name(tensor.dtype),
        bytes=stored_bytes(tensor),
        name=writable(name),
        layout=_layout(tensor),
        grad=tensor.requires_grad,
    )


def _layout(tensor: torch.Tensor) -> str:
    """Return ``channels last`` where the second axis lies innermost and that makes a difference."""
    if tensor.dim() not in (4, 5) or tensor.layout != torch.strided:
        return ""
    channels, inner = tensor.shape[1], tensor.shape[2:]
    is_last = tensor.stride(1) == 1 and tensor.stride(-1) == channels
    return "channels last" if is_last and channels > 1 and any(a > 1 for a in inner) else ""


def _dotted(name: str, key: object) -> str:
    """An item of a sequence without a name has none; a dictionary's key is one."""
    if isinstance(key, int):
        return f"{name}.{key}" if name else ""
    text = key if isinstance(key, str) else type(key).__name__
    return f"{name}.{text}" if name else text
