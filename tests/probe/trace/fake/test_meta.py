"""Models on meta, without values: the same tree and figures as with them."""

from __future__ import annotations

import importlib

import pytest
import torch
from torch import nn

from tests.probe.trace.traced import inputs_of, traced
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.trace.trace import TraceError, trace

DEMOS = ["cnn", "decoder", "detector", "dynamic", "lstm", "moe", "shared", "vit"]


@pytest.mark.parametrize("name", DEMOS)
def test_a_model_on_meta_has_the_tree_and_the_costs_of_a_real_one(name: str) -> None:
    demo = importlib.import_module(f"demo_models.{name}")
    inputs = (Inputs(demo.example_inputs(2)),)
    with torch.device("meta"):
        without_values = demo.build().eval()

    expected = trace(demo.build().eval(), inputs)
    made = trace(without_values, inputs)

    assert (expected.method, made.method) == ("dispatch:fake", "dispatch:meta")
    assert [(n.path, n.type) for n in made.nodes] == [(n.path, n.type) for n in expected.nodes]
    assert made.costs == expected.costs
    assert made.edges == expected.edges
    peaks = made.done.peak_memory, expected.done.peak_memory
    assert peaks[0].activations == peaks[1].activations
    assert peaks[0].parameters == peaks[1].parameters


def test_inputs_may_be_on_meta_too() -> None:
    model = nn.Linear(4, 3, device="meta")

    made = traced(model, torch.zeros(2, 4, device="meta"))

    assert made.method == "dispatch:meta"
    assert made.costs[0].macs == 2 * 4 * 3


def test_a_model_much_larger_than_memory_is_counted() -> None:
    with torch.device("meta"):
        width = 1 << 20
        model = nn.Sequential(*[nn.Linear(width, width, bias=False) for _ in range(4)])

    made = traced(model, torch.zeros(1, width))

    assert made.costs[0].parameters == 4 << 40
    assert made.costs[0].macs == 4 << 40
    assert made.done.peak_memory.parameters == 16 << 40


class Partly(nn.Module):
    """One layer on meta, one with values, a plain tensor and a tied weight on meta."""

    def __init__(self) -> None:
        super().__init__()
        self.here = nn.Linear(4, 4)
        self.there = nn.Linear(4, 4, device="meta")
        self.tied = nn.Linear(4, 4, device="meta")
        self.tied.weight = self.there.weight
        self.plain = torch.zeros(4, device="meta")

    def forward(self, x):
        return self.tied(self.there(self.here(x))) + self.plain


def test_the_model_is_left_on_meta_with_its_own_tensors() -> None:
    model = Partly()
    before = {name: id(tensor) for name, tensor in model.state_dict(keep_vars=True).items()}
    plain = model.plain

    made = traced(model, torch.zeros(1, 4))

    assert {name: id(t) for name, t in model.state_dict(keep_vars=True).items()} == before
    assert model.plain is plain
    assert type(model.there.weight) is nn.Parameter
    assert made.costs[0].parameters == 20 + 20 + 4
    shared = [w.shared_with for node in made.nodes for w in node.weights if w.shared_with]
    assert shared == ["there.weight"]


def test_it_is_left_so_after_a_failure_and_never_run_for_real() -> None:
    model = Partly()
    weight = model.there.weight

    with pytest.raises(TraceError) as caught:
        trace(model, (inputs_of(torch.zeros(1, 5)),))

    assert [attempt.method for attempt in caught.value.attempts] == ["dispatch:meta"]
    assert model.there.weight is weight
    assert weight.device.type == "meta"


def test_what_depends_on_values_is_a_bound() -> None:
    class Choosing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("length", torch.zeros((), dtype=torch.int64, device="meta"))

        def forward(self, x):
            return x[x > 0][: int(self.length)]

    made = traced(Choosing(), torch.zeros(3))

    assert made.done.bounded == ("aten::index", "aten::_local_scalar_dense")
