"""Multiply-accumulates against counts by hand, and against torch's own counter."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from tests.probe.trace.traced import total, traced
from tui_profiler.probe.cost.call import FormulaTable


class Attention(nn.Module):
    def forward(self, query, key, value):
        return functional.scaled_dot_product_attention(query, key, value)


class Function(nn.Module):
    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, *tensors):
        return self.function(*tensors)


def test_a_convolution_is_one_kernel_for_every_output() -> None:
    cost = total(nn.Conv2d(3, 8, 5, stride=2, padding=2), torch.zeros(2, 3, 32, 32))

    outputs = 2 * 8 * 16 * 16
    assert cost.macs == outputs * 3 * 5 * 5
    assert cost.flops == 2 * cost.macs + outputs  # the bias


def test_a_grouped_convolution_sees_only_its_group() -> None:
    cost = total(nn.Conv2d(12, 24, 3, groups=4, bias=False), torch.zeros(1, 12, 10, 10))

    assert cost.macs == 24 * 8 * 8 * (12 // 4) * 9
    assert cost.flops == 2 * cost.macs


def test_a_transposed_convolution_spreads_every_input() -> None:
    cost = total(nn.ConvTranspose2d(6, 4, 3, stride=2, groups=2), torch.zeros(2, 6, 7, 7))

    assert cost.macs == 2 * 6 * 7 * 7 * (4 // 2) * 9


def test_a_linear_layer_multiplies_every_token() -> None:
    cost = total(nn.Linear(20, 30), torch.zeros(2, 5, 20))

    assert cost.macs == 2 * 5 * 20 * 30
    assert cost.flops == 2 * cost.macs + 2 * 5 * 30


def test_attention_is_scores_and_their_product_with_values() -> None:
    query, key = torch.zeros(2, 4, 6, 8), torch.zeros(2, 4, 10, 8)

    cost = total(Attention(), query, key, torch.zeros(2, 4, 10, 8))

    assert cost.macs == 2 * 4 * 6 * 10 * (8 + 8)
    assert cost.flops == 2 * cost.macs + 6 * 2 * 4 * 6 * 10


def test_fused_multi_head_attention_counts_its_projections() -> None:
    batch, length, width = 2, 5, 16
    attention = nn.MultiheadAttention(width, 4, batch_first=True)

    made = traced(attention, *[torch.zeros(batch, length, width)] * 3)

    assert "aten._native_multi_head_attention.default" in {node.type for node in made.nodes}
    projections = 4 * batch * length * width * width
    assert made.costs[0].macs == projections + 2 * batch * length * length * width


def test_fused_and_unfused_encoder_layers_cost_the_same() -> None:
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, activation="gelu").eval()
    tokens = torch.zeros(2, 5, 16)
    fused = traced(layer, tokens)
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        unfused = traced(layer, tokens)
    finally:
        torch.backends.mha.set_fastpath_enabled(True)

    assert "aten._transformer_encoder_layer_fwd.default" in {node.type for node in fused.nodes}
    assert fused.costs[0].macs == unfused.costs[0].macs
    assert fused.costs[0].flops == unfused.costs[0].flops
    assert fused.done.uncosted == unfused.done.uncosted == ()


@pytest.mark.parametrize(("cell", "gates"), [(nn.LSTM, 4), (nn.GRU, 3), (nn.RNN, 1)])
def test_a_recurrent_layer_multiplies_both_weights_each_step(cell, gates: int) -> None:
    steps, batch, width, hidden = 7, 3, 10, 12
    layer = cell(width, hidden, num_layers=2, bidirectional=True)

    cost = total(layer, torch.zeros(steps, batch, width))

    first = gates * hidden * (width + hidden)
    second = gates * hidden * (2 * hidden + hidden)
    assert cost.macs == steps * batch * 2 * (first + second)


def test_a_fused_lstm_costs_what_its_cells_do() -> None:
    class Steps(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = nn.LSTMCell(10, 12)

        def forward(self, x):
            state = (x.new_zeros(3, 12), x.new_zeros(3, 12))
            for step in x:
                state = self.cell(step, state)
            return state

    x = torch.zeros(7, 3, 10)

    assert total(nn.LSTM(10, 12), x).flops == total(Steps(), x).flops


def test_a_bilinear_layer_multiplies_twice_and_adds_once() -> None:
    cost = total(nn.Bilinear(4, 5, 6), torch.zeros(2, 4), torch.zeros(2, 5))

    product = 2 * 6 * 4 * 5
    assert cost.macs == product
    assert cost.flops == 3 * product + 2 * 6


def test_an_embedding_bag_adds_and_multiplies_only_with_weights() -> None:
    plain = total(nn.EmbeddingBag(100, 8, mode="sum"), torch.zeros(2, 5, dtype=torch.int64))
    bag = nn.EmbeddingBag(100, 8, mode="sum")
    weighted = total(
        Function(lambda rows, weights: bag(rows, per_sample_weights=weights)),
        torch.zeros(2, 5, dtype=torch.int64),
        torch.ones(2, 5),
    )

    assert (plain.macs, plain.flops) == (0, 2 * 5 * 8)
    assert (weighted.macs, weighted.flops) == (2 * 5 * 8, 2 * 2 * 5 * 8)


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (torch.mm, [(4, 5), (5, 6)]),
        (torch.bmm, [(3, 4, 5), (3, 5, 6)]),
        (torch.addmm, [(4, 6), (4, 5), (5, 6)]),
        (torch.baddbmm, [(3, 4, 6), (3, 4, 5), (3, 5, 6)]),
        (torch.matmul, [(2, 3, 4, 5), (5, 6)]),
        (lambda a, b: torch.einsum("bij,bkj->bik", a, b), [(2, 3, 4), (2, 5, 4)]),
        (functional.conv1d, [(2, 4, 9), (6, 2, 3)]),
        (functional.conv3d, [(1, 2, 5, 5, 5), (3, 2, 2, 2, 2)]),
        (functional.scaled_dot_product_attention, [(2, 2, 3, 4)] * 3),
    ],
)
def test_what_torch_counts_we_count_alike(function, shapes) -> None:
    if function is functional.conv1d:
        function = lambda x, w: functional.conv1d(x, w, groups=2)  # noqa: E731
    tensors = [torch.zeros(shape) for shape in shapes]
    # Before torch 2.15 the counter knows the two products of attention, not the fused kernel.
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        function(*tensors)

    assert total(Function(function), *tensors).macs * 2 == counter.get_total_flops() > 0


@pytest.mark.parametrize(
    ("function", "shapes", "macs"),
    [
        (torch.mv, [(4, 5), (5,)], 20),
        (torch.dot, [(7,), (7,)], 7),
        (torch.addmv, [(4,), (4, 5), (5,)], 20),
        (torch.addr, [(4, 5), (4,), (5,)], 20),
        (torch.addbmm, [(4, 6), (3, 4, 5), (3, 5, 6)], 3 * 4 * 5 * 6),
    ],
)
def test_products_that_torch_does_not_count(function, shapes, macs: int) -> None:
    assert total(Function(function), *[torch.zeros(shape) for shape in shapes]).macs == macs


def test_no_operator_can_have_two_formulas() -> None:
    table = FormulaTable()
    table.add(lambda call: 1, "aten::mm")

    with pytest.raises(ValueError, match="aten::mm has two formulas"):
        table.add(lambda call: 2, "aten::mm")
