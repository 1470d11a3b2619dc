"""Families of layers against counts by hand: attention, recurrence, convolutions, products."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from tests.probe.cost.test_macs import Function
from tests.probe.trace.traced import total, traced
from tui_profiler.messages import Cost
from tui_profiler.probe.cost.cost import op_cost

attend = functional.scaled_dot_product_attention
B, H, L, S, D = 2, 4, 6, 10, 8
QUERY, KEY = torch.zeros(B, H, L, D), torch.zeros(B, H, S, D)
SCORES = B * H * L * S


def operators(made) -> set[str]:
    return {node.name for node in made.nodes if node.kind == "op"}


@pytest.mark.parametrize("backend", [SDPBackend.FLASH_ATTENTION, SDPBackend.MATH])
def test_attention_costs_the_same_macs_whatever_runs_it(backend: SDPBackend) -> None:
    def attention(query, key, value):
        with sdpa_kernel(backend):
            return attend(query, key, value)

    assert total(Function(attention), QUERY, KEY, KEY).macs == SCORES * (D + D)


def test_a_causal_mask_saves_nothing_and_an_explicit_one_is_added() -> None:
    square = Function(lambda q, k, v: attend(q, k, v, is_causal=True))
    masked = Function(lambda q, k, v, mask: attend(q, k, v, attn_mask=mask))

    causal = total(square, QUERY, QUERY, QUERY)
    explicit = total(masked, QUERY, KEY, KEY, torch.zeros(L, S))

    assert causal.macs == B * H * L * L * 2 * D
    assert causal.flops == 2 * causal.macs + 6 * B * H * L * L
    assert explicit.flops == 2 * explicit.macs + 7 * SCORES


def test_grouped_queries_cost_what_their_own_heads_do() -> None:
    few = torch.zeros(B, 2, S, D)
    grouped = Function(lambda q, k, v: attend(q, k, v, enable_gqa=True))

    assert total(grouped, QUERY, few, few).macs == SCORES * 2 * D


def test_values_may_be_of_another_width() -> None:
    def attention(query, key, value):
        with sdpa_kernel(SDPBackend.MATH):
            return attend(query, key, value)

    wide = torch.zeros(B, H, S, 12)

    assert total(Function(attention), QUERY, KEY, wide).macs == SCORES * (D + 12)


@pytest.mark.parametrize(
    "operator",
    [
        "_scaled_dot_product_efficient_attention",
        "_scaled_dot_product_flash_attention",
        "_scaled_dot_product_cudnn_attention",
    ],
)
def test_attention_kernels_of_gpus_are_counted_alike(operator: str) -> None:
    """They run on no CPU, so their formulas are asked about a call as the dispatcher makes it."""
    overload = getattr(torch.ops.aten, operator).default
    takes_bias = operator != "_scaled_dot_product_flash_attention"
    given = (QUERY, KEY, KEY, None, True) if takes_bias else (QUERY, KEY, KEY)

    cost = op_cost(overload, given, {}, (QUERY, torch.zeros(B, H, L)), weights=())

    assert (cost.macs, cost.uncosted) == (SCORES * 2 * D, 0)
    assert cost.flops == 2 * cost.macs + 6 * SCORES


def test_attention_with_other_widths_for_keys_and_values() -> None:
    width, keys, values = 16, 10, 12
    layer = nn.MultiheadAttention(width, 4, kdim=keys, vdim=values, batch_first=True)
    tensors = torch.zeros(2, 5, width), torch.zeros(2, 7, keys), torch.zeros(2, 7, values)

    projections = 5 * width * width * 2 + 7 * (keys + values) * width
    assert total(layer, *tensors).macs == 2 * (projections + 2 * 5 * 7 * width)


def test_a_decoder_layer_is_two_attentions_and_a_feed_forward() -> None:
    width, hidden, target, source = 16, 32, 5, 7
    layer = nn.TransformerDecoderLayer(width, 4, hidden, batch_first=True)

    own = 4 * target * width**2 + 2 * target * target * width
    cross = 2 * (target + source) * width**2 + 2 * target * source * width
    assert total(layer, torch.zeros(2, target, width), torch.zeros(2, source, width)).macs == 2 * (
        own + cross + 2 * target * width * hidden
    )


def test_a_padded_batch_of_the_fast_path_counts_as_if_full() -> None:
    stack = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), 2).eval()
    padded = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])

    full = total(stack, torch.zeros(2, 5, 16))
    made = traced(Function(lambda x: stack(x, src_key_padding_mask=padded)), torch.zeros(2, 5, 16))

    assert made.costs[0].macs == full.macs
    assert "aten::_transformer_encoder_layer_fwd" in operators(made)


STEPS, BATCH, WIDTH, HIDDEN = 7, 3, 10, 12
SEQUENCE = torch.zeros(STEPS, BATCH, WIDTH)


@pytest.mark.parametrize("layers", [1, 2])
def test_a_projected_lstm_feeds_back_fewer_numbers(layers: int) -> None:
    projected = 5
    lstm = nn.LSTM(WIDTH, HIDDEN, layers, proj_size=projected, bidirectional=True)

    macs = 0
    for width in (WIDTH, 2 * projected)[:layers]:
        macs += 4 * HIDDEN * (width + projected) + HIDDEN * projected
    assert total(lstm, SEQUENCE).macs == STEPS * BATCH * 2 * macs


@pytest.mark.parametrize(
    ("layer", "cell"),
    [(nn.LSTM, nn.LSTMCell), (nn.GRU, nn.GRUCell), (nn.RNN, nn.RNNCell)],
    ids=["lstm", "gru", "rnn"],
)
@pytest.mark.parametrize("bias", [True, False])
def test_a_recurrent_layer_costs_its_cells(layer, cell, bias: bool) -> None:
    one = total(cell(WIDTH, HIDDEN, bias=bias), SEQUENCE[0])
    all_steps = total(layer(WIDTH, HIDDEN, bias=bias), SEQUENCE)

    assert all_steps.macs == STEPS * one.macs
    assert all_steps.flops == STEPS * one.flops


def test_a_packed_sequence_costs_only_its_own_steps() -> None:
    lstm = nn.LSTM(WIDTH, HIDDEN)
    lengths = torch.tensor([7, 5, 2])

    def packed(x):
        return lstm(nn.utils.rnn.pack_padded_sequence(x, lengths))[0].data

    assert traced(Function(packed), SEQUENCE).costs[0].macs == 14 * 4 * HIDDEN * (WIDTH + HIDDEN)


def test_a_bilinear_layer_keeps_its_other_axes() -> None:
    cost = total(nn.Bilinear(4, 5, 6, bias=False), torch.zeros(2, 3, 4), torch.zeros(2, 3, 5))

    assert cost.macs == 2 * 3 * 6 * 4 * 5
    assert cost.flops == 3 * cost.macs


LAYERS = {
    1: (nn.Conv1d, nn.ConvTranspose1d),
    2: (nn.Conv2d, nn.ConvTranspose2d),
    3: (nn.Conv3d, nn.ConvTranspose3d),
}


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_convolutions_of_every_rank(axes: int) -> None:
    """Batch 2, 8 channels, 9 places an axis; a kernel of 3."""
    convolution, transposed = LAYERS[axes]
    image = torch.zeros(2, 8, *[9] * axes)

    def counted(module: nn.Module) -> tuple[int, int]:
        cost: Cost = total(module, image)
        return cost.macs, cost.flops - 2 * cost.macs

    outputs = 2 * 8 * 7**axes
    assert counted(convolution(8, 8, 3, groups=8)) == (outputs * 3**axes, outputs)
    wide = 2 * 12 * 5**axes
    grouped = convolution(8, 12, 3, groups=2, dilation=2, bias=False)
    assert counted(grouped) == (wide * 4 * 3**axes, 0)
    spread = transposed(8, 12, 3, groups=2, stride=2)
    assert counted(spread) == (2 * 8 * 9**axes * 6 * 3**axes, 2 * 12 * 19**axes)


@pytest.mark.parametrize(
    ("equation", "shapes", "macs"),
    [
        ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)], 2 * 3 * 4 * 5),
        ("bhqd,bhkd->bhqk", [(2, 3, 4, 5), (2, 3, 6, 5)], 2 * 3 * 4 * 6 * 5),
        ("bi,bi->b", [(2, 3), (2, 3)], 6),
        ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)], 2 * 3 * 4 + 2 * 4 * 5),
    ],
)
def test_einsum_is_its_products(equation: str, shapes, macs: int) -> None:
    tensors = [torch.zeros(shape) for shape in shapes]

    assert total(Function(lambda *x: torch.einsum(equation, *x)), *tensors).macs == macs


def test_an_outer_product_has_nothing_to_add_up() -> None:
    cost = total(
        Function(lambda a, b: torch.einsum("i,j->ij", a, b)), torch.zeros(4), torch.zeros(5)
    )

    assert (cost.macs, cost.flops) == (0, 20)


HALF = torch.bfloat16


@pytest.mark.parametrize(
    ("one", "two", "ends", "macs"),
    [
        ((2, 16, 8), (2, 8, 32), None, 2 * 16 * 8 * 32),
        ((32, 8), (2, 8, 16), [8, 32], 32 * 8 * 16),
        ((16, 32), (32, 16), [8, 32], 16 * 32 * 16),
        ((2, 16, 8), (8, 32), [8, 32], 16 * 8 * 32),
    ],
    ids=["batched", "rows in groups", "contraction in groups", "columns in groups"],
)
def test_grouped_products_of_experts(one, two, ends, macs: int) -> None:
    offsets = None if ends is None else torch.tensor(ends, dtype=torch.int32)
    grouped = Function(lambda a, b: torch._grouped_mm(a, b, offs=offsets))

    assert total(grouped, torch.zeros(one, dtype=HALF), torch.zeros(two, dtype=HALF)).macs == macs


def test_a_complex_product_is_four_real_ones() -> None:
    matrix = torch.zeros(4, 4, dtype=torch.complex64)

    cost = total(Function(torch.mm), matrix, matrix)

    assert (cost.macs, cost.flops) == (4 * 64, 8 * 64)


def test_a_product_of_integers_counts_too() -> None:
    one, two = torch.zeros(32, 16, dtype=torch.int8), torch.zeros(16, 24, dtype=torch.int8)

    assert total(Function(torch._int_mm), one, two).macs == 32 * 16 * 24
