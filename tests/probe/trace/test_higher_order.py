"""Operators that are given functions: branches, parts that run once, loops."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.attention.flex_attention import flex_attention

from tests.probe.trace.traced import at, cost_at, inputs_of, paths, traced
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.trace.trace import trace

X = torch.ones(2, 4)
SMALL, LARGE = 2 * 4 * 4, 2 * 2 * 4 * 16


class Branching(nn.Module):
    """A cheap and a dear branch; which one depends on values."""

    def __init__(self) -> None:
        super().__init__()
        self.small = nn.Linear(4, 4)
        self.large = nn.Sequential(nn.Linear(4, 16), nn.Linear(16, 4))

    def forward(self, x):
        return torch.cond(x.sum() > 0, self.small, self.large, (x,))


class Looping(nn.Module):
    """Multiplies until a counter that is a tensor is used up."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        def goes_on(left, x):
            return left > 0

        def turn(left, x):
            return left - 1, self.layer(x)

        from torch._higher_order_ops.while_loop import while_loop

        return while_loop(goes_on, turn, (self.turns(x), x))[1]

    def turns(self, x):
        return torch.tensor(3)


class LoopingOnValues(Looping):
    def turns(self, x):
        return x.sum().long()


class WithoutGradients(nn.Module):
    """Switches gradients on inside, which an exported graph does in a part of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        with torch.enable_grad():
            y = self.layer(x)
        return y.relu()


def test_the_dearest_branch_is_counted_where_nobody_knows_and_said_to_be_a_bound() -> None:
    made = traced(Branching(), X)

    assert made.method == "dispatch:fake"
    assert made.costs[0].macs == LARGE
    assert made.done.bounded == ("higher_order::cond",)
    assert made.done.uncosted == ()
    assert cost_at(made, "large.0").macs == LARGE // 2
    assert at(made, "small").calls == 0


def test_what_is_inside_comes_as_the_operators_that_would_run() -> None:
    made = traced(Branching(), X)

    inside = [node.type for node in made.nodes if node.path.startswith("large.1/")]
    assert inside == ["aten.t.default", "aten.addmm.default"]


@pytest.mark.parametrize(("sign", "macs"), [(1.0, SMALL), (-1.0, LARGE)])
def test_a_real_run_takes_the_branch_that_is_taken(sign: float, macs: int) -> None:
    class Real(Branching):
        def forward(self, x):
            x.numpy()
            return super().forward(x)

    made = traced(Real(), X * sign)

    assert made.method == "dispatch:real"
    assert made.costs[0].macs == macs
    assert made.done.bounded == ()


def test_an_exported_graph_counts_the_same_and_tells_its_graphs() -> None:
    made = trace(Branching().eval(), (inputs_of(X),), "export")

    assert made.costs[0].macs == LARGE
    assert made.done.attempts[-1].graphs == 3
    assert made.done.bounded == ("higher_order::cond",)


@pytest.mark.parametrize("tracer", ["auto", "export"])
def test_of_a_loop_of_unknown_length_one_turn_is_counted_and_that_is_said(tracer: str) -> None:
    made = trace(LoopingOnValues().eval(), (inputs_of(X),), tracer)

    assert made.done.uncosted == ("higher_order::while_loop (not every turn is counted)",)
    assert made.costs[0].uncosted == 1
    assert made.costs[0].macs == SMALL


@pytest.mark.parametrize("tracer", ["auto", "export"])
def test_a_loop_of_known_length_is_counted_turn_by_turn(tracer: str) -> None:
    made = trace(Looping().eval(), (inputs_of(X),), tracer)

    assert made.costs[0].macs == 3 * SMALL
    assert made.done.uncosted == made.done.bounded == ()
    products = [node.calls for node in made.nodes if node.type == "aten.addmm.default"]
    assert products == [3]


def test_a_loop_without_an_end_ends() -> None:
    class Endless(Looping):
        def turns(self, x):
            return torch.tensor(1 << 40)

    made = trace(Endless().eval(), (inputs_of(X),), "export")

    assert made.costs[0].uncosted == 1


def test_what_runs_in_a_kernel_of_its_own_is_listed_with_its_contents() -> None:
    from torch._higher_order_ops.scan import scan

    class Summing(nn.Module):
        def forward(self, x):
            return scan(lambda carry, row: (carry + row, carry * row), x[0], x)[1]

    made = trace(Summing(), (inputs_of(X),), "export")

    (name,) = made.done.uncosted
    assert name.startswith("higher_order::scan (")
    assert "aten::add" in name
    assert "aten::mul" in name


def test_a_part_with_other_gradients_is_seen_through() -> None:
    model = WithoutGradients().eval()

    made = trace(model, (inputs_of(X),), "export")
    expected = trace(model, (inputs_of(X),))

    assert made.costs[0].macs == expected.costs[0].macs == SMALL
    assert made.done.uncosted == ()
    assert paths(made) == ["", "layer"]


def test_a_branch_in_the_graph_of_a_model_on_meta_is_counted() -> None:
    with torch.device("meta"):
        model = Branching().eval()

    made = trace(model, (Inputs((X,)),))

    assert made.method == "dispatch:meta"
    assert made.costs[0].macs == LARGE


class CompiledAttention(nn.Module):
    """Flex attention, which only compiled code may run, and a function that a backend compiles."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        query = self.layer(x).view(1, 2, 16, 8)
        attended = flex_attention(query, query, query)
        return torch.compile(lambda y: y @ y.mT, backend=generate)(attended)


GENERATED: list[torch.fx.GraphModule] = []


def generate(graph, _):
    """Stand for a backend that generates code, which cannot run on fake tensors."""
    GENERATED.append(graph)
    return graph.forward


def test_no_backend_generates_code_for_fake_tensors_and_the_models_own_does_afterwards() -> None:
    model, x = CompiledAttention().eval(), torch.ones(1, 2, 16, 8)
    GENERATED.clear()
    made = traced(model, x)
    assert made.method == "dispatch:fake"
    assert not GENERATED
    # Heads, queries, keys, width: of scores, of values, and of the product.
    assert cost_at(made, "").macs == 2 * 16 * 8 * 8 + 3 * (2 * 16 * 16 * 8)
    with torch.no_grad():  # Flex attention has no backward on CPUs.
        model(x)
    assert len(GENERATED) == 1
