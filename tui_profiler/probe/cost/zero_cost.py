"""Operators that compute nothing: they move, choose, allocate or look. 0 FLOP, and said so.

Views need no entry: the operator's schema says that it is one. The bytes that these operators move
are counted all the same, see ``traffic.py``.
"""

from __future__ import annotations

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
    _empty_affine_quantized hann_window hamming_window"""

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
