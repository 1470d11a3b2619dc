"""FLOP beside multiply-accumulates, and of factorisations and solves by their leading terms.

The figures stand in the table at the top of ``arithmetic.py``.

Source: Blackford and Dongarra, LAPACK Working Note 41, "Installation Guide for LAPACK", appendix C
(operation counts of the LAPACK routines). What iterates until it converges (eigenvalues, singular
values) has no count beforehand, and stays uncosted.

Letters: n rows and columns, m rows, k right-hand sides; any axes before them are a batch.
"""

from __future__ import annotations

from math import prod

from tui_profiler.probe.cost.arithmetic import ARITHMETIC
from tui_profiler.probe.cost.call import Call, Shape
from tui_profiler.probe.torch_compat.internals import shape_of

_LSTM, _GRU = 2, 3
"""Modes of ``mkldnn_rnn_layer`` and ``_cudnn_rnn``; 0 and 1 are plain cells."""


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


@ARITHMETIC.register(
    "aten::_scaled_dot_product_attention_math",
    "aten::_scaled_dot_product_fused_attention_overrideable",
    "aten::_scaled_dot_product_flash_attention_for_cpu",
    "aten::_scaled_dot_product_flash_attention",
    "aten::_scaled_dot_product_efficient_attention",
    "aten::_scaled_dot_product_cudnn_attention",
    "aten::_scaled_dot_product_attention_math_for_mps",
    "aten::scaled_dot_product_attention",
)
def _scores(call: Call) -> int:
    query, key = call.shape("query"), call.shape("key")
    masked = call.has("attn_mask") or call.has("attn_bias")
    return prod(query[:-1]) * key[-2] * (6 + masked)


@ARITHMETIC.register("aten::_native_multi_head_attention", "aten::_triton_multi_head_attention")
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


@ARITHMETIC.register("aten::mkldnn_rnn_layer")
def _one_recurrent_layer(call: Call) -> int:
    steps = prod(call.shape("input")[:-1])
    per_unit = per_hidden_unit(call.number("mode"), call.flag("has_biases"))
    return steps * call.number("hidden_size") * per_unit


@ARITHMETIC.register("aten::_cudnn_rnn", "aten::miopen_rnn")
def _recurrent_layers(call: Call) -> int:
    weights = call.get("weight")
    if not isinstance(weights, list | tuple):
        raise TypeError("weights of a recurrent layer are not a list")
    steps = prod(call.shape("input")[:-1])
    directions = 2 if call.flag("bidirectional") else 1
    units = call.number("hidden_size") * call.number("num_layers") * directions
    biased = any(weight.dim() == 1 for weight in weights)
    return steps * units * per_hidden_unit(call.number("mode"), biased)


def per_hidden_unit(mode: int, biased: bool) -> int:
    """FLOP per step, sample and hidden unit, products apart.

    Each gate adds its two products, and two biases. LSTM: 3 sigmoids (12), 2 tanh, f·c + i·g and
    o·tanh(c) (4). GRU: 2 sigmoids (8), tanh, r·(…) (1), (h − n)·z + n (3). Plain: one activation.
    """
    gate = 3 if biased else 1
    return {_LSTM: 4 * gate + 12 + 2 + 4, _GRU: 3 * gate + 8 + 1 + 1 + 3}.get(mode, gate + 1)


@ARITHMETIC.register("aten::_thnn_fused_lstm_cell")
def _fused_lstm_cell(call: Call) -> int:
    return call.elements("cx") * per_hidden_unit(_LSTM, call.has("input_bias"))


@ARITHMETIC.register("aten::_thnn_fused_gru_cell")
def _fused_gru_cell(call: Call) -> int:
    return call.elements("hx") * per_hidden_unit(_GRU, call.has("input_bias"))


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
    """2·n³/3; the product of the diagonal is no leading term."""
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
