"""FLOP beside multiply-accumulates against counts by hand; what is not known is said."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.probe.cost.test_macs import Function
from tests.probe.trace.traced import total, traced
from tui_profiler.probe.cost.arithmetic import ARITHMETIC, PER_INPUT, PER_OUTPUT
from tui_profiler.probe.cost.cost import is_free
from tui_profiler.probe.cost.macs import MACS

SHAPE = (2, 4, 6, 6)
ELEMENTS = 2 * 4 * 6 * 6


@pytest.mark.parametrize(
    ("module", "flops"),
    [
        (nn.ReLU(), ELEMENTS),
        (nn.ReLU(inplace=True), ELEMENTS),
        (nn.ReLU6(), 2 * ELEMENTS),
        (nn.Sigmoid(), 4 * ELEMENTS),
        (nn.SiLU(), 5 * ELEMENTS),
        (nn.GELU(), 5 * ELEMENTS),
        (nn.Hardswish(), 5 * ELEMENTS),
        (nn.Tanh(), ELEMENTS),
        (nn.Softmax(dim=1), 5 * ELEMENTS),
        (nn.BatchNorm2d(4), 2 * ELEMENTS),
        (nn.GroupNorm(2, 4), 7 * ELEMENTS),
        (nn.LayerNorm((6, 6), elementwise_affine=False), 5 * ELEMENTS),
        (nn.MaxPool2d(2), 4 * ELEMENTS // 4),
        (nn.AvgPool2d(3, stride=3), 9 * ELEMENTS // 9),
        (nn.AdaptiveAvgPool2d(1), ELEMENTS),
        (nn.AdaptiveAvgPool2d(3), ELEMENTS),
        (nn.Upsample(scale_factor=2, mode="nearest"), 0),
        (nn.Upsample(scale_factor=2, mode="bilinear"), 7 * 4 * ELEMENTS),
        (nn.Dropout(0.5), 0),
        (nn.Flatten(), 0),
        (nn.Identity(), 0),
        (nn.PixelShuffle(2), 0),
        (nn.ZeroPad2d(1), 0),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else None,
)
def test_layers_without_products(module: nn.Module, flops: int) -> None:
    cost = total(module, torch.zeros(SHAPE))

    assert (cost.macs, cost.flops) == (0, flops)


def test_integers_are_not_floating_point() -> None:
    positions = torch.arange(10)

    assert total(Function(lambda x: x * 2 + 1), positions).flops == 0
    assert total(Function(lambda x: x * 2 + 1), positions.float()).flops == 20


def test_a_complex_product_is_four_products_and_two_sums() -> None:
    rotation = torch.zeros(3, 8, dtype=torch.complex64)

    assert total(Function(lambda a, b: a * b), rotation, rotation).flops == 6 * 24
    assert total(Function(lambda a, b: a + b), rotation, rotation).flops == 2 * 24


def test_sorting_compares_n_log_n_times() -> None:
    assert total(Function(lambda x: x.sort().values), torch.zeros(3, 16)).flops == 3 * 16 * 4


def test_statistics_in_training_are_counted() -> None:
    def normalised(x):
        return functional.batch_norm(x, None, None, training=True)

    assert total(Function(normalised), torch.zeros(SHAPE)).flops == 5 * ELEMENTS


def test_an_operator_without_a_formula_is_named_and_makes_a_lower_bound() -> None:
    made = traced(Function(lambda x: torch.linalg.eigvalsh(x) + 1.0), torch.eye(4))

    uncosted = [node for node in made.nodes if node.type == "aten._linalg_eigh.default"]
    assert made.done.uncosted == ("aten::_linalg_eigh",)
    assert len(uncosted) == 1
    assert made.costs[0].uncosted == 1
    assert made.costs[0].ops > 1


def test_a_name_stands_in_one_table_only() -> None:
    element_wise = [
        name for names in (*PER_OUTPUT.values(), *PER_INPUT.values()) for name in names.split()
    ]

    assert len(element_wise) == len(set(element_wise))
    assert not [name for name in ARITHMETIC.names() | MACS.names() if is_free(name)]


def test_names_in_the_tables_are_operators_of_torch() -> None:
    """A misspelt name would leave its operator uncosted for ever."""
    foreign = ("mkl::", "mkldnn::", "onednn::", "quantized::", "torchvision::")
    ours = ARITHMETIC.names() | MACS.names()
    names = [n for n in ours if not n.startswith(foreign) and "_foreach_" not in n]

    unknown = [n for n in names if not hasattr(torch.ops.aten, n.removeprefix("aten::"))]

    assert unknown == []
