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
| ``Tensor._cdata``, ``UntypedStorage._cdata`` | telling tensors and storages apart | no edges, no \
weights among the inputs |
| ``Module._modules``, ``._parameters``, ``._buffers`` | walking without recursion; aliases that \
``named_children()`` hides | no tree |
| ``Module.__call__`` | is assigned, to keep the stack of modules | operators hang under the root |
| ``Tensor._nested_tensor_size`` | shapes of nested tensors | models that use them fail |
| ``TorchDispatchMode.ignore_compile_internals`` | running what calls ``torch.compile`` itself, as \
flex attention does | those models fail |
| ``torch.utils._pytree.tree_map_only`` | making inputs fake | only the real run is left |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias, TypeVar

import torch
from torch._ops import HigherOrderOperator, OpOverload
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
)
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

__all__ = [
    "DATA_DEPENDENT",
    "FakeTensor",
    "FakeTensorMode",
    "HigherOrderOperator",
    "OpOverload",
    "Operator",
    "TorchDispatchMode",
    "buffers_of",
    "children_of",
    "fake_inputs",
    "parameters_of",
    "shape_of",
    "storage_key",
    "tensor_key",
]

Operator: TypeAlias = OpOverload | HigherOrderOperator
"""What a dispatch mode is called with."""

_T = TypeVar("_T")

DATA_DEPENDENT = (DataDependentOutputException, DynamicOutputShapeException)
"""What a fake run raises where a shape or a number depends on the values."""


def tensor_key(tensor: torch.Tensor) -> int:
    """Tell one tensor from another while both live: the address of its implementation."""
    return tensor._cdata


def storage_key(tensor: torch.Tensor) -> int | None:
    """Tell one storage from another while both live; None where a tensor has none (sparse)."""
    try:
        return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):
        return None


def shape_of(tensor: torch.Tensor) -> tuple[int, ...]:
    """Give every axis; of a nested tensor, the box that all its parts fit into."""
    if not tensor.is_nested:
        return tuple(tensor.shape)
    if tensor.layout is torch.jagged:
        lengths: torch.Tensor = tensor.offsets().diff()  # type: ignore[attr-defined] # only jagged
        longest = int(lengths.max())
        return tuple(size if isinstance(size, int) else longest for size in tensor.shape)
    sizes: list[int] = tensor._nested_tensor_size().max(dim=0).values.tolist()
    return (tensor.size(0), *sizes)


def children_of(module: torch.nn.Module) -> Mapping[str, torch.nn.Module | None]:
    """Give the registered submodules of one module, aliases included."""
    return module._modules


def parameters_of(module: torch.nn.Module) -> Mapping[str, torch.nn.Parameter | None]:
    """Give the parameters that one module owns itself."""
    return module._parameters


def buffers_of(module: torch.nn.Module) -> Mapping[str, torch.Tensor | None]:
    """Give the buffers that one module owns itself."""
    return module._buffers


def fake_inputs(value: _T) -> tuple[FakeTensorMode, _T]:
    """Give a copy of ``value`` with every tensor replaced by a fake one of the same shape.

    The mode is not entered: an operator without a fake tensor among its arguments really runs, so
    that anchors, strides and position tables have values.
    """
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    make: Callable[[torch.Tensor], torch.Tensor] = lambda tensor: mode.from_tensor(  # noqa: E731
        tensor, static_shapes=True
    )
    return mode, tree_map_only(torch.Tensor, make, value)
