"""Bytes moved against counts by hand."""

from __future__ import annotations

import torch
from torch import nn

from tests.probe.cost.test_macs import Function
from tests.probe.trace.traced import at, cost_at, total, traced

FLOAT = 4


def moved(function, *tensors: torch.Tensor) -> tuple[int, int, int]:
    cost = total(Function(function), *tensors)
    return cost.input_bytes, cost.weight_bytes, cost.output_bytes


def test_a_linear_layer_reads_input_weight_and_bias_and_writes_its_output() -> None:
    cost = total(nn.Linear(20, 30), torch.zeros(5, 20))

    assert cost.input_bytes == 5 * 20 * FLOAT
    assert cost.weight_bytes == (20 * 30 + 30) * FLOAT
    assert cost.output_bytes == 5 * 30 * FLOAT


def test_running_statistics_are_weights() -> None:
    assert total(nn.BatchNorm1d(8), torch.zeros(2, 8)).weight_bytes == 4 * 8 * FLOAT


def test_views_move_nothing() -> None:
    assert moved(lambda x: x.view(6).t().unsqueeze(0).reshape(2, 3)[0], torch.zeros(2, 3)) == (
        0,
        0,
        0,
    )


def test_a_tensor_passed_twice_is_read_once() -> None:
    assert moved(lambda x: x * x, torch.zeros(10)) == (40, 0, 40)


def test_an_expanded_axis_is_read_once() -> None:
    assert moved(lambda x: x.expand(100, 10) + 1.0, torch.zeros(10)) == (40, 0, 4000)


def test_in_place_reads_and_writes() -> None:
    assert moved(lambda x: x.add_(1.0), torch.zeros(10)) == (40, 0, 40)


def test_what_is_overwritten_is_not_read() -> None:
    assert moved(lambda x, y: x.copy_(y), torch.zeros(10), torch.zeros(10)) == (40, 0, 40)
    assert moved(lambda x: x.zero_(), torch.zeros(10)) == (0, 0, 40)


def test_an_allocation_moves_nothing_until_it_is_filled() -> None:
    assert moved(lambda x: x.new_empty(50), torch.zeros(10)) == (0, 0, 0)
    assert moved(lambda x: x.new_zeros(50), torch.zeros(10)) == (0, 0, 200)


def test_a_look_up_reads_the_rows_that_it_gives() -> None:
    cost = total(nn.Embedding(10_000, 16), torch.zeros(3, dtype=torch.int64))

    assert cost.weight_bytes == cost.output_bytes == 3 * 16 * FLOAT
    assert cost.input_bytes == 3 * 8


def test_a_bag_reads_the_rows_in_it_and_not_the_table() -> None:
    bag = nn.EmbeddingBag(10_000, 16, mode="sum")
    rows, bags = torch.arange(30), torch.tensor([0, 10])
    cost = total(bag, rows, bags)
    assert cost.weight_bytes == 30 * 16 * FLOAT

    packed = torch.ao.nn.quantized.EmbeddingBag(10_000, 16, include_last_offset=False)
    quantised = total(packed, rows, bags)
    assert 30 * 16 <= quantised.weight_bytes <= 30 * (16 + 12)


def test_a_look_up_in_a_small_table_reads_no_more_than_the_table() -> None:
    assert total(nn.Embedding(2, 16), torch.zeros(100, dtype=torch.int64)).weight_bytes == 128


def test_writing_some_elements_moves_those() -> None:
    def written(x, y):
        x[torch.tensor([0, 1])] = y
        return x

    made = traced(Function(written), torch.zeros(1000, 4), torch.zeros(2, 4))
    put = next(node for node in made.nodes if node.name == "aten::index_put_")

    assert cost_at(made, put.path).output_bytes == 2 * 4 * FLOAT
    assert at(made, put.path).outputs[0].bytes == 1000 * 4 * FLOAT


def test_a_view_of_a_weight_is_a_weight() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(6, 4))

        def forward(self, x):
            return x @ self.weight.t()

    assert total(Tied(), torch.zeros(2, 4)).weight_bytes == 6 * 4 * FLOAT
