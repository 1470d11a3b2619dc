"""What operators of the backward and of optimizers cost; rules as of ``macs``, ``arithmetic``.

1. ``torch.utils.flop_counter`` counts matrix products, which most of the backward is, convolutions
   and three kinds of attention. It counts a grouped convolution's gradient of the weight as if it
   were not grouped, and nothing for attention on the CPU and recurrent layers: those are here.
2. A product has the gradients of two operands, each of as many multiply-accumulates as itself: the
   backward of a layer is twice its forward, or once where its input needs no gradient.
3. Attention computes its scores again in the backward: that is one more product, which is told
   apart (``recomputed_macs``), as what checkpointing computes again is.
4. Gradients of a channel or row alone (of a bias, of the scale of a norm) count as the additions
   that they are; roots and quotients for each of them do not.

| what | FLOP |
|---|---|
| gradients of activations | per element of the gradient: ``PER_GRADIENT`` |
| softmax, log-softmax | 4 per element (product, sum, difference, product) |
| batch norm with statistics of the input | 9 per element (2 sums, 1 difference, 1 product; 5 for \
the input) + nothing for weight and bias, which are the sums; with running statistics 1 for the \
input, 3 for the weight, 1 for the bias |
| layer and group norm | 9 per element, + 1 with weight; 2 for its gradient, 1 for the bias's |
| RMS norm | 6 per element, + 1 with weight; 2 for its gradient |
| embedding, pooling, padding, nearest interpolation | 1 addition per gradient that comes in |
| average pooling | elements of the window, per gradient that comes in |
| linear, quadratic, cubic interpolation | 2·points per gradient that comes in |
| LSTM, GRU | 23, 15 per hidden unit, + 4, 6 with biases |
| optimizers that are one operator | what their loops of operators cost, per parameter: Adam 13, \
SGD 1, Adagrad 8, and decay 1, momentum 2 |
"""

from math import ceil, prod

from tui_profiler.probe.cost import macs
from tui_profiler.probe.cost.arithmetic import (
    ARITHMETIC,
    attention_scores,
    one_recurrent_layer,
    per_input,
    pooling_window,
    recurrent_layers,
)
from tui_profiler.probe.cost.call import Call
from tui_profiler.probe.cost.macs import GRU, LSTM, MACS, attention_macs

PER_GRADIENT = {
    1: """threshold_backward rrelu_with_noise_backward adaptive_max_pool2d_backward
        adaptive_max_pool3d_backward fractional_max_pool2d_backward fractional_max_pool3d_backward
        max_pool2d_with_indices_backward max_pool3d_with_indices_backward mkldnn_max_pool2d_backward
        mkldnn_max_pool3d_backward reflection_pad1d_backward reflection_pad2d_backward
        reflection_pad3d_backward replication_pad1d_backward replication_pad2d_backward
        replication_pad3d_backward upsample_nearest1d_backward upsample_nearest2d_backward
        upsample_nearest3d_backward _upsample_nearest_exact1d_backward
        _upsample_nearest_exact2d_backward _upsample_nearest_exact3d_backward unfold_backward""",
    2: """native_dropout_backward hardtanh_backward leaky_relu_backward hardshrink_backward
        softshrink_backward""",
    3: """sigmoid_backward tanh_backward hardsigmoid_backward logit_backward mse_loss_backward
        _prelu_kernel_backward""",
    4: "_softmax_backward_data _log_softmax_backward_data _masked_softmax_backward elu_backward",
    5: """hardswish_backward log_sigmoid_backward smooth_l1_loss_backward huber_loss_backward
        binary_cross_entropy_backward""",
    6: "softplus_backward",
    9: "silu_backward glu_backward",
    14: "mish_backward",
}
"""FLOP per element of the first argument, the gradient that comes in. silu: sigmoid 4, x·(1−s), +1,
two products; mish: sigmoid 4, softplus 3, tanh 1, and their six sums and products."""

_FOR_INPUT, _FOR_WEIGHT, _FOR_BIAS = range(3)


for _flops, _names in PER_GRADIENT.items():
    ARITHMETIC.add(per_input(_flops), *(f"aten::{name}" for name in _names.split()))


def _wanted(call: Call) -> tuple[bool, ...]:
    """Return for which inputs of the forward a gradient is computed."""
    return tuple(map(bool, call.items("output_mask")))


@MACS.register("aten::convolution_backward", "aten::convolution_backward_overrideable")
def _convolution(call: Call) -> int:
    """As many as in the forward for the input, and for the weight.

    weight: (out, in / groups, *kernel), read at each place of the gradient; of a transposed
    convolution (in, out / groups, *kernel), read at each place of the input.
    """
    places = call.shape("input" if call.flag("transposed") else "grad_output")
    forward = places[0] * prod(places[2:]) * prod(call.shape("weight"))
    return forward * sum(_wanted(call)[:2])


@ARITHMETIC.register("aten::convolution_backward", "aten::convolution_backward_overrideable")
def _bias_of_convolution(call: Call) -> int:
    return call.elements("grad_output") if _wanted(call)[_FOR_BIAS] else 0


_ATTENTION = (
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward",
    "aten::_scaled_dot_product_flash_attention_backward",
    "aten::_scaled_dot_product_efficient_attention_backward",
    "aten::_scaled_dot_product_cudnn_attention_backward",
    "aten::_scaled_dot_product_fused_attention_overrideable_backward",
)


@MACS.register(*_ATTENTION)
def _attention(call: Call) -> int:
    """Gradients of the values and of the weights, then of query and key: twice the forward."""
    return 2 * attention_macs(call.shape("query"), call.shape("key"), call.shape("value"))


def recomputed_macs(call: Call) -> int:
    """Count what an operator of the backward computes that the forward had computed already.

    query: (..., heads, L, E), key: (..., heads, S, E): the scores, which no attention keeps.
    Source: ``aten/src/ATen/native/cpu/FlashAttentionKernel.cpp`` (``attn <- scale * q @ k.T``);
    T. Dao, FlashAttention-2, algorithm 2, line 11.
    """
    if call.signature.name not in _ATTENTION:
        return 0
    query, key = call.shape("query"), call.shape("key")
    return prod(query[:-1]) * key[-2] * query[-1]


# Per score: scale and exp of the scores again, a difference, two products, a scale; a mask.
ARITHMETIC.add(attention_scores, *_ATTENTION)


@ARITHMETIC.register("aten::gelu_backward")
def _gelu(call: Call) -> int:
    """By erf: its step 4, density 4, put together 3. By tanh: 6, then 12 for the derivative."""
    return (18 if call.get("approximate") == "tanh" else 11) * call.elements("grad_output")


@ARITHMETIC.register("aten::nll_loss_backward", "aten::nll_loss2d_backward")
def _picked(call: Call) -> int:
    """One product for each target."""
    return call.elements("target")


@ARITHMETIC.register(
    "aten::native_batch_norm_backward",
    "aten::cudnn_batch_norm_backward",
    "aten::miopen_batch_norm_backward",
    "aten::batch_norm_backward",
)
def _batch_norm(call: Call) -> int:
    is_trained = call.get("train") is not False and call.get("update") is not False
    wanted = _wanted(call) if call.has("output_mask") else (True, True, True)
    if is_trained:
        return call.elements("input") * (4 + 5 * wanted[_FOR_INPUT])
    each = wanted[_FOR_INPUT] + 3 * wanted[_FOR_WEIGHT] + wanted[_FOR_BIAS]
    return call.elements("input") * each


@ARITHMETIC.register("aten::native_layer_norm_backward", "aten::native_group_norm_backward")
def _layer_norm(call: Call) -> int:
    wanted = _wanted(call)
    each = (9 + call.has("weight")) * wanted[_FOR_INPUT]
    return call.elements("input") * (each + 2 * wanted[_FOR_WEIGHT] + wanted[_FOR_BIAS])


@ARITHMETIC.register("aten::_fused_rms_norm_backward")
def _rms_norm(call: Call) -> int:
    wanted = _wanted(call)
    each = (6 + call.has("weight")) * wanted[_FOR_INPUT]
    return call.elements("input") * (each + 2 * wanted[_FOR_WEIGHT])


@ARITHMETIC.register("aten::_weight_norm_interface_backward")
def _weight_norm(call: Call) -> int:
    """Product and sum with the direction, then product, difference, quotient, scale."""
    return 6 * call.elements("grad_w")


@ARITHMETIC.register("aten::embedding_dense_backward")
def _embedding(call: Call) -> int:
    return call.elements("grad_output") * (1 + call.flag("scale_grad_by_freq"))


@ARITHMETIC.register("aten::_embedding_bag_dense_backward")
def _bags(call: Call) -> int:
    """Each row that was looked up gets its bag's gradient added; with a weight also multiplied."""
    width = call.shape("grad")[-1]
    return call.elements("indices") * width * (1 + call.has("per_sample_weights"))


@MACS.register("aten::_embedding_bag_per_sample_weights_backward")
def _weights_of_bags(call: Call) -> int:
    return call.elements("indices") * call.shape("grad")[-1]


@ARITHMETIC.register("aten::avg_pool2d_backward", "aten::avg_pool3d_backward")
def _average_pool(call: Call) -> int:
    return pooling_window(call) * call.elements("grad_output")


@ARITHMETIC.register(
    "aten::_adaptive_avg_pool2d_backward",
    "aten::_adaptive_avg_pool3d_backward",
    "aten::mkldnn_adaptive_avg_pool2d_backward",
)
def _adaptive_average_pool(call: Call) -> int:
    return call.elements("self")


_POINTS = {"linear1d": 2, "bilinear2d": 4, "trilinear3d": 8, "bicubic2d": 16}


@ARITHMETIC.register(*(f"aten::upsample_{name}_backward" for name in _POINTS))
def _interpolation(call: Call) -> int:
    name = call.signature.name.removeprefix("aten::upsample_").removesuffix("_backward")
    return 2 * _POINTS[name] * call.elements("grad_output")


@ARITHMETIC.register(
    "aten::_upsample_bilinear2d_aa_backward", "aten::_upsample_bicubic2d_aa_backward"
)
def _antialiased(call: Call) -> int:
    """As many points along each axis as are drawn together there (``arithmetic._antialiased``)."""
    points = 4 if "bicubic" in call.signature.name else 2
    given, output = call.numbers("input_size"), call.numbers("output_size")
    along = [ceil(points * max(given[axis] / output[axis], 1.0)) for axis in (-2, -1)]
    return 2 * prod(along) * call.elements("grad_output")


@ARITHMETIC.register("aten::grid_sampler_2d_backward", "aten::grid_sampler_3d_backward")
def _grid_sample(call: Call) -> int:
    """Each point: a product and sum for the input; a product more per axis, of three, for the grid.

    Source: ``aten/src/ATen/native/GridSampler.cpp``, ``grid_sampler_2d_cpu_fallback_backward``.
    """
    axes = call.elements("grid") and call.shape("grid")[-1]
    per_axis = {0: 2, 1: 1, 2: 4}[call.number("interpolation_mode")]
    for_input, for_grid = _wanted(call)
    is_smooth = call.number("interpolation_mode") != 1
    each = 2 * for_input + 3 * axes * (for_grid and is_smooth)
    return int(per_axis**axes) * each * call.elements("grad_output")


@ARITHMETIC.register("aten::_cdist_backward")
def _distances(call: Call) -> int:
    """Per pair and axis: difference, sign, power, product, sum."""
    return 5 * call.elements("cdist") * call.shape("x1")[-1]


@ARITHMETIC.register("torchvision::_roi_align_backward", "torchvision::_ps_roi_align_backward")
def _roi_align(call: Call) -> int | None:
    samples = call.number("sampling_ratio") ** 2
    if call.number("sampling_ratio") <= 0:
        return None
    return (8 * samples + 1) * call.elements("grad")


@MACS.register("aten::mkldnn_rnn_layer_backward")
def _one_recurrent_layer(call: Call) -> int:
    """input: (L, B, E), weights: (gates·H, E) and (gates·H, H): gradients of them and of inputs."""
    length, batch, _ = call.shape("input")
    return 2 * length * batch * (call.elements("weight1") + call.elements("weight2"))


@MACS.register("aten::_cudnn_rnn_backward", "aten::miopen_rnn_backward")
def _recurrent_layers(call: Call) -> int:
    return 2 * macs.recurrent_layers(call)


def _per_hidden_unit(mode: int, is_biased: bool) -> int:
    """FLOP per step, sample and hidden unit, products apart.

    LSTM: gradient of the output gate 1, of the cell 5 + 1, of four factors 4, derivatives of the
    gates 12; GRU: of the new gate 4, the update 5, the reset 4, of hidden state and product 2.
    """
    return 23 + 4 * is_biased if mode == LSTM else 15 + 6 * is_biased


ARITHMETIC.add(one_recurrent_layer(_per_hidden_unit), "aten::mkldnn_rnn_layer_backward")
ARITHMETIC.add(
    recurrent_layers(_per_hidden_unit), "aten::_cudnn_rnn_backward", "aten::miopen_rnn_backward"
)


@ARITHMETIC.register("aten::_thnn_fused_lstm_cell_backward_impl")
def _fused_lstm_cell(call: Call) -> int:
    return call.elements("cx") * _per_hidden_unit(LSTM, call.flag("has_bias"))


@ARITHMETIC.register("aten::_thnn_fused_gru_cell_backward")
def _fused_gru_cell(call: Call) -> int:
    return call.elements("grad_hy") * _per_hidden_unit(GRU, call.flag("has_bias"))


def _parameters(call: Call) -> int:
    return sum(tensor.numel() for tensor in call.items("self"))


@ARITHMETIC.register("aten::_fused_adam", "aten::_fused_adamw")
def _adam(call: Call) -> int:
    """Means of the gradient 3 and its square 4, root, quotient, epsilon, step 3; decay, maximum."""
    return _parameters(call) * (13 + bool(call.get("weight_decay")) + call.flag("amsgrad"))


@ARITHMETIC.register("aten::_fused_sgd")
def _sgd(call: Call) -> int:
    """Step; decay; momentum 2, and once more for Nesterov's."""
    has_momentum = bool(call.get("momentum"))
    each = 1 + bool(call.get("weight_decay")) + 2 * has_momentum
    return _parameters(call) * (each + (has_momentum and call.flag("nesterov")))


@ARITHMETIC.register("aten::_fused_adagrad")
def _adagrad(call: Call) -> int:
    """Sum of squares 3, root, epsilon, step 3; decay."""
    return _parameters(call) * (8 + bool(call.get("weight_decay")))
