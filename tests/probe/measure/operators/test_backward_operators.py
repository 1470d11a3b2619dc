"""Operators of the backward laid onto modules: exactly, and what cannot be laid onto any."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest
import torch
from msgspec.structs import replace
from torch import Tensor, nn

from benchmarks.training.backward_cases import CASES, WAITS, inputs, operator_of
from benchmarks.training.models import MODELS
from benchmarks.training.recorded_steps import RecordedSteps
from tests.probe.measure.clock.module_nodes import module_nodes
from tui_profiler.messages import BackwardOperators
from tui_profiler.messages.training import OTHER_MODELS, OUTSIDE
from tui_profiler.probe.measure.clock.clock import ModuleClock
from tui_profiler.probe.measure.clock.tree_index import NOWHERE
from tui_profiler.probe.measure.operators.backward_operators import (
    EVALUATED,
    Calls,
    Owners,
    Place,
    join_backward,
)
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.torch_compat.kineto import GraphOperator
from tui_profiler.probe.torch_compat.modules import has_parameters
from tui_profiler.probe.trace.trace import trace
from tui_profiler.probe.watch import windows
from tui_profiler.probe.watch.program_times import ProgramTimes
from tui_profiler.queries.training.backward_operators import backward_operators, outside_operators
from tui_profiler.session import Session, apply
from tui_profiler.session.columns import called_operators
from tui_profiler.session.training import BackwardColumns

ON_ANOTHER = {"forward on another thread"}
"""A window is open on one thread, and this case runs forwards on new ones."""


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad=True")
@pytest.mark.parametrize("name", sorted(CASES.keys() - ON_ANOTHER))
def test_an_operator_is_in_the_module_that_made_its_node(name: str) -> None:
    # Other programs only add to an operator's time: of a few windows one is not interrupted.
    assert any(max(map(abs, errors_of_a_window(name)), default=0.0) <= 0.05 for _ in range(5))


def errors_of_a_window(name: str) -> list[float]:
    """Return by how much the operators that wait are off, after all else was asserted."""
    torch.manual_seed(0)
    case = CASES[name]
    model = case.build()
    nodes = trace(model, (Inputs(args=(inputs(),)),)).nodes
    with RecordedSteps(model, nodes) as steps:
        window = steps.open_window()
        WAITS.clear()
        case.run(model, inputs())
        told = steps.backward_operators(window)
    rows = called_operators(told.operators)
    assert window.trouble == ""
    errors = []
    for place, waited in WAITS.seconds.items():
        name_of_it = f"{operator_of(place).__name__}Backward"
        found = [row for row in rows if row.name == name_of_it]
        paths = ["first loss" if one.node == OUTSIDE else nodes[one.node].path for one in found]
        assert paths == [place]
        errors.append(found[0].own / waited - 1)
    everything = sum(row.own for row in [*rows, *called_operators(told.recomputed)])
    assert everything <= told.pass_seconds
    assert ("checkpoint" in name) == bool(called_operators(told.recomputed))
    # Where the pass was interrupted between operators, it says nothing.
    return errors if everything > 0.5 * told.pass_seconds else [1.0]


@pytest.mark.parametrize("name", ["resnet18", "small GPT", "200 tiny layers"])
def test_nearly_all_of_the_backward_falls_into_modules(name: str) -> None:
    trained_model = MODELS[name]()
    model, step = trained_model.model, trained_model.step
    with RecordedSteps(model, module_nodes(model)) as steps:
        step()
        steps.take()
        seen = []
        for _ in range(5):
            window = steps.open_window()
            step()
            seen.append(steps.backward_operators(window))
    assert min(one.outside / one.numbered for one in seen) <= 0.01
    taken = [one for one in called_operators(seen[-1].operators) if one.name == "AccumulateGrad"]
    with_parameters = {
        place
        for place, node in enumerate(module_nodes(model))
        if any(True for _ in model.get_submodule(node.path).parameters(recurse=False))
    }
    assert {one.node for one in taken} == with_parameters
    assert sum(one.calls for one in taken) == sum(1 for _ in model.parameters())


def event(
    name: str, start: float, end: float, number: int = -1, *, thread: int = 1, made_on: int = 1
) -> GraphOperator:
    return GraphOperator(name, start, end, number, thread, made_on)


def node(name: str, start: float, end: float, number: int = -1, **on: int) -> GraphOperator:
    return event(f"{EVALUATED}{name}", start, end, number, **on)


NOTHING = Calls(())


def test_own_seconds_add_up_and_gradients_go_to_the_node_before() -> None:
    owners = Owners(Calls([(0, 10, 0), (2, 5, 3), (3, 4, 7)]), NOTHING, NOTHING)
    seen = [
        event("aten::mm", 0.0, 1.0, 3),  # Of the forward.
        node("MulBackward0", 2.0, 4.0, 8),
        event("MulBackward0", 2.5, 4.0, 8),
        event("aten::mul", 2.75, 3.75),
        node("AddmmBackward0", 4.0, 8.0, 3),
        event("AddmmBackward0", 4.0, 7.0, 3),
        event("aten::mm", 4.0, 5.0),
        event("aten::mm", 5.0, 6.5),
        node("torch::autograd::AccumulateGrad", 8.0, 9.0),
        event("torch::autograd::AccumulateGrad", 8.0, 9.0),
        event("aten::add_", 8.25, 8.75),
        node("SumBackward0", 9.0, 9.5, 11),
    ]
    found = join_backward(seen, owners, thread=1)

    def place(at: int, name: str) -> Place:
        return Place(at, name, is_again=False)

    assert found.own == {
        place(0, "MulBackward0"): 1.0,
        place(0, "aten::mul"): 1.0,
        place(7, "AddmmBackward0"): 1.5,
        place(7, "aten::mm"): 2.5,
        place(7, "AccumulateGrad"): 0.5,
        place(7, "aten::add_"): 0.5,
        place(OUTSIDE, "SumBackward0"): 0.5,
    }
    assert found.seconds[place(7, "AddmmBackward0")] == 4.0
    assert found.calls[place(7, "aten::mm")] == 2
    assert found.calls[place(7, "AddmmBackward0")] == 1
    assert (found.numbered, found.outside) == (6.5, 0.5)


def test_what_is_run_again_is_apart_and_so_are_passes_inside() -> None:
    owners = Owners(Calls([(0, 10, 0), (20, 30, 4)]), NOTHING, Calls([(3.0, 5.0, 4)]))
    seen = [
        node("CheckpointFunctionBackward", 2.0, 9.0, 5),
        event("CheckpointFunctionBackward", 2.0, 9.0, 5),
        event("aten::mm", 3.5, 4.5, 21),
        node("MmBackward0", 6.0, 8.0, 21),
        event("aten::mm", 6.5, 7.5),
    ]
    found = join_backward(seen, owners, thread=1)
    assert found.own == {
        Place(0, "CheckpointFunctionBackward", is_again=False): 4.0,
        Place(4, "aten::mm", is_again=True): 1.0,
        Place(4, "MmBackward0", is_again=False): 1.0,
        Place(4, "aten::mm", is_again=False): 1.0,
    }
    assert (found.numbered, found.outside) == (6.0, 0.0)


def test_threads_that_number_alike_are_told_apart() -> None:
    """As on a GPU: the engine runs on a thread of its own, and what is run again is made there."""
    owners = Owners(Calls([(0, 10, 0)]), Calls([(0, 10, 5)]), NOTHING)
    seen = [
        event("aten::mm", 0.0, 1.0, 3),
        node("MmBackward0", 2.0, 3.0, 3, thread=2, made_on=1),
        node("MmBackward0", 3.0, 5.0, 3, thread=2, made_on=2),
    ]
    found = join_backward(seen, owners, thread=1)
    assert {place.node: own for place, own in found.own.items()} == {0: 1.0, 5: 2.0}


def test_calls_without_a_node_are_those_around_them() -> None:
    calls = Calls([(0, 10, 0), (2, 6, NOWHERE), (3, 4, 2)])
    assert [calls.at(number) for number in (0, 2, 3, 4, 6, 9, 10)] == [0, 0, 2, 0, 0, 0, NOWHERE]


@contextmanager
def in_window(
    model: nn.Module,
) -> Iterator[tuple[RecordedSteps, windows.WindowOnStep]]:
    with RecordedSteps(model, module_nodes(model)) as steps:
        window = steps.open_window()
        yield steps, window
        assert window.trouble == ""
        assert not torch._C._autograd._profiler_enabled()


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))


def test_a_profiler_of_the_program_ends_the_window_and_is_whole() -> None:
    model, x = net(), torch.randn(2, 4)
    with in_window(model) as (steps, window):
        out = model(x)
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
            assert window.is_over
            out.sum().backward()
            model(x)
        names = {one.key for one in profiler.key_averages()}
        assert {"AddmmBackward0", "aten::linear"} <= names
        assert steps.backward_operators(window).pass_seconds == 0.0
    for name in windows.PROFILER_ENTRIES:
        assert getattr(torch.autograd.profiler, name) is getattr(torch.autograd, name)


def test_no_window_is_opened_inside_a_profiler_of_the_programs() -> None:
    model, x = net(), torch.randn(2, 4)
    with RecordedSteps(model, module_nodes(model)) as steps:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
            window = steps.open_window()
            model(x).sum().backward()
            window.after_step()
        assert window.is_over
        assert not window.has_begun
        assert "aten::linear" in {one.key for one in profiler.key_averages()}


def test_a_fork_ends_the_window() -> None:
    model, x = net(), torch.randn(2, 4)
    with in_window(model) as (_, window):
        model(x).sum().backward()
        child = os.fork()
        if not child:
            os._exit(int(torch._C._autograd._profiler_enabled()))
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        assert window.is_over


def test_a_step_that_is_broken_off_ends_with_the_next_data() -> None:
    model, x = net(), torch.randn(2, 4)
    with in_window(model) as (steps, window):
        model(x).sum().backward()
        assert not window.is_over
        for _ in torch.utils.data.DataLoader([1, 2]):
            break
        assert window.is_over
        assert steps.backward_operators(window).numbered > 0


def test_a_window_of_a_step_with_several_passes_ends_with_the_first_that_reached() -> None:
    model, other, x = net(), net(), torch.randn(2, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with RecordedSteps(model, module_nodes(model)) as steps:
        for _ in range(2):
            model(x).sum().backward()
            model(x).sum().backward()
            optimizer.step()
        window = steps.open_window()
        out = model(x)
        other(x).sum().backward()
        assert not window.is_over
        out.sum().backward()
        assert window.is_over
        assert len(window.passes) == 2
        told = steps.backward_operators(window)
    assert {one.node for one in called_operators(told.operators)} == {1, 2, 3, OUTSIDE}


def test_the_end_of_a_step_on_another_thread_does_not_close_it_there() -> None:
    model, x = net(), torch.randn(2, 4)
    with in_window(model) as (_, window):
        model(x).sum().backward()
        thread = threading.Thread(target=window.after_step)
        thread.start()
        thread.join()
        assert not window.is_over
        window.after_step()
        assert window.is_over


def trained(model: nn.Module, x: Tensor) -> Callable[[], None]:
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def step() -> None:
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()

    return step


def told_of(times: ProgramTimes, step: Callable[[], None]) -> BackwardOperators:
    """Train until operators of the backward are told."""
    for _ in range(100_000):
        step()
        times.take()
        for message in times.messages(1.0, 0):
            if isinstance(message, BackwardOperators):
                return message
        times.record_next()
    raise AssertionError("no window on a step")


def test_a_program_that_trains_has_windows_on_its_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(windows.SILENT, "99")
    windows.warm_up()
    model, x = net(), torch.randn(2, 4)
    nodes = module_nodes(model)
    times = ProgramTimes(model, nodes, 0.02, ModuleClock(model))
    try:
        told = told_of(times, trained(model, x))
    finally:
        times.close()
    assert told.windows == 1
    assert 0 < told.pass_seconds < told.step_seconds
    session = apply(Session(), told)
    assert session.backward is not None
    rows = backward_operators(session, 3)
    assert "AddmmBackward0" in [row.name for row in rows]
    assert sum(row.share for row in rows) == pytest.approx(1.0)
    assert [row.own for row in rows] == sorted((row.own for row in rows), reverse=True)
    assert "SumBackward0" in [row.name for row in outside_operators(session)]
    assert not torch._C._autograd._profiler_enabled()


def test_the_backward_of_other_models_is_not_outside_of_modules(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A generator before the watched model: its ``tanh`` is its own, the loss's ``sum`` is not."""
    monkeypatch.setenv(windows.SILENT, "99")
    windows.warm_up()
    generator, model, x = nn.Sequential(nn.Linear(4, 4), nn.Tanh()), net(), torch.randn(2, 4)
    optimizer = torch.optim.SGD([*model.parameters(), *generator.parameters()], lr=1e-3)

    def step() -> None:
        optimizer.zero_grad()
        model(generator(x)).sum().backward()
        optimizer.step()

    clock = ModuleClock(model, strangers=has_parameters)
    times = ProgramTimes(model, module_nodes(model), 0.02, clock)
    try:
        session = apply(Session(), told_of(times, step))
    finally:
        times.close()
    assert session.backward is not None
    outside = {row.name for row in outside_operators(session)}
    others = {one.name for one in session.backward.of(OTHER_MODELS)}
    assert "SumBackward0" in outside
    assert "TanhBackward0" not in outside
    assert {"TanhBackward0", "AddmmBackward0"} <= others


def test_columns_that_do_not_agree_are_not_taken() -> None:
    model, x = net(), torch.randn(2, 4)
    with in_window(model) as (steps, window):
        model(x).sum().backward()
        told = steps.backward_operators(window)
    assert apply(Session(), told).backward is not None
    for broken in broken_columns(told):
        assert apply(Session(), broken).backward is None


def broken_columns(told: BackwardOperators) -> Sequence[BackwardOperators]:
    return [
        replace(told, operators=replace(told.operators, calls=b"")),
        replace(told, recomputed=replace(told.operators, names=())),
    ]


def test_rows_of_a_node_are_found_by_it() -> None:
    model, x = net(), torch.randn(2, 4)
    with in_window(model) as (steps, window):
        model(x).sum().backward()
        columns = BackwardColumns(steps.backward_operators(window))
    assert {one.name for one in columns.of(2)} >= {"ReluBackward0", "aten::threshold_backward"}
    assert columns.recomputed(2) == []
