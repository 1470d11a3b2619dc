"""FLOP of everything that is not a multiply-accumulate: the documented table.

1. One addition, multiplication, division, comparison of numbers, minimum or maximum is 1 FLOP. So
   is one elementary function (exp, log, sqrt, rsqrt, sin, tanh, erf, pow): hardware has a unit or a
   short polynomial for each, and no count of its steps would hold on two machines.
2. A composed function is the sum of its steps: sigmoid 1/(1+exp(-x)) is 4, softmax 5 an element.
3. Arithmetic on integers and booleans is not floating point: 0, but for matrix products, and for
   quantised numbers, which stand for real ones (``quantised.py``). A complex addition is 2, a
   complex multiplication 6, other complex operations twice the real ones.
4. Constants of a channel or row (epsilon, scale of a running variance) are not counted, nor is the
   arithmetic of addresses: reading, moving, padding and choosing values costs 0, see ``cost.py``.
5. What is in none of the three tables is uncosted, and listed by name.

| what | FLOP |
|---|---|
| element-wise | per element of the output: ``PER_OUTPUT`` |
| reductions, softmax, scans | per element of the input: ``PER_INPUT`` |
| layer, group and batch norm with statistics of the input | 5 per element (mean 1, deviation 1, \
square 1, sum 1, scale 1) + 1 with weight + 1 with bias |
| batch norm with running statistics | 2 per element: folded into one scale and one shift |
| RMS norm | 3 per element (square, sum, scale) + 1 with weight |
| max and average pooling | elements of the window, per output |
| linear, quadratic, cubic interpolation | 2·points − 1 per output; nearest 0 |
| bias of a convolution or linear layer | 1 per output |
| attention | 6 per score: scale 1, softmax 5; + 1 with a mask |
| LSTM, GRU, plain step | 30, 22, 4 per hidden unit with biases |
| Cholesky, LU, QR, inverse, solving | leading terms (LAPACK Working Note 41, appendix C) |
| sort, top-k | n·⌈log2 n⌉ comparisons along the axis |
| FFT | 5·n·log2 n complex, half of it real (Frigo & Johnson, FFTW: fftw.org/speed) |

Places that values are scattered to are integers and cost nothing; each value that is put together
with another one is one addition, comparison or multiplication. An overwriting ``scatter`` only
moves: 0. What iterates until it converges (eigenvalues, singular values) has no count beforehand,
and stays uncosted.

Letters: n rows and columns, m rows, k right-hand sides; any axes before them are a batch.
"""

from collections.abc import Callable
from math import ceil, log2, prod

import torch

from tui_profiler.probe.cost.call import Call, Formula, FormulaTable, Shape, is_real_valued
from tui_profiler.probe.cost.macs import ATTENTION, FUSED_ATTENTION, GRU, LSTM, trilinear_shape
from tui_profiler.probe.torch_compat.internals import shape_of

ARITHMETIC = FormulaTable()

PER_OUTPUT = {
    1: """abs add sub rsub mul div divide true_divide floor_divide neg negative reciprocal square
        maximum minimum fmax fmin relu ceil floor round trunc frac sign sgn positive exp exp2 expm1
        log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh
        atanh erf erfc erfinv lgamma digamma pow float_power fmod remainder eq ne lt le gt ge isnan
        isinf isfinite isposinf isneginf clamp_min clamp_max threshold copysign heaviside nextafter
        ldexp logaddexp2 nan_to_num logical_and logical_or logical_not logical_xor bitwise_and
        bitwise_or bitwise_not bitwise_xor bitwise_left_shift bitwise_right_shift __and__ __or__
        __xor__ __lshift__ __rshift__ ger outer special_entr special_i0 special_erfcx conj_physical
        _conj_physical angle signbit deg2rad rad2deg""",
    2: """clamp hardtanh relu6 leaky_relu _prelu_kernel prelu hardshrink native_dropout
        _fused_dropout rrelu rrelu_with_noise""",
    3: """lerp addcmul addcdiv softshrink softplus logit hypot sinc xlogy special_xlog1py logaddexp
        cross linalg_cross""",
    4: "sigmoid hardsigmoid elu celu selu",
    5: """silu gelu hardswish mish glu log_sigmoid_forward quantize_per_tensor
        quantize_per_channel""",
}
"""FLOP per element of the first output. gelu: x·½·(1+erf(x/√2)); silu: x·sigmoid(x); mish:
x·tanh(log(1+exp x)); hardswish: x·clamp(x+3, 0, 6)/6; glu: a·sigmoid(b)."""

PER_INPUT = {
    1: """sum nansum prod max min amax amin argmax argmin any all mean cumsum cumprod cummax cummin
        _cummax_helper _cummin_helper count_nonzero nanmean trace
        _adaptive_avg_pool2d _adaptive_avg_pool3d adaptive_avg_pool2d mkldnn_adaptive_avg_pool2d
        adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d _aminmax
        nll_loss_forward nll_loss2d_forward""",
    2: "aminmax norm linalg_vector_norm logcumsumexp dequantize",
    3: "mse_loss",
    4: "var std var_mean std_mean logsumexp special_logsumexp",
    5: "_softmax _log_softmax _safe_softmax softmax log_softmax _masked_softmax",
}
"""FLOP per element of the first input. var: mean, deviation, square, sum; softmax: maximum,
difference, exp, sum, quotient."""


def _per_output(flops: int) -> Formula:
    def count(call: Call) -> int:
        elements = _elements(call)
        if call.is_complex():
            return elements * _complex_factor(call, flops)
        return flops * elements if call.is_floating() else 0

    return count


def _elements(call: Call) -> int:
    """Elements of the output; of an operator on lists (``_foreach_add_``), of its first list."""
    if not call.signature.name.startswith("aten::_foreach_"):
        return call.output_elements()
    return sum(tensor.numel() for tensor in call.items("self"))


def _complex_factor(call: Call, flops: int) -> int:
    is_product = call.signature.name in ("aten::mul", "aten::mul_")
    return 6 if is_product else 2 * flops


def per_input(flops: int) -> Formula:
    """Return a formula of so many FLOP per element of the first tensor that is passed."""

    def count(call: Call) -> int:
        return flops * call.first().numel() if is_real_valued(call.first()) else 0

    return count


def _enter_tables() -> None:
    for flops, names in PER_OUTPUT.items():
        for name in names.split():
            ARITHMETIC.add(_per_output(flops), f"aten::{name}", f"aten::_foreach_{name}")
    for flops, names in PER_INPUT.items():
        ARITHMETIC.add(per_input(flops), *(f"aten::{name}" for name in names.split()))


_enter_tables()


@ARITHMETIC.register("aten::native_layer_norm", "aten::native_group_norm", "aten::layer_norm")
@ARITHMETIC.register("aten::_batch_norm_with_update")
def _norm_with_own_statistics(call: Call) -> int:
    return (5 + call.has("weight") + call.has("bias")) * call.output_elements()


@ARITHMETIC.register(
    "aten::native_batch_norm",
    "aten::_native_batch_norm_legit",
    "aten::cudnn_batch_norm",
    "aten::miopen_batch_norm",
)
def _batch_norm(call: Call) -> int:
    trains = call.flag("training") or not call.has("running_mean")
    per_element = 5 + call.has("weight") + call.has("bias") if trains else 2
    return per_element * call.output_elements()


@ARITHMETIC.register("aten::_native_batch_norm_legit_no_training")
def _batch_norm_at_inference(call: Call) -> int:
    return 2 * call.output_elements()


@ARITHMETIC.register("aten::_weight_norm_interface")
def _weight_norm(call: Call) -> int:
    """Square, sum and scale of every weight; one root and quotient for every norm."""
    return 3 * call.output_elements() + 2 * call.output_elements(1)


@ARITHMETIC.register("aten::_fused_rms_norm", "aten::rms_norm")
def _rms_norm(call: Call) -> int:
    return (3 + call.has("weight")) * call.output_elements()


@ARITHMETIC.register(
    "aten::max_pool2d_with_indices",
    "aten::max_pool3d_with_indices",
    "aten::max_pool1d",
    "aten::max_pool2d",
    "aten::mkldnn_max_pool2d",
    "aten::mkldnn_max_pool3d",
    "aten::quantized_max_pool2d",
    "aten::fractional_max_pool2d",
    "aten::fractional_max_pool3d",
    "aten::avg_pool1d",
    "aten::avg_pool2d",
    "aten::avg_pool3d",
)
def _pooling(call: Call) -> int:
    return pooling_window(call) * call.output_elements()


def pooling_window(call: Call) -> int:
    """Count the elements of a window of pooling, whose name ends in its number of axes."""
    kernel = call.numbers("kernel_size")
    axes = int(call.signature.name.partition("pool")[2][0])
    return prod(kernel) if len(kernel) == axes else kernel[0] ** axes


def _interpolation(points: int) -> Formula:
    def count(call: Call) -> int:
        return (2 * points - 1) * call.output_elements()

    return count


ARITHMETIC.add(_interpolation(2), "aten::upsample_linear1d")
ARITHMETIC.add(_interpolation(4), "aten::upsample_bilinear2d")
ARITHMETIC.add(_interpolation(8), "aten::upsample_trilinear3d")
ARITHMETIC.add(_interpolation(16), "aten::upsample_bicubic2d")


def _antialiased(points: int) -> Formula:
    def count(call: Call) -> int:
        """Along the width, then along the height, over as many points as are drawn together.

        Source: ``aten/src/ATen/native/cpu/UpSampleKernel.cpp`` (``separable_upsample``).
        """
        given, output = call.first().shape, call.output()
        rows, columns = (ceil(points * max(given[a] / output[a], 1.0)) for a in (-2, -1))
        images, height = prod(output[:-2]), given[-2]
        along_width = images * height * output[-1] * (2 * columns - 1)
        return int(along_width + prod(output) * (2 * rows - 1))

    return count


ARITHMETIC.add(_antialiased(2), "aten::_upsample_bilinear2d_aa")
ARITHMETIC.add(_antialiased(4), "aten::_upsample_bicubic2d_aa")


@ARITHMETIC.register("aten::grid_sampler_2d", "aten::grid_sampler_3d")
def _grid_sample(call: Call) -> int:
    """interpolation_mode: 0 linear, 1 nearest, 2 cubic."""
    axes = len(call.output()) - 2
    per_axis = {0: 2, 1: 0, 2: 4}[call.number("interpolation_mode")]
    return max(0, 2 * prod((per_axis,) * axes) - 1) * call.output_elements()


@ARITHMETIC.register("torchvision::roi_align", "torchvision::ps_roi_align")
def _roi_align(call: Call) -> int | None:
    """Bilinear samples (7) added up, and one quotient; adaptive sampling depends on the boxes."""
    samples = call.number("sampling_ratio") ** 2
    if call.number("sampling_ratio") <= 0:
        return None
    return (8 * samples + 1) * call.output_elements()


@ARITHMETIC.register("torchvision::nms")
def _suppression(call: Call) -> int:
    """Each pair of boxes once: 4 comparisons and 9 steps of the overlap, 1 comparison."""
    boxes = call.shape("dets")[0]
    return 14 * (boxes * (boxes - 1) // 2)


@ARITHMETIC.register("aten::sort", "aten::argsort", "aten::topk", "aten::msort", "aten::kthvalue")
@ARITHMETIC.register("aten::median", "aten::nanmedian", "aten::mode")
def _sorting(call: Call) -> int:
    given = call.first()
    axis = call.get("dim")
    length = given.shape[axis] if isinstance(axis, int) and given.dim() else given.numel()
    if length <= 1 or not given.is_floating_point():
        return 0
    return given.numel() * ceil(log2(length))


@ARITHMETIC.register("aten::_fft_c2c", "aten::_fft_r2c", "aten::_fft_c2r")
def _fourier(call: Call) -> int:
    given = call.first()
    is_real = not call.signature.name.endswith("c2c")
    real = given if given.numel() > call.output_elements() else call.outputs[0]
    axes = call.numbers("dim")
    length = prod(real.shape[axis] for axis in axes)
    elements = real.numel()
    flops = 5 * elements * log2(length) if length > 1 else 0.0
    return int(flops / 2) if is_real else int(flops)


@ARITHMETIC.register("aten::_cdist_forward")
def _distances(call: Call) -> int:
    """x1: (..., n, width): difference, power and sum for each pair, one root."""
    return call.output_elements() * (3 * call.shape("x1")[-1] + 1)


@ARITHMETIC.register("aten::col2im")
def _folding(call: Call) -> int:
    return call.elements("self")


@ARITHMETIC.register("aten::_trilinear")
def _second_multiplication(call: Call) -> int:
    return prod(trilinear_shape(call))


@ARITHMETIC.register("aten::scatter_add", "aten::scatter_reduce", "aten::scatter")
def _scattered(call: Call) -> int:
    """``index`` tells how many elements of ``src`` are taken."""
    is_combined = call.signature.name != "aten::scatter" or call.has("reduce")
    return call.elements("index") if is_combined and call.is_floating() else 0


@ARITHMETIC.register("aten::index_add", "aten::index_reduce")
def _indexed(call: Call) -> int:
    return call.elements("source") if call.is_floating() else 0


@ARITHMETIC.register(
    "aten::index_put", "aten::_index_put_impl", "aten::_unsafe_index_put", "aten::put"
)
def _put(call: Call) -> int:
    """Adds only when told to. A value for all places (no axes) is added at each of them."""
    if not call.flag("accumulate") or not call.is_floating():
        return 0
    values = call.get("values") if call.has("values") else call.get("source")
    if not isinstance(values, torch.Tensor):
        raise TypeError(f"{call.signature.name}: its values are not a tensor")
    indices = call.get("indices")
    found = [i for i in indices if i is not None] if isinstance(indices, list | tuple) else []
    places = max((index.numel() for index in found), default=1)
    return max(values.numel(), places)


@ARITHMETIC.register("aten::segment_reduce")
def _segments(call: Call) -> int:
    return call.elements("data")


@ARITHMETIC.register("aten::_embedding_bag", "aten::_embedding_bag_forward_only")
def _bags(call: Call) -> int:
    """Rows added up (or compared); with a weight each, that is already a multiply-accumulate."""
    if call.has("per_sample_weights"):
        return 0
    return call.elements("indices") * call.shape("weight")[-1]


@ARITHMETIC.register("aten::embedding_renorm")
def _renormed_rows(call: Call) -> int:
    """Norm (2) and scale (1) of every row looked up; a bound, as rows repeat and few are scaled."""
    return 3 * call.elements("indices") * call.shape("self")[-1]


@ARITHMETIC.register(
    "aten::convolution",
    "aten::_convolution",
    "aten::mkldnn_convolution",
    "aten::cudnn_convolution",
    "aten::cudnn_convolution_relu",
    "aten::miopen_convolution",
    "aten::_slow_conv2d_forward",
    "aten::slow_conv3d_forward",
    "aten::slow_conv_dilated2d",
    "aten::slow_conv_dilated3d",
    "aten::slow_conv_transpose2d",
    "aten::slow_conv_transpose3d",
    "aten::_conv_depthwise2d",
    "aten::conv_depthwise3d",
    "torchvision::deform_conv2d",
    "aten::linear",
    "aten::mkldnn_linear",
)
def _bias(call: Call) -> int:
    return call.output_elements() if call.has("bias") else 0


@ARITHMETIC.register("mkldnn::_linear_pointwise", "mkldnn::_convolution_pointwise")
def _bias_named_b(call: Call) -> int:
    return call.output_elements() if call.has("B") else 0


@ARITHMETIC.register("aten::addmm", "aten::baddbmm", "aten::addmv", "aten::addr", "aten::addbmm")
def _added_matrix(call: Call) -> int:
    return call.output_elements()


@ARITHMETIC.register("aten::_addmm_activation")
def _added_matrix_and_activation(call: Call) -> int:
    """Bias 1, then gelu 5 or relu 1."""
    return call.output_elements() * (6 if call.flag("use_gelu") else 2)


@ARITHMETIC.register(*ATTENTION)
def attention_scores(call: Call) -> int:
    """Count what is computed for each score, products apart."""
    query, key = call.shape("query"), call.shape("key")
    masked = call.has("attn_mask") or call.has("attn_bias")
    return prod(query[:-1]) * key[-2] * (6 + masked)


@ARITHMETIC.register(*FUSED_ATTENTION)
def _multi_head_attention(call: Call) -> int:
    heads, width = call.number("num_head"), call.number("embed_dim")
    return _fused_attention(call.shape("query"), call.shape("key"), heads, width, call.has("mask"))


def _fused_attention(query: Shape, key: Shape, heads: int, width: int, masked: bool) -> int:
    """Scores of every head, and the biases of the four projections."""
    batch, target, _ = query
    source = key[1]
    scores = batch * heads * target * source * (6 + masked)
    return scores + batch * width * (2 * target + 2 * source)


@ARITHMETIC.register("aten::_transformer_encoder_layer_fwd")
def _transformer_encoder_layer(call: Call) -> int:
    """Attention, two layer norms (7), two residual additions, feed-forward with activation."""
    source = call.shape("src")
    heads, width = call.number("num_heads"), call.number("embed_dim")
    tokens = prod(source[:-1])
    hidden = call.shape("ffn_weight_1")[0]
    activation = 5 if call.flag("use_gelu") else 1
    feed_forward = tokens * (hidden * (1 + activation) + width)
    norms_and_residuals = tokens * width * (2 * 7 + 2)
    attention = _fused_attention(source, source, heads, width, call.has("mask"))
    return attention + feed_forward + norms_and_residuals


def one_recurrent_layer(per_unit: Callable[[int, bool], int]) -> Formula:
    """Return a formula of what a layer's mode, and whether it has biases, take per hidden unit."""

    def count(call: Call) -> int:
        steps = prod(call.shape("input")[:-1])
        each = per_unit(call.number("mode"), call.flag("has_biases"))
        return steps * call.number("hidden_size") * each

    return count


def recurrent_layers(per_unit: Callable[[int, bool], int]) -> Formula:
    """Return the same of several layers."""

    def count(call: Call) -> int:
        steps = prod(call.shape("input")[:-1])
        directions = 2 if call.flag("bidirectional") else 1
        units = call.number("hidden_size") * call.number("num_layers") * directions
        biased = any(weight.dim() == 1 for weight in call.items("weight"))
        return steps * units * per_unit(call.number("mode"), biased)

    return count


def per_hidden_unit(mode: int, biased: bool) -> int:
    """FLOP per step, sample and hidden unit, products apart.

    Each gate adds its two products, and two biases. LSTM: 3 sigmoids (12), 2 tanh, f·c + i·g and
    o·tanh(c) (4). GRU: 2 sigmoids (8), tanh, r·(…) (1), (h − n)·z + n (3). Plain: one activation.
    """
    gate = 3 if biased else 1
    return {LSTM: 4 * gate + 12 + 2 + 4, GRU: 3 * gate + 8 + 1 + 1 + 3}.get(mode, gate + 1)


ARITHMETIC.add(one_recurrent_layer(per_hidden_unit), "aten::mkldnn_rnn_layer")
ARITHMETIC.add(recurrent_layers(per_hidden_unit), "aten::_cudnn_rnn", "aten::miopen_rnn")


@ARITHMETIC.register("aten::_thnn_fused_lstm_cell")
def _fused_lstm_cell(call: Call) -> int:
    return call.elements("cx") * per_hidden_unit(LSTM, call.has("input_bias"))


@ARITHMETIC.register("aten::_thnn_fused_gru_cell")
def _fused_gru_cell(call: Call) -> int:
    return call.elements("hx") * per_hidden_unit(GRU, call.has("input_bias"))


def _square(call: Call) -> tuple[int, int]:
    shape = shape_of(call.first())
    return prod(shape[:-2]), shape[-1]


@ARITHMETIC.register("aten::linalg_cholesky_ex")
def _cholesky(call: Call) -> int:
    """n³/3."""
    batch, n = _square(call)
    return batch * n**3 // 3


@ARITHMETIC.register(
    "aten::linalg_lu_factor_ex", "aten::linalg_lu", "aten::_linalg_det", "aten::_linalg_slogdet"
)
def _lu(call: Call) -> int:
    """2·n³/3; the product of the diagonal is not a leading term."""
    batch, n = _square(call)
    return batch * 2 * n**3 // 3


@ARITHMETIC.register("aten::linalg_inv_ex")
def _inverse(call: Call) -> int:
    """2·n³: factors, then n solutions."""
    batch, n = _square(call)
    return batch * 2 * n**3


@ARITHMETIC.register("aten::_linalg_solve_ex")
def _solve(call: Call) -> int:
    """2·n³/3 for the factors, 2·n²·k for the solutions, which are the output."""
    batch, n = _square(call)
    return batch * 2 * n**3 // 3 + 2 * n * call.output_elements()


@ARITHMETIC.register("aten::linalg_lu_solve", "aten::cholesky_solve")
def _solve_factored(call: Call) -> int:
    """2·n²·k: two triangular systems."""
    return 2 * call.output()[-2] * call.output_elements()


@ARITHMETIC.register("aten::linalg_solve_triangular", "aten::triangular_solve")
def _solve_triangular(call: Call) -> int:
    """n²·k; from the right the other axis is n."""
    matrix = call.get("A") if call.has("A") else call.get("self")
    return int(getattr(matrix, "shape")[-1]) * call.output_elements()  # noqa: B009


@ARITHMETIC.register("aten::linalg_qr")
def _qr(call: Call) -> int:
    """2·m·n² − 2·n³/3 for m ≥ n, with rows and columns exchanged else; as much again for Q."""
    *leading, rows, columns = shape_of(call.first())
    long, short = max(rows, columns), min(rows, columns)
    factor = 2 * long * short**2 - 2 * short**3 // 3
    return prod(leading) * factor * (1 if call.get("mode") == "r" else 2)
