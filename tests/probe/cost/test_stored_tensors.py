"""Tensors that are stored otherwise than their shape says: packed, wrapped, sparse."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.probe.trace.traced import cost_at, total, traced

FLOAT = 4


class Int8Weight(torch.Tensor):
    """A weight stored in int8 that passes for float32, as those of torchao do."""

    @staticmethod
    def __new__(cls, values: torch.Tensor, scale: torch.Tensor) -> Int8Weight:
        return torch.Tensor._make_wrapper_subclass(cls, values.shape, dtype=scale.dtype)

    def __init__(self, values: torch.Tensor, scale: torch.Tensor) -> None:
        self.values8, self.scale = values, scale

    def __tensor_flatten__(self):
        return ["values8", "scale"], None

    @classmethod
    def __tensor_unflatten__(cls, inner, _, size, stride):
        return cls(inner["values8"], inner["scale"])

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is functional.linear:
            given, weight = args[0], args[1]
            return given @ weight.values8.to(given.dtype).t() * weight.scale
        return super().__torch_function__(func, types, args, kwargs)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        if func is torch.ops.aten.detach.default:
            return cls(args[0].values8, args[0].scale)
        raise NotImplementedError(str(func))


def test_a_weight_that_wraps_others_has_the_bytes_and_the_type_of_what_is_stored() -> None:
    layer = nn.Linear(64, 32, bias=False)
    wrapped = Int8Weight(torch.zeros(32, 64, dtype=torch.int8), torch.ones(32))
    layer.weight = nn.Parameter(wrapped, requires_grad=False)

    made = traced(layer, torch.zeros(4, 64))

    stored = 32 * 64 + 32 * FLOAT
    (weight,) = made.nodes[0].weights
    assert (weight.dtype, weight.bytes) == ("int8", stored)
    assert made.costs[0].parameters == 32 * 64
    assert made.costs[0].parameter_bytes == stored
    assert made.done.peak_memory.parameters == stored
    assert made.costs[0].weight_bytes == stored


@pytest.mark.filterwarnings("ignore:torch.ao.quantization is deprecated")
@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
def test_packed_weights_of_a_quantised_layer_are_read() -> None:
    model = nn.Sequential(nn.Linear(64, 32))
    quantised = torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)

    cost = total(quantised, torch.zeros(1, 64))

    assert cost.weight_bytes == 32 * 64 + 32 * FLOAT
    assert cost.flops / (cost.input_bytes + cost.weight_bytes + cost.output_bytes) < 2


class Graph(nn.Module):
    """A sparse matrix of 10 values, times features."""

    def __init__(self, layout: str, product) -> None:
        super().__init__()
        where = torch.arange(10)
        matrix = torch.sparse_coo_tensor(torch.stack([where, where]), torch.ones(10), (100, 100))
        self.register_buffer("matrix", getattr(matrix.coalesce(), layout)())
        self.product = product

    def forward(self, x):
        return self.product(self.matrix, x)


@pytest.mark.filterwarnings("ignore:Sparse ")
@pytest.mark.parametrize(
    ("layout", "product", "macs", "stored"),
    [
        ("coalesce", torch.sparse.mm, 10 * 8, 10 * (2 * 8 + FLOAT)),
        ("to_sparse_csr", lambda a, x: a @ x, 10 * 8, 101 * 8 + 10 * (8 + FLOAT)),
        ("to_sparse_csr", lambda a, x: a.mv(x[:, 0]), 10, 101 * 8 + 10 * (8 + FLOAT)),
    ],
)
def test_a_sparse_matrix_costs_what_it_stores(layout, product, macs, stored) -> None:
    made = traced(Graph(layout, product), torch.zeros(100, 8))

    assert made.done.uncosted == ()
    assert made.costs[0].macs == macs
    assert made.costs[0].weight_bytes == stored
    assert stored <= made.done.peak_memory.buffers < 2 * stored  # of the storages
    assert [weight.bytes for weight in made.nodes[0].weights] == [stored]


def test_other_arithmetic_on_sparse_tensors_has_no_formula() -> None:
    made = traced(Graph("coalesce", lambda a, x: (a * 2.0).to_dense() @ x), torch.zeros(100, 8))

    assert "aten::mul" in " ".join(made.done.uncosted)
    assert cost_at(made, next(node for node in made.nodes if node.name == "aten::mm").path).macs


class Jagged(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 16)

    def forward(self, *rows):
        made = torch.nested.nested_tensor(list(rows), layout=torch.jagged)
        return torch.nested.to_padded_tensor(self.layer(made), 0.0)


def test_a_jagged_tensor_made_in_the_forward_is_traced_in_a_real_run() -> None:
    made = traced(Jagged(), torch.zeros(3, 8), torch.zeros(5, 8))

    assert made.method == "dispatch:real"
    assert cost_at(made, "layer").macs == 2 * 5 * 8 * 16  # as if padded to the longest
    assert cost_at(made, "layer").output_bytes >= (3 + 5) * 16 * FLOAT
