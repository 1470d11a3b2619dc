"""What one operator call costs on paper: arithmetic, traffic, and whether we know.

Operators that compute nothing are 0 FLOP, and said so. Views need no entry: the operator's schema
says that it is one. The bytes that they move are counted all the same, see ``traffic.py``.

An operator without a formula is counted by the operators that it is made of:

1. It is run once more on fake tensors, by torch's table of decompositions or by its own composite
   kernel, under a mode that adds up what comes out. A kernel that asks for their memory is refused.
2. Where one of its parts has no cost either, or running it fails, there is no count: the operator
   is uncosted and named. A custom operator with a kernel of its own is such a one.
3. Only arithmetic is taken from the parts. Bytes are those of the whole call: what a kernel keeps
   to itself is not moved.
"""

from collections.abc import Container, Hashable, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import torch

import tui_profiler.probe.cost.backward
import tui_profiler.probe.cost.quantised  # noqa: F401 - each enters its formulas
from tui_profiler.probe.cost.arithmetic import ARITHMETIC
from tui_profiler.probe.cost.call import Call, Formula, signature_of, tensors_in
from tui_profiler.probe.cost.macs import SPARSE, macs_formula, sparse_product
from tui_profiler.probe.cost.rollup import SelfCost
from tui_profiler.probe.cost.traffic import bytes_moved
from tui_profiler.probe.cost.workspace import workspace_bytes
from tui_profiler.probe.torch_compat import composite, internals

_COPY = """clone copy _to_copy _copy_from _copy_from_and_resize contiguous to type_as lift
    lift_fresh lift_fresh_copy detach_copy view_copy expand_copy permute_copy transpose_copy
    slice_copy select_copy unfold_copy as_strided_copy _reshape_copy _reshape_alias reshape
    _unsafe_view resolve_conj resolve_neg _conj_copy view_as_real_copy view_as_complex_copy
    to_mkldnn _to_sparse _to_sparse_csr _to_sparse_csc _to_sparse_bsr _to_sparse_bsc
    to_dense _to_dense pin_memory data alias_copy squeeze_copy
    unsqueeze_copy t_copy split_copy split_with_sizes_copy unbind_copy to_padded_tensor
    _nested_tensor_from_tensor_list _nested_tensor_from_mask nested_to_padded_tensor
    _nested_from_padded _nested_view_from_buffer_copy"""

_JOIN_AND_ARRANGE = """cat concat concatenate stack hstack vstack dstack unsafe_split
    unsafe_split_with_sizes unsafe_chunk constant_pad_nd pad reflection_pad1d reflection_pad2d
    reflection_pad3d replication_pad1d replication_pad2d replication_pad3d repeat
    repeat_interleave tile roll flip rot90 pixel_shuffle pixel_unshuffle channel_shuffle
    native_channel_shuffle im2col block_diag meshgrid diag diag_embed diagonal_copy"""

_CHOOSE = """index index_select gather take take_along_dim embedding _unsafe_index masked_select
    masked_fill masked_scatter where index_copy
    index_fill nonzero nonzero_static nonzero_numpy tril triu tril_indices triu_indices
    unique_dim unique_consecutive unique_dim_consecutive _unique _unique2 searchsorted bucketize
    bincount histc one_hot select_scatter slice_scatter diagonal_scatter as_strided_scatter
    _unsafe_masked_index upsample_nearest1d upsample_nearest2d upsample_nearest3d
    _upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d isin
    max_unpool2d max_unpool3d _stack"""

_ALLOCATE = """empty empty_like empty_strided empty_permuted new_empty new_empty_strided zeros
    zeros_like new_zeros ones ones_like new_ones full full_like new_full fill zero arange range
    linspace logspace eye scalar_tensor complex polar resize resize_as set _efficientzerotensor
    _empty_affine_quantized _sparse_coo_tensor_with_dims _sparse_coo_tensor_with_dims_and_tensors
    sparse_coo_tensor _sparse_coo_tensor_unsafe hann_window hamming_window"""

_RANDOM = """rand rand_like randn randn_like randint randint_like randperm normal uniform bernoulli
    exponential log_normal geometric cauchy random multinomial poisson
    normal_functional"""

_LOOK = """_local_scalar_dense item equal is_nonzero is_same_size allclose sym_size sym_stride
    sym_numel sym_storage_offset size stride numel dim _assert_async _functional_assert_async
    _assert_scalar _assert_tensor_metadata _is_all_true _is_any_true _nested_tensor_size
    _fused_sdp_choice is_pinned q_scale q_zero_point result_type _use_cudnn_rnn_flatten_weight
    _cudnn_rnn_flatten_weight _pack_padded_sequence _pad_packed_sequence int_repr
    _make_per_tensor_quantized_tensor _nested_tensor_strides _nested_tensor_storage_offsets
    _nested_tensor_from_mask_left_aligned _linalg_check_errors _nnz _coalesced is_coalesced
    qscheme q_per_channel_scales q_per_channel_zero_points q_per_channel_axis _pin_memory"""

_FROM_TORCHVISION_AND_OTHERS = """torchvision::roi_pool torchvision::ps_roi_pool prim::device
    profiler::_record_function_enter profiler::_record_function_enter_new
    profiler::_record_function_exit
    torchvision::_cuda_version quantized::linear_prepack quantized::linear_unpack
    quantized::conv2d_prepack quantized::cat quantized::cat_out quantized::dropout
    quantized::embedding_byte quantized::embedding_4bit"""

_SUBJECTS = (_COPY, _JOIN_AND_ARRANGE, _CHOOSE, _ALLOCATE, _RANDOM, _LOOK)

_FREE = frozenset(f"aten::{name}" for names in _SUBJECTS for name in names.split()) | frozenset(
    _FROM_TORCHVISION_AND_OTHERS.split()
)


def is_free(name: str) -> bool:
    """Tell whether an operator, or the one whose in-place form it is, computes nothing."""
    return name in _FREE or (name.endswith("_") and name[:-1] in _FREE)


Count: TypeAlias = tuple[int, int]
"""Multiply-accumulates, and FLOP beside them."""

_UNEXPECTED = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""What a formula raises on arguments that it was not written for: then the call is uncosted."""


_REAL_PRODUCTS = 4
"""Multiply-accumulates of real numbers in one of complex numbers: (a + bi)(c + di) + e + fi."""


class _Formulas(NamedTuple):
    macs: Formula | None
    arithmetic: Formula | None
    is_costed: bool

    @property
    def computes(self) -> bool:
        return self.macs is not None or self.arithmetic is not None


class CallCosts:
    """What calls cost; the arithmetic and workspace of equal ones are counted once."""

    def __init__(self, weights: Container[int]) -> None:
        """Take ``weights``, the storage keys of parameters and buffers."""
        self._weights = weights
        self._counted: dict[Hashable, tuple[Count | None, int | None]] = {}

    def of(
        self, operator: internals.Operator, call: Call, key: Hashable | None
    ) -> tuple[SelfCost, int | None]:
        """Return what one call costs, and the bytes that it allocates and frees inside.

        Args:
            operator: the one that was called.
            call: with its outputs.
            key: of the operator and of the shapes, types and other arguments of the call; None
                where they are not known, and the call is counted on its own.
        """
        found = self._counted.get(key) if key is not None else None
        if found is None:
            found = _arithmetic(operator, call), workspace_bytes(call)
            if key is not None:
                self._counted[key] = found
        counted, workspace = found
        return _cost(call, counted, self._weights), workspace


def op_cost(
    operator: internals.Operator,
    args: tuple[object, ...],
    kwargs: dict[str, object],
    outputs: tuple[torch.Tensor, ...],
    *,
    weights: Container[int],
) -> SelfCost:
    """Count one call; ``weights`` are the storage keys of parameters and buffers."""
    call = Call(signature_of(operator), args, kwargs, outputs)
    return _cost(call, _arithmetic(operator, call), weights)


def _cost(call: Call, counted: Count | None, weights: Container[int]) -> SelfCost:
    read, weight, written = bytes_moved(call, weights)
    if counted is None:
        return SelfCost(0, 0, read, weight, written, ops=1, uncosted=1)
    macs, other = counted
    return SelfCost(macs, 2 * macs + other, read, weight, written, ops=1)


def _arithmetic(operator: internals.Operator, call: Call) -> Count | None:
    formulas = _formulas(operator)
    if formulas.is_costed and not formulas.computes:
        return 0, 0
    is_sparse = any(tensor.layout in SPARSE for tensor in call.tensors())
    if not formulas.is_costed and not is_sparse:
        return _decomposed_count(operator, call)
    try:
        if is_sparse:
            return sparse_product(call)
        macs = formulas.macs(call) if formulas.macs else 0
        other = formulas.arithmetic(call) if formulas.arithmetic else 0
    except _UNEXPECTED:
        return None
    if macs is None or other is None:
        return None
    return macs * _REAL_PRODUCTS if macs and call.is_complex() else macs, other


def _decomposed_count(operator: internals.Operator, call: Call) -> Count | None:
    """Return the count of a call by its parts; None where there are none, or one is not known."""
    parts = internals.decomposition(operator)
    if parts is None:
        return None
    given = (call.args, call.kwargs)
    try:
        with internals.FakeTensorMode(allow_non_fake_inputs=True):
            args, kwargs = internals.tree_map_only(torch.Tensor, _without_values, given)
        with _Adding() as added:  # type: ignore[no-untyped-call] # torch has no types here
            parts(*args, **kwargs)
    except Exception:  # torch's own code, on tensors that have no values
        return None
    return (added.macs, added.arithmetic) if added.calls else None


def _without_values(tensor: torch.Tensor) -> torch.Tensor:
    shape, strides = tuple(tensor.shape), tensor.stride()
    fake = torch.empty_strided(shape, strides, dtype=tensor.dtype, device=tensor.device)
    return internals.without_address(fake)


class _UncostedPartError(Exception):
    pass


class _Adding(internals.TorchDispatchMode):  # type: ignore[no-untyped-call] # torch has no types here
    macs = arithmetic = calls = 0

    def __torch_dispatch__(
        self,
        func: internals.Operator,
        types: Sequence[type],
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        """Run one part and count it."""
        keywords = kwargs or {}
        if composite.is_composite(func, types, args, keywords):
            return composite.run_parts(self, func, args, keywords)
        result = func(*args, **keywords)
        internals.tree_map_only(internals.FakeTensor, internals.without_address, result)
        call = Call(signature_of(func), args, keywords, tuple(tensors_in(result)))
        found = _arithmetic(func, call)
        if found is None:
            raise _UncostedPartError
        self.macs += found[0]
        self.arithmetic += found[1]
        self.calls += 1
        return result


@lru_cache(maxsize=4096)
def _formulas(operator: internals.Operator) -> _Formulas:
    signature = signature_of(operator)
    macs = macs_formula(operator, signature.name)
    arithmetic = ARITHMETIC.find(signature.name)
    costed = bool(macs or arithmetic) or signature.is_view or is_free(signature.name)
    return _Formulas(macs, arithmetic, costed)
