"""Real tensors that a fake run writes into are fake from then on."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.probe.cost.test_macs import Function
from tests.probe.trace.traced import inputs_of, traced
from tui_profiler.probe.trace.record import record
from tui_profiler.probe.trace.tracers import DISPATCH_FAKE, DISPATCH_REAL
from tui_profiler.probe.trace.tree.messages import Frozen

ELEMENTS = 1024
BYTES = 4 * ELEMENTS


def filled_at_places(x):
    result = torch.zeros(ELEMENTS)
    result[torch.arange(ELEMENTS)] = x
    return result[result > 0]


def added_in_place(x):
    result = torch.zeros(ELEMENTS)
    result += x
    return result[result > 0]


def written_through_a_view(x):
    result = torch.zeros(2, ELEMENTS // 2)
    result[0].copy_(x[: ELEMENTS // 2])
    result.view(-1)[ELEMENTS // 2 :].add_(x[ELEMENTS // 2 :])
    flat = result.flatten()
    return flat[flat > 0]


def written_into_out(x):
    result = torch.empty(ELEMENTS)
    torch.add(x, 1.0, out=result)
    return result[result > 1]


@pytest.mark.parametrize(
    "function", [filled_at_places, added_in_place, written_through_a_view, written_into_out]
)
def test_what_was_written_is_not_taken_for_zeros(function) -> None:
    made = traced(Function(function), torch.ones(ELEMENTS))

    assert made.method == "dispatch:fake"
    assert made.done.bounded == ("aten::index",)
    assert made.nodes[0].outputs[0].shape == (ELEMENTS,)


@pytest.mark.parametrize("function", [filled_at_places, added_in_place, written_through_a_view])
def test_operators_memory_and_edges_are_those_of_a_real_run(function) -> None:
    def before_the_choice(x):  # up to where values decide
        return function(x).sum()

    model, inputs = Function(before_the_choice), inputs_of(torch.ones(ELEMENTS))
    fake, real = (record(model, inputs, way, "") for way in (DISPATCH_FAKE, DISPATCH_REAL))
    of_fake, of_real = Frozen(fake.places), Frozen(real.places)

    assert [node.type for node in of_fake.nodes()] == [node.type for node in of_real.nodes()]
    assert of_fake.edges(fake.recorder.dataflow.edges) == of_real.edges(
        real.recorder.dataflow.edges
    )
    assert [cost.output_bytes for cost in of_fake.costs()] == [
        cost.output_bytes for cost in of_real.costs()
    ]
    assert fake.recorder.lifetimes.peak_bytes == real.recorder.lifetimes.peak_bytes


def test_a_tensor_and_its_twin_are_one_in_memory() -> None:
    def kept_by_a_view(x):
        result = torch.zeros(ELEMENTS)
        result[:] = x
        view = result.view(2, -1)
        del result
        return view * 2.0

    made = traced(Function(kept_by_a_view), torch.ones(ELEMENTS))

    assert made.done.peak_memory.activations == 3 * BYTES  # x, what was filled, its double


def test_what_is_let_go_of_is_let_go_of_with_its_twin() -> None:
    def one_after_another(x):
        for _ in range(5):
            result = torch.zeros(ELEMENTS)
            result[:] = x
            del result
        return x

    made = traced(Function(one_after_another), torch.ones(ELEMENTS))

    assert made.done.peak_memory.activations == 2 * BYTES


def test_a_buffer_written_into_stays_as_it_was() -> None:
    class Cached(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("cache", torch.zeros(4, 8))

        def forward(self, x):
            self.cache[:2] = x
            return self.cache[self.cache > 0]

    model = Cached()
    before = model.cache
    made = traced(model, torch.ones(2, 8))

    assert made.nodes[0].outputs[0].shape == (32,)
    assert model.cache is before
    assert torch.equal(before, torch.zeros(4, 8))
    assert type(before) is torch.Tensor
