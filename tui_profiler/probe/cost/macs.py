"""Multiply-accumulates of convolutions, matrix products, attention and recurrent layers.

1. The count is of the dense definition, whatever the type of the numbers (a complex product is
   four): zeros, padding, causal masks and early exits save nothing, and the parts of a nested
   tensor are counted as if padded to the longest. Of a sparse matrix (COO, CSR …) only the stored
   values are counted.
2. What ``torch.utils.flop_counter`` has a formula for is counted by it, halved (its multiply-add is
   two FLOP). The table here is asked first, and holds what that registry does not.
3. torchvision publishes the same count as ``weights.meta["_ops"]`` (GMACs); ``tests/probe/
   trace/test_published.py`` holds ours equal to it.

Letters in the docstrings: B batch, L target length, S source length, E width, H hidden width.
"""

from math import prod

import torch

from tui_profiler.probe.cost.call import Call, Formula, FormulaTable, Shape
from tui_profiler.probe.torch_compat.flop_formulas import flop_formula
from tui_profiler.probe.torch_compat.internals import Operator, OpOverload

MACS = FormulaTable()

RELU, TANH, LSTM, GRU = range(4)
"""Modes of recurrent layers. Source: aten/src/ATen/native/cudnn/RNN.cpp."""
GATES = {RELU: 1, TANH: 1, LSTM: 4, GRU: 3}

ATTENTION = (
    "aten::_scaled_dot_product_attention_math",
    "aten::_scaled_dot_product_fused_attention_overrideable",
    "aten::_scaled_dot_product_flash_attention_for_cpu",
    "aten::_scaled_dot_product_flash_attention",
    "aten::_scaled_dot_product_efficient_attention",
    "aten::_scaled_dot_product_cudnn_attention",
    "aten::_scaled_dot_product_attention_math_for_mps",
    "aten::scaled_dot_product_attention",
)
"""Operators on queries, keys and values."""
FUSED_ATTENTION = ("aten::_native_multi_head_attention", "aten::_triton_multi_head_attention")
"""With projections before and after."""


def macs_formula(operator: Operator, name: str) -> Formula | None:
    """Return the formula for an operator's multiply-accumulates; None where it has none."""
    return MACS.find(name) or _from_torch(operator)


def _from_torch(operator: Operator) -> Formula | None:
    key = operator.overloadpacket if isinstance(operator, OpOverload) else operator
    count_flop = flop_formula(key)
    if count_flop is None:
        return None

    def halved(call: Call) -> int:
        outputs = call.outputs
        value = outputs[0] if len(outputs) == 1 else outputs
        return int(count_flop(*call.args, **call.kwargs, out_val=value)) // 2

    return halved


def attention_macs(query: Shape, key: Shape, value: Shape) -> int:
    """Count the scores and their product with the values.

    query: (..., heads, L, E), key: (..., heads, S, E), value: (..., heads, S, width of the output).
    With fewer heads in key and value, each serves several of the query's.
    """
    rows = prod(query[:-1])
    return rows * key[-2] * (query[-1] + value[-1])


def fused_attention_macs(query: Shape, key: Shape, width: int) -> int:
    """Count in-projection, scores, product with the values and out-projection.

    query: (B, L, E), key: (B, S, E). The in-projection of the query is L·E², of key and value
    2·S·E², the two products 2·L·S·E, the out-projection L·E².
    """
    batch, target, _ = query
    source = key[1]
    projections = (2 * target + 2 * source) * width * width
    return batch * (projections + 2 * target * source * width)


@MACS.register(*ATTENTION)
def _scaled_dot_product(call: Call) -> int:
    return attention_macs(call.shape("query"), call.shape("key"), call.shape("value"))


@MACS.register(*FUSED_ATTENTION)
def _multi_head_attention(call: Call) -> int:
    return fused_attention_macs(call.shape("query"), call.shape("key"), call.number("embed_dim"))


@MACS.register("aten::_transformer_encoder_layer_fwd")
def _transformer_encoder_layer(call: Call) -> int:
    source = call.shape("src")
    weights = call.elements("ffn_weight_1") + call.elements("ffn_weight_2")
    attention = fused_attention_macs(source, source, call.number("embed_dim"))
    return attention + prod(source[:-1]) * weights


@MACS.register(
    "aten::linear",
    "aten::mkldnn_linear",
    "aten::_sparse_semi_structured_linear",
    "mkldnn::_linear_pointwise",
    "mkl::_mkl_linear",
    "onednn::qlinear_pointwise",
    "aten::_int_mm",
    "aten::_weight_int8pack_mm",
    "aten::_weight_int4pack_mm",
    "aten::_weight_int4pack_mm_for_cpu",
    "aten::mv",
    "aten::dot",
    "aten::vdot",
    "aten::matmul",
)
def _contracts_last_axis(call: Call) -> int:
    """First operand: (..., in); each output is a sum over its last axis."""
    return call.output_elements() * call.first().shape[-1]


@MACS.register("aten::_grouped_mm", "aten::_scaled_grouped_mm")
def _grouped_product(call: Call) -> int:
    """self: (rows, in) or (groups, rows, in); every output is one sum over ``in``.

    With both operands 2-D (rows are grouped along the contraction) the groups share it.
    """
    one, two = call.shape("self"), call.shape("mat2")
    if len(one) == 2 and len(two) == 2:
        return one[0] * one[1] * two[1]
    return call.output_elements() * one[-1]


@MACS.register("aten::_addmm_activation")
def _product_with_activation(call: Call) -> int:
    return call.output_elements() * call.shape("mat1")[-1]


@MACS.register("aten::addr")
def _outer_product(call: Call) -> int:
    return call.output_elements()


@MACS.register("aten::addmv")
def _matrix_times_vector(call: Call) -> int:
    return prod(call.shape("mat"))


@MACS.register("aten::addbmm")
def _summed_batched_product(call: Call) -> int:
    """batch1: (B, n, k), batch2: (B, k, m)."""
    return prod(call.shape("batch1")) * call.shape("batch2")[-1]


@MACS.register(
    "aten::mkldnn_convolution",
    "aten::cudnn_convolution_relu",
    "aten::cudnn_convolution_add_relu",
    "aten::miopen_convolution",
    "aten::miopen_convolution_relu",
    "aten::miopen_depthwise_convolution",
    "aten::_conv_depthwise2d",
    "aten::conv_depthwise3d",
    "aten::slow_conv3d_forward",
    "aten::slow_conv_dilated2d",
    "aten::slow_conv_dilated3d",
    "mkldnn::_convolution_pointwise",
    "torchvision::deform_conv2d",
)
def _convolution(call: Call) -> int:
    """weight: (out, in / groups, *kernel); every output channel at every place is one kernel."""
    output = call.output()
    weight = call.shape("weight" if call.has("weight") else "W")
    return output[0] * prod(output[2:]) * prod(weight)


@MACS.register("aten::slow_conv_transpose2d", "aten::slow_conv_transpose3d")
@MACS.register("aten::cudnn_convolution_transpose", "aten::miopen_convolution_transpose")
def _transposed_convolution(call: Call) -> int:
    """self: (B, in, *size), weight: (in, out / groups, *kernel)."""
    given = call.shape("self")
    return given[0] * prod(given[2:]) * prod(call.shape("weight"))


@MACS.register("aten::mkldnn_rnn_layer")
def _one_recurrent_layer(call: Call) -> int:
    """input: (L, B, E), weights: (gates·H, E) and (gates·H, H), one direction of one layer."""
    length, batch, _ = call.shape("input")
    return length * batch * (call.elements("weight0") + call.elements("weight1"))


@MACS.register("aten::_cudnn_rnn", "aten::miopen_rnn")
def recurrent_layers(call: Call) -> int:
    """weight: a list; those with two axes are multiplied once per step and sample."""
    steps = prod(call.shape("input")[:-1])
    return int(steps * sum(w.numel() for w in call.items("weight") if w.dim() == 2))


@MACS.register("aten::_trilinear")
def _trilinear(call: Call) -> int:
    """Sum of i1·i2·i3 over ``sumdim``: one multiply-accumulate per element of the full product.

    The other multiplication of each element is in the arithmetic table.
    """
    return prod(trilinear_shape(call))


def trilinear_shape(call: Call) -> Shape:
    """Return every axis of the product before it is summed: of Bilinear (B, out, in1, in2)."""
    shapes = []
    for operand, expanded in (("i1", "expand1"), ("i2", "expand2"), ("i3", "expand3")):
        shape = list(call.shape(operand))
        for axis in sorted(call.numbers(expanded)):
            shape.insert(axis, 1)
        shapes.append(shape)
    return tuple(max(axes) for axes in zip(*shapes, strict=True))


@MACS.register("aten::_embedding_bag", "aten::_embedding_bag_forward_only")
def _embedding_bag(call: Call) -> int:
    """With a weight for each index, every row found is multiplied and added; else only added."""
    if not call.has("per_sample_weights"):
        return 0
    return call.elements("indices") * call.shape("weight")[-1]


@MACS.register("aten::_thnn_fused_lstm_cell", "aten::_thnn_fused_gru_cell")
def _fused_cell(call: Call) -> int:
    """The products came before; only the gates' arithmetic is left."""
    return 0


SPARSE = frozenset(
    {torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc}
)
_OPERANDS = {
    "aten::mm": ("self", "mat2"),
    "aten::_sparse_mm": ("sparse", "dense"),
    "aten::addmm": ("mat1", "mat2"),
    "aten::_sparse_addmm": ("mat1", "mat2"),
    "aten::mv": ("self", "vec"),
}
_ADDS = frozenset({"aten::addmm", "aten::_sparse_addmm"})


def sparse_product(call: Call) -> tuple[int, int] | None:
    """Return (multiply-accumulates, other FLOPs) of a product of a sparse and a dense matrix.

    Multiply-accumulates are those of the stored values; a formula on shapes would count the zeros
    that are not stored. Each value is multiplied with a row of the right operand, or a column of
    the left one.
    None for every other call: of two sparse operands, or one whose values are not known.
    """
    names = _OPERANDS.get(call.signature.name, ())
    operands = [value for value in map(call.get, names) if isinstance(value, torch.Tensor)]
    sparse = [tensor for tensor in operands if tensor.layout in SPARSE]
    if len(operands) != 2 or len(sparse) != 1 or call.outputs[0].layout in SPARSE:
        return None
    left, right = operands
    is_left = sparse[0] is left
    width = right.shape[1] if is_left and right.dim() == 2 else 1 if is_left else left.shape[0]
    added = 0 if call.signature.name not in _ADDS or _is_zero(call, "beta") else 1
    return _stored_values(sparse[0]) * width, added * call.output_elements()


def _stored_values(tensor: torch.Tensor) -> int:
    is_coordinates = tensor.layout is torch.sparse_coo
    return (tensor._values() if is_coordinates else tensor.values()).numel()


def _is_zero(call: Call, name: str) -> bool:
    value = call.get(name)
    return isinstance(value, int | float) and value == 0
