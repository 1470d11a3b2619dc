"""Memory of a training step on paper: by hand, and against torch's own events of a real one."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch
from torch import nn

from benchmarks.training.memory import LIMIT, Row, compared, real_peak
from tests.probe.trace.training.recorded import cost_at, recorded
from tests.probe.trace.training.test_costs import Block, layer
from tui_profiler.messages import TENSOR_USES, TrainingMemory, TrainSpec, known
from tui_profiler.probe.cost.call import Call, signature_of
from tui_profiler.probe.cost.workspace import kept_bytes, recurrent_scratch
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.trace.measured_peak import measured_peak
from tui_profiler.probe.trace.trace import trace
from tui_profiler.probe.trace.training.record_step import trace_step
from tui_profiler.session.training import MemoryColumns, memory_columns_agree

X = torch.ones(16, 8)
ROWS = 16 * 8 * 4
"""Bytes of ``X``."""
WEIGHT, BIAS = 8 * 8 * 4, 8 * 4
HELD = WEIGHT + 64
"""Bytes of a layer's parameters, as torch's allocator rounds them up."""

IN_16_BITS = TrainSpec("sgd", autocast="bf16")


def chain() -> nn.Module:
    return nn.Sequential(layer(), nn.Tanh(), layer(), nn.Tanh())


def test_the_terms_of_a_chain_by_hand() -> None:
    memory = recorded(chain(), X, spec=TrainSpec("adamw")).memory

    assert memory.parameters == 2 * (WEIGHT + BIAS)
    assert memory.inputs == ROWS
    assert memory.gradients == 2 * HELD
    assert memory.optimizer_state == 2 * 2 * HELD + 4 * 64  # Two means each, and counts of steps.
    # Of each tanh its output; of the second layer its input, which is the first one's.
    assert memory.saved == 2 * ROWS + 64  # And the loss.
    assert memory.workspace == 0
    assert not any(MemoryColumns(memory).by_use[TENSOR_USES.index("recomputed")])


@pytest.mark.parametrize(
    ("optimizer", "states"), [("sgd", 0), ("sgd,momentum=0.9", 1), ("adam", 2), ("rmsprop", 1)]
)
def test_the_state_of_an_optimizer(optimizer: str, states: int) -> None:
    memory = recorded(chain(), X, spec=TrainSpec(optimizer)).memory

    counts = 4 * 64 if optimizer in ("adam", "rmsprop") else 0
    assert memory.optimizer_state == states * 2 * HELD + counts


def test_who_is_alive_makes_the_peak() -> None:
    memory = recorded(chain(), X, spec=TrainSpec("adamw")).memory
    columns = MemoryColumns(memory)

    assert memory.peak == columns.constant_bytes + sum(memory.uses)
    assert memory.peak == max(memory.phase_peaks)
    points = range(len(columns.nodes))
    assert memory.peak == max(columns.alive(point) for point in points)
    at = max(points, key=columns.alive)
    for use, of_use in enumerate(columns.by_use):
        alive = sum(
            size
            for size, first, last, kind in zip(
                columns.sizes, columns.first, columns.last, columns.kinds, strict=True
            )
            if kind == use and first <= at <= last
        )
        assert alive == of_use[at] == memory.uses[use]
    assert [one.bytes for one in memory.alive] == sorted(
        (one.bytes for one in memory.alive), reverse=True
    )
    assert {one.use for one in memory.alive} <= set(TENSOR_USES)


def test_what_is_saved_is_by_who_made_it() -> None:
    made = recorded(chain(), X)

    assert [cost_at(made, str(at)).saved_bytes for at in range(4)] == [0, ROWS, 0, ROWS]
    assert cost_at(made).saved_bytes == 2 * ROWS


def test_columns_that_disagree_are_refused() -> None:
    memory = recorded(chain(), X).memory
    assert memory_columns_agree(memory)
    for name in ("sizes", "temporary", "kinds"):
        values = {one: getattr(memory, one) for one in TrainingMemory.__struct_fields__}
        assert not memory_columns_agree(TrainingMemory(**{**values, name: values[name][:-1]}))


def test_checkpointing_does_what_was_predicted() -> None:
    """A model of wide activations and small weights: its peak is of activations."""
    model, x = nn.Sequential(layer(), *(Block() for _ in range(4))), torch.ones(512, 8)
    plain = recorded(model, x)
    predicted = {one.nodes: one for one in plain.memory.checkpointing}
    paths = [node.path for node in plain.trace.nodes]
    groups = {"blocks": ("1", "2", "3", "4"), "2": ("2",)}

    for wish, chosen in groups.items():
        real = recorded(model, x, spec=TrainSpec("sgd", checkpoint=wish))
        found = predicted[tuple(paths.index(path) for path in chosen)]
        assert found.peak == pytest.approx(real.memory.peak, rel=0.001)
        assert plain.memory.saved - found.saved_bytes == pytest.approx(real.memory.saved, rel=0.05)
        assert found.flops >= real.cost.recomputed.flops
    assert next(iter(plain.memory.checkpointing)).nodes == tuple(map(paths.index, groups["blocks"]))


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw"])
@pytest.mark.parametrize("name", ["mlp", "gpt"])
def test_a_real_step_takes_what_was_predicted(name: str, optimizer: str) -> None:
    assert abs(compared(name, TrainSpec(optimizer)).error) < LIMIT


@pytest.mark.parametrize("name", ["gru", "wide_lstm"])
def test_gradients_that_are_added_up_take_what_was_predicted(name: str) -> None:
    """A weight that is used at each step, and is transposed there, is added up out of place."""
    assert abs(compared(name, TrainSpec("sgd")).error) < LIMIT


def recurrent_layer(
    length: int, batch: int, width: int, hidden: int, dtype: torch.dtype = torch.float32
) -> Call:
    """Return torch's call of oneDNN for a layer of an LSTM in training, on meta."""
    x = torch.empty(length, batch, width, dtype=dtype, device="meta")
    weights = (x.new_empty(4 * hidden, row) for row in (width, hidden, 1, 1))
    states = (x.new_empty(batch, hidden) for _ in range(2))
    flags = (False, [], 2, hidden, 1, True, False, False, True)
    operator = torch.ops.aten.mkldnn_rnn_layer.default
    outputs = (x.new_empty(length, batch, hidden),)
    return Call(signature_of(operator), (x, *weights, *states, *flags), {}, outputs)


TORCH_2_10, TORCH_2_14 = (3, 7), (3, 12)
"""Releases of oneDNN that these releases of torch have."""


@pytest.mark.parametrize(
    ("shape", "dtype", "before", "now"),
    [
        ((20, 4, 256, 128), torch.float32, 1306624, 937984),
        ((5, 4, 64, 512), torch.float32, 921600, 716800),
        ((7, 3, 100, 50), torch.float32, 176128, 126976),
        ((20, 4, 256, 128), torch.bfloat16, 905216, 708608),
    ],
)
def test_what_a_recurrent_layer_keeps_is_what_torchs_events_had(
    shape: tuple[int, int, int, int], dtype: torch.dtype, before: int, now: int
) -> None:
    """Expected bytes are from ``torch.profiler``'s memory events with torch 2.10 and 2.14."""
    call = recurrent_layer(*shape, dtype)

    assert kept_bytes(call, TORCH_2_10) == {3: before}
    assert kept_bytes(call, TORCH_2_14) == {3: now}


def test_older_releases_have_scratch_space_of_a_recurrent_layer_twice() -> None:
    """Gates of 20 steps at batch size 4, a state and its gradient; measured as above."""
    buffers = [(20 * 4 * 528, 4), (4 * 128, 4), (4 * 128, 4)]

    assert recurrent_scratch(buffers, TORCH_2_10) == pytest.approx(877496, abs=512)
    assert recurrent_scratch(buffers, TORCH_2_14) == pytest.approx(184888, abs=512)


@pytest.mark.parametrize("wanted", [IN_16_BITS, TrainSpec("sgd")])
def test_an_lstm_takes_what_was_predicted_to_a_hundredth(wanted: TrainSpec) -> None:
    """With two layers, and with incoming gradients that are not contiguous."""
    assert abs(compared("lstm", wanted).error) < 0.01
    assert abs(compared("wide_lstm", wanted).error) < 0.01


def test_an_lstm_without_biases_takes_what_was_predicted() -> None:
    """In a fake run of torch 2.10, the gradient of the absent bias is as large as a weight."""
    lstm, inputs = nn.LSTM(300, 64, bias=False), Inputs((torch.randn(64, 2, 300),))
    spec = TrainSpec("sgd")
    predicted = trace_step(lstm, [inputs], spec, spec.optimizer).memory
    row = Row("", spec, predicted, real_peak(lstm, inputs, spec))

    assert abs(row.error) < 0.01


@pytest.mark.parametrize("shape", [(20, 4, 256), (7, 3, 100), (5, 1, 64)])
def test_a_forward_of_an_lstm_takes_what_was_predicted(shape: tuple[int, int, int]) -> None:
    model, inputs = nn.LSTM(shape[-1], 50).eval(), Inputs((torch.randn(shape),))
    predicted = trace(model, (inputs,)).done.peak_memory
    foretold = int(known(predicted.activations) or 0) + int(known(predicted.workspace) or 0)

    assert foretold == pytest.approx(measured_peak(model, inputs).peak_bytes, rel=0.01)


@pytest.mark.parametrize(
    "spec", [TrainSpec(accumulate=2), TrainSpec(checkpoint="blocks"), TrainSpec(autocast="bf16")]
)
def test_a_real_step_in_another_way_takes_what_was_predicted(spec: TrainSpec) -> None:
    assert abs(compared("gpt", spec).error) < LIMIT


def test_sixteen_bits_are_summed_up_in_float32_as_was_predicted() -> None:
    """In the gradient of a pointwise convolution's weight, as DenseNet's transitions have it."""
    assert abs(compared("transition", IN_16_BITS).error) < LIMIT


@pytest.mark.parametrize("isa", ["AVX512_CORE", "AVX2"])
def test_sixteen_bits_take_what_was_predicted_on_lesser_processors(isa: str) -> None:
    """Without AMX oneDNN has another kernel, and without AVX-512 torch computes it itself."""
    program = (
        "from tests.probe.trace.training.test_memory import IN_16_BITS, compared\n"
        "print(compared('transition', IN_16_BITS).error)"
    )
    environment = os.environ | {"ONEDNN_MAX_CPU_ISA": isa}
    error = subprocess.check_output([sys.executable, "-c", program], env=environment, text=True)

    assert abs(float(error)) < LIMIT


def test_torchs_tracker_on_fake_tensors_says_the_same_of_tensors() -> None:
    row = compared("gpt", TrainSpec("adamw"), tracks=True)

    assert row.tracked == pytest.approx(row.foretold, rel=LIMIT)
