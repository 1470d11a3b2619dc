"""Graphs that fx and export make, run under the recorder: the tree of the model's own forward."""

from __future__ import annotations

import sys

import pytest
import torch
from torch import nn
from torch._dynamo.eval_frame import innermost_fn

from tests.probe.trace.traced import at, inputs_of, paths
from tui_profiler.connection.wire import encode
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.torch_compat.internals import is_compiled
from tui_profiler.probe.trace import tracers
from tui_profiler.probe.trace.trace import Trace, TraceError, messages, trace
from tui_profiler.probe.trace.tracers import TooLargeError

X = torch.ones(2, 4)
TRACERS = ["fx", "export"]


class Block(nn.Module):
    """A layer whose name has the letter that mangled names are cut at."""

    def __init__(self) -> None:
        super().__init__()
        self.self_attn = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)
        self.register_buffer("offset", torch.ones(4))

    def forward(self, x, scale=None):
        y = self.norm(self.self_attn(x)) + self.offset
        return y if scale is None else y * scale


class Model(nn.Module):
    """Repeated and shared calls, a list that is never called, keywords, a dictionary given back."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])
        self.shared = self.blocks[0]
        self.head = nn.Linear(4, 2)

    def forward(self, x, mask=None, *, scale=2.0):
        for block in self.blocks:
            x = block(x)
        x = self.blocks[1](x, scale)
        if mask is not None:
            x = x + mask
        return {"scores": self.head(x), "sum": x.sum()}


class Branching(nn.Module):
    """Its course depends on values; at the break it prints."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        x = self.layer(x)
        if x.sum() > 0:
            x = x.relu()
        return self.layer(x)


def made_by(tracer: str, model: nn.Module, *args: object, **kwargs: object) -> Trace:
    return trace(model.eval(), (Inputs(args, kwargs),), tracer)


def modules(made: Trace) -> list[tuple[str, str, int]]:
    return [(node.path, node.type, node.calls) for node in made.nodes if node.kind == "module"]


def strict_only(model: nn.Module, *args: object) -> Trace:
    """Trace by Dynamo, with what makes the non-strict way fail taken from the model itself."""

    class NotUnderFakes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *args):
            if not torch.compiler.is_dynamo_compiling() and torch.compiler.is_exporting():
                raise ValueError("not in Python")
            return self.model(*args)

    return made_by("export", NotUnderFakes(), *args)


@pytest.mark.parametrize("tracer", TRACERS)
@pytest.mark.parametrize("mask", [None, torch.ones(2, 4)], ids=["without", "with mask"])
def test_the_tree_and_its_costs_are_those_of_the_forward(tracer: str, mask) -> None:
    expected = made_by("dispatch", Model(), X, mask=mask, scale=3.0)

    made = made_by(tracer, Model(), X, mask=mask, scale=3.0)

    assert made.method == tracer
    assert modules(made) == modules(expected)
    assert made.costs[0].parameters == expected.costs[0].parameters
    assert made.costs == expected.costs
    assert made.edges == expected.edges
    assert all(encode(message) for message in messages(made))


@pytest.mark.parametrize("tracer", TRACERS)
def test_nodes_say_what_went_in_and_out_and_where(tracer: str) -> None:
    made = made_by(tracer, Model(), X)
    expected = made_by("dispatch", Model(), X)

    for path in ("", "shared", "blocks.1", "blocks.1.norm", "head"):
        shapes = [t.shape for t in at(made, path).inputs]
        assert shapes == [t.shape for t in at(expected, path).inputs], path
        assert at(made, path).outputs, path
        if path:
            assert at(made, path).called_from == at(expected, path).called_from, path
    assert [t.name for t in made.nodes[0].outputs] == ["scores", "sum"]
    ops = [(n.type, n.source) for n in made.nodes if n.kind == "op"]
    assert ops == [(n.type, n.source) for n in expected.nodes if n.kind == "op"]


def test_what_leaves_no_node_says_so() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(), nn.Identity())

    made = made_by("export", model, X)

    assert at(made, "2").note == "nothing of it is in the graph"
    assert modules(made_by("fx", model, X)) == modules(made_by("dispatch", model, X))


def test_strict_export_is_dynamo_and_gives_the_same() -> None:
    expected = made_by("dispatch", Model(), X)

    made = strict_only(Model(), X)

    first, second = made.done.attempts
    assert (first.variant, first.error) == ("non-strict", "ValueError: not in Python")
    assert (second.variant, second.error, second.graphs) == ("strict", "", 1)
    assert paths(made)[1:] == [f"model.{path}".rstrip(".") for path in paths(expected)]
    assert made.costs[0] == expected.costs[0]


@pytest.mark.parametrize("tracer", TRACERS)
def test_lazy_layers_and_layers_made_in_forward_are_made_before(tracer: str) -> None:
    class Growing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lazy = nn.LazyLinear(4)
            self.head = None

        def forward(self, x):
            x = self.lazy(x)
            if self.head is None:
                self.head = nn.Linear(int(x.shape[-1]), 3)
            return self.head(x)

    made = made_by(tracer, Growing(), torch.zeros(2, 7))

    assert "made its layers" in made.nodes[0].note
    assert modules(made)[1:] == [("lazy", "Linear", 1), ("head", "Linear", 1)]
    assert made.costs[0].macs == 2 * (7 * 4 + 4 * 3)


@pytest.mark.parametrize("tracer", TRACERS)
def test_lists_of_tensors_are_passed_on(tracer: str) -> None:
    class Many(nn.Module):
        def forward(self, images, scale):
            return torch.stack([images[0], images[1]]) * scale["by"]

    made = made_by(tracer, Many(), [X, X], {"by": X})

    assert [t.name for t in made.nodes[0].inputs] == ["images.0", "images.1", "scale.by"]
    assert made.costs[0].flops == 16


@pytest.mark.parametrize("tracer", TRACERS)
def test_a_model_on_meta_has_a_graph_too(tracer: str) -> None:
    with torch.device("meta"):
        model = Model()

    made = made_by(tracer, model, X)

    assert made.costs == made_by("dispatch", Model(), X).costs
    assert model.head.weight.device.type == "meta"


def failure(tracer: str, model: nn.Module, x: torch.Tensor = X) -> TraceError:
    with pytest.raises(TraceError) as caught:
        made_by(tracer, model, x)
    assert encode(caught.value.failed)
    return caught.value


def test_a_course_that_depends_on_values_is_told_in_one_sentence() -> None:
    failed = failure("fx", Branching()).failed

    assert failed.what == (
        "fx cannot build a graph: TraceError: symbolically traced variables cannot be used as "
        "inputs to control flow"
    )
    assert failed.at == f"{__file__}:{Branching.forward.__code__.co_firstlineno + 2}"
    assert failed.remedies[0].command == "--tracer auto"
    assert not failed.bad_argument


def test_where_export_fails_dynamo_counts_its_graphs(capfd: pytest.CaptureFixture[str]) -> None:
    error = failure("export", Branching())

    non_strict, strict = error.attempts
    assert (non_strict.graphs, non_strict.graph_breaks) == (None, None)
    assert (strict.variant, strict.graphs, strict.graph_breaks) == ("strict", 2, 1)
    assert error.failed.why == "Dynamo would split it into 2 graphs, with 1 break between them"
    assert "def forward" not in "".join(capfd.readouterr())


def test_an_error_of_the_model_itself_is_told_where_it_is() -> None:
    for tracer in TRACERS:
        failed = failure(tracer, nn.Sequential(nn.Linear(4, 4)), torch.zeros(2, 5)).failed

        assert "[2, 5] X [4, 4]" in failed.what, tracer


@pytest.mark.parametrize("tracer", TRACERS)
def test_a_model_that_is_too_deep_is_refused_in_a_sentence(tracer: str) -> None:
    deep: nn.Module = nn.ReLU()
    for _ in range(3_000):
        deep = nn.Sequential(deep)
    for module in iter_modules(deep):
        module.training = False

    with pytest.raises(TraceError) as caught:
        trace(deep, (inputs_of(X),), tracer)

    assert "RecursionError" in caught.value.failed.what
    assert caught.value.failed.remedies[0].command == "--tracer auto"


def iter_modules(module: nn.Module):
    while module is not None:
        yield module
        module = next(iter(module._modules.values()), None)


@pytest.mark.parametrize("tracer", TRACERS)
@pytest.mark.parametrize("kind", [Model, Branching])
def test_nothing_of_torch_is_left_changed(tracer: str, kind: type[nn.Module]) -> None:
    names = ("__call__", "__getattr__", "__setattr__", "_call_impl")
    before = [nn.Module.__dict__.get(name) for name in names]
    functions = [torch.nn.functional.linear, torch.relu, torch.Tensor.__torch_function__]
    limit, gradients = sys.getrecursionlimit(), torch.is_grad_enabled()
    model = kind()

    try:
        made_by(tracer, model, X)
    except TraceError:
        assert kind is Branching

    assert [nn.Module.__dict__.get(name) for name in names] == before
    assert [torch.nn.functional.linear, torch.relu, torch.Tensor.__torch_function__] == functions
    assert (sys.getrecursionlimit(), torch.is_grad_enabled()) == (limit, gradients)
    assert not is_compiled(innermost_fn(kind.forward).__code__)
    assert type(model(X)) is not torch.fx.Proxy


@pytest.mark.parametrize(
    ("make", "most"),
    [
        (tracers.ways("fx", False)[0].program, tracers.MOST_FX_MODULES),
        (tracers.ways("export", False)[0].program, tracers.MOST_MODULES),
        (tracers.ways("export", False)[1].program, tracers.MOST_MODULES),
    ],
    ids=["fx", "non-strict", "strict"],
)
def test_a_model_that_would_take_minutes_is_refused_with_the_reason(make, most) -> None:
    model = nn.ModuleList([nn.Identity() for _ in range(most)])
    model.forward = lambda x: x + 1  # type: ignore[method-assign] # only its size matters
    with pytest.raises(TooLargeError, match=f"it has {most + 1:,} modules"):
        make(model, inputs_of(X))
