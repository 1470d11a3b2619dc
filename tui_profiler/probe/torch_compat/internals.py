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
| ``torch.utils._python_dispatch.is_traceable_wrapper_subclass``, ``Tensor.__tensor_flatten__`` | \
what is stored in a tensor that wraps others | no trace |
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
| ``torch._dynamo.config``, ``.source``, ``disable`` | tracing without Dynamo, whose import takes \
0.8 s: ``dynamo_later`` | it is imported |
| ``torch._dynamo.utils.counters["frames"]["total"]`` | frames that were compiled so far | a slow \
forward is never said to have compiled anything |
| ``torch.autograd._get_sequence_nr``, ``Node._sequence_nr``, ``Node._register_hook_dict``, \
``Tensor._backward_hooks`` | which nodes of autograd's graph a call made, and when the backward \
comes to them | modules have no backward of their own |
| ``torch._dynamo.compiled_autograd.compiled_autograd_enabled``, ``.in_compiled_autograd_region`` \
| taking marks off before a backward is compiled | they are compiled with it |
| ``torch._C._cuda_attach_out_of_memory_observer`` | what a program does when a GPU's memory runs \
out, before the error is raised | it is told where nothing catches the error |
| ``Variable._execution_engine`` | what a mark on the graph costs | no step is recorded |
| ``torch.cpu._is_avx512_supported``, ``._is_avx512_bf16_supported``, ``._is_amx_tile_supported``, \
``torch.ops.mkldnn._is_mkldnn_bf16_supported``, ``._is_mkldnn_fp16_supported`` | which kernels \
oneDNN chooses on this processor | its workspace is predicted as on one with AVX2 |
"""

import re
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import cache
from types import CodeType
from typing import Any, TypeAlias, TypeVar

import torch
from torch import Tensor
from torch._ops import HigherOrderOperator, OpOverload
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    in_kernel_invocation_manager,
)
from torch.utils._python_dispatch import (
    TorchDispatchMode,
    _disable_current_modes,
    is_traceable_wrapper_subclass,
)
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_map_only, tree_unflatten

__all__ = [
    "FakeTensor",
    "FakeTensorMode",
    "HigherOrderOperator",
    "OpOverload",
    "TorchDispatchMode",
    "tree_flatten",
    "tree_leaves",
    "tree_map",
    "tree_map_only",
    "tree_unflatten",
]
"""Names of torch's that are passed on; its own are not listed: nothing imports ``*``."""

Operator: TypeAlias = OpOverload | HigherOrderOperator
"""What a dispatch mode is called with."""

_T = TypeVar("_T")

DATA_DEPENDENT = (DataDependentOutputException, DynamicOutputShapeException)
"""What a fake run raises where a shape or a number depends on the values."""


def attach_memory_observer(observer: Callable[[int, int, int, int], None]) -> bool:
    """Have an observer called whenever a GPU's memory has run out, as long as the process lives.

    It cannot be taken off. It is called on the thread that allocates, without the allocator's lock,
    and must not raise: torch/csrc/cuda/Module.cpp, ``THCPModule_attachOutOfMemoryObserver``.

    Args:
        observer: is given the device, what was asked for, the device's memory and what of it is
            free, in bytes.

    Returns:
        Whether this torch has such observers; one without CUDA has none.
    """
    attach = getattr(torch._C, "_cuda_attach_out_of_memory_observer", None)
    if attach is None:
        return False
    attach(observer)
    return True


def storage_key(tensor: torch.Tensor) -> int | None:
    """Tell one storage from another while both live; None where a tensor has none (sparse)."""
    try:
        return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):
        return None


def stored_in(tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return the tensors that have the values of one in their storages.

    Itself; of a sparse tensor its indices and values; of a wrapper (torchao's weights of 8 and 4
    bits, jagged tensors) those inside. A DTensor stands for the whole of its shards.
    """
    names = _SPARSE_PARTS.get(tensor.layout)
    if names is not None and not isinstance(tensor, FakeTensor):
        return tuple(getattr(tensor, name)() for name in names)
    if type(tensor).__name__ == "DTensor" or not is_traceable_wrapper_subclass(tensor):
        return (tensor,)
    inside = [getattr(tensor, name) for name in tensor.__tensor_flatten__()[0]]
    return tuple(each for part in inside for each in stored_in(part))


_SPARSE_PARTS = {
    torch.sparse_coo: ("_indices", "_values"),
    torch.sparse_csr: ("crow_indices", "col_indices", "values"),
    torch.sparse_csc: ("ccol_indices", "row_indices", "values"),
    torch.sparse_bsr: ("crow_indices", "col_indices", "values"),
    torch.sparse_bsc: ("ccol_indices", "row_indices", "values"),
}


def stored_bytes(tensor: torch.Tensor) -> int:
    """Return the bytes of all elements as they are stored."""
    if tensor.layout is torch.strided and type(tensor) in _UNWRAPPED:
        return tensor.numel() * tensor.element_size()
    return sum(int(each.numel()) * each.element_size() for each in stored_in(tensor))


_UNWRAPPED = frozenset({Tensor, torch.nn.Parameter, FakeTensor})


def shape_of(tensor: torch.Tensor) -> tuple[int, ...]:
    """Return every axis; of a nested tensor, the box that all its parts fit into."""
    if not tensor.is_nested:
        return tuple(tensor.shape)
    if tensor.layout is torch.jagged:
        offsets: torch.Tensor = tensor.offsets()  # type: ignore[attr-defined] # only jagged
        # torch's own placeholder, an argument of the operator that makes one, has no lengths.
        has_values = not offsets.is_meta and not isinstance(offsets, FakeTensor)
        longest = int(offsets.diff().max()) if has_values else int(tensor.values().shape[0])
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


DispatchKeys: TypeAlias = tuple[torch._C.DispatchKeySet, torch._C.DispatchKeySet]
"""Layers of the dispatcher that an operator passes in this thread: included and excluded."""


def dispatch_keys() -> DispatchKeys:
    """Return the present ones."""
    included = torch._C._dispatch_tls_local_include_set()
    return included, torch._C._dispatch_tls_local_exclude_set()


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
    """Run an operator's function for meta on fake tensors; return one that says ``device``.

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


def _no_number() -> int:
    return 0


sequence_number: Callable[[], int] = getattr(torch.autograd, "_get_sequence_nr", _no_number)
"""Returns the number that the next node of this thread's graph has; where it is gone, always 0, and
no call of a module has a backward of its own."""


def run_engine(output: Tensor) -> None:
    """Run the backward of a tensor of ours, past ``torch.autograd._engine_run_backward``."""
    engine = torch.autograd.Variable._execution_engine
    engine.run_backward((output,), (torch.ones_like(output),), False, False, (), True, True)


# Made without what may be under way on the thread that imports this.
with torch._C.DisableTorchFunction(), _disable_current_modes(), torch.inference_mode(mode=False):
    _PLAIN = torch.empty(0, device="cpu")


def plain_tensor() -> torch.Tensor:
    """Return an empty tensor, made without an operator that a mode or a tracer would be told of."""
    with torch._C.DisableTorchFunction():
        return _PLAIN.data


def is_autograd_compiled() -> bool:
    """Tell whether a backward pass that begins now goes through compiled autograd."""
    compiled = sys.modules.get("torch._dynamo.compiled_autograd")
    return compiled is not None and bool(
        getattr(compiled, "compiled_autograd_enabled", False)
        or getattr(compiled, "in_compiled_autograd_region", False)
    )


current_node: Callable[[], Any] = getattr(torch._C, "_current_autograd_node", lambda: None)
"""Returns the graph's node that the engine is at on this thread; None outside of a backward."""


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


def onednn_has_avx512() -> bool:
    """Tell whether oneDNN computes in vectors of 512 bits."""
    # On a processor without AVX-512 the second may still be true (AVX2-VNNI-2); the first does not
    # heed ONEDNN_MAX_CPU_ISA, the second does.
    return _is_true(torch.cpu, "_is_avx512_supported") and _is_true(
        torch.ops.mkldnn, "_is_mkldnn_bf16_supported"
    )


def onednn_has_amx() -> bool:
    """Tell whether oneDNN multiplies 16-bit matrices in AMX's tiles."""
    # oneDNN has float16 from AVX512_CORE_FP16 on; every processor with tiles has that too.
    return _is_true(torch.cpu, "_is_amx_tile_supported") and _is_true(
        torch.ops.mkldnn, "_is_mkldnn_fp16_supported"
    )


def cpu_has_bf16() -> bool:
    """Return whether the processor has AVX-512 instructions for bfloat16."""
    return _is_true(torch.cpu, "_is_avx512_bf16_supported")


@cache
def onednn_release() -> tuple[int, int]:
    """Return the release of oneDNN that torch was built with, as (3, 12); by default the newest."""
    # torch has it only in the text of its build settings, under oneDNN's former name.
    found = re.search(r"MKL-DNN v(\d+)\.(\d+)", torch.__config__.show())
    return (sys.maxsize, 0) if found is None else (int(found[1]), int(found[2]))


def _is_true(of: object, name: str) -> bool:
    ask: Callable[[], bool] | None = getattr(of, name, None)
    return ask is not None and ask()


def decomposition(operator: Operator) -> Callable[..., Any] | None:
    """Return what runs an operator as other operators; None where it has a kernel of its own."""
    if not isinstance(operator, OpOverload):
        return None
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


COMPILER = "torch._dynamo.utils"
"""The module that counts what Dynamo compiled."""


def dynamo_counters() -> Any:
    """Return what Dynamo counts in, a dict of dicts; None where nobody has imported it."""
    return getattr(sys.modules.get(COMPILER), "counters", None)


def frames_compiled() -> int:
    """Return how many frames Dynamo compiled so far; 0 where nobody has imported it."""
    counters = dynamo_counters()
    frames = counters.get("frames") if counters is not None else None
    return frames.get("total", 0) if frames else 0
