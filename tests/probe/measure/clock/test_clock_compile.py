"""Compiling while the clock is on, before and after: nothing breaks, nothing is compiled twice."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable, Iterator

import pytest
import torch
import torch._dynamo
from torch import nn
from torch._inductor import config as inductor_config

from tui_profiler.probe.measure.clock.clock import ModuleClock
from tui_profiler.probe.watch.listener import Listener


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.rest = nn.Sequential(nn.ReLU(), nn.Linear(4, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.rest(self.linear(x))


X = torch.ones(2, 4)
MODELS = {
    "own class": Block,
    "torch class": lambda: nn.Sequential(nn.Linear(4, 4), nn.ReLU(), Block()),
}


class Counting:
    """A backend that runs graphs as they are, and counts them."""

    def __init__(self) -> None:
        self.graphs = 0

    def __call__(
        self, graph: torch.fx.GraphModule, inputs: list[torch.Tensor]
    ) -> Callable[..., object]:
        self.graphs += 1
        return graph.forward


@pytest.fixture(autouse=True)
def _fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> nn.Module:
    built: nn.Module = MODELS[request.param]()
    return built.eval()


def test_compiled_before_watching_it_is_not_compiled_again(model: nn.Module) -> None:
    backend = Counting()
    compiled = torch.compile(model, fullgraph=True, backend=backend)
    compiled(X)
    clock = ModuleClock(model)
    clock.install()
    compiled(X)
    clock.uninstall()
    compiled(X)
    assert backend.graphs == 1


def test_compiled_while_watching_it_is_one_graph_and_stays_good(model: nn.Module) -> None:
    backend = Counting()
    clock = ModuleClock(model)
    clock.install()
    compiled = torch.compile(model, fullgraph=True, backend=backend)
    compiled(X)
    compiled(X)
    clock.uninstall()
    assert torch.equal(compiled(X), model(X))
    clock.install()
    compiled(X)
    clock.uninstall()
    assert backend.graphs == 1


def test_a_gate_that_moves_compiles_nothing_again(model: nn.Module) -> None:
    backend = Counting()
    clock = ModuleClock(model)
    clock.install()
    compiled = torch.compile(model, fullgraph=True, backend=backend)
    compiled(X)
    for is_recording in (False, True, False):
        clock.recording = is_recording
        compiled(X)
    clock.uninstall()
    compiled(X)
    assert backend.graphs == 1


def test_calls_that_read_what_they_use_compile_nothing_again(model: nn.Module) -> None:
    backend = Counting()
    compiled = torch.compile(model, fullgraph=True, backend=backend)
    around = nn.Sequential(nn.ReLU(), compiled).eval()
    clock = ModuleClock(around)
    clock.install()
    for _ in range(4):
        around(X)
        clock.read_calls_next()
    clock.uninstall()
    assert backend.graphs == 1


def test_compiled_after_watching_it_is_one_graph(model: nn.Module) -> None:
    backend = Counting()
    clock = ModuleClock(model)
    clock.install()
    model(X)
    clock.uninstall()
    torch.compile(model, fullgraph=True, backend=backend)(X)
    assert backend.graphs == 1


def test_a_model_compiled_in_place_is_one_opaque_call(model: nn.Module) -> None:
    backend = Counting()
    model.compile(fullgraph=True, backend=backend)
    clock = ModuleClock(model)
    clock.install()
    model(X)
    model(X)
    forwards = clock.take()
    clock.uninstall()
    model(X)
    assert backend.graphs == 1
    assert [forward.modules for forward in forwards] == [[model], [model]]


def many_parts() -> nn.Module:
    return nn.Sequential(*(nn.Linear(width, width + 1) for width in range(4, 16)))


def compiled_in_place(model: nn.Module) -> Counting:
    backend = Counting()
    model.compile(fullgraph=True, backend=backend)
    return backend


def outcome(model: nn.Module) -> str:
    """Return a forward's output, or why torch refuses: 2.13 compiles no Sequential."""
    try:
        with torch.no_grad():
            return str(model(X).tolist())
    except RuntimeError as error:
        return str(error).partition(".")[0]


def test_a_torch_class_of_many_parts_compiles_in_place_while_watched() -> None:
    model = many_parts()
    alone = copy.deepcopy(model)
    graphs_alone, backend = compiled_in_place(alone), compiled_in_place(model)
    clock = ModuleClock(model)
    clock.install()
    try:
        # Dynamo compiles no code more than eight times, and raises then, with fullgraph.
        watched = outcome(model)
        forwards = clock.take()
    finally:
        clock.uninstall()
    assert watched == outcome(alone)
    assert backend.graphs == graphs_alone.graphs <= 1
    assert forwards[0].modules[-1] is model


def test_a_torch_class_of_many_parts_compiles_in_place_while_it_is_listened_to() -> None:
    model = many_parts()
    alone = copy.deepcopy(model)
    graphs_alone, backend = compiled_in_place(alone), compiled_in_place(model)
    listener = Listener(lambda module: False, "model", lambda: None)
    listener.install()
    try:
        heard = outcome(model)
    finally:
        listener.uninstall()
    assert heard == outcome(alone)
    assert backend.graphs == graphs_alone.graphs <= 1


def test_a_compiled_part_is_one_opaque_call_inside(model: nn.Module) -> None:
    backend = Counting()
    outer = nn.Sequential(
        nn.ReLU(), torch.compile(copy.deepcopy(model), fullgraph=True, backend=backend)
    )
    clock = ModuleClock(outer)
    clock.install()
    outer(X)
    outer(X)
    forwards = clock.take()
    clock.uninstall()
    assert backend.graphs == 1
    assert [forward.modules for forward in forwards] == [[outer[0], outer[1], outer]] * 2


@pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs a C++ compiler")
def test_inductor_compiles_a_whole_graph_while_watched(model: nn.Module) -> None:
    clock = ModuleClock(model)
    clock.install()
    compiled = torch.compile(model, fullgraph=True)
    try:
        # Without vectors: which of them work is found by compiling a program for each.
        with torch.no_grad(), inductor_config.patch({"cpp.vec_isa_ok": False}):
            watched = compiled(X)
    finally:
        clock.uninstall()
    with torch.no_grad():
        assert torch.equal(compiled(X), watched)
        torch.testing.assert_close(watched, model(X))
