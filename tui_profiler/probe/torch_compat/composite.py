"""Operators that torch makes of others, run as those others.

Under ``torch.inference_mode`` a dispatch mode is called with ``aten::dropout``, ``aten::linear`` or
``aten::batch_norm`` as a whole; with autograd, or under ``no_grad``, with what they are made of.
Costs, writes and lifetimes are known of the latter only: a schema of ``aten::batch_norm`` does not
say that it writes the running mean, and ``aten::dropout`` in eval mode returns its input.

1. The kernel that runs is the one that would run without us: torch's composite kernel in C++, never
   its Python decomposition. It dispatches as outside of a mode: torch excludes all keys above a
   mode's while it calls one, and without those of views, conjugation and autocast the kernel takes
   other paths. So outputs stay bit-identical.
2. An operator stays whole where its device has a kernel for it, or an argument is no plain dense
   tensor: those have kernels of their own.

| private name of torch | what for | when it is gone |
|---|---|---|
| ``torch._C._dispatch_has_kernel_for_dispatch_key`` | which kernels an operator has | operators \
under ``inference_mode`` stay whole |
| ``torch._C._dispatch_key_for_device`` | the key of a device | the same |
| ``OpOverload._op_dk`` | running the composite kernel | the same |
| ``torch._C._RestorePythonTLSSnapshot``, ``_ExcludeDispatchKeyGuard`` | dispatching in it as \
without a mode | the same |
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import lru_cache

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from tui_profiler.probe.torch_compat.internals import FakeTensor, Operator, OpOverload
from tui_profiler.probe.torch_compat.threads import pop_mode, push_mode

_COMPOSITE = "CompositeImplicitAutograd"

_RESTORED: Callable[[], AbstractContextManager[object]] | None = getattr(
    torch._C, "_RestorePythonTLSSnapshot", None
)


def is_composite(
    operator: Operator,
    types: Sequence[type],
    args: Sequence[object],
    kwargs: Mapping[str, object],
) -> bool:
    """Return whether a call runs as other operators, which a dispatch mode can be called with.

    Args:
        operator: that the mode was called with.
        types: classes of the arguments that have a dispatch of their own, as the mode is given.
        args: of the call.
        kwargs: of the call.
    """
    if not torch.is_inference_mode_enabled() or not _has_composite_kernel(operator):
        return False
    if any(not issubclass(one, FakeTensor) for one in types):
        return False
    device = "cpu"
    for tensor in _tensors((*args, *kwargs.values())):
        if tensor.layout is not torch.strided or tensor.is_nested or tensor.is_quantized:
            return False
        device = tensor.device.type
    return not _has_kernel_for(operator, device)


def run_parts(
    mode: TorchDispatchMode,
    operator: Operator,
    args: Sequence[object],
    kwargs: Mapping[str, object],
) -> object:
    """Return what a composite operator returns; ``mode`` is called with each of its parts."""
    assert isinstance(operator, OpOverload)
    assert _RESTORED is not None
    first = next(_tensors((*args, *kwargs.values())), None)
    with ExitStack() as around:
        try:
            around.enter_context(_RESTORED())
        except RuntimeError:  # Torch has not kept how it dispatched before: the operator is whole.
            return operator(*args, **kwargs)
        _exclude_autocast(around, operator, "cpu" if first is None else first.device.type)
        push_mode(mode)
        around.callback(pop_mode)
        return operator._op_dk(_key(_COMPOSITE), *args, **kwargs)


def _exclude_autocast(around: ExitStack, operator: OpOverload, device: str) -> None:
    """Turn autocast off where it has an entry for the operator, whose arguments it has cast."""
    autocast = f"Autocast{torch._C._dispatch_key_for_device(device)}"
    if _has_kernel(operator, autocast):
        keys = torch._C.DispatchKeySet(_key(autocast))
        around.enter_context(torch._C._ExcludeDispatchKeyGuard(keys))


def _has_composite_kernel(operator: Operator) -> bool:
    return _RESTORED is not None and _has_kernel(operator, _COMPOSITE)


def _has_kernel_for(operator: Operator, device: str) -> bool:
    key_of = getattr(torch._C, "_dispatch_key_for_device", None)
    return key_of is None or _has_kernel(operator, key_of(device))


def _key(name: str) -> torch._C.DispatchKey:
    key: torch._C.DispatchKey = getattr(torch._C.DispatchKey, name)
    return key


@lru_cache(maxsize=4096)
def _has_kernel(operator: Operator, key: str) -> bool:
    has_kernel = getattr(torch._C, "_dispatch_has_kernel_for_dispatch_key", None)
    if has_kernel is None or not isinstance(operator, OpOverload):
        return False
    try:
        return bool(has_kernel(_full_name(operator), key))
    except RuntimeError:  # Of TorchScript alone, such as ``prim::device``: it is not dispatched.
        return False


def _full_name(operator: OpOverload) -> str:
    schema = operator._schema
    return f"{schema.name}.{schema.overload_name}" if schema.overload_name else str(schema.name)


def _tensors(values: Sequence[object]) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)
