"""Costs of the backward, against counts by hand and torch's own counter."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from tests.probe.cost.test_macs import Function
from tests.probe.trace.traced import total
from tests.probe.trace.training.recorded import backward, recorded
from tui_profiler.messages import TrainSpec


class Scaled(nn.Module):
    """A layer whose input has a gradient: it is scaled by a parameter first."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))
        self.layer = layer

    def forward(self, x):
        return self.layer(x * self.scale)


def test_a_linear_layer_has_as_much_for_its_weight_and_for_its_input() -> None:
    x = torch.zeros(5, 20)

    assert backward(nn.Linear(20, 30), x).macs == 5 * 20 * 30
    assert backward(Scaled(nn.Linear(20, 30)), x).macs == 2 * 5 * 20 * 30


def test_all_linear_models_cost_twice_their_forward_but_for_the_first_input() -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.Linear(16, 4))
    x = torch.zeros(3, 8)

    assert backward(model, x).macs == 2 * total(model, x).macs - 3 * 8 * 16


CONVOLUTIONS = [
    nn.Conv2d(6, 8, 3, padding=1),
    nn.Conv2d(6, 12, 3, stride=2, groups=3),
    nn.Conv2d(6, 6, 5, groups=6, bias=False),
    nn.Conv1d(6, 4, 3, dilation=2),
    nn.ConvTranspose2d(6, 4, 3, stride=2, groups=2),
    nn.Conv3d(6, 2, 2),
]


@pytest.mark.parametrize("layer", CONVOLUTIONS, ids=str)
def test_a_convolution_has_twice_its_forward(layer) -> None:
    axes = {nn.Conv1d: 1, nn.Conv3d: 3}.get(type(layer), 2)
    x = torch.zeros(2, 6, *(9,) * axes)

    assert backward(Scaled(layer), x).macs == 2 * total(layer, x).macs


def test_torchs_counter_agrees_but_for_groups() -> None:
    """It counts the gradient of a grouped weight once for each group too often."""
    for layer, factor in ((nn.Conv2d(6, 8, 3), 1), (nn.Conv2d(6, 8, 3, groups=2), 2)):
        x = torch.zeros(2, 6, 9, 9, requires_grad=True)
        output = layer(x)
        with FlopCounterMode(display=False) as counter:
            output.sum().backward()
        forward = total(layer, x.detach()).macs

        assert backward(Scaled(layer), x.detach()).macs == 2 * forward
        assert counter.get_total_flops() == 2 * (forward + factor * forward)


def test_attention_counts_its_second_scores_apart() -> None:
    query, key = torch.zeros(2, 4, 6, 8), torch.zeros(2, 4, 10, 8)
    scale = nn.Parameter(torch.ones(()))

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = scale

        def forward(self, query, key):
            key = key * self.scale
            return functional.scaled_dot_product_attention(query * self.scale, key, key)

    found = backward(Attention(), query, key)

    scores = 2 * 4 * 6 * 10 * 8
    assert found.macs == 4 * scores
    assert found.again_macs == scores
    assert found.again_flops == 2 * scores


@pytest.mark.parametrize(("cell", "gates"), [(nn.LSTM, 0), (nn.GRU, 3), (nn.RNN, 1)])
def test_a_recurrent_layer_has_twice_its_forward(cell, gates: int) -> None:
    """Run step by step, the first states need no gradient: a product less for each layer."""
    layer = cell(10, 12, num_layers=2)
    x = torch.zeros(7, 3, 10)

    of_first_states = 2 * 3 * gates * 12 * 12
    assert backward(Scaled(layer), x).macs == 2 * total(layer, x).macs - of_first_states


def test_an_embedding_adds_each_row() -> None:
    assert backward(nn.Embedding(50, 8), torch.zeros(3, 5, dtype=torch.int64)).flops == 3 * 5 * 8


NORMS = [
    (nn.BatchNorm1d(6), (4, 6), 9),
    (nn.BatchNorm1d(6, affine=False), (4, 6), 9),
    (nn.LayerNorm(6), (4, 6), 9 + 1 + 2 + 1),
    (nn.LayerNorm(6, elementwise_affine=False), (4, 6), 9),
    (nn.GroupNorm(2, 6), (4, 6), 9 + 1 + 2 + 1),
]


@pytest.mark.parametrize(("norm", "shape", "each"), NORMS, ids=[str(one[0]) for one in NORMS])
def test_a_norm_by_its_steps(norm, shape, each: int) -> None:
    x = torch.zeros(*shape)
    scaling = backward(Scaled(nn.Identity()), x).flops

    assert backward(Scaled(norm), x).flops - scaling == each * x.numel()


ELEMENTWISE = [
    (functional.relu, 1),
    (functional.gelu, 11),
    (lambda x: functional.gelu(x, approximate="tanh"), 18),
    (functional.silu, 9),
    (torch.sigmoid, 3),
    (torch.tanh, 3),
    (functional.hardswish, 5),
    (functional.leaky_relu, 2),
    (lambda x: x.softmax(-1), 4),
    (lambda x: x.log_softmax(-1), 4),
]


@pytest.mark.parametrize(("function", "each"), ELEMENTWISE)
def test_an_activation_by_its_steps(function, each: int) -> None:
    x = torch.zeros(4, 6)
    scaling = backward(Scaled(nn.Identity()), x).flops

    assert backward(Scaled(Function(function)), x).flops - scaling == each * x.numel()


def test_bytes_are_those_of_the_operators() -> None:
    found = backward(nn.Linear(20, 30, bias=False), torch.zeros(5, 20))

    # The gradient of the weight is a product of what comes in and the input; no weight is read.
    assert (found.input_bytes, found.weight_bytes) == (4 * (5 * 30 + 5 * 20), 0)
    assert found.output_bytes == 4 * 20 * 30


def test_what_an_optimizer_costs_in_one_operator_is_what_it_costs_in_many() -> None:
    model, x = nn.Linear(100, 100), torch.zeros(2, 100)

    def cost(optimizer: str) -> int:
        found = recorded(model, x, spec=TrainSpec(optimizer)).cost.optimizer_step
        assert found is not None
        return found.flops

    # A few operators on the number of steps are left out.
    assert cost("adamw,fused=true") == pytest.approx(cost("adamw"), rel=1e-3)
    assert cost("sgd,momentum=0.9,fused=true") == cost("sgd,momentum=0.9")
    assert cost("adagrad,fused=true") == pytest.approx(cost("adagrad"), rel=1e-3)
