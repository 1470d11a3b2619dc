"""Models whose modules time themselves, to compare with the module clock.

Two timers of theirs: *inside*, read first and last in ``forward``, and *outside*, read by the
caller around the call. Ours has to lie between the two. What lies between them without a clock is
torch's own: it looks for hooks around every ``forward``.

A call is told by its chain: the modules from the root down to it, each by its ``id``.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from time import perf_counter
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from tui_profiler.messages import Node, Tick
from tui_profiler.probe.measure.clock.aggregate import Aggregator
from tui_profiler.probe.measure.clock.clock import Forward, ModuleClock
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.trace.trace import trace

SHORTEST, LONGEST = 20e-6, 5e-3
"""Seconds that one module spins by itself."""
SHARE, LEAST_SECONDS = 0.03, 5e-6
"""Ours is within the larger of the two of theirs."""
WINDOW = 4096
TURNS = 5
"""Of watched and of bare forwards."""

Chain = tuple[int, ...]


class Ledger(threading.local):
    """What the modules of one thread's forwards timed of themselves."""

    def __init__(self) -> None:
        self.running: list[int] = []
        self.inside: list[tuple[Chain, float]] = []
        self.outside: list[tuple[Chain, float]] = []
        self.last = (0.0, 0.0)
        """When the call that ended last began and ended, inside: after a forward, the root's."""


LEDGER = Ledger()


class Spins(nn.Module):
    """Works for some time, calls its parts, and times all of it."""

    def __init__(self, seconds: float, *parts: nn.Module, times: int = 1, depth: int = 1) -> None:
        super().__init__()
        self.seconds, self.times, self.depth = seconds, times, depth
        self.parts = nn.ModuleList(parts)

    def forward(self, x: torch.Tensor, left: int | None = None) -> torch.Tensor:
        start = perf_counter()
        LEDGER.running.append(id(self))
        left = self.depth if left is None else left
        while perf_counter() - start < self.seconds:
            pass
        for _ in range(self.times):
            for part in self.parts:
                x = timed(part, x)
        if left > 1:
            x = timed(self, x, left - 1)
        chain, kept = tuple(LEDGER.running), LEDGER.inside
        LEDGER.running.pop()
        end = perf_counter()
        kept.append((chain, end - start))
        LEDGER.last = (start, end)
        return x


def timed(module: nn.Module, *args: object) -> torch.Tensor:
    """Call a module, and keep what it took from outside."""
    chain, kept = (*LEDGER.running, id(module)), LEDGER.outside
    start = perf_counter()
    output: torch.Tensor = module(*args)
    kept.append((chain, perf_counter() - start))
    return output


def build(seed: int) -> Spins:
    """Return a tree of about twenty modules: nested, shared, repeated, recursive."""
    chance = random.Random(seed)

    def seconds() -> float:
        low, high = np.log(SHORTEST), np.log(LONGEST)
        return float(np.exp(chance.uniform(low, high - (high - low) * chance.random() / 2)))

    def tree(depth: int) -> Spins:
        parts = [tree(depth - 1) for _ in range(chance.randint(1, 2))] if depth else []
        return Spins(seconds(), *parts, times=chance.choice((1, 1, 2)))

    shared = Spins(SHORTEST, Spins(seconds()))
    return Spins(
        SHORTEST,
        Spins(seconds(), shared),
        tree(2),
        shared,
        Spins(SHORTEST, Spins(SHORTEST), times=5),
        Spins(seconds() / 2, depth=3),
        Spins(LONGEST),
    )


class Compared(NamedTuple):
    """One node; times are the median seconds of a call."""

    path: str
    calls: int
    their_calls: int
    inside: float
    ours: float
    outside: float
    torchs: float
    """Between outside and inside where no clock is on."""

    @property
    def is_between(self) -> bool:
        # Ours are sent as float32.
        return self.inside * (1 - 1e-6) <= self.ours <= self.outside * (1 + 1e-6)

    @property
    def is_within(self) -> bool:
        return self.ours - self.inside <= max(SHARE * self.inside, LEAST_SECONDS)

    @property
    def is_within_but_for_torch(self) -> bool:
        return self.ours - self.inside <= self.torchs + max(SHARE * self.inside, LEAST_SECONDS)


def compared(model: nn.Module, forwards: int, threads: int = 1) -> tuple[list[Compared], Tick]:
    """Run the model in so many threads at once, each so many times, and compare every node."""
    nodes = trace(model, (Inputs((torch.zeros(1),)),)).nodes
    ran: list[Ran] = []
    bare: list[Ran] = []
    with watched(model) as clock:
        # In turn, so that what else the machine does falls on both alike.
        for _ in range(TURNS):
            clock.recording = True
            ran += _run(model, forwards // TURNS, threads)
            clock.recording = False
            bare += _run(model, forwards // TURNS, threads)
        recorded = clock.take()
    aggregator = Aggregator(nodes, model, WINDOW)
    aggregator.add(recorded)
    tick = aggregator.tick(0.0)
    ran = [_same(ran, forward) for forward in recorded[tick.warmup_forwards :]]
    inside, outside = (_by_node(model, nodes, part) for part in _parts(ran))
    before, after = (_by_node(model, nodes, part) for part in _parts(bare))
    columns = (
        np.frombuffer(tick.nodes, np.uint32).tolist(),
        np.frombuffer(tick.calls, np.uint64).tolist(),
        np.frombuffer(tick.p50, np.float32).tolist(),
    )
    assert set(columns[0]) == set(inside)
    rows = [
        Compared(
            path=nodes[node].path,
            calls=calls,
            their_calls=len(inside[node]),
            inside=median(inside[node]),
            ours=seconds,
            outside=median(outside[node]),
            torchs=median(after[node]) - median(before[node]),
        )
        for node, calls, seconds in zip(*columns, strict=True)
    ]
    return rows, tick


@contextmanager
def watched(model: nn.Module) -> Iterator[ModuleClock]:
    clock = ModuleClock(model)
    clock.install()
    try:
        yield clock
    finally:
        clock.uninstall()


class Ran(NamedTuple):
    """What one forward timed of itself."""

    began: float
    ended: float
    root: tuple[float, float]
    """When the root began and ended, inside."""
    inside: list[tuple[Chain, float]]
    outside: list[tuple[Chain, float]]


def _run(model: nn.Module, forwards: int, threads: int) -> list[Ran]:
    finished: list[Ran] = []

    def run() -> None:
        # Not in the loop: it lets other threads go first, for many milliseconds.
        x = torch.zeros(1)
        for _ in range(forwards):
            LEDGER.inside, LEDGER.outside = [], []
            began = perf_counter()
            timed(model, x)
            finished.append(Ran(began, perf_counter(), LEDGER.last, LEDGER.inside, LEDGER.outside))

    workers = [threading.Thread(target=run) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return finished


def _same(ran: list[Ran], forward: Forward) -> Ran:
    """Return what a recorded forward timed itself: around it and inside it."""
    times, calls = memoryview(forward.times).cast("d"), len(forward.modules)
    start, end = times[calls - 1], times[-1]
    around = (
        one for one in ran if one.began <= start <= one.root[0] and one.root[1] <= end <= one.ended
    )
    # Another thread's may lie around it as well, if both lost the GIL at either end.
    return min(around, key=lambda one: one.root[0] - start)


def _parts(ran: list[Ran]) -> Iterator[list[tuple[Chain, float]]]:
    yield [call for one in ran for call in one.inside]
    yield [call for one in ran for call in one.outside]


def _by_node(
    model: nn.Module, nodes: Sequence[Node], calls: list[tuple[Chain, float]]
) -> dict[int, list[float]]:
    node_of = {chain: _node_of(model, nodes, chain) for chain in {chain for chain, _ in calls}}
    found: dict[int, list[float]] = {}
    for chain, seconds in calls:
        found.setdefault(node_of[chain], []).append(seconds)
    return found


def _node_of(model: nn.Module, nodes: Sequence[Node], chain: Chain) -> int:
    """Find a chain's node by hand: by the paths; what calls itself is one node."""
    found = 0
    above: list[tuple[int, int]] = [(chain[0], 0)]
    for identity in chain[1:]:
        below = [
            index
            for index, node in enumerate(nodes)
            if node.kind == "module"
            and _caller(nodes, index) == found
            and id(model.get_submodule(node.path)) == identity
        ]
        found = below[0] if below else next(i for who, i in reversed(above) if who == identity)
        above.append((identity, found))
    return found


def _caller(nodes: Sequence[Node], index: int) -> int:
    caller = nodes[index].parent
    while caller > 0 and nodes[caller].calls == 0:
        caller = nodes[caller].parent
    return caller
