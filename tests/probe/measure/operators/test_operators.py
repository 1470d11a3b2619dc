"""Operators of a window on the tree: drawn by hand, and of real models beside torch.profiler."""

from __future__ import annotations

import time
from collections import Counter
from itertools import pairwise
from types import ModuleType

import pytest
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

from demo_models import cnn, decoder, shared
from tui_profiler.messages import OperatorTimes
from tui_profiler.probe.measure.clock.clock import ModuleClock
from tui_profiler.probe.measure.operators.operators import OperatorClock, Span, join
from tui_profiler.probe.measure.operators.windows import (
    BUDGET,
    BUDGET_LATER,
    FIRST_WINDOWS,
    OperatorWindows,
    pause_seconds,
    waited_seconds,
)
from tui_profiler.probe.torch_compat import kineto
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.torch_compat.kineto import KinetoOperator, Window, WindowError, unavailable
from tui_profiler.probe.trace.trace import Trace, trace

ROOT, BLOCK, CONV, RELU, MM, ADD = range(6)
NAMES = {CONV: "aten::convolution", RELU: "aten::relu", MM: "aten::mm", ADD: "aten::add"}
EXPECTED = {BLOCK: [CONV, RELU], ROOT: [MM, ADD]}


def met(spans: list[Span], *seen: tuple[str, float, float]) -> dict[int, float]:
    operators = [KinetoOperator(f"aten::{name}", start, end) for name, start, end in seen]
    found = join(spans, operators, EXPECTED, NAMES).seconds
    return {node: seconds for node, seconds in found.items() if isinstance(node, int)}


def test_an_operator_belongs_to_the_innermost_module_that_runs() -> None:
    spans = [Span(0, 100, ROOT), Span(10, 50, BLOCK)]
    found = met(spans, ("convolution", 11, 20), ("relu", 21, 24), ("mm", 60, 70), ("add", 80, 81))
    assert found == {CONV: 9, RELU: 3, MM: 10, ADD: 1}


def test_what_the_trace_saw_is_looked_for_inside_of_what_it_did_not() -> None:
    spans = [Span(0, 100, ROOT)]
    found = met(spans, ("linear", 1, 30), ("t", 2, 3), ("mm", 4, 29), ("add", 40, 44))
    assert found == {MM: 25, ADD: 4}


def test_what_a_met_operator_calls_is_its_own() -> None:
    spans = [Span(0, 100, ROOT)]
    found = met(spans, ("mm", 1, 30), ("add", 2, 20), ("add", 40, 44))
    assert found == {MM: 29, ADD: 4}


def test_every_call_of_a_module_begins_anew_and_all_calls_add_up() -> None:
    spans = [Span(0, 100, ROOT), Span(1, 10, BLOCK), Span(20, 30, BLOCK)]
    seen = [("convolution", 2, 4), ("relu", 5, 6), ("convolution", 21, 24), ("relu", 25, 26)]
    found = join(spans, [KinetoOperator(f"aten::{n}", a, b) for n, a, b in seen], EXPECTED, NAMES)
    assert found.seconds == {CONV: 5, RELU: 2}
    assert found.calls == {CONV: 2, RELU: 2}


def test_self_time_leaves_out_the_operators_that_one_calls() -> None:
    spans = [Span(0, 100, ROOT)]
    seen = [
        *[("linear", 1, 30), ("t", 2, 3), ("mm", 4, 29), ("as_strided", 5, 6), ("add", 40, 44)],
    ]
    found = join(spans, [KinetoOperator(f"aten::{n}", a, b) for n, a, b in seen], EXPECTED, NAMES)
    linear, t, inside = (ROOT, "aten::linear"), (ROOT, "aten::t"), (MM, "aten::as_strided")
    assert found.seconds == {linear: 29, t: 1, MM: 25, inside: 1, ADD: 4}
    assert found.own == {linear: 3, t: 1, MM: 24, inside: 1, ADD: 4}
    assert sum(found.own.values()) == 29 + 4


def test_an_operator_inside_one_of_its_own_name_is_in_no_total_twice() -> None:
    spans = [Span(0, 100, ROOT), Span(13, 20, BLOCK)]
    seen = [
        *[("to", 1, 9), ("copy", 2, 8), ("to", 3, 7)],
        *[("relu", 10, 30), ("convolution", 14, 15), ("relu", 16, 18)],
    ]
    found = join(spans, [KinetoOperator(f"aten::{n}", a, b) for n, a, b in seen], EXPECTED, NAMES)
    to, copy, relu = (ROOT, "aten::to"), (ROOT, "aten::copy"), (ROOT, "aten::relu")
    assert found.seconds == {to: 8, copy: 6, relu: 18, CONV: 1, RELU: 2}
    assert found.calls == {to: 1, copy: 1, relu: 0, CONV: 1, RELU: 1}
    assert found.own == {to: 2 + 4, copy: 2, relu: 17, CONV: 1, RELU: 2}


@pytest.mark.parametrize("demo", [cnn, decoder])
def test_totals_and_self_times_are_those_of_key_averages_of_the_same_forward(
    demo: ModuleType,
) -> None:
    model, example = demo.build().eval(), demo.example_inputs()
    args = example if isinstance(example, tuple) else (example,)
    operators = OperatorClock(trace(model, (Inputs(args),)).nodes, model)
    clock = ModuleClock(model)
    with torch.no_grad():
        model(*args)
        clock.install()
        with profile(activities=[ProfilerActivity.CPU]) as theirs:
            model(*args)
        [forward] = clock.take()
        clock.uninstall()
    events = theirs.profiler.kineto_results
    operators.add(forward, kineto._read(events, kineto._clock_offset()))
    times = operators.message(0.0, 0.0)
    called = times.called
    assert called is not None

    own, total = Counter[str](), Counter[str]()
    for names, of_self, of_all in (
        ([operators._names[node] for node in memoryview(times.nodes).cast("I")],
         times.own_per_forward, times.mean_per_forward),
        ([called.names[at] for at in memoryview(called.name_of).cast("I")],
         called.own_per_forward, called.per_forward),
    ):  # fmt: skip
        for name, mine, whole in zip(
            names, memoryview(of_self).cast("f"), memoryview(of_all).cast("f"), strict=True
        ):
            own[name] += mine
            total[name] += whole
    averages = {one.key: one for one in theirs.key_averages() if "::" in one.key}
    assert own.keys() == averages.keys()
    # What runs inside one of its own name is in their totals twice.
    outermost = Counter[str]()
    for event in theirs.events() or ():
        above = event.cpu_parent
        while above is not None and above.name != event.name:
            above = above.cpu_parent
        outermost[event.name] += event.cpu_time_total * (above is None)
    for name, one in averages.items():
        assert own[name] * 1e6 == pytest.approx(one.self_cpu_time_total, rel=1e-3, abs=0.5)
        assert total[name] * 1e6 == pytest.approx(outermost[name], rel=1e-3, abs=0.5)


def test_what_no_node_stands_for_is_counted_once_with_all_that_it_calls() -> None:
    spans = [Span(0, 100, ROOT)]
    seen = [
        KinetoOperator("aten::sort", 1, 9),
        KinetoOperator("aten::copy", 2, 3),
        KinetoOperator("aten::mm", 10, 12),
    ]
    assert join(spans, seen, EXPECTED, NAMES).unmatched == 1


def test_what_runs_outside_of_the_model_is_not_its_own() -> None:
    found = join([Span(10, 20, ROOT)], [KinetoOperator("aten::mm", 1, 5)], EXPECTED, NAMES)
    assert found.seconds == {}
    assert found.unmatched == 0


def windowed(model: nn.Module, inputs: Inputs, windows: int = 3) -> tuple[Trace, OperatorTimes]:
    traced = trace(model, (inputs,))
    clock = ModuleClock(model)
    operators = OperatorClock(traced.nodes, model)
    clock.install()
    try:
        with torch.no_grad():
            for _ in range(windows):
                clock.take()
                with Window() as window:
                    model(*inputs.args, **inputs.kwargs)
                (forward,) = clock.take()
                operators.add(forward, window.seen)
    finally:
        clock.uninstall()
    return traced, operators.message(at=1.0, forward_seconds=0.5)


@pytest.mark.parametrize("demo", [cnn, decoder, shared])
def test_every_operator_of_the_tree_has_a_time(demo: ModuleType) -> None:
    example = demo.example_inputs()
    inputs = Inputs(example if isinstance(example, tuple) else (example,))
    traced, times = windowed(demo.build().eval(), inputs)
    nodes = memoryview(times.nodes).cast("I").tolist()
    operators = {i: node for i, node in enumerate(traced.nodes) if node.kind == "op"}
    # The scalars of a fused attention's mask are made by its fake run alone.
    assert {operators[i].name for i in set(operators) - set(nodes)} <= {"aten::scalar_tensor"}
    calls = memoryview(times.calls).cast("I").tolist()
    assert calls == [traced.nodes[i].calls for i in nodes]
    assert times.windows == 3


def test_a_window_sees_what_torchs_own_profiler_sees() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten()).eval()
    x = torch.rand(1, 3, 8, 8)
    with torch.no_grad():
        model(x)
        with Window() as window:
            model(x)
        with profile(activities=[ProfilerActivity.CPU]) as theirs:
            model(x)
    assert Counter(seen.name for seen in window.seen) == Counter(
        event.name for event in theirs.events() or () if event.name.startswith("aten::")
    )


def test_times_of_operators_fit_into_the_forward_that_they_are_of() -> None:
    model = nn.Sequential(*[nn.Linear(256, 256) for _ in range(8)]).eval()
    inputs = Inputs((torch.rand(64, 256),))
    traced = trace(model, (inputs,))
    clock = ModuleClock(model)
    operators = OperatorClock(traced.nodes, model)
    clock.install()
    with torch.no_grad(), Window() as window:
        model(*inputs.args)
    (forward,) = clock.take()
    clock.uninstall()
    operators.add(forward, window.seen)
    whole = memoryview(forward.times).cast("d")
    calls = len(forward.modules)
    forward_seconds = whole[2 * calls - 1] - whole[calls - 1]
    spent = sum(memoryview(operators.message(0.0, 0.0).per_forward).cast("f"))
    assert 0 < spent <= forward_seconds


def test_means_are_of_the_same_windows_without_the_interrupted_ones() -> None:
    model = nn.Sequential(nn.ReLU(), nn.Sigmoid()).eval()
    x = torch.rand(4)
    traced = trace(model, (Inputs((x,)),))
    clock = ModuleClock(model)
    operators = OperatorClock(traced.nodes, model)
    clock.install()
    # The last window took far longer than the others.
    for seconds in (3.0, 1.0, 2.0, 35.0):
        model(x)
        (forward,) = clock.take()
        starts = memoryview(forward.times).cast("d")[: len(forward.modules)]
        began = dict(zip(forward.modules, starts, strict=True))[model[1]]
        operators.add(forward, [KinetoOperator("aten::sigmoid", began, began + seconds)])
    clock.uninstall()

    times = operators.message(0.0, 0.0)

    [mean] = memoryview(times.mean_per_forward).cast("f")
    assert mean == pytest.approx((3.0 + 1.0 + 2.0) / 3, rel=1e-5)
    assert memoryview(times.per_forward).cast("f")[0] == pytest.approx(2.5, rel=1e-5)


def test_windows_open_a_third_as_often_after_the_first_eight() -> None:
    model, x = nn.Sequential(nn.Linear(4, 4)), torch.zeros(1, 4)
    clock = ModuleClock(model)
    windows = OperatorWindows(trace(model, (Inputs(args=(x,)),)).nodes, model, 0.003)
    paused: list[tuple[float, float]] = []

    def forward() -> float:
        model(x)
        return 1e-4

    clock.install()
    try:
        for _ in range(FIRST_WINDOWS + 1):  # The first one of a process sets the profiler up.
            windows.run(clock, forward, 1e-4, 0.0)
            assert not windows.why_none
            paused.append((windows.cost_seconds, windows.pause_seconds))
    finally:
        clock.uninstall()
    for (cost, found), windows_so_far in ((paused[-2], 7), (paused[-1], 8)):
        assert found == pause_seconds(cost, 0.003, windows_so_far)
    assert pause_seconds(0.01, 0.02, 7) == pytest.approx(0.01 / (0.02 * BUDGET))
    assert pause_seconds(0.01, 0.02, 8) == pytest.approx(0.01 / (0.02 * BUDGET_LATER))


def test_windows_tell_the_share_of_python_of_each_that_hardly_waited() -> None:
    """Beside busy programs some wait: they are in no share, and the others stay."""
    model, x = nn.Sequential(nn.Linear(4, 4)), torch.zeros(1, 4)
    clock = ModuleClock(model)
    windows = OperatorWindows(trace(model, (Inputs(args=(x,)),)).nodes, model, 0.003)
    spins = 0.02

    def forward() -> float:
        began = time.perf_counter()
        model(x)
        return time.perf_counter() - began

    class Spins(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            until = time.thread_time() + spins
            while time.thread_time() < until:
                pass
            return super().forward(x)

    model[0].__class__ = Spins
    clock.install()
    shares: list[tuple[float, ...]] = []
    try:
        for _ in range(24):
            windows.run(clock, forward, 1.0, 0.0)
            if windows.times is not None:
                assert windows.times.host_shares is not None
                shares.append(windows.times.host_shares)
    finally:
        clock.uninstall()
    assert len(shares) == 23, "the first one sets the profiler up"
    assert all(len(later) - len(one) in (0, 1) for one, later in pairwise(shares[:16]))
    assert max(map(len, shares)) <= 16
    assert all(share > 0.9 for share in shares[-1])


def test_waiting_of_this_thread_only_grows() -> None:
    before = waited_seconds()
    torch.ones(1000).sum()
    assert 0 <= before <= waited_seconds()


def test_no_window_is_opened_while_another_profiler_runs() -> None:
    with profile(activities=[ProfilerActivity.CPU]) as theirs:
        assert unavailable() == "another profiler runs"
        with pytest.raises(WindowError, match="another profiler runs"), Window():
            pass
        torch.ones(3).add(1)
    assert any(event.name == "aten::add" for event in theirs.events() or ())
    assert unavailable() == ""


def test_where_allocations_cannot_be_read_none_is_measured() -> None:
    class Result:
        """What another version of torch may give: without the tree of events."""

        def events(self) -> list[object]:
            return []

    window = Window(reads_later=True, with_memory=True)
    window._result = Result()
    assert window.read() == []
    assert window.allocations is None
