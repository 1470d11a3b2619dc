"""Scratch memory that operators allocate and free inside, on the CPU.

1. A formula gives bytes beyond the operator's outputs, at the worst moment inside it. What has no
   formula has none worth the name: outputs, means and standard deviations of norms are tensors.
2. These are allocations of torch's allocator, which ``trace/measured_peak.py`` measures. What
   oneDNN and MKL take elsewhere, and the stacks of threads, are not in it.
3. oneDNN computes in formats of its own choice; which one depends on the processor. The rules here
   were read off its allocations with torch 2.15 on AVX-512, with and without AMX, hold on AVX2 (as
   the same processor runs when told to), and are estimates elsewhere:
   ``benchmarks/costs/memory.py`` sets them against real runs. The rest follows torch's source.

Letters: B batch, L target length, S source length, E width, H heads, F hidden width.
"""

from math import ceil, prod

import torch

from tui_profiler.probe.cost.call import Call, FormulaTable
from tui_profiler.probe.torch_compat.internals import (
    convolution_backend,
    onednn_has_amx,
    onednn_has_avx512,
    shape_of,
)

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
    copied = _copied(given) * size
    reads_as_is = given.shape[1] // groups <= _PLAIN_CHANNELS and groups == 1
    source = 0 if reads_as_is else _blocked(shape_of(given)) * size
    blocked = _blocked(output) * size
    bias = _padded(output[1]) * size if call.has("bias") and output[1] % _block() else 0
    is_gathered = prod(weight[2:]) == 1 and max(call.numbers("stride")) > 1
    gathered = given.shape[1] * prod(output[2:]) * size if is_gathered and not is_transposed else 0
    computing = source + kernels + bias + gathered + blocked
    return copied + max(computing, blocked + out_bytes) - out_bytes


def _copied(tensor: torch.Tensor) -> int:
    """Return the elements of a tensor that is made contiguous first: a part of another one."""
    return 0 if tensor.is_contiguous() or _is_channels_last(tensor) else tensor.numel()


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
    return 16 if onednn_has_avx512() else 8


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
    rows = _query_rows(length)
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
    """The sum of both biases, both weights in oneDNN's format; in training the gates of all steps.

    input: (L, B, E); weights (4 H, E) and (4 H, H).
    """
    hidden = call.number("hidden_size")
    weights = (call.shape("input")[-1] + hidden) * _leading(4 * hidden)
    scratch = _gates_of_steps(call) if call.flag("train") else 0
    return (4 * hidden + weights + scratch) * _itemsize(call)


@WORKSPACE.register("aten::mkldnn_rnn_layer_backward")
def _recurrent_layer_backward(call: Call) -> int:
    """Weights and their gradients in oneDNN's formats, biases, two states, gates of all steps.

    A weight whose rows need no padding is read as it is.
    """
    (_, batch, width), hidden = call.shape("input"), call.number("hidden_size")
    read = sum(4 * hidden * _leading(row) for row in (width, hidden) if _leading(row) != row)
    gradients = (width + hidden) * _leading(4 * hidden)
    rest = 2 * 4 * hidden + 2 * batch * hidden + _gates_of_steps(call)
    return (read + gradients + rest) * _itemsize(call) + _SCRATCH


_LINE, _ALIASED = 16, 256
_SCRATCH = 1 << 14
"""Bytes of small buffers, each of whole pages; 12 to 23 KiB with torch 2.14."""
_WIDE_STATES, _STATES, _STATES_OF_STEPS = 6, 4, 1
"""Tensors that oneDNN keeps of a step for the backward: as wide as input or state, as wide as the
state, both with one step more; cells. Read off its allocations with torch 2.14; source of the
terms: oneDNN's ``src/cpu/rnn/rnn_utils.cpp``, ``set_workspace_sizes``."""


def _leading(row: int) -> int:
    """Return the elements from one row to the next: whole lines, rows in different lines.

    Source: oneDNN's ``src/cpu/rnn/rnn_utils.cpp``, ``get_good_ld``.
    """
    lines = (row + _LINE - 1) // _LINE * _LINE
    return lines + _LINE if lines % _ALIASED == 0 else lines


def _gates_of_steps(call: Call) -> int:
    """input: (L, B, E); elements of four gates of each step and sample."""
    return prod(call.shape("input")[:-1]) * _leading(4 * call.number("hidden_size"))


def kept_bytes(call: Call) -> dict[int, int]:
    """Return bytes of outputs that are larger than a fake run knows, by their position.

    What oneDNN keeps of a recurrent layer for its backward is a tensor of bytes, empty on meta.
    """
    if call.signature.name != "aten::mkldnn_rnn_layer" or not call.flag("train"):
        return {}
    (length, batch, width), hidden = call.shape("input"), call.number("hidden_size")
    of_step = _WIDE_STATES * _leading(max(width, hidden)) + _STATES * _leading(hidden)
    states = of_step * (length + 1) + _STATES_OF_STEPS * hidden * length
    return {3: (_gates_of_steps(call) + batch * states) * _itemsize(call)}


@WORKSPACE.register("aten::convolution_backward")
def _convolution_backward(call: Call) -> int:
    """Copies in oneDNN's formats: for the gradient of the input, then for that of the weight.

    Each of the two has incoming gradient, weight and input in blocks of channels, and its result
    once in blocks and once plain. Where a kernel is strided, the gradient of the input is copied
    once more. A kernel wider than ``_WIDEST_KERNEL`` is a matrix product on columns, with four
    copies of the weight for each thread. In 16 bits the gradient of the weight is summed up in
    float32 on top, which in channels-last takes the place of the copies; with AMX there are tiles
    besides. A direct kernel has the columns of the input (``ConvolutionMM2d.cpp``, ``finput``).
    """
    arguments = ("input", "weight", None, "stride", "padding", "dilation", "transposed")
    first = tuple(None if name is None else call.get(name) for name in arguments)
    backend = convolution_backend((*first, call.get("output_padding"), call.get("groups")))
    given, gradient = call.tensor("input"), call.tensor("grad_output")
    wanted = call.get("output_mask")
    for_input, for_weight = wanted[:2] if isinstance(wanted, list | tuple) else (True, True)
    if backend == "Slow2d" and for_weight and not _is_pointwise(call):
        columns = prod(call.shape("weight")[1:]) * prod(gradient.shape[2:])
        return int(gradient.shape[0] * columns) * _itemsize(call)
    if not backend.startswith("Mkldnn"):
        return 0
    size, kernels, groups = _itemsize(call), _onednn_weight(call), call.number("groups")
    weight, kernel = call.shape("weight"), call.shape("weight")[2:]
    threads = torch.get_num_threads()
    plain, blocked = given.numel() * for_input, _blocked(shape_of(given))
    incoming, is_strided = _blocked(shape_of(gradient)), max(call.numbers("stride")) > 1
    is_depthwise = groups > 1 and weight[1] == 1
    tiles = _tiles(given.shape[1], gradient) // size if size < _FLOAT and groups == 1 else 0
    if _is_channels_last(given):
        if is_depthwise and max(kernel) > _WIDEST_DEPTHWISE:
            kernels = groups * _block() ** 2 * prod(kernel)
        gathered = threads * gradient[0].numel() if is_strided and not is_depthwise else 0
        first_peak = (plain + prod(weight) + gathered) * for_input
        peak = max(first_peak, plain + (kernels + 2 * prod(weight) + tiles) * for_weight)
    else:
        is_copied = is_strided and not is_depthwise
        results = max(incoming + kernels, (1 + is_copied) * plain)
        first_peak = (blocked + results) * for_input
        reads_as_is = given.shape[1] // groups <= _PLAIN_CHANNELS and groups == 1
        given_blocks = 0 if reads_as_is else blocked
        summed = kernels * _FLOAT // size if size < _FLOAT else 0
        peak = plain + (incoming + given_blocks + kernels + summed + tiles) * for_weight
        if is_depthwise and max(kernel) > _WIDEST_DEPTHWISE:
            peak = plain + 2 * kernels  # it reads plain tensors
        peak = max(first_peak, peak, plain + (kernels + prod(weight)) * for_weight)
    if kernel[-1] > _WIDEST_KERNEL:
        columns = prod(weight[1:]) * prod(gradient.shape[2:])
        peak = max(first_peak, plain + prod(weight) + threads * (4 * prod(weight) + columns))
    outputs = plain + prod(weight) * for_weight
    return int(_copied(given) + _copied(gradient) + peak - outputs) * size


_TILE_ROWS = 32
"""Places that a tile of 16-bit values multiplies at once: 16 rows of pairs."""
_TILE_BUFFERS, _TILE_CONSTANT, _TILE_GAP = 20_504, 9_856, 1_024
"""Bytes of a thread's tiles and their palette, of tables, and between the blocks of a tensor."""


def _tiles(channels: int, gradient: torch.Tensor) -> int:
    """Return bytes beside the sum where AMX computes the gradient of a weight.

    Incoming gradient and input of one sample are transposed in blocks of a tile's rows; the input's
    last block is a whole one. Exact for pointwise kernels, of wider ones the edges are left out.

    Source: read off allocations with torch 2.14 at 44 shapes; the kernel is oneDNN's
    ``src/cpu/x64/jit_brgemm_conv_bwd_w.cpp``.

    Args:
        channels: of the input.
        gradient: (batch, channels, *places), incoming.
    """
    if not onednn_has_amx():
        return 0
    places = prod(gradient.shape[2:])
    blocks = ceil(places / _TILE_ROWS)
    pairs = blocks * ceil(places / blocks / 2)
    transposed = channels * _TILE_ROWS * blocks + gradient.shape[1] * 2 * pairs
    constant = torch.get_num_threads() * _TILE_BUFFERS + _TILE_CONSTANT
    return constant + (blocks - 1) * _TILE_GAP + 2 * transposed


_WIDEST_KERNEL = 14
"""Columns of a kernel that oneDNN's direct convolutions take. Source:
``src/cpu/x64/jit_avx512_common_conv_kernel.cpp``."""
_WIDEST_DEPTHWISE = 3


@WORKSPACE.register("aten::_scaled_dot_product_flash_attention_for_cpu_backward")
def _flash_attention_backward(call: Call) -> int:
    """For each thread two blocks of scores: they and their gradient.

    Source: ``aten/src/ATen/native/cpu/FlashAttentionKernel.cpp``.
    """
    length, keys = call.shape("query")[-2], min(_ATTENTION_KEYS, call.shape("key")[-2])
    rows = _query_rows(length)
    return torch.get_num_threads() * 2 * rows * keys * _FLOAT


def _query_rows(length: int) -> int:
    """Return how many queries a thread of CPU flash attention takes at once."""
    return min(256 if length >= 768 else 64 if length >= 192 else 32, length)
