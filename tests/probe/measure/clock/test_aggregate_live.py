"""The clock and the aggregator together, on models that really run."""

from __future__ import annotations

import gc
import random
import struct
import weakref
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from time import perf_counter

import numpy as np
import pytest
import torch
from torch import nn

from tests.probe.measure.clock.module_nodes import module_nodes, node
from tests.probe.measure.clock.test_aggregate import rows
from tui_profiler.messages import Tick
from tui_profiler.probe.measure.clock.aggregate import Aggregator
from tui_profiler.probe.measure.clock.clock import Forward, ModuleClock
from tui_profiler.probe.measure.clock.warm_up import WARMUP_FORWARDS

X = torch.ones(64, 64)


class TimesItself(nn.Module):
    """Runs its children, and keeps what its own timer says of each forward."""

    def __init__(self, *children: nn.Module) -> None:
        super().__init__()
        self.parts = nn.ModuleList(children)
        self.seconds: list[float] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        start = perf_counter()
        for _ in range(20):
            x = (x @ X) / 64
        for part in self.parts:
            x = part(x)
        self.seconds.append(perf_counter() - start)
        return x


def seconds(tick: Tick, name: str, dtype: type = np.float64) -> list[float]:
    values: list[float] = np.frombuffer(getattr(tick, name), dtype).tolist()
    return values


@pytest.fixture
def tree() -> Iterator[TimesItself]:
    # One thread: two wait for each other in every product when the machine is busy.
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield TimesItself(TimesItself(TimesItself(), TimesItself()), TimesItself())
    torch.set_num_threads(threads)


def watch(model: nn.Module, forwards: int) -> Aggregator:
    aggregator, clock = Aggregator(module_nodes(model), model), ModuleClock(model)
    clock.install()
    try:
        with torch.no_grad():
            for _ in range(forwards):
                model(X)
        aggregator.add(clock.take())
    finally:
        clock.uninstall()
    return aggregator


def test_modules_that_time_themselves_agree(tree: TimesItself) -> None:
    aggregator = watch(tree, 40)
    tick = aggregator.tick(0.0)
    nodes = module_nodes(tree)
    for index, own_median in zip(
        np.frombuffer(tick.nodes, np.uint32), seconds(tick, "p50", np.float32), strict=True
    ):
        module = tree.get_submodule(nodes[index].path)
        assert isinstance(module, TimesItself)
        # Ours includes what torch does around forward: some microseconds at most, on any machine.
        theirs = float(np.median(module.seconds[-tick.forwards :]))
        assert theirs <= own_median * 1.000001
        assert own_median - theirs < 0.5 * theirs + 50e-6


def test_own_times_make_the_time_of_the_root(tree: TimesItself) -> None:
    aggregator = watch(tree, 20)
    tick = aggregator.tick(0.0)
    total = dict(zip(np.frombuffer(tick.nodes, np.uint32), seconds(tick, "total"), strict=True))
    assert sum(seconds(tick, "own")) == pytest.approx(total[0])
    assert min(seconds(tick, "own")) >= 0
    assert tick.forwards + tick.warmup_forwards == 20
    # Over the last 5 s, which may be fewer forwards than all: at most as fast as the fastest one.
    assert 0 < tick.per_second <= 1.01 / min(tree.seconds)


def test_a_child_that_raises_is_counted_and_its_time_is_not_its_callers() -> None:
    class Raises(TimesItself):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            super().forward(x)
            raise ValueError

    class Catches(TimesItself):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            try:
                super().forward(x)
            except ValueError:
                return x
            raise AssertionError

    aggregator = watch(Catches(Raises()), 30)
    tick = aggregator.tick(0.0)
    # Root and child: the list between them is never called.
    assert np.frombuffer(tick.nodes, np.uint32).tolist() == [0, 2]
    assert len(set(np.frombuffer(tick.calls, np.uint64).tolist())) == 1
    own, total = seconds(tick, "own"), seconds(tick, "total")
    assert own[0] == pytest.approx(total[0] - total[1])


def test_modules_nested_deeper_than_python_recurses() -> None:
    chain = [nn.Module() for _ in range(3_000)]
    for module, inner in pairwise(chain):
        module.add_module("inner", inner)
    # Made up, because so deep a model cannot run: each begins after and ends before the one around.
    starts = [depth / 1e6 for depth in reversed(range(len(chain)))]
    times = struct.pack(f"{2 * len(chain)}d", *starts, *[1 - start for start in starts])
    forward = Forward(chain[::-1], times, since=None)
    nodes = [node(depth - 1, ".".join(["inner"] * depth)) for depth in range(len(chain))]
    aggregator = Aggregator(nodes, chain[0])
    aggregator.add([forward] * 10)
    assert len(np.frombuffer(aggregator.tick(0.0).nodes, np.uint32)) == len(chain)
    assert aggregator.unseen == {}
    forward.modules.clear()
    while chain:
        # From the inside out: freeing the whole at once would exceed the stack.
        chain.pop()._modules.clear()


def test_no_module_is_held_two_ticks_after_its_last_forward() -> None:
    model = nn.Sequential(nn.ReLU(), nn.ReLU())
    aggregator = watch(model, WARMUP_FORWARDS + 1)  # Of microseconds: they may never be alike.
    root = weakref.ref(model)
    aggregator.tick(0.0)
    aggregator.tick(0.25)
    del model
    gc.collect()
    assert root() is None
    assert aggregator.tick(0.5).forwards > 0


def test_a_model_whose_every_forward_differs_is_counted_in_full() -> None:
    class Experts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.experts = nn.ModuleList(nn.Linear(64, 64) for _ in range(12))
            self.chance = random.Random(0)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for choice in self.chance.choices(range(12), k=6):
                x = self.experts[choice](x)
            return x

    model = Experts()
    aggregator, clock = Aggregator(module_nodes(model), model), ModuleClock(model)
    clock.install()
    recorded: list[Forward] = []
    for _ in range(200):
        model(X)
        recorded += clock.take()
        aggregator.add(recorded[-1:])
    clock.uninstall()
    tick = aggregator.tick(0.0)
    steady = recorded[tick.warmup_forwards :]
    calls = Counter(id(module) for forward in steady for module in forward.modules)
    found = rows(tick)
    assert found[0]["calls"] == len(steady)
    assert [found[2 + at]["calls"] for at in range(12)] == [
        calls[id(expert)] for expert in model.experts
    ]


def _by_hand(forward: Forward) -> tuple[dict[int, float], ...]:
    """Total and own time of every module, each event compared with every other."""
    starts, ends = np.frombuffer(forward.times).reshape(2, -1).tolist()
    calls = list(zip(forward.modules, starts, ends, strict=True))
    total: dict[int, float] = defaultdict(float)
    own: dict[int, float] = defaultdict(float)
    for module, start, end in calls:
        around = [call for call in calls if call[1] < start and end < call[2]]
        if not any(call[0] is module for call in around):
            total[id(module)] += end - start
        own[id(module)] += end - start
        if around:
            nearest = min(around, key=lambda call: call[2] - call[1])
            own[id(nearest[0])] -= end - start
    return total, own


@pytest.mark.parametrize("seed", range(5))
def test_random_call_trees_agree_with_counting_by_hand(seed: int) -> None:
    chance = random.Random(seed)

    class Calls(nn.Module):
        def __init__(self, depth: int) -> None:
            super().__init__()
            self.parts = nn.ModuleList(
                Calls(depth - 1) for _ in range(chance.randrange(4) if depth else 0)
            )

        def forward(self, left: int) -> None:
            for part in self.parts:
                for _ in range(chance.randrange(3)):
                    part(left)
            if left and chance.random() < 0.3:
                self(left - 1)

    model = Calls(4)
    nodes = module_nodes(model)
    aggregator, clock = Aggregator(nodes, model), ModuleClock(model)
    clock.install()
    recorded: list[Forward] = []
    for _ in range(30):
        model(2)
        recorded += clock.take()
    clock.uninstall()
    aggregator.add(recorded)
    tick = aggregator.tick(0.0)
    total: dict[int, float] = defaultdict(float)
    own: dict[int, float] = defaultdict(float)
    for forward in recorded[tick.warmup_forwards :]:
        for sums, found in zip((total, own), _by_hand(forward), strict=True):
            for key, value in found.items():
                sums[key] += value
    for index, row_total, row_own in zip(
        np.frombuffer(tick.nodes, np.uint32),
        seconds(tick, "total"),
        seconds(tick, "own"),
        strict=True,
    ):
        module = model.get_submodule(nodes[index].path)
        assert row_total == pytest.approx(total[id(module)])
        assert row_own == pytest.approx(own[id(module)])
    assert len(tick.nodes) == 4 * len(total)
