"""Compare module times with torch.profiler's, and operator windows with module times.

*ours* and *theirs* are of the very same forwards: under torch.profiler, with a range of its own
around every module's ``forward``, the clock recording meanwhile. *windows* are other forwards,
every second of them in an operator window: the operators that were laid onto a module and all
below it, what was laid onto none, and the host time between operators, which is also read off the
window's raw events without our tree.

``hottest`` compares which modules are hottest by self time, again of the very same forwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn
from torch._C._profiler import _RecordFunctionFast  # the other one takes 40 us a call
from torch.profiler import ProfilerActivity, profile

from benchmarks.times.self_timing import watched
from tui_profiler.messages import Node, Tick
from tui_profiler.probe.measure.clock.aggregate import Aggregator
from tui_profiler.probe.measure.clock.clock import Forward, ModuleClock
from tui_profiler.probe.measure.operators.operators import OperatorClock
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.torch_compat.kineto import KinetoOperator, Window
from tui_profiler.probe.trace.trace import trace

MARK = "module:"
WARM = 10
"""Forwards that come first at most, and are in no figure."""
LEAST_SHARE = 0.01
"""Of the forward, that a module has to take to be compared."""
TOLERANCE = 0.05


class Row(NamedTuple):
    """One module; median seconds of a forward."""

    path: str
    ours: float
    theirs: float
    in_window: float
    """By the clock, in forwards in an operator window."""
    operators: float
    """Laid onto it and all below it, in the same forwards."""
    other: float
    """In operators that no node stands for, in the same forwards."""
    host: float
    """In which no operator ran, in the same forwards, read off the raw events."""
    alone: float
    """By the clock, in forwards between those, without a window."""
    from_window: float
    """Median of the windows: all three over the module's time, less one."""
    host_error: float
    """Median of the windows: our host time less that of the raw events, over the module's time."""

    @property
    def from_profiler(self) -> float:
        return self.ours / self.theirs - 1

    @property
    def slower_in_window(self) -> float:
        return self.in_window / self.alone - 1


def rows(model: nn.Module, inputs: Inputs, forwards: int) -> list[Row]:
    """Compare every module that takes more than a hundredth of a forward, the largest first."""
    nodes = trace(model, (inputs,)).nodes
    paths = [node.path for node in nodes if node.kind == "module" and node.calls]
    assert len(set(paths)) == len(paths), "a module at two places: its path names no single node"

    def run() -> None:
        model(*inputs.args, **inputs.keywords())

    with torch.no_grad():
        ours, theirs = _profiled(model, nodes, run, forwards)
        windows, alone = _windowed(model, nodes, run, forwards)
    return [
        Row(
            path,
            ours=ours[path],
            theirs=theirs[path],
            in_window=median(one.modules[path] for one in windows),
            operators=median(one.operators[path] for one in windows),
            other=median(one.other[path] for one in windows),
            host=median(one.host[path] for one in windows),
            alone=alone[path],
            from_window=median(one.sum(path) / one.modules[path] for one in windows) - 1,
            host_error=median(one.host_error(path) for one in windows),
        )
        for path in sorted(ours, key=lambda path: -ours[path])
        if ours[path] >= LEAST_SHARE * ours[""]
    ]


HOTTEST = 5


class Hottest(NamedTuple):
    """Modules by self time; mean seconds of a forward."""

    paths: list[str]
    """The ``HOTTEST`` by torch.profiler, the hottest first."""
    ours: list[float]
    theirs: list[float]
    common: int
    """How many of them are among our hottest as well."""
    correlation: float
    """Spearman's, of the self times of these."""
    all_modules: int
    """Modules of at least half a hundredth of the forward."""
    all_correlation: float
    """Spearman's, of the self times of those."""


def hottest(model: nn.Module, inputs: Inputs, forwards: int) -> Hottest:
    """Compare our self times, as the product shows them, with torch.profiler's."""
    nodes = trace(model, (inputs,)).nodes
    with torch.no_grad():
        tick, theirs = _both(
            model, nodes, lambda: model(*inputs.args, **inputs.keywords()), forwards
        )
    # The product leaves out whole forwards that took far longer.
    kept = sorted(theirs, key=lambda one: sum(one.values()))[: len(theirs) - tick.outliers]
    found = {path: sum(one.get(path, 0.0) for one in kept) / len(kept) for path in kept[0]}
    indices = np.frombuffer(tick.nodes, np.uint32).tolist()
    own = np.frombuffer(tick.own_mean_per_forward, np.float32).tolist()
    ours = {nodes[index].path: each for index, each in zip(indices, own, strict=True)}
    most = sorted(found, key=lambda path: -found[path])[:HOTTEST]
    among_ours = sorted(ours, key=lambda path: -ours[path])[:HOTTEST]
    whole = sum(found.values())
    large = [path for path, seconds in found.items() if seconds >= LEAST_SHARE / 2 * whole]
    return Hottest(
        most,
        [ours[path] for path in most],
        [found[path] for path in most],
        len({*most} & {*among_ours}),
        spearman([ours[path] for path in most], [found[path] for path in most]),
        len(large),
        spearman([ours[path] for path in large], [found[path] for path in large]),
    )


def spearman(one: Sequence[float], other: Sequence[float]) -> float:
    """Return Spearman's rank correlation of values of which no two are equal."""
    ranks = (np.argsort(np.argsort(values)).astype(float) for values in (one, other))
    return float(np.corrcoef(*ranks)[0, 1])


Times = dict[str, float]
"""Median seconds of a forward, by module path."""


def _recorded(
    model: nn.Module, nodes: Sequence[Node], run: Callable[[], object], forwards: int
) -> tuple[Tick, list[tuple[str, Any]]]:
    """Return the product's figures, and each call's module path and torch.profiler's range."""
    with (
        watched(model) as clock,
        _marked(model),
        profile(activities=[ProfilerActivity.CPU]) as theirs,
    ):
        for _ in range(WARM + forwards):
            run()
        recorded = clock.take()
    # A module's mark ends after those inside of it; the root's begins its forward.
    marks = [event for event in theirs.events() or () if event.name.startswith(MARK)]
    marks.sort(key=lambda event: event.time_range.start)
    calls = [(event.name.removeprefix(MARK), event.time_range) for event in marks]
    return _tick(nodes, model, recorded), calls


def _both(
    model: nn.Module, nodes: Sequence[Node], run: Callable[[], object], forwards: int
) -> tuple[Tick, list[Times]]:
    """Return the product's figures, and torch.profiler's self times of each of its forwards."""
    tick, calls = _recorded(model, nodes, run, forwards)
    found: list[Times] = []
    around: list[tuple[str, float]] = []
    for path, span in calls:
        while around and around[-1][1] <= span.start:
            around.pop()
        if not around:
            found.append({})
        else:
            found[-1][around[-1][0]] -= span.elapsed_us() / 1e6
        found[-1][path] = found[-1].get(path, 0.0) + span.elapsed_us() / 1e6
        around.append((path, span.end))
    kept = found[tick.warmup_forwards :]
    assert len(kept) == tick.forwards
    return tick, kept


def _profiled(
    model: nn.Module, nodes: Sequence[Node], run: Callable[[], None], forwards: int
) -> tuple[Times, Times]:
    tick, calls = _recorded(model, nodes, run, forwards)
    found: list[Times] = []
    for path, span in calls:
        if not path:
            found.append({})
        found[-1][path] = found[-1].get(path, 0.0) + span.elapsed_us() / 1e6
    kept = found[tick.warmup_forwards :]
    assert len(kept) == tick.forwards
    return _per_forward(nodes, tick), {
        path: median(one.get(path, 0.0) for one in kept) for path in kept[0]
    }


@contextmanager
def _marked(model: nn.Module) -> Iterator[None]:
    """Put a mark around every module's forward."""
    modules = dict(model.named_modules())

    def mark(path: str, forward: Callable[..., object]) -> Callable[..., object]:
        def marked(*args: object, **kwargs: object) -> object:
            with _RecordFunctionFast(MARK + path):
                return forward(*args, **kwargs)

        return marked

    for path, module in modules.items():
        vars(module)["forward"] = mark(path, module.forward)
    try:
        yield
    finally:
        for module in modules.values():
            del vars(module)["forward"]


class InWindow(NamedTuple):
    """One forward in an operator window; seconds by module path."""

    modules: Times
    operators: Times
    other: Times
    our_host: Times
    host: Times

    def sum(self, path: str) -> float:
        return self.operators[path] + self.other[path] + self.host[path]

    def host_error(self, path: str) -> float:
        return (self.our_host[path] - self.host[path]) / self.modules[path]


def _windowed(
    model: nn.Module, nodes: Sequence[Node], run: Callable[[], None], forwards: int
) -> tuple[list[InWindow], Times]:
    """Return forwards in windows, and the module times of those between."""
    found: list[InWindow] = []
    between: list[Forward] = []
    names = {id(module): path for path, module in model.named_modules()}
    with watched(model) as clock:
        for turn in range(WARM + forwards):
            forward, seen = in_window(clock, run)
            run()
            between += clock.take()
            if turn >= WARM:
                modules, host = _host(forward, seen, names)
                found.append(InWindow(modules, *_laid(model, nodes, forward, seen), host))
    return found, _per_forward(nodes, _tick(nodes, model, between))


def _laid(
    model: nn.Module, nodes: Sequence[Node], forward: Forward, seen: Sequence[KinetoOperator]
) -> tuple[Times, Times, Times]:
    """Return the product's figures: operators per module and its children, others, host time."""
    clock = OperatorClock(nodes, model)
    clock.add(forward, seen)
    message = clock.message(0.0, 0.0)
    operators: Times = {node.path: 0.0 for node in nodes if node.kind == "module"}
    seconds = memoryview(message.per_forward).cast("f")
    for index, each in zip(memoryview(message.nodes).cast("I"), seconds, strict=True):
        above = nodes[index].parent
        while above >= 0:
            operators[nodes[above].path] += each
            above = nodes[above].parent
    times = clock.window_times(0.0)
    paths = [nodes[index].path for index in memoryview(times.nodes).cast("I")]
    other, host = (
        dict(zip(paths, memoryview(column).cast("f"), strict=True))
        for column in (times.other, times.host)
    )
    return operators, other, host


def in_window(clock: ModuleClock, run: Callable[[], None]) -> tuple[Forward, list[KinetoOperator]]:
    """Return a forward in an operator window, and its operators."""
    with Window() as window:
        # The window was opened with cold caches: the second forward is like any other.
        run()
        clock.take()
        run()
    (forward,) = clock.take()
    return forward, window.seen


def _host(
    forward: Forward, seen: Sequence[KinetoOperator], names: dict[int, str]
) -> tuple[Times, Times]:
    """Return each module's time, and how long no operator ran in it: by times, without our tree."""
    starts, ends = np.frombuffer(forward.times, np.float64).reshape(2, -1)
    outermost: list[tuple[float, float]] = []
    for operator in seen:
        if not outermost or operator.start >= outermost[-1][1]:
            outermost.append((operator.start, operator.end))
    begin, end = np.array(outermost).T
    modules: Times = {}
    host: Times = {}
    for module, start, stop in zip(forward.modules, starts, ends, strict=True):
        path, seconds = names[id(module)], float(stop - start)
        ran = np.clip(np.minimum(end, stop) - np.maximum(begin, start), 0.0, None).sum()
        modules[path] = modules.get(path, 0.0) + seconds
        host[path] = host.get(path, 0.0) + seconds - float(ran)
    return modules, host


def _tick(nodes: Sequence[Node], model: nn.Module, recorded: list[Forward]) -> Tick:
    aggregator = Aggregator(nodes, model)
    aggregator.add(recorded)
    return aggregator.tick(0.0)


def _per_forward(nodes: Sequence[Node], tick: Tick) -> Times:
    seconds = np.frombuffer(tick.per_forward, np.float32).tolist()
    indices = np.frombuffer(tick.nodes, np.uint32).tolist()
    return {nodes[index].path: each for index, each in zip(indices, seconds, strict=True)}
