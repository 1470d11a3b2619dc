"""Trainable and frozen parameters, against sums over the module itself."""

from __future__ import annotations

import pytest
import torch
from msgspec import json
from torch import nn

from tests.probe.trace.traced import cost_at, traced
from tui_profiler.messages import Cost, Unknown, Weight
from tui_profiler.queries.cost.totals import frozen, trainable


class Tied(nn.Module):
    """An embedding whose weight is the head's, and a body whose first layer is frozen."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 8)
        self.body = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 8))
        self.head = nn.Linear(8, 50)
        self.head.weight = self.embed.weight
        self.body[0].requires_grad_(False)
        self.head.bias.requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.head(self.body(self.embed(x)))
        return found


def counted(module: nn.Module, *, trained: bool) -> int:
    return sum(one.numel() for one in module.parameters() if one.requires_grad is trained)


@pytest.mark.parametrize("freezes_tied", [False, True])
def test_every_module_has_its_own_trainable_and_frozen_parameters(freezes_tied: bool) -> None:
    model = Tied()
    model.embed.weight.requires_grad_(not freezes_tied)
    made = traced(model, torch.zeros(3, dtype=torch.int64))
    modules = dict(model.named_modules())
    for path, module in modules.items():
        cost = cost_at(made, path)
        assert trainable(cost) == counted(module, trained=True), path
        assert frozen(cost) == counted(module, trained=False), path
    assert trainable(made.costs[0]) == 88 + 400 * (not freezes_tied)
    assert frozen(made.costs[0]) == 72 + 50 + 400 * freezes_tied


def test_a_weight_says_whether_it_is_trained() -> None:
    made = traced(Tied(), torch.zeros(3, dtype=torch.int64))
    told = {
        f"{node.path}.{weight.name}": weight.requires_grad
        for node in made.nodes
        for weight in node.weights
    }
    assert told["body.0.weight"] is False
    assert (told["body.2.weight"], told["head.weight"], told["head.bias"]) == (True, True, False)


def test_one_storage_with_a_frozen_and_a_trainable_parameter_is_trainable() -> None:
    model = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False))
    shared = nn.Parameter(model[0].weight.data, requires_grad=False)
    assert isinstance(model[1], nn.Linear)
    model[1].weight = shared
    cost = traced(model, torch.zeros(1, 4)).costs[0]
    assert (cost.parameters, cost.trainable) == (16, 16)


def test_messages_of_earlier_versions_are_read_and_leave_it_unknown() -> None:
    cost = json.decode(json.encode(list(range(9))), type=Cost)
    assert isinstance(trainable(cost), Unknown)
    assert isinstance(frozen(cost), Unknown)
    weight = json.decode(b'["bias",[4],"float32",16,false,""]', type=Weight)
    assert weight.requires_grad is None
