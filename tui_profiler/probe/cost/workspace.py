"""Scratch memory that operators allocate and free inside, on the CPU.

1. A formula gives bytes beyond the operator's outputs, at the worst moment inside it. What has no
   formula has none worth the name: outputs, means and standard deviations of norms are tensors.
2. These are allocations of torch's allocator, which ``trace/measured_peak.py`` measures. What
   oneDNN and MKL take elsewhere, and the stacks of threads, are not in it.
3. oneDNN computes in formats of its own choice; which one depends on the processor. The rules here
   were read off its allocations with torch 2.15 on AVX-512, hold on AVX2 (as the same processor
   runs when told to), and are estimates elsewhere: ``benchmarks/memory.py`` sets them against real
   runs. Everything else follows torch's source.

Letters: B batch, L target length, S source length, E width, H heads, F hidden width.
"""

from __future__ import annotations

from math import ceil, prod

import torch

from tui_profiler.probe.cost.call import Call
from tui_profiler.probe.cost.table import FormulaTable
from tui_profiler.probe.torch_compat.internals import convolution_backend, shape_of

WORKSPACE = FormulaTable()

_PLAIN_CHANNELS = 3
"""Up to so many input channels oneDNN reads an image as it is."""
_ATTENTION_KEYS = 512
_CONVOLUTION_ARGUMENTS = 9
_FLOAT = 4


def workspace_bytes(call: Call) -> int | None:
    """Return the scratch memory of one call; None where it does not run on the CPU."""
    if any(tensor.device.type != "cpu" for tensor in call.outputs):
        return None
    formula = WORKSPACE.find(call.signature.name)
    if formula is None:
        return 0
    try:
        return max(0, formula(call) or 0)
    except (ArithmeticError, LookupError, TypeError, ValueError):
        return 0  # arguments that the formula was not written for, such as a fourth dimension


@WORKSPACE.register("aten::convolution", "aten::_convolution")
def _convolution(call: Call) -> int:
    """Columns of the direct kernels; copies in oneDNN's formats.

    Source: ``aten/src/ATen/native/Convolution.cpp`` (``use_mkldnn`` and the choice of kernel),
    ``ConvolutionMM2d.cpp`` (``finput``), ``NaiveDilatedConvolution.cpp`` (``columns``).
    """
    # What ``torch.jit.trace`` leaves has the same nine arguments, and flags of cuDNN after them.
    backend = convolution_backend(call.args[:_CONVOLUTION_ARGUMENTS])
    output, weight = call.output(), call.shape("weight")
    columns = prod(weight[1:]) * prod(output[2:]) * _itemsize(call)
    if backend in ("Slow2d", "Slow3d"):
        return 0 if _is_pointwise(call) else output[0] * columns
    if backend.startswith("SlowDilated"):
        return columns
    if backend.startswith("SlowTranspose"):
        return prod(weight[1:]) * prod(call.shape("input")[2:]) * _itemsize(call)
    return _onednn_convolution(call) if backend.startswith("Mkldnn") else 0


def _onednn_convolution(call: Call) -> int:
    """input: (B, in, *size) → blocks of channels, weight reordered, output in blocks → plain.

    While it computes, the three copies are alive and the plain output is not; then the copy of the
    output and the plain one are. A strided kernel of one place first gathers what it reads.
    """
    given, weight, output = call.tensor("input"), call.shape("weight"), call.output()
    groups, size = call.number("groups"), _itemsize(call)
    is_transposed = call.flag("transposed")
    out_bytes = prod(output) * size
    kernels = _onednn_weight(call) * size
    if _is_channels_last(given):
        return kernels
    reads_as_is = given.shape[1] // groups <= _PLAIN_CHANNELS and groups == 1
    source = 0 if reads_as_is else _blocked(shape_of(given)) * size
    blocked = _blocked(output) * size
    bias = _padded(output[1]) * size if call.has("bias") and output[1] % _block() else 0
    is_gathered = prod(weight[2:]) == 1 and max(call.numbers("stride")) > 1
    gathered = given.shape[1] * prod(output[2:]) * size if is_gathered and not is_transposed else 0
    computing = source + kernels + bias + gathered + blocked
    return max(computing, blocked + out_bytes) - out_bytes


def _onednn_weight(call: Call) -> int:
    """Elements of the reordered weight: channels in whole blocks, those of a group as they are."""
    weight, groups = call.shape("weight"), call.number("groups")
    one, other = weight[:2]
    if groups > 1:
        is_depthwise = other == 1
        return (_padded(one) if is_depthwise else one) * other * prod(weight[2:])
    other = other if other <= _PLAIN_CHANNELS else _padded(other)
    return _padded(one) * other * prod(weight[2:])


def _blocked(shape: tuple[int, ...]) -> int:
    return shape[0] * _padded(shape[1]) * prod(shape[2:])


def _padded(channels: int) -> int:
    return ceil(channels / _block()) * _block()


def _block() -> int:
    """Channels in one vector register of floats."""
    return 16 if "AVX512" in torch.backends.cpu.get_cpu_capability() else 8


def _is_pointwise(call: Call) -> bool:
    """A kernel of one place, not strided: its columns are the input itself."""
    return (
        prod(call.shape("weight")[2:]) == 1
        and max(call.numbers("stride")) == 1
        and max(call.numbers("padding")) == 0
    )


def _is_channels_last(tensor: torch.Tensor) -> bool:
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    wanted = formats.get(tensor.dim())
    if wanted is None or tensor.is_contiguous():
        return False
    return tensor.is_contiguous(memory_format=wanted)


def _itemsize(call: Call) -> int:
    return call.first().element_size()


@WORKSPACE.register("aten::_scaled_dot_product_flash_attention_for_cpu")
def _flash_attention(call: Call) -> int:
    """For each thread a block of scores, its maxima, its sums and a block of the output.

    Source: ``aten/src/ATen/native/cpu/FlashAttentionKernel.cpp`` (``size_per_thread``).
    """
    length, width = call.shape("query")[-2:]
    rows = min(256 if length >= 768 else 64 if length >= 192 else 32, length)
    keys = min(_ATTENTION_KEYS, call.shape("key")[-2])
    return torch.get_num_threads() * rows * (keys + 2 + width) * _FLOAT


@WORKSPACE.register("aten::_native_multi_head_attention")
def _multi_head_attention(call: Call) -> int:
    batch, length, width = call.shape("query")
    heads, size = call.number("num_head"), _itemsize(call)
    return _inside_attention(batch, length, width, heads) * size - call.output_elements() * size


def _inside_attention(batch: int, length: int, width: int, heads: int) -> int:
    """Elements: the projections before and after they are divided, then one of them and scores.

    Source: ``aten/src/ATen/native/transformers/attention.cpp`` (``native_multi_head_attention``).
    """
    projected = 3 * batch * length * width
    return projected + max(projected, batch * heads * length * length)


@WORKSPACE.register("aten::_transformer_encoder_layer_fwd")
def _encoder_layer(call: Call) -> int:
    """Attention, or its output with the hidden layer and the layer's own output.

    Source: ``aten/src/ATen/native/transformers/transformer.cpp``.
    """
    batch, length, width = call.shape("src")
    hidden, size = call.shape("ffn_weight_1")[0], _itemsize(call)
    output = batch * length * width
    normed = output if call.flag("norm_first") else 0
    attention = normed + _inside_attention(batch, length, width, call.number("num_heads"))
    feed_forward = 2 * output + normed + batch * length * hidden
    return (max(attention, feed_forward) - output) * size


@WORKSPACE.register("aten::mkldnn_rnn_layer")
def _recurrent_layer(call: Call) -> int:
    """Both weights in oneDNN's format. What it keeps of the steps besides is not modelled."""
    return (call.elements("weight0") + call.elements("weight1")) * _itemsize(call)
