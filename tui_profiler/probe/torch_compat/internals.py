"""Every private name of torch that tracing and costing use, and what happens when it is gone.

Tried on torch 2.15. A name that has moved is an ``ImportError`` or ``AttributeError`` that names it
here, at the border where the probe is started; only this file must then be changed.

| name | what for | when it is gone |
|---|---|---|
| ``torch._ops.OpOverload`` | the operator that a dispatch mode is called with | no trace |
| ``torch._ops.HigherOrderOperator`` | operators that take functions (``cond``, flex attention) | \
no trace |
| ``OpOverload._schema`` | argument names, defaults, which arguments are written | no trace |
| ``torch.utils._python_dispatch.TorchDispatchMode`` | seeing every operator | no trace |
| ``torch._subclasses.fake_tensor`` | running without memory or time | only the real run is left |
| ``FakeTensor(mode, elem, device)`` | taking a tensor on meta for one that is on the CPU | models \
on meta have no trace |
| ``Tensor._make_subclass``, ``torch._C._set_throw_on_mutable_data_ptr``, \
``_set_warn_deprecated_on_mutable_data_ptr``, ``FakeTensorMode._allow_unsafe_data_ptr_access`` | \
making fake tensors sooner | only the real run is left |
| ``torch._subclasses.fake_tensor.in_kernel_invocation_manager`` | shapes of common operators \
without torch's Python around them | only the real run is left |
| ``UntypedStorage._cdata`` | telling storages apart | no trace |
| ``torch._C._ForceDispatchKeyGuard`` | recording what operators that take functions run | those \
models fail |
| ``Module._modules``, ``._parameters``, ``._buffers`` | walking without recursion; aliases that \
``named_children()`` hides | no tree |
| ``Module.__call__`` | is assigned, to keep the stack of modules | operators hang under the root |
| ``Tensor._nested_tensor_size`` | shapes of nested tensors | models that use them fail |
| ``TorchDispatchMode.ignore_compile_internals`` | running what calls ``torch.compile`` itself, as \
flex attention does | those models fail |
| ``torch._C._dynamo.eval_frame._debug_get_cache_entry_list`` | whether Dynamo holds something \
compiled for a code object | what passes through the clock costs 1 % instead of nothing |
| ``torch.utils._pytree.tree_map``, ``tree_map_only`` | making arguments fake | only the real \
run is left |
| ``torch._dynamo.utils.counters["frames"]["total"]`` | frames that were compiled so far | a slow \
forward is never said to have compiled anything |
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from types import CodeType
from typing import Any, NamedTuple, TypeAlias, TypeVar

import torch
from torch._ops import HigherOrderOperator, OpOverload
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    in_kernel_invocation_manager,
)
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_map_only, tree_unflatten

__all__ = [
    "DATA_DEPENDENT",
    "DispatchKeys",
    "FakeTensor",
    "FakeTensorMode",
    "HigherOrderOperator",
    "OpOverload",
    "Operator",
    "TorchDispatchMode",
    "buffers_of",
    "children_of",
    "convolution_backend",
    "decomposition",
    "dispatch_keys",
    "fake_inputs",
    "fake_like",
    "fake_made",
    "fake_on_cpu",
    "frames_compiled",
    "is_compiled",
    "on_meta",
    "parameters_of",
    "passing",
    "shape_of",
    "storage_key",
    "tree_flatten",
    "tree_leaves",
    "tree_map",
    "tree_map_only",
    "tree_unflatten",
    "without_address",
]

Operator: TypeAlias = OpOverload | HigherOrderOperator
"""What a dispatch mode is called with."""

_T = TypeVar("_T")

DATA_DEPENDENT = (DataDependentOutputException, DynamicOutputShapeException)
"""What a fake run raises where a shape or a number depends on the values."""


def storage_key(tensor: torch.Tensor) -> int | None:
    """Tell one storage from another while both live; None where a tensor has none (sparse)."""
    try:
        return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):
        return None


def shape_of(tensor: torch.Tensor) -> tuple[int, ...]:
    """Return every axis; of a nested tensor, the box that all its parts fit into."""
    if not tensor.is_nested:
        return tuple(tensor.shape)
    if tensor.layout is torch.jagged:
        lengths: torch.Tensor = tensor.offsets().diff()  # type: ignore[attr-defined] # only jagged
        longest = int(lengths.max())
        return tuple(size if isinstance(size, int) else longest for size in tensor.shape)
    sizes: list[int] = tensor._nested_tensor_size().max(dim=0).values.tolist()
    return (tensor.size(0), *sizes)


def children_of(module: torch.nn.Module) -> Mapping[str, torch.nn.Module | None]:
    """Return the registered submodules of one module, aliases included."""
    return _mapping(module._modules)


def parameters_of(module: torch.nn.Module) -> Mapping[str, torch.nn.Parameter | None]:
    """Return the parameters that one module owns itself."""
    return _mapping(module._parameters)


def buffers_of(module: torch.nn.Module) -> Mapping[str, torch.Tensor | None]:
    """Return the buffers that one module owns itself."""
    return _mapping(module._buffers)


def _mapping(held: Mapping[str, _T]) -> Mapping[str, _T]:
    """Return a dictionary in place of what a scripted module has, which knows only ``items``."""
    return held if isinstance(held, dict) else dict(held.items())


def fake_inputs(value: _T) -> tuple[FakeTensorMode, _T]:
    """Return a copy of ``value`` with every tensor replaced by a fake one of the same shape.

    The mode is not entered: an operator without a fake tensor among its arguments really runs, so
    that anchors, strides and position tables have values.
    """
    mode = FakeTensorMode(allow_non_fake_inputs=True)

    def made(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.device.type == "meta":
            return fake_on_cpu(mode, tensor)
        fake: torch.Tensor = mode.from_tensor(tensor, static_shapes=True)
        return fake

    return mode, tree_map_only(torch.Tensor, made, value)


def fake_like(mode: FakeTensorMode, tensor: torch.Tensor) -> torch.Tensor:
    """Return a fake tensor of its own, of the shape, dtype and device of another one."""
    with mode:
        return torch.empty(tuple(tensor.shape), dtype=tensor.dtype, device=tensor.device)


def fake_on_cpu(mode: FakeTensorMode, tensor: torch.Tensor) -> torch.Tensor:
    """Return a fake tensor on the CPU in the storage of one on meta; a parameter stays one."""
    fake = fake_made(mode, tensor.detach(), _CPU)
    if isinstance(tensor, torch.nn.Parameter):
        # What ``torch.nn.Parameter`` does, without a view in between.
        fake.requires_grad_(tensor.requires_grad)
        fake._is_param = True
    return fake


_CPU = torch.device("cpu")


class DispatchKeys(NamedTuple):
    """Which layers of the dispatcher an operator passes in this thread."""

    included: torch._C.DispatchKeySet
    excluded: torch._C.DispatchKeySet


def dispatch_keys() -> DispatchKeys:
    """Return the present ones."""
    return DispatchKeys(
        torch._C._dispatch_tls_local_include_set(), torch._C._dispatch_tls_local_exclude_set()
    )


def passing(keys: DispatchKeys) -> AbstractContextManager[object]:
    """Let operators pass these layers while the block runs.

    Inside of a dispatch mode the layers above it are shut: ``aten::linear`` would come whole, and
    not as the product that it is.
    """
    guard: AbstractContextManager[object] = torch._C._ForceDispatchKeyGuard(*keys)
    return guard


def on_meta(
    operator: Operator,
    mode: FakeTensorMode,
    device: torch.device,
    args: tuple[object, ...],
    kwargs: dict[str, object],
) -> torch.Tensor:
    """Run an operator's function for meta on fake tensors; gives one that says it is on ``device``.

    What an operator writes into is given back as it is.
    """
    with in_kernel_invocation_manager(mode):
        made: torch.Tensor = operator(*args, **kwargs)
    return made if isinstance(made, FakeTensor) else fake_made(mode, made, device)


def fake_made(mode: FakeTensorMode, tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Return a tensor on meta as a fake one that says it is on ``device``.

    What ``FakeTensor(mode, tensor, device)`` does, in a fifth of its 8 µs: its attributes are those
    of the first one on this device, but for the mode.
    """
    attributes = _attributes.get(device)
    if attributes is None:
        fake = FakeTensor(mode, tensor, device)
        _attributes[device] = {k: v for k, v in vars(fake).items() if k != "fake_mode"}
        return fake
    made: torch.Tensor = torch.Tensor._make_subclass(
        FakeTensor,
        tensor,
        tensor.requires_grad,
        dispatch_device=True,
        device_for_backend_keys=device,
    )
    if mode._allow_unsafe_data_ptr_access:
        torch._C._set_warn_deprecated_on_mutable_data_ptr(made)
    else:
        torch._C._set_throw_on_mutable_data_ptr(made)
    vars(made).update(attributes, fake_mode=mode)
    return made


_attributes: dict[torch.device, dict[str, object]] = {}
"""Of fake tensors that stand for no known number."""


_compiled_of: Callable[[CodeType], list[Any]] | None = getattr(
    getattr(getattr(torch._C, "_dynamo", None), "eval_frame", None),
    "_debug_get_cache_entry_list",
    None,
)


def is_compiled(code: CodeType) -> bool:
    """Say whether ``torch.compile`` holds something that it made of this code; yes if unknown."""
    return _compiled_of is None or bool(_compiled_of(code))


_select_conv_backend: Callable[..., Any] | None = getattr(torch._C, "_select_conv_backend", None)


def convolution_backend(args: tuple[object, ...]) -> str:
    """Name the kernel that ``aten::convolution`` would run in; empty where it is not known.

    Args:
        args: of the operator, nine of them: input, weight, bias, stride, padding, dilation,
            transposed, output padding, groups.
    """
    if _select_conv_backend is None or len(args) != 9:
        return ""
    name = str(_select_conv_backend(*args, None)).rpartition(".")[2]
    # Of the enumeration one kernel has no name in Python.
    return "MkldnnTranspose" if name == "???" else name


def decomposition(operator: OpOverload) -> Callable[..., Any] | None:
    """Return what runs an operator as other operators; None where it has a kernel of its own."""
    found: Callable[..., Any] | None = torch._decomp.decomposition_table.get(operator)
    if found is not None:
        return found
    full_name = operator._schema.name + ("." if operator._schema.overload_name else "")
    full_name += operator._schema.overload_name
    for name in ("CompositeImplicitAutograd", "CompositeExplicitAutograd"):
        key = getattr(torch._C.DispatchKey, name)
        if torch._C._dispatch_has_kernel_for_dispatch_key(full_name, key):
            return lambda *args, **kwargs: operator._op_dk(key, *args, **kwargs)
    return None


def without_address(tensor: torch.Tensor) -> torch.Tensor:
    """Make a fake tensor raise where it is asked for its memory, and give it back.

    Its address is 0 otherwise: code in C would bring the process down.
    """
    torch._C._set_throw_on_mutable_data_ptr(tensor)
    return tensor


def frames_compiled() -> int:
    """Return how many frames Dynamo compiled so far; 0 where nobody has imported it."""
    counters = getattr(sys.modules.get("torch._dynamo.utils"), "counters", None)
    frames = counters.get("frames") if counters is not None else None
    return frames.get("total", 0) if frames else 0
