"""Compiled and scripted modules: one node with the reason, opened by an operator window."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import torch._dynamo
from torch import nn

from benchmarks.times.self_timing import watched
from tui_profiler.messages import Node, Unknown
from tui_profiler.messages.windows import COMPILED_CODE, WindowTimes
from tui_profiler.probe.measure.operators.operators import OperatorClock
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.torch_compat.kineto import Window
from tui_profiler.probe.torch_compat.modules import CAPTURED, COMPILED, SCRIPTED, why_opaque
from tui_profiler.probe.trace.record_program_forward import BESIDE_COMPILED
from tui_profiler.probe.trace.record_program_forward import COMPILED as HEARD_COMPILED
from tui_profiler.probe.trace.trace import Trace, trace
from tui_profiler.probe.watch.listener import Listener
from tui_profiler.queries.cost.bound import known_macs
from tui_profiler.session.columns import Windows, columns_agree

X = torch.rand(8, 64)


def block() -> nn.Sequential:
    return nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 64))


class Own(nn.Sequential):
    """Has code that is not torch's: up to 2.13 Dynamo compiles no other in place."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x)  # type: ignore[no-any-return]


@pytest.fixture(autouse=True)
def _fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.fixture
def model() -> nn.Module:
    in_place = Own(*block())
    in_place.compile(backend="aot_eager")
    optimised = torch.compile(block(), backend="aot_eager")
    with pytest.warns((FutureWarning, DeprecationWarning)):  # the latter up to torch 2.10
        scripted = torch.jit.script(block())
    return nn.Sequential(block(), in_place, optimised, scripted).eval()


def by_path(traced: Trace) -> dict[str, Node]:
    return {node.path: node for node in traced.nodes if node.kind == "module"}


def in_window(model: nn.Module, traced: Trace) -> tuple[dict[str, float], WindowTimes]:
    """Return the seconds of each operator by its path, and where the modules' time went."""
    operators = OperatorClock(traced.nodes, model)
    with torch.no_grad(), watched(model) as clock:
        for _ in range(3):
            model(X)
        clock.take()
        with Window() as window:
            model(X)
        (forward,) = clock.take()
    operators.add(forward, window.seen)
    message = operators.message(0.0, 0.0)
    seconds = memoryview(message.per_forward).cast("f")
    indices = memoryview(message.nodes).cast("I")
    found = {traced.nodes[i].path: each for i, each in zip(indices, seconds, strict=True)}
    return found, operators.window_times(0.0)


def test_an_opaque_node_says_why_and_its_parts_where_they_are_timed(model: nn.Module) -> None:
    nodes = by_path(trace(model, (Inputs((X,)),)))
    assert [nodes[path].note for path in ("0", "1", "2", "3")] == ["", COMPILED, COMPILED, SCRIPTED]
    assert nodes["1.0"].note == "timed as a whole with 1"
    assert nodes["2._orig_mod.2"].note == "timed as a whole with 2"
    assert "only the model around it is timed" in nodes["3.1"].note
    assert nodes["0.1"].note == ""


def test_a_module_whose_forward_replays_a_captured_graph_is_opaque() -> None:
    # torch puts a function of this name in place of forward; only a GPU can capture.
    def make_graphed_callables() -> object:
        def new_forward(x: torch.Tensor) -> torch.Tensor:
            return x

        return new_forward

    module = block()
    forward = make_graphed_callables()
    forward.__qualname__ = "make_graphed_callables.<locals>.make_graphed_forward.<locals>.new_fwd"  # type: ignore[attr-defined]
    assert why_opaque(module) == ""
    vars(module)["forward"] = forward
    assert why_opaque(module) == CAPTURED


def test_a_model_that_was_traced_is_compiled_afterwards_as_before() -> None:
    graphs = []

    def backend(graph: torch.fx.GraphModule, inputs: object) -> object:
        graphs.append(graph)
        return graph.forward

    model = Own(*block()).eval()
    model.compile(backend=backend)
    trace(model, (Inputs((X,)),))
    with torch.no_grad():
        model(X)
    assert len(graphs) == 1


def test_a_window_opens_what_is_timed_as_a_whole(model: nn.Module) -> None:
    traced = trace(model, (Inputs((X,)),))
    operators, times = in_window(model, traced)
    # Every operator that the trace saw in the parts, met although no part was called on its own.
    for path in ("0", "1", "2._orig_mod", "3"):
        assert [operators[f"{path}.{part}/{place}"] > 0 for part, place in ((0, 1), (2, 1))] == [
            True,
            True,
        ]
    names = [traced.nodes[region.node].path for region in times.regions]
    assert names == ["1", "2", "3"]
    assert {part.name for part in times.regions[0].parts} >= {"aten::addmm", COMPILED_CODE}
    assert all(part.seconds >= 0 for region in times.regions for part in region.parts)


def test_the_time_of_a_module_is_operators_host_and_others(model: nn.Module) -> None:
    traced = trace(model, (Inputs((X,)),))
    operators, times = in_window(model, traced)
    assert columns_agree(times)
    windows = Windows(times)
    for index, node in enumerate(traced.nodes):
        shares = windows.shares(index)
        if shares is None:
            continue
        assert 0 < shares.host < shares.seconds
        assert shares.other >= -1e-6
        below = f"{node.path}." if node.path else ""
        met = [
            each
            for path, each in operators.items()
            if path.startswith((below, f"{node.path}/")) or not node.path
        ]
        assert shares.operators == pytest.approx(sum(met), abs=2e-6)


def test_a_module_that_cannot_be_asked_anything_is_none_to_ask() -> None:
    class Hostile(nn.Module):
        __hash__ = None  # type: ignore[assignment]

        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(64, 64)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(x)  # type: ignore[no-any-return]

        def refuse(self, *_: object) -> bool:
            raise RuntimeError("it is not to be asked")

        __bool__ = __eq__ = __repr__ = __len__ = extra_repr = refuse  # type: ignore[assignment]

    model = nn.Sequential(Hostile())
    traced = trace(model, (Inputs((X,)),))
    seconds, _ = in_window(model, traced)
    assert all(path.startswith("0.inner") for path in seconds)
    assert sum(seconds.values()) > 0


def test_of_a_programs_compiled_model_no_work_and_no_activations_are_claimed() -> None:
    model = nn.Sequential(torch.compile(block(), backend="eager"), nn.Linear(64, 8)).eval()
    listener = Listener(lambda module: module is model, "", lambda: None)
    listener.install()
    with torch.no_grad():
        model(X)
    listener.uninstall()
    heard = listener.hearing.trace() if listener.hearing is not None else None
    assert heard is not None
    assert (heard.costs[0].ops, heard.costs[0].uncosted) == (2, 2)
    assert not any(known_macs(cost) for cost in heard.costs)
    of_head = next(i for i, node in enumerate(heard.nodes) if node.path == "1")
    assert known_macs(heard.costs[of_head]) is None
    assert heard.nodes[of_head].note == BESIDE_COMPILED
    assert heard.done.peak_memory.activations == Unknown(HEARD_COMPILED)
