"""Costs where no two sizes are equal: a formula that takes one for the other is seen.

Operators that run on no CPU are asked about as the dispatcher would call them.
"""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional
from torchvision.ops import deform_conv2d

from tests.probe.cost.test_macs import Function
from tests.probe.trace.traced import total, traced
from tui_profiler.probe.cost.cost import op_cost
from tui_profiler.probe.cost.rollup import ParameterOwners, SelfCost, rolled_up
from tui_profiler.probe.trace.tree.lifetimes import Lifetimes

FLOAT = 4


def test_fused_attention_has_the_width_of_its_values() -> None:
    """Multi-head latent attention: 2·3 heads, 5 queries of 7, 11 keys of 7, values of 13."""
    query, key, value = (torch.zeros(2, 3, n, w) for n, w in ((5, 7), (11, 7), (11, 13)))
    overload = torch.ops.aten._scaled_dot_product_cudnn_attention.default
    given = (query, key, value, None, True)
    cost = op_cost(
        overload, given, {}, (torch.zeros(2, 3, 5, 13), torch.zeros(2, 3, 5)), weights=()
    )
    assert cost.macs == 2 * 3 * 5 * 11 * (7 + 13)


def test_a_deformable_convolution_counts_every_image_of_the_batch() -> None:
    x, weight = torch.zeros(3, 4, 7, 8), torch.zeros(5, 4, 3, 2)
    rows, columns = 7 - 3 + 1, 8 - 2 + 1
    offset = torch.zeros(3, 2 * 3 * 2, rows, columns)
    cost = total(Function(lambda x: deform_conv2d(x, offset, weight)), x)
    assert cost.macs == 3 * (5 * rows * columns) * (4 * 3 * 2)


def test_recurrent_layers_of_gpus_multiply_by_matrices_alone() -> None:
    """A GRU of 6 → 10: matrices (30, 6), (30, 10), biases (30,) twice; 5 steps of 2."""
    x, hidden = torch.zeros(5, 2, 6), torch.zeros(1, 2, 10)
    weights = [torch.zeros(30, 6), torch.zeros(30, 10), torch.zeros(30), torch.zeros(30)]
    overload = torch.ops.aten._cudnn_rnn.default
    given = (x, weights, 4, None, hidden, None, 3, 10, 0, 1, False, 0.0, False, False, [], None)
    made = (torch.zeros(5, 2, 10), hidden, hidden, x, x)
    assert op_cost(overload, given, {}, made, weights=()).macs == 5 * 2 * (30 * 6 + 30 * 10)


@pytest.mark.parametrize(("mode", "points"), [("bilinear", 4), ("bicubic", 16), ("nearest", 0)])
def test_samples_of_a_grid_are_weighted_sums_of_their_neighbours(mode: str, points: int) -> None:
    grid = torch.zeros(2, 4, 6, 2)
    cost = total(
        Function(lambda x: functional.grid_sample(x, grid, mode=mode, align_corners=False)),
        torch.zeros(2, 3, 5, 7),
    )
    assert cost.flops == max(2 * points - 1, 0) * (2 * 3 * 4 * 6)


def test_an_antialiased_resize_draws_rows_and_columns_by_their_own_scale() -> None:
    """16×24 to 4×12: along the width 2·2 columns at 16 rows, then along the height 2·4 rows."""
    resize = Function(
        lambda x: functional.interpolate(x, size=(4, 12), mode="bilinear", antialias=True)
    )
    images = 2 * 3
    width, height = images * 16 * 12 * (2 * 4 - 1), images * 4 * 12 * (2 * 8 - 1)
    assert total(resize, torch.zeros(2, 3, 16, 24)).flops == width + height


def test_gather_reads_what_it_takes_of_the_table() -> None:
    places = torch.zeros(10, dtype=torch.int64)
    cost = total(Function(lambda table: table.gather(0, places)), torch.zeros(1000))
    assert cost.input_bytes + cost.weight_bytes == 10 * FLOAT + 10 * 8


def test_where_a_result_is_written_to_is_not_read() -> None:
    room = torch.zeros(10)
    cost = total(Function(lambda x: torch.add(x, 1.0, out=room)), torch.zeros(10))
    assert (cost.input_bytes + cost.weight_bytes, cost.output_bytes) == (40, 40)


@pytest.mark.parametrize(("length", "rows"), [(100, 32), (512, 64), (768, 256), (1024, 256)])
def test_blocks_of_attention_grow_with_the_queries(length: int, rows: int) -> None:
    """``FlashAttentionKernel.cpp``: 256 queries from 768, 64 from 192, else 32; 512 keys."""
    query = torch.zeros(1, 2, length, 64)
    attend = Function(functional.scaled_dot_product_attention)
    found = traced(attend, query, query, query).done.peak_memory.workspace
    keys = min(512, length)
    assert found == torch.get_num_threads() * rows * (keys + 2 + 64) * FLOAT


def test_a_parameter_of_three_modules_counts_once_in_each_subtree_with_bytes() -> None:
    """Tree: 0 (1 (2, 3), 4); one parameter of 10 in 2, 3 and 4."""
    parents = [-1, 0, 1, 1, 0]
    costs = rolled_up(parents, [SelfCost() for _ in parents], [ParameterOwners(10, 40, (2, 3, 4))])
    assert [(one.parameters, one.parameter_bytes) for one in costs] == [(10, 40)] * 5


def test_scratch_memory_comes_on_top_of_what_is_alive_then() -> None:
    place = (0, 0)
    memory = Lifetimes((), ())
    large = torch.zeros(1024)
    memory.add(place, [large], 0)
    del large
    small = torch.zeros(16)
    memory.add(place, [small], 512)
    assert (memory.peak_bytes, memory.peak_with_workspace) == (4096, 4096)
    memory.add(place, [], 8192)
    assert (memory.peak_bytes, memory.peak_with_workspace) == (4096, 64 + 8192)


def test_an_input_that_is_given_twice_is_held_once() -> None:
    x = torch.zeros(1024)
    assert Lifetimes((), (x, x, x[10:], torch.zeros(16))).input_bytes == 4096 + 64


def test_every_figure_adds_up_to_the_root() -> None:
    """Tree: 0 (1 (2, 3), 4); each figure of a node is another power of ten."""
    parents = [-1, 0, 1, 1, 0]
    own = [SelfCost(*(figure * 10**index for figure in range(1, 8))) for index in range(5)]
    costs = rolled_up(parents, own, [])
    sums = [11111, 1110, 100, 1000, 10000]
    for one, times in zip(costs, sums, strict=True):
        figures = (one.macs, one.flops, one.input_bytes, one.weight_bytes, one.output_bytes)
        assert (*figures, one.ops, one.uncosted) == tuple(times * n for n in range(1, 8))


def test_a_storage_counts_once_in_whole_blocks_and_weights_never() -> None:
    first, second = (0, 0), (0, 1)
    weight = torch.zeros(1000)
    memory = Lifetimes((weight,), ())
    memory.add(first, [weight, weight[10:]], 0)
    assert (memory.live_bytes, memory.peak_at) == (0, None)
    made = torch.zeros(17)  # 68 bytes: two blocks of 64.
    memory.add(first, [made, made[1:]], 0)
    memory.add(second, [made], 0)
    assert (memory.live_bytes, memory.peak_bytes, memory.peak_at) == (128, 128, first)
    del made
    assert (memory.live_bytes, memory.peak_bytes) == (0, 128)
    again = torch.zeros(17)
    memory.add(second, [again], 0)
    assert memory.peak_at == first  # The first that reached it.


def test_scratch_memory_is_not_known_once_one_operator_s_is_not() -> None:
    memory = Lifetimes((), ())
    memory.add((0, 0), [], 100)
    assert memory.peak_with_workspace == 100
    memory.add((0, 1), [], None)
    memory.add((0, 2), [], 100)
    assert memory.peak_with_workspace is None
