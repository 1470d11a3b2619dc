"""Operators on quantised tensors: they cost what the same operator on real numbers does.

1. A quantised tensor stands for real numbers, so its arithmetic is counted, although the machine
   does it on integers. Scaling a result back into its range is not counted.
2. Packed weights are asked for their parts; where a fused operator hides them (LSTM, GRU) the
   widths of its states tell their shapes.
"""

from math import prod

import torch

from tui_profiler.probe.cost import macs
from tui_profiler.probe.cost.arithmetic import ARITHMETIC, per_hidden_unit
from tui_profiler.probe.cost.call import Call, Formula
from tui_profiler.probe.cost.macs import GATES, MACS

_PER_OUTPUT = {
    1: "add add_scalar mul mul_scalar mul_out add_out add_scalar_out mul_scalar_out threshold "
    "cat_relu cat_relu_out",
    2: "add_relu add_scalar_relu mul_relu mul_scalar_relu add_relu_out add_scalar_relu_out "
    "mul_relu_out mul_scalar_relu_out relu6 clamp leaky_relu prelu batch_norm batch_norm1d "
    "batch_norm2d batch_norm3d",
    3: "batch_norm_relu batch_norm1d_relu batch_norm2d_relu batch_norm3d_relu",
    4: "sigmoid elu celu",
    5: "hardswish softmax",
}
"""FLOP per element of the output, as in ``arithmetic.py``; a fused ReLU is 1 more."""


def _per_output(flops: int) -> Formula:
    return lambda call: flops * call.output_elements()


for _flops, _names in _PER_OUTPUT.items():
    ARITHMETIC.add(_per_output(_flops), *(f"quantized::{name}" for name in _names.split()))
ARITHMETIC.add(_per_output(2), "aten::quantized_batch_norm")


def _parts(call: Call, name: str) -> tuple[torch.Tensor, torch.Tensor | None]:
    weight, bias = getattr(call.get(name), "unpack")()  # noqa: B009 - a ScriptObject's method
    return weight, bias


_LINEAR = [
    f"quantized::linear{ending}"
    for ending in (
        *("", "_relu", "_leaky_relu", "_tanh"),
        *("_dynamic", "_relu_dynamic", "_dynamic_fp16", "_relu_dynamic_fp16"),
    )
]
_CONVOLUTIONS = [
    f"quantized::conv{axes}d{ending}"
    for axes in (1, 2, 3)
    for ending in ("", "_relu", "_dynamic", "_add", "_add_relu")
]
_TRANSPOSED = [
    f"quantized::conv_transpose{axes}d{ending}" for axes in (1, 2, 3) for ending in ("", "_dynamic")
]


@MACS.register(*_LINEAR, "quantized::matmul")
def _contracts_last_axis(call: Call) -> int:
    """First operand: (..., in)."""
    return call.output_elements() * call.first().shape[-1]


@MACS.register(*_CONVOLUTIONS)
def _convolution(call: Call) -> int:
    """The weight unpacked: (out, in / groups, *kernel)."""
    output = call.output()
    return int(output[0] * prod(output[2:]) * _parts(call, "packed_weight")[0].numel())


@MACS.register(*_TRANSPOSED)
def _transposed_convolution(call: Call) -> int:
    given = call.shape("qx")
    return int(given[0] * prod(given[2:]) * _parts(call, "packed_weight")[0].numel())


@ARITHMETIC.register(*_LINEAR)
def _linear_bias(call: Call) -> int:
    return _bias_and_activation(call, "W_prepack")


@ARITHMETIC.register(*_CONVOLUTIONS, *_TRANSPOSED)
def _convolution_bias(call: Call) -> int:
    return _bias_and_activation(call, "packed_weight")


def _bias_and_activation(call: Call, packed: str) -> int:
    name = call.signature.name.partition("::")[2]
    biased = _parts(call, packed)[1] is not None
    activation = 2 if "leaky_relu" in name else int("relu" in name or "tanh" in name)
    return (biased + ("add" in name) + activation) * call.output_elements()


@ARITHMETIC.register("quantized::layer_norm", "quantized::group_norm", "quantized::instance_norm")
def _norm(call: Call) -> int:
    return (5 + call.has("weight") + call.has("bias")) * call.output_elements()


@ARITHMETIC.register("quantized::max_pool1d", "quantized::max_pool2d")
@ARITHMETIC.register("aten::quantized_max_pool1d", "aten::quantized_max_pool3d")
def _pooling(call: Call) -> int:
    return prod(call.numbers("kernel_size")) * call.output_elements()


@ARITHMETIC.register(
    "quantized::embedding_bag_byte",
    "quantized::embedding_bag_4bit",
    "quantized::embedding_bag_byte_rowwise_offsets",
    "quantized::embedding_bag_4bit_rowwise_offsets",
    "quantized::embedding_bag_2bit_rowwise_offsets",
)
def _bags(call: Call) -> int:
    """Rows added up; with a weight each, multiplied before."""
    per_element = 2 if call.has("per_sample_weights") else 1
    return per_element * call.elements("indices") * call.output()[-1]


def _layers_macs(mode: int) -> Formula:
    def count(call: Call) -> int:
        """Each step of layer and direction: gates·H·(in + H); later layers read all directions."""
        hidden, directions = _hidden(call), 2 if call.flag("bidirectional") else 1
        later = (call.number("num_layers") - 1) * (hidden * directions + hidden)
        widths = call.first().shape[-1] + hidden + later
        return _steps(call) * directions * GATES[mode] * hidden * widths

    return count


def _layers_gates(mode: int) -> Formula:
    def count(call: Call) -> int:
        directions = 2 if call.flag("bidirectional") else 1
        units = _hidden(call) * directions * call.number("num_layers")
        return _steps(call) * units * per_hidden_unit(mode, call.flag("has_biases"))

    return count


def _steps(call: Call) -> int:
    """Of all samples: input is (L, B, in), or (rows, in) of a packed sequence."""
    return prod(call.first().shape[:-1])


def _hidden(call: Call) -> int:
    states = call.get("hx")
    state = states[0] if isinstance(states, list | tuple) else states
    if not isinstance(state, torch.Tensor):
        raise TypeError(f"{call.signature.name}: hx is not a tensor")
    return int(state.shape[-1])


def _cell_macs(mode: int) -> Formula:
    def count(call: Call) -> int:
        """input: (B, in), hx: (B, H)."""
        batch, width = call.shape("input")
        return batch * GATES[mode] * _hidden(call) * (width + _hidden(call))

    return count


def _cell_gates(mode: int) -> Formula:
    def count(call: Call) -> int:
        return call.shape("input")[0] * _hidden(call) * per_hidden_unit(mode, biased=True)

    return count


def _enter_recurrent() -> None:
    for name, mode in (("lstm", macs.LSTM), ("gru", macs.GRU)):
        MACS.add(_layers_macs(mode), f"aten::quantized_{name}")
        ARITHMETIC.add(_layers_gates(mode), f"aten::quantized_{name}")
    modes = {"lstm": macs.LSTM, "gru": macs.GRU, "rnn_relu": macs.RELU, "rnn_tanh": macs.TANH}
    for name, mode in modes.items():
        MACS.add(_cell_macs(mode), f"quantized::quantized_{name}_cell_dynamic")
        ARITHMETIC.add(_cell_gates(mode), f"quantized::quantized_{name}_cell_dynamic")


_enter_recurrent()
