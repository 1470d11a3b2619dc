"""The backward on paper belongs to the modules whose calls made it."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from tests.probe.trace.traced import inputs_of
from tests.probe.trace.training.recorded import cost_at, recorded
from tui_profiler.messages import TrainSpec
from tui_profiler.probe.trace.failure import TraceError
from tui_profiler.probe.trace.training.loss import OWN, SQUARES, SUMMED
from tui_profiler.probe.trace.training.optimizers import make_optimizer
from tui_profiler.probe.trace.training.record_step import TrainedTrace, trace_step
from tui_profiler.session.training import CostColumns

X = torch.ones(4, 8)
LAYER = 4 * 8 * 8
"""Multiply-accumulates of one product of ``X`` with a square weight."""


def layer() -> nn.Linear:
    return nn.Linear(8, 8)


class Branches(nn.Module):
    """Two branches of one input, and a layer that is called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.left, self.right, self.twice = layer(), layer(), layer(), layer()

    def forward(self, x):
        x = self.stem(x)
        return self.twice(self.twice(self.left(x) + self.right(x)))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = layer(), layer()

    def forward(self, x):
        return x + self.two(functional.relu(self.one(x), inplace=True))


def test_each_module_has_the_products_of_its_own_calls() -> None:
    made = recorded(Branches(), X)

    assert cost_at(made, "stem").macs == LAYER  # The input needs no gradient.
    assert cost_at(made, "left").macs == cost_at(made, "right").macs == 2 * LAYER
    assert cost_at(made, "twice").macs == 4 * LAYER
    assert cost_at(made).macs == 9 * LAYER
    assert made.cost.backward.macs == 9 * LAYER


def test_a_node_and_its_children_make_its_cost() -> None:
    made = recorded(nn.Sequential(layer(), Block(), Block()), X)
    columns, nodes = CostColumns(made.cost), made.trace.nodes

    for index, node in enumerate(nodes):
        children = [at for at, one in enumerate(nodes) if one.parent == index]
        if not children:
            continue
        of_children = sum(columns.of(at).flops for at in children)
        assert columns.of(index).flops >= of_children
        if node.kind == "module" and all(nodes[at].kind == "op" for at in children):
            rest = columns.of(index).flops - of_children
            assert rest == 0  # All of it is of its operators: no gradient is accumulated twice.


def test_an_operator_has_the_backward_of_its_own_node() -> None:
    made = recorded(nn.Sequential(layer(), nn.Linear(8, 2)), X)

    ops = [node.path for node in made.trace.nodes if node.type == "aten.addmm.default"]
    assert [cost_at(made, path).macs for path in ops] == [LAYER, 2 * 4 * 8 * 2]


class OnPart(nn.Module):
    """Writes into a part of what it made: autograd puts two nodes in place of one."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.after = layer(), layer()

    def forward(self, x):
        y = self.inner(x).clone()
        y[:, :4].mul_(2.0)
        return self.after(y)


def test_what_is_written_into_a_part_belongs_where_it_was_written() -> None:
    made = recorded(OnPart(), X)

    assert cost_at(made, "inner").macs == LAYER
    assert cost_at(made, "after").macs == 2 * LAYER
    assert cost_at(made, "after").flops == 2 * 2 * LAYER + 4 * 8  # The products and a bias.


def test_the_loss_is_apart() -> None:
    made = recorded(layer(), X)

    assert made.cost.loss == SQUARES
    assert made.cost.loss_forward.flops == 2 * 4 * 8  # Squares and their sum.
    assert made.cost.loss_backward.ops > 0
    assert cost_at(made).flops == 2 * LAYER + 4 * 8


class Reentrant(nn.Module):
    def __init__(self, *, use_reentrant: bool) -> None:
        super().__init__()
        self.stem, self.block = layer(), Block()
        self.use_reentrant = use_reentrant

    def forward(self, x):
        return checkpoint(self.block, self.stem(x), use_reentrant=self.use_reentrant)


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_what_checkpointing_runs_again_is_no_backward(use_reentrant: bool) -> None:
    made = recorded(Reentrant(use_reentrant=use_reentrant), X)

    # Without a graph in between, the last product is not run again.
    again = 2 * LAYER if use_reentrant else LAYER
    assert cost_at(made, "block").macs == 4 * LAYER
    assert cost_at(made, "block").again_macs == again
    assert cost_at(made, "block.one").again_macs == LAYER
    assert cost_at(made, "stem").again_macs == 0
    assert made.cost.recomputed.macs == again


def test_chosen_modules_are_checkpointed() -> None:
    model = nn.Sequential(layer(), nn.Sequential(Block(), Block()))

    plain = recorded(model, X)
    blocks = recorded(model, X, spec=TrainSpec("sgd", checkpoint="blocks"))
    named = recorded(model, X, spec=TrainSpec("sgd", checkpoint="1.0"))

    assert plain.cost.recomputed.macs == 0
    assert blocks.cost.recomputed.macs == 2 * LAYER
    assert [cost_at(named, f"1.{at}").again_macs for at in range(2)] == [LAYER, 0]
    assert blocks.cost.backward.flops == plain.cost.backward.flops
    assert blocks.memory.saved < named.memory.saved < plain.memory.saved
    assert "forward" not in vars(model[1][0])


class Dense(nn.Module):
    """Hands a list to its blocks, and appends to it, as DenseNet does."""

    class Last(nn.Linear):
        def forward(self, before):
            return super().forward(before[-1]).tanh()

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Dense.Last(8 + at, 9 + at) for at in range(2))

    def forward(self, x):
        before = [x]
        for block in self.blocks:
            before.append(block(before))
        return before[-1]


def test_a_checkpointed_module_is_given_its_list_as_it_was() -> None:
    made = recorded(Dense(), X, spec=TrainSpec("sgd", checkpoint="blocks.*"))

    assert made.cost.recomputed.macs == 4 * (8 * 9 + 9 * 10)


def test_gradients_are_those_of_trained_parameters_shared_ones_once() -> None:
    model = nn.Sequential(layer(), layer(), layer())
    model[1].weight = model[0].weight
    model[2].requires_grad_(requires_grad=False)

    made = recorded(model, X)

    assert cost_at(made, "0").gradient_bytes == cost_at(made, "1").gradient_bytes == 4 * (64 + 8)
    assert cost_at(made, "2").gradient_bytes == 0
    assert cost_at(made).gradient_bytes == 4 * (64 + 8 + 8)


class WithLoss(nn.Module):
    def __init__(self, output) -> None:
        super().__init__()
        self.layer = layer()
        self.output = output

    def forward(self, x):
        return self.output(self.layer(x))


class Output:
    def __init__(self, loss) -> None:
        self.loss = loss


LOSSES = [
    (lambda y: y, SQUARES),
    (lambda y: [y, {"more": y.sum(0)}, 3], SQUARES),
    (lambda y: Output(y.sum()), OWN),
    (lambda y: {"loss": y.sum(), "logits": y}, OWN),
    (lambda y: {"class": y.sum(), "box": y.mean()}, SUMMED),
]


@pytest.mark.parametrize(("output", "kind"), LOSSES)
def test_the_loss_is_what_the_model_gives(output, kind: str) -> None:
    assert recorded(WithLoss(output), X).cost.loss == kind


def test_what_cannot_be_trained_is_said() -> None:
    frozen = layer().requires_grad_(requires_grad=False)
    with pytest.raises(TraceError, match="no parameter requires a gradient"):
        recorded(frozen, X)
    with pytest.raises(TraceError, match="no floating-point output"):
        recorded(WithLoss(lambda y: y.argmax()), X)
    with pytest.raises(TraceError, match=r"no module's path is like 'nosuch\.\*'"):
        recorded(layer(), X, spec=TrainSpec("sgd", checkpoint="nosuch.*"))
    with pytest.raises(TraceError, match=r"^backward raised RuntimeError: one of"):
        recorded(WithLoss(lambda y: (z := y.exp()) * 2 + z.add_(1)), X)


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ("sgd,foo=1", "'foo=1' is not a setting of SGD"),
        ("sgd,params=1", "is not a setting of SGD"),
        ("sgd,momentum", "'momentum' is not a setting"),
        ("sgd,lr=x", "x is not a value that SGD takes"),
        ("sgd,lr=nan", "nan is not a value"),
        ("sgd,lr=-1", "Invalid learning rate: -1"),
        ("adam,amsgrad=yes", "yes is not a value"),
        ("adam,betas=[0.9]", r"\[0.9\] is not a value"),
        ("lbfgs", "LBFGS evaluates the model several times per step"),
    ],
)
def test_settings_that_an_optimizer_does_not_take_are_refused(typed: str, says: str) -> None:
    with pytest.raises(TraceError, match=says):
        recorded(layer(), X, spec=TrainSpec(typed))


def test_settings_are_as_written_in_python() -> None:
    made = make_optimizer("adam, betas=(0.8, 0.9),amsgrad=true", {0: nn.Parameter(X)})

    [group] = made.param_groups
    assert (group["betas"], group["amsgrad"], group["lr"]) == ((0.8, 0.9), True, 0.0)


def test_passes_of_accumulation_and_autocast_are_recorded() -> None:
    model = nn.Sequential(layer(), layer())
    plain = recorded(model, X)
    twice = recorded(model, X, spec=TrainSpec("sgd", accumulate=2))
    half = recorded(model, X, spec=TrainSpec("sgd", autocast="bf16"))

    assert twice.cost.backward.macs == half.cost.backward.macs == plain.cost.backward.macs
    of_gradients = 2 * (4 * 64 + 64)  # The allocator rounds up to 64 bytes.
    assert plain.memory.gradients_before == 0
    assert twice.memory.gradients_before == twice.memory.gradients == of_gradients
    assert any(node.outputs[0].dtype == "bfloat16" for node in half.trace.nodes if node.outputs)


class ForReal(nn.Module):
    """Asks for values, which fake tensors do not have."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = layer()

    def forward(self, x):
        x.detach().numpy()
        return self.layer(x)


def same(one: TrainedTrace, other: TrainedTrace) -> bool:
    return one.cost == other.cost and one.memory == other.memory


def test_a_real_step_gives_what_fake_ones_do() -> None:
    spec = TrainSpec("adamw", accumulate=2)
    fake, real = (recorded(model, X, spec=spec) for model in (WithLoss(lambda y: y), ForReal()))

    assert (fake.trace.method, real.trace.method) == ("dispatch:fake", "dispatch:real")
    assert real.cost.backward == fake.cost.backward
    assert real.cost.optimizer_step == fake.cost.optimizer_step
    assert real.memory.peak == fake.memory.peak


def test_a_model_on_meta_is_recorded_as_on_the_cpu() -> None:
    on_meta = trace_step(
        Branches().to("meta").train(), [inputs_of(X.to("meta"))], TrainSpec(), "adamw"
    )
    on_cpu = recorded(Branches(), X, spec=TrainSpec())

    assert on_meta.trace.method == "dispatch:meta"
    assert same(on_meta, on_cpu)
