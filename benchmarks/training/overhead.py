"""What watching training costs, beside full backward hooks and torch.profiler: interleaved pairs.

``python -m benchmarks.training.overhead [--pairs 20] [--seconds 0.5] [--threads 1] [MODEL...]``

Batches of steps run bare and in some way in turn, who goes first by turns; of each pair the ratio
of seconds per step is taken, of CPU time of the process (all threads, the probe's too) and of wall
time. Printed are the median of the ratios and its 95 % interval, less one.

- ``watched``: as the product watches a program that trains, with its thread, its ticks encoded
  and thrown away, its governor with the default budget, and operator windows as often as it opens
  them. What these take is rare and in no median, so the ratio of the sums is printed too.
- ``every step``: recorded whole, without a budget; adding up is not in it.
- ``hooks``: full backward hooks on every module. ``profiler``: torch.profiler by default; closing
  and reading it is not counted.

Budget: the upper end of the interval of ``watched``, of CPU and of wall time, at most 2 %, on 200
tiny layers 10 %. The exit code is 1 where it is exceeded. Run it on a quiet machine.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import NamedTuple, TypeAlias

os.environ["KINETO_LOG_LEVEL"] = "99"  # read once, when torch is imported

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from benchmarks.training.models import MODELS, Trained
from benchmarks.training.recorded_steps import RecordedSteps
from tui_profiler.connection.wire import encode
from tui_profiler.messages import Node, Overhead, TrainingStep
from tui_profiler.probe.measure.clock.clock import ModuleClock
from tui_profiler.probe.measure.clock.overhead import interval_of_median
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.torch_compat.modules import each_module
from tui_profiler.probe.trace.trace import trace
from tui_profiler.probe.watch.times import ProgramTimes
from tui_profiler.probe.watch.windows import warm_up

WARM_UP = 3
"""Steps before a batch is timed: the interpreter learns its short cuts anew."""
SETTLING_SECONDS = 5.0
"""Watched before pairs begin: the governor decides, the first steps are recorded all."""
PRODUCT_BUDGET = 0.02
BUDGETS = {"200 tiny layers": 0.10}

Way: TypeAlias = Callable[[], AbstractContextManager[None]]


class Batch(NamedTuple):
    """Mean seconds per step."""

    cpu: float
    wall: float


Pair: TypeAlias = tuple[Batch, Batch]
"""Bare, and in some way."""


def run(trained: Trained, way: Way, steps: int) -> Batch:
    """Run a batch in some way."""
    with way():
        for _ in range(WARM_UP):
            trained.step()
        wall, cpu = perf_counter(), process_time()
        for _ in range(steps):
            trained.step()
        return Batch((process_time() - cpu) / steps, (perf_counter() - wall) / steps)


class Watched:
    """A model that is watched, as the probe's thread in a program does it.

    The clock and the marks are taken off for ``bare`` batches, and the thread waits meanwhile.
    """

    def __init__(self, trained: Trained, nodes: tuple[Node, ...]) -> None:
        self._clock = ModuleClock(trained.model)
        self._times: ProgramTimes | None = None
        self._turn = threading.Lock()
        self._is_over = threading.Event()
        self.recorded = self.steps = 0
        """Steps recorded so far, and all."""
        self.overhead: Overhead | None = None
        """What the product says that it costs."""
        self._has_begun = threading.Event()
        self._thread = threading.Thread(target=self._tick, args=(trained.model, nodes), daemon=True)
        self._thread.start()
        self._has_begun.wait()

    def _tick(self, model: nn.Module, nodes: tuple[Node, ...]) -> None:
        began = perf_counter()
        # Here: the processor time of the thread that it is made on counts.
        times = self._times = ProgramTimes(model, nodes, PRODUCT_BUDGET, self._clock)
        self._has_begun.set()
        while not self._is_over.wait(times.pause):
            with self._turn:
                times.take()
                for message in times.messages(perf_counter() - began, 0):
                    encode(message)
                    match message:
                        case TrainingStep():
                            self.steps, self.recorded = message.steps, message.recorded_so_far
                        case Overhead():
                            self.overhead = message
                times.record_next()
        times.close()

    @contextmanager
    def bare(self) -> Iterator[None]:
        """Take everything off for a while."""
        assert self._times is not None
        recorder = self._times._step_recorder
        with self._turn:
            was_driving = recorder.is_driving
            with self._clock.removed():
                recorder.close()
                try:
                    yield
                finally:
                    recorder.start()
                    recorder.is_driving = was_driving

    @contextmanager
    def on(self) -> Iterator[None]:
        """Leave it on."""
        yield

    def close(self) -> None:
        """Take it off for good."""
        self._is_over.set()
        self._thread.join()


@contextmanager
def plain() -> Iterator[None]:
    """Leave the model alone."""
    yield


@contextmanager
def hooks(trained: Trained) -> Iterator[None]:
    """Full backward hooks on every module."""
    handles = []
    for module in each_module(trained.model):
        handles.append(module.register_full_backward_pre_hook(lambda *_: None))
        handles.append(module.register_full_backward_hook(lambda *_: None))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def profiler() -> Iterator[None]:
    """torch.profiler, as it is by default."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        yield


def compared(trained: Trained, bare: Way, way: Way, steps: int, pairs: int) -> list[Pair]:
    """Run pairs of batches, bare and in some way."""
    found = []
    for turn in range(pairs):
        order = (bare, way) if turn % 2 else (way, bare)  # A drift falls on both alike.
        spent = {one: run(trained, one, steps) for one in order}
        found.append((spent[bare], spent[way]))
    return found


def told(name: str, pairs: list[Pair]) -> float:
    """Print what a way adds; returns the upper end of the interval, of CPU or of wall time."""
    highest, cells = 0.0, []
    for kind in Batch._fields:
        ratios = [getattr(two, kind) / getattr(one, kind) for one, two in pairs]
        low, high = interval_of_median(ratios) or (float("nan"), float("inf"))
        sums = sum(getattr(two, kind) for _, two in pairs) / sum(
            getattr(one, kind) for one, _ in pairs
        )
        highest = max(highest, high - 1)
        cells.append(
            f"{kind} {median(ratios) - 1:+7.2%} [{low - 1:+.2%}, {high - 1:+.2%}] "
            f"of sums {sums - 1:+.2%}"
        )
    print(f"  {name:11}" + "  ".join(cells), flush=True)
    return highest


def watched(
    trained: Trained, nodes: tuple[Node, ...], steps: int, pairs: int, budget: float
) -> bool:
    """Print what the product costs, and tell whether that is within its budget."""
    one = Watched(trained, nodes)
    settled = perf_counter() + SETTLING_SECONDS
    while perf_counter() < settled:
        trained.step()
    found = compared(trained, one.bare, one.on, steps, pairs)
    one.close()
    highest = told("watched", found)
    said = f", the product says {one.overhead.ratio:.2%}" if one.overhead is not None else ""
    recorded = f"{one.recorded} of {one.steps} watched steps recorded"
    print(f"    {recorded}{said}; upper end {highest:.2%}, budget {budget:.0%}")
    return highest <= budget


def every_step(trained: Trained, nodes: tuple[Node, ...], steps: int, pairs: int) -> None:
    """Print what it costs to record every step."""
    with RecordedSteps(trained.model, nodes) as recorded:
        recorded.recorder.is_driving = False  # Here batches decide what is recorded.
        recorded.clock.record_step(is_recorded=False)

        @contextmanager
        def on() -> Iterator[None]:
            recorded.clock.record_step(is_recorded=True)
            yield
            recorded.clock.record_step(is_recorded=False)
            recorded.collect()

        found = compared(trained, plain, on, steps, pairs)
    told("every step", found)
    calls = sum(node.calls for node in nodes if node.kind == "module")
    added = median(two.cpu - one.cpu for one, two in found) / calls
    print(f"    {added * 1e6:.1f} us per call of a module, forward and backward")


def row(name: str, trained: Trained, seconds: float, pairs: int) -> bool:
    """Print what ways of watching cost of one model; tells whether the product's is allowed."""
    nodes = tuple(trace(trained.model, (Inputs(args=(trained.x,)),)).nodes)
    steps = max(int(seconds / run(trained, plain, 5).wall), 3)
    print(f"{name}: {run(trained, plain, steps).wall * 1e3:.2f} ms a step, {pairs} x {steps}")
    is_within = watched(trained, nodes, steps, pairs, BUDGETS.get(name, PRODUCT_BUDGET))
    every_step(trained, nodes, steps, pairs)
    for way, on in (("hooks", lambda: hooks(trained)), ("profiler", profiler)):
        try:
            told(way, compared(trained, plain, on, steps, pairs))
        except RuntimeError as error:
            print(f"  {way:11}raise: {str(error).partition('.')[0]}")
    return is_within


def main() -> int:
    """Print what watching costs, of each model asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", metavar="MODEL", default=list(MODELS))
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=0.5, help="of one batch")
    parser.add_argument("--threads", type=int, default=1)
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    warm_up()
    found = [row(name, MODELS[name](), asked.seconds, asked.pairs) for name in asked.models]
    return 0 if all(found) else 1


if __name__ == "__main__":
    sys.exit(main())
