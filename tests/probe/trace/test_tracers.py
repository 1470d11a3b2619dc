"""Whichever way a model is traced: its parameters and MACs are the same."""

from __future__ import annotations

import importlib
from collections.abc import Callable

import pytest
import torch
import torchvision
from torch import nn

from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.trace.trace import Trace, TraceError, trace
from tui_profiler.system.demos import demo_names

TRACERS = ("dispatch", "fx", "export")
# One of each kind; ``benchmarks/costs/tracers.py`` has more.
CLASSIFIERS = ["resnet18", "squeezenet1_1", "vit_b_32"]
NO_GRAPH = {
    "demo:decoder": {"fx"},
    "demo:detector": {"fx"},
    "demo:dynamic": {"fx", "export"},
    "demo:moe": {"fx", "export"},
    "demo:transformer": {"fx"},
    "demo:vit": {"fx"},
}
"""Whose course depends on values, or, for fx, on the length of what it is given."""


def demo(name: str) -> tuple[nn.Module, Inputs]:
    module = importlib.import_module(f"demo_models.{name}")
    return module.build().eval(), Inputs(module.example_inputs(2))


def classifier(name: str) -> tuple[nn.Module, Inputs]:
    """Without values: they take the time, and figures do not depend on them."""
    with torch.device("meta"):
        model = torchvision.models.get_model(name, weights=None).eval()
    side = 224 if name.startswith(("vit", "swin")) else 64
    return model, Inputs((torch.zeros(1, 3, side, side),))


EVERY: dict[str, Callable[[], tuple[nn.Module, Inputs]]] = {
    **{f"demo:{name}": lambda name=name: demo(name) for name in demo_names()},
    **{name: lambda name=name: classifier(name) for name in CLASSIFIERS},
}


def traces(model: nn.Module, inputs: Inputs) -> dict[str, Trace | TraceError]:
    found: dict[str, Trace | TraceError] = {}
    for tracer in TRACERS:
        try:
            found[tracer] = trace(model, (inputs,), tracer)
        except TraceError as error:
            found[tracer] = error
    return found


@pytest.mark.parametrize("name", EVERY)
def test_parameters_and_macs_are_equal_across_tracers(name: str) -> None:
    found = traces(*EVERY[name]())

    failed = {tracer for tracer, made in found.items() if isinstance(made, TraceError)}
    assert failed == NO_GRAPH.get(name, set())
    made = [one for one in found.values() if isinstance(one, Trace)]
    assert {one.costs[0].parameters for one in made} == {made[0].costs[0].parameters}
    assert {one.costs[0].macs for one in made} == {made[0].costs[0].macs}
    assert all(one.done.uncosted == () for one in made)
    assert len({tuple(n.path for n in one.nodes if n.kind == "module") for one in made}) == 1


def operators(made: Trace) -> list[str]:
    return [node.name.removeprefix("aten::") for node in made.nodes if node.kind == "op"]


def test_fx_computes_beforehand_what_depends_on_no_input() -> None:
    class Constant(nn.Module):
        def forward(self, x):
            return x * torch.arange(4.0).exp()

    found = traces(Constant(), Inputs((torch.ones(2, 4),)))

    assert operators(found["dispatch"]) == operators(found["export"]) == ["arange", "exp", "mul"]
    assert operators(found["fx"]) == ["mul"]
    assert [found[tracer].costs[0].flops for tracer in TRACERS] == [8 + 4, 8, 8 + 4]


def test_fx_writes_an_assignment_in_place_as_a_new_tensor_of_the_same_cost() -> None:
    class InPlace(nn.Module):
        def forward(self, x):
            x = x * 2.0
            x += 1.0
            return x.relu_()

    found = traces(InPlace(), Inputs((torch.ones(2, 4),)))

    assert operators(found["dispatch"]) == operators(found["export"]) == ["mul", "add_", "relu_"]
    assert operators(found["fx"]) == ["mul", "add", "relu_"]
    assert len({found[tracer].costs[0] for tracer in TRACERS}) == 1


@pytest.mark.parametrize("training", [False, True])
def test_export_takes_attention_apart_where_inference_fuses_it(training: bool) -> None:
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)

    found = traces(nn.Sequential(layer).train(training), Inputs((torch.ones(2, 3, 16),)))

    fused = ["_transformer_encoder_layer_fwd"]
    assert (operators(found["dispatch"]) == fused) is not training
    assert operators(found["dispatch"]) == operators(found["fx"])
    whole, apart = found["dispatch"].costs[0], found["export"].costs[0]
    assert whole.macs == apart.macs
    assert whole.flops == apart.flops
    assert (apart.output_bytes > whole.output_bytes) is not training


def test_dropout_costs_the_same_in_every_tracer() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(), nn.BatchNorm1d(4))

    for training in (False, True):
        found = traces(model.train(training), Inputs((torch.ones(2, 4),)))

        assert len({found[tracer].costs[0] for tracer in TRACERS}) == 1
        assert ("bernoulli_" in operators(found["fx"])) is training
