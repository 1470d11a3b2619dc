"""Scratch memory that operators allocate and free inside, on the CPU.

1. A formula gives bytes beyond the operator's outputs, at the worst moment inside it. What has no
   formula has none worth the name: outputs, means and standard deviations of norms are tensors.
2. These are allocations of torch's allocator, which ``trace/measured_peak.py`` measures. What
   oneDNN and MKL take elsewhere, and the stacks of threads, are not in it.
3. oneDNN computes in formats of its own choice; which one depends on the processor. The rules here
   were read off its allocations with torch 2.15 on AVX-512, with and without AMX, hold on AVX2 (as
   the same processor runs when told to), and are estimates elsewhere:
   ``benchmarks/costs/memory.py`` compares them with real runs. For recurrent layers they follow
   oneDNN's source, releases 3.7 and 3.12. The rest follows torch's source.

Letters: B batch, L target length, S source length, E width, H heads, F hidden width.
"""

from collections.abc import Sequence
from math import ceil, prod
from typing import NamedTuple

import torch

from tui_profiler.probe.cost.call import Call, FormulaTable
from tui_profiler.probe.torch_compat.internals import (
    convolution_backend,
    cpu_has_bf16,
    onednn_has_amx,
    onednn_has_avx512,
    onednn_release,
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
    inside = _inside_attention(batch, length, width, heads) * size
    return inside + _masked_scores(call, heads) - call.output_elements() * size


def _inside_attention(batch: int, length: int, width: int, heads: int) -> int:
    """Elements: the projections before and after they are divided, then one of them and scores.

    Source: ``aten/src/ATen/native/transformers/attention.cpp`` (``native_multi_head_attention``).
    """
    projected = 3 * batch * length * width
    return projected + max(projected, batch * heads * length * length)


def _masked_scores(call: Call, heads: int) -> int:
    """Bytes of the scores after a masked softmax, which does not work in place.

    Of a nested tensor a mask of what its parts are padded with is made, as large as the scores.
    Source: likewise, ``masked_softmax``.
    """
    first = call.first()
    if not (call.has("mask") or first.is_nested):
        return 0
    batch, length = shape_of(first)[:2]
    return batch * heads * length * length * (first.element_size() + first.is_nested)


@WORKSPACE.register("torchvision::deform_conv2d")
def _deformable_convolution(call: Call) -> int:
    """Columns of up to 32 images, and the output twice before the bias is added.

    Source: torchvision, ``csrc/ops/cpu/deform_conv2d_kernel.cpp`` (``kMaxParallelImgs``).
    """
    batch = call.shape("input")[0]
    height, width = call.output()[-2:]
    images = next(count for count in range(min(batch, 32), 0, -1) if batch % count == 0)
    columns = prod(call.shape("weight")[1:]) * call.number("groups")
    elements = columns * images * height * width + 2 * call.output_elements()
    return elements * _itemsize(call)


@WORKSPACE.register("aten::_transformer_encoder_layer_fwd")
def _encoder_layer(call: Call) -> int:
    """Attention, or its output with the hidden layer and the layer's own output.

    Source: ``aten/src/ATen/native/transformers/transformer.cpp``.
    """
    batch, length, width = call.shape("src")
    hidden, size = call.shape("ffn_weight_1")[0], _itemsize(call)
    output = batch * length * width
    normed = output if call.flag("norm_first") else 0
    heads = call.number("num_heads")
    attention = (normed + _inside_attention(batch, length, width, heads)) * size
    feed_forward = (2 * output + normed + batch * length * hidden) * size
    return max(attention + _masked_scores(call, heads), feed_forward) - output * size


@WORKSPACE.register("aten::mkldnn_rnn_layer")
def _recurrent_layer(call: Call) -> int:
    """The sum of both biases, both weights in oneDNN's format, its scratch space.

    input: (L, B, E); weights (4 H, E) and (4 H, H). In float32 training the rows are padded,
    otherwise the outputs of each gate are padded to whole blocks of two registers. In inference the
    states of all steps, which training keeps for the backward, are scratch. The gates of all steps
    are allocated at once if the input is multiplied for all steps in one product.
    """
    (length, batch, width), hidden = call.shape("input"), call.number("hidden_size")
    size, is_training = _itemsize(call), call.flag("train")
    if is_training and not _is_in_blocks(call):
        row, is_merged = _leading(4 * hidden, size), batch < _MERGED_BATCH
    else:
        row, is_merged = 4 * _whole(hidden, 2 * _block()), batch == 1
        width = _whole(width, _FLOAT // size)
    buffers = _buffers(call, length if is_merged else 1, gate_size=_FLOAT)
    scratch = recurrent_scratch(buffers[: 3 if is_training else 2], onednn_release())
    states = 0 if is_training else sum(_states(call, onednn_release()))
    return (4 * hidden + (width + hidden) * row) * size + states + scratch


@WORKSPACE.register("aten::mkldnn_rnn_layer_backward")
def _recurrent_layer_backward(call: Call) -> int:
    """Weights and their gradients in oneDNN's formats, biases, its scratch space.

    A weight that is not in blocks and whose rows need no padding is read without a copy.
    """
    (length, _, width), hidden = call.shape("input"), call.number("hidden_size")
    size, is_in_blocks = _itemsize(call), _is_in_blocks(call)
    gradients = ((width + hidden) * _leading(4 * hidden) + 4 * hidden) * _FLOAT
    incoming = _incoming(call, size)
    if is_in_blocks:
        read = sum(4 * hidden * _whole(row, 2 * _block()) for row in (width, hidden))
        extra = _of_blocks(call)
    else:
        rows = {row: _leading(row, size) for row in (width, hidden)}
        read = sum(4 * hidden * rows[row] for row in (width, hidden) if rows[row] != row)
        extra = 0
    buffers = _buffers(call, 1 if is_in_blocks else length, gate_size=size)
    scratch = recurrent_scratch(buffers, onednn_release())
    return (read + 4 * hidden) * size + incoming + gradients + scratch + extra


@WORKSPACE.register("aten::_trilinear")
def _trilinear(call: Call) -> int:
    """Of one slice of the unrolled axis: the product of the first two, and of it with the third.

    A bilinear layer's forward, and the gradients of both inputs and of its weight. Source:
    ``aten/src/ATen/native/Linear.cpp`` (``_trilinear``).
    """
    shapes = []
    for name, added in (("i1", "expand1"), ("i2", "expand2"), ("i3", "expand3")):
        sizes = list(call.shape(name))
        for axis in sorted(call.numbers(added)):
            sizes.insert(axis, 1)
        shapes.append(sizes)
    summed, third = set(call.numbers("sumdim")), set(call.numbers("expand3"))
    unrolled = call.number("unroll_dim")
    axes = [axis for axis in range(len(shapes[0])) if axis != unrolled]
    first = prod(max(shapes[0][i], shapes[1][i]) for i in axes if i not in summed & third)
    product = prod(max(sizes[i] for sizes in shapes) for i in axes if i not in summed)
    return (first + product) * _itemsize(call)


@WORKSPACE.register("aten::im2col")
def _unfold(call: Call) -> int:
    """A tensor as large as the input."""
    return call.first().numel() * _itemsize(call)


@WORKSPACE.register("aten::native_batch_norm_backward")
def _batch_norm_backward(call: Call) -> int:
    """The gradient of the input once more, where it is wanted and the incoming one is not spread.

    Read off allocations with torch 2.14, in float32 and bfloat16.
    """
    wanted, given = call.get("output_mask"), call.tensor("input")
    if isinstance(wanted, list | tuple) and not wanted[0]:
        return 0
    incoming = call.tensor("grad_out")
    is_dense = incoming.is_contiguous() or _is_channels_last(incoming)
    return given.numel() * given.element_size() if is_dense else 0


@WORKSPACE.register("aten::_safe_softmax")
def _safe_softmax(call: Call) -> int:
    """Which elements are minus infinity, which rows are so throughout, and a zero.

    Source: ``aten/src/ATen/native/transformers/attention.cpp`` (``_safe_softmax``).
    """
    given = call.tensor("self")
    return given.numel() + given.numel() // max(given.shape[call.number("dim")], 1) + _FLOAT


@WORKSPACE.register("aten::logsumexp")
def _logsumexp(call: Call) -> int:
    """The maxima, and the input less them.

    Source: ``aten/src/ATen/native/ReduceOps.cpp`` (``logsumexp_out_impl``).
    """
    return (call.first().numel() + call.output_elements()) * _itemsize(call)


@WORKSPACE.register("aten::mean")
def _mean(call: Call) -> int:
    """In 16 bits the input and the mean in float32.

    Source: ``aten/src/ATen/native/ReduceOps.cpp`` (``mean_out``).
    """
    if _itemsize(call) >= _FLOAT:
        return 0
    return (call.first().numel() + call.output_elements()) * _FLOAT


_LINE, _ALIASED, _PAGE = 64, 256, 4096
_POINTERS = 4_952
"""Bytes of oneDNN's scratch space besides its buffers: a page to align them, tables."""
_MERGED_BATCH = 128
"""From this batch size on, a forward multiplies the input of each step by the weight separately.
Source: oneDNN's ``src/cpu/rnn/rnn_utils.hpp``, ``merge_gemm_layer``."""
_ALLOCATES_ONCE = (3, 9)
"""The first release of oneDNN that allocates each buffer once. Before, the states were allocated
three times, and each buffer of the scratch space again, with as many elements as it has bytes.
Source: its commit d3fb569917, in ``set_offsets`` of ``src/cpu/rnn/rnn_utils.cpp`` and
``init_scratchpad`` of ``ref_rnn.cpp``. torch 2.10 has oneDNN 3.7.1, torch 2.11 3.10.2."""
_AGAIN_ALIGNED = 128


class _Buffer(NamedTuple):
    """A part of oneDNN's scratch space."""

    elements: int
    size: int
    """Bytes of an element."""


def _is_in_blocks(call: Call) -> bool:
    """Return whether training multiplies blocks: in 16 bits, with CPU instructions for them.

    Source: oneDNN's ``src/cpu/x64/rnn/rnn_brgemm_utils.cpp``.
    """
    return _itemsize(call) < _FLOAT and cpu_has_bf16()


def _of_blocks(call: Call) -> int:
    """input: (L, B, E); bytes of what a backward in blocks transposes: input, state, gates, tiles.

    Fitted to allocations with torch 2.14 at twelve shapes, with and without AMX, within 10 KiB.
    """
    (_, batch, width), hidden = call.shape("input"), call.number("hidden_size")
    columns = 2 * _block() if hidden % _block() else 4 * _block()
    tiles = torch.get_num_threads() * max(width, hidden) * columns * _FLOAT
    transposed = (width + hidden) * batch * _itemsize(call) + 2 * _block() * batch * _FLOAT
    return transposed + (tiles if onednn_has_amx() else 0)


def _incoming(call: Call, size: int) -> int:
    """input: (L, B, E); bytes of copies of incoming gradients, and of zeros for absent ones.

    16-bit gradients are converted to float32.
    """
    (length, batch, _), hidden = call.shape("input"), call.number("hidden_size")
    state = batch * hidden
    needed = {"grad_output": length * state, "grad_hy": state, "grad_cy": state}
    absent = sum(elements for name, elements in needed.items() if not call.has(name))
    copied = _copied(call.tensor("grad_output")) if call.has("grad_output") else 0
    converted = sum(needed.values()) * _FLOAT if size < _FLOAT else 0
    return (absent + copied) * size + converted


def _whole(elements: int, block: int) -> int:
    return ceil(elements / block) * block


def _leading(row: int, size: int = _FLOAT) -> int:
    """Return the elements from one row to the next: whole lines, rows in different lines.

    Source: oneDNN's ``src/cpu/rnn/rnn_utils.cpp``, ``get_good_ld``.
    """
    lines = _whole(row, _LINE // size)
    return lines + _LINE // size if lines % _ALIASED == 0 else lines


def _in_pages(elements: int, size: int = _FLOAT) -> int:
    """Return the bytes of a buffer, which begins at a page."""
    return _whole(elements * size, _PAGE)


def _buffers(call: Call, steps: int, *, gate_size: int) -> list[_Buffer]:
    """input: (L, B, E); the gates of ``steps`` steps, a state and its gradient.

    Source, also for ``kept_bytes``: oneDNN's ``src/cpu/rnn/rnn_utils.hpp``,
    ``set_workspace_sizes``.
    """
    batch, hidden, size = call.shape("input")[1], call.number("hidden_size"), _itemsize(call)
    return [
        _Buffer(steps * batch * _leading(4 * hidden, gate_size), gate_size),
        _Buffer(batch * _leading(hidden, size), size),
        _Buffer(batch * _leading(hidden), _FLOAT),
    ]


def recurrent_scratch(buffers: Sequence[tuple[int, int]], release: tuple[int, int]) -> int:
    """Return the bytes of the scratch space of a recurrent layer.

    Args:
        buffers: the number of elements of each, and the bytes per element.
        release: of oneDNN.
    """
    space = sum(_in_pages(elements, size) for elements, size in buffers) + _POINTERS
    if release >= _ALLOCATES_ONCE:
        return space
    return space + sum(elements * size * size + _AGAIN_ALIGNED for elements, size in buffers)


def _states(call: Call, release: tuple[int, int]) -> tuple[int, int]:
    """input: (L, B, E); bytes of the states before and after each step, and of the cells."""
    (length, batch, width), hidden = call.shape("input"), call.number("hidden_size")
    rows, size = 2 * (length + 1) * batch, _itemsize(call)
    states = _in_pages(rows * _leading(max(width, hidden), size), size)
    times = 1 if release >= _ALLOCATES_ONCE else 3
    return times * states, _in_pages(rows * hidden, size)


def kept_bytes(call: Call, release: tuple[int, int] | None = None) -> dict[int, int]:
    """Return the bytes of outputs whose size differs from that in a fake run, by position.

    What oneDNN keeps of a recurrent layer for its backward is a tensor of bytes, empty on meta:
    gates and outputs of all steps, states and cells, and space for the gradients of the last two.
    Its backward returns float32. In a fake run of torch 2.10 it returns the dtype of its input, and
    the gradient of an absent bias has the size of a weight, which torch passes in its place.

    Args:
        call: of any operator.
        release: of oneDNN; None for the one that torch was built with.
    """
    if call.signature.name == "aten::mkldnn_rnn_layer_backward":
        outputs = {position: _FLOAT * one.numel() for position, one in enumerate(call.outputs)}
        return outputs | dict.fromkeys((3, 4), _FLOAT * 4 * call.number("hidden_size"))
    if call.signature.name != "aten::mkldnn_rnn_layer" or not call.flag("train"):
        return {}
    (length, batch, width), hidden = call.shape("input"), call.number("hidden_size")
    size, rows, steps = _itemsize(call), 2 * (length + 1) * batch, length * batch
    gates = _in_pages(steps * _leading(4 * hidden, size), size)
    states = _in_pages(steps * _leading(hidden, size), size)
    states += sum(_states(call, release or onednn_release()))
    gradients = 2 * _in_pages(rows * _leading(max(width, hidden))) + _in_pages(rows * hidden)
    return {3: gates + states + gradients}


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
