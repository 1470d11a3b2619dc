"""What watching training costs, beside full backward hooks and torch.profiler: interleaved pairs.

``python -m benchmarks.training.overhead [--pairs 20] [--seconds 0.5] [--threads 1] [MODEL...]``

Batches of steps run bare and in some way in turn, who goes first by turns; of each pair the ratio
of seconds per step is taken, of CPU time of the process (all threads, the probe's too) and of wall
time. Printed are the median of the ratios and its 95 % interval, less one.

- ``nothing``: bare once more, among the batches of ``watched``. Its interval is what the machine
  adds of itself: where it does not hold 0, or is wide, the rows below it say little.

- ``watched``: as the product watches a program that trains, with its threads (ticks, sent to a
  process, lines, the machine's counters), its governor with the default budget, and operator
  windows as often as it opens them. Threads wait while bare batches run, and go on as if these had
  not been. What is rare is in no median, so the ratio of the sums is printed too.
- ``one run``: the same watched without batches, which is how a program has it. Each step is
  recorded, or the probe's threads computed beside it, or neither; printed is how many there are of
  the first two, how much longer than the third they take in the mean, and what that is of all.
  Batches cannot tell it as well: noise between two of them is about 1 %.
- ``every step``: recorded whole, without a budget; adding up is not in it.
- ``hooks``: full backward hooks on every module. ``profiler``: torch.profiler by default; closing
  and reading it is not counted.

Budget: the upper end of the interval of ``watched``, of CPU and of wall time, at most 2 %, on 200
tiny layers 10 %. The exit code is 1 where it is exceeded. Run it on a quiet machine.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import cycle, islice, pairwise, permutations
from pathlib import Path
from statistics import mean, median
from time import perf_counter, process_time
from typing import NamedTuple, TypeAlias

os.environ["KINETO_LOG_LEVEL"] = "99"  # read once, when torch is imported

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from benchmarks.training.models import MODELS, Trained
from benchmarks.training.recorded_steps import RecordedSteps
from tui_profiler.messages import Node, Overhead, Sample, TrainingStep
from tui_profiler.probe.measure.clock.clock import ModuleClock
from tui_profiler.probe.measure.clock.overhead_budget import interval_of_median
from tui_profiler.probe.measure.sampler import Sampler
from tui_profiler.probe.process.link import Link
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.torch_compat.modules import each_module
from tui_profiler.probe.trace.trace import trace
from tui_profiler.probe.watch.program_times import ProgramTimes
from tui_profiler.probe.watch.server import SAMPLE_SECONDS
from tui_profiler.probe.watch.windows import warm_up

WARM_UP = 3
"""Steps before a batch is timed: the interpreter learns its short cuts anew."""
SETTLING_SECONDS = 5.0
"""Watched before pairs begin: the governor decides, the first steps are recorded all."""
THREAD_SECONDS = 50e-6
"""Of CPU time that the probe's threads take during a step: from then on they ran beside it."""
FEWER, LEAST_PAIRS = 6, 12
"""Of ``every step``, ``hooks`` and ``profiler``, which cost several times as much, one pair in
``FEWER`` is run, and at least ``LEAST_PAIRS``."""
PRODUCT_BUDGET = 0.02
BUDGETS = {"200 tiny layers": 0.10}

Way: TypeAlias = Callable[[], AbstractContextManager[None]]


class Batch(NamedTuple):
    """Seconds per step."""

    cpu: float
    wall: float
    median: float
    """Wall time; steps that are recorded are too few to move it."""


Row: TypeAlias = tuple[Batch, ...]
"""Bare, and in each way."""


def run(trained: Trained, way: Way, steps: int) -> Batch:
    """Run a batch in some way."""
    with way():
        for _ in range(WARM_UP):
            trained.step()
        cpu, each = process_time(), [perf_counter()]
        for _ in range(steps):
            trained.step()
            each.append(perf_counter())
        cpu = process_time() - cpu
        return Batch(
            cpu / steps,
            (each[-1] - each[0]) / steps,
            median(after - before for before, after in pairwise(each)),
        )


class Watched:
    """A model that is watched, as the probe's thread in a program does it.

    The clock and the marks are taken off for ``bare`` batches, and the threads wait meanwhile.
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
        self._bare_seconds = 0.0
        """Of bare batches so far."""
        ours, viewers = socket.socketpair()
        with viewers:
            self._viewer = subprocess.Popen(
                ["cat"], stdin=viewers.fileno(), stdout=subprocess.DEVNULL
            )
        self._link = Link(ours, lambda: None)
        self._sampled: deque[Sample] = deque()
        self._has_begun = threading.Event()
        self._thread = threading.Thread(target=self._tick, args=(trained.model, nodes), daemon=True)
        self._sampling = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()
        self._has_begun.wait()
        self._sampling.start()

    def _tick(self, model: nn.Module, nodes: tuple[Node, ...]) -> None:
        began = perf_counter()
        # Here: the processor time of the thread that it is made on counts.
        times = self._times = ProgramTimes(model, nodes, PRODUCT_BUDGET, self._clock)
        self._has_begun.set()
        while not self._is_over_in(times.pause):
            with self._turn:
                times.take()
                for message in times.messages(perf_counter() - began, 0):
                    self._link.send(message)
                    match message:
                        case TrainingStep():
                            self.steps, self.recorded = message.steps, message.recorded_so_far
                        case Overhead():
                            self.overhead = message
                while self._sampled:
                    self._link.send(self._sampled.popleft())
                times.record_next()
        times.close()

    def _sample(self) -> None:
        assert self._times is not None
        sampler = Sampler(time.time())
        while not self._is_over_in(SAMPLE_SECONDS):
            with self._turn:
                began = time.thread_time()
                self._sampled.append(sampler.sample())
                self._times.sampling_seconds += time.thread_time() - began
        sampler.close()

    def _is_over_in(self, seconds: float) -> bool:
        """Wait for so long, bare batches not counted: else each tick would fall into the others."""
        due = perf_counter() - self._bare_seconds + seconds
        while (left := due - (perf_counter() - self._bare_seconds)) > 0:
            if self._is_over.wait(left):
                return True
            with self._turn:  # A bare batch under way has its seconds only at its end.
                pass
        return self._is_over.is_set()

    @contextmanager
    def bare(self) -> Iterator[None]:
        """Take everything off for a while."""
        assert self._times is not None
        times = self._times
        recorder, lines = times._step_recorder, times._training._sampler
        with self._turn:
            self._link.flush(1.0)
            began = perf_counter()
            was_driving, were_lines = recorder.is_driving, lines._thread is not None
            with self._clock.removed():
                recorder._leave_brief()  # Steps that it passed over do not come to pass.
                recorder.close()
                lines.stop()
                try:
                    yield
                finally:
                    recorder.start()
                    recorder.is_driving = was_driving
                    if were_lines:
                        lines.start(recorder.thread, times._training._forward_code)
            took = perf_counter() - began
            times._windows._next += took
            self._bare_seconds += took

    @property
    def cpu_seconds(self) -> float:
        """CPU time of the probe's threads so far, without the stack sampler and the connection."""
        found = 0.0
        for one in (self._thread, self._sampling):
            assert one.ident is not None
            found += time.clock_gettime(time.pthread_getcpuclockid(one.ident))
        return found

    @property
    def is_recorded(self) -> bool:
        """Whether the present step is."""
        assert self._times is not None
        return self._times._step_recorder.is_recorded

    @contextmanager
    def on(self) -> Iterator[None]:
        """Leave it on."""
        yield

    def close(self) -> None:
        """Take it off for good."""
        self._is_over.set()
        self._thread.join()
        self._sampling.join()
        self._link.close()
        self._viewer.wait()


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


def compared(trained: Trained, ways: tuple[Way, ...], steps: int, rows: int) -> list[Row]:
    """Run batches in each of the ways, bare first, every order of them as often as another."""
    found = []
    for order in islice(cycle(permutations(range(len(ways)))), rows):
        spent = {one: run(trained, ways[one], steps) for one in order}
        found.append(tuple(spent[one] for one in range(len(ways))))
    return found


def told(name: str, rows: list[Row], way: int = 1) -> float:
    """Print what one of the ways adds; returns the upper end of its interval, CPU or wall."""
    pairs = [(row[0], row[way]) for row in rows]
    highest, cells = 0.0, []
    for kind in Batch._fields:
        ratios = [getattr(two, kind) / getattr(one, kind) for one, two in pairs]
        low, high = interval_of_median(ratios) or (float("nan"), float("inf"))
        sums = sum(getattr(two, kind) for _, two in pairs) / sum(
            getattr(one, kind) for one, _ in pairs
        )
        if kind != "median":
            highest = max(highest, high - 1)
        cells.append(
            f"{kind} {median(ratios) - 1:+7.2%} [{low - 1:+.2%}, {high - 1:+.2%}] "
            f"of sums {sums - 1:+.2%}"
        )
    print(f"  {name:11}" + "  ".join(cells), flush=True)
    return highest


def accounted(trained: Trained, one: Watched, steps: int) -> str:
    """Return in words what steps take more that are recorded, or that the threads run beside."""
    seconds: dict[str, list[float]] = {"plain": [], "recorded": [], "beside the threads": []}
    for _ in range(steps):
        is_recorded, cpu, began = one.is_recorded, one.cpu_seconds, perf_counter()
        trained.step()
        ended = perf_counter()
        is_beside = one.cpu_seconds - cpu > THREAD_SECONDS
        kind = "recorded" if is_recorded else "beside the threads" if is_beside else "plain"
        seconds[kind].append(ended - began)
    plain = mean(seconds.pop("plain"))
    total, told = 0.0, []
    for kind, found in seconds.items():
        if found:
            longer = mean(found) / plain - 1
            total += longer * len(found) / steps
            told.append(f"{len(found) / steps:.1%} of steps {kind}, {longer:+.1%} each")
    return f"{total:+.2%} of {steps} steps: {'; '.join(told)}"


def watched(
    trained: Trained, nodes: tuple[Node, ...], steps: int, pairs: int, budget: float
) -> bool:
    """Print what the product costs, and tell whether that is within its budget."""
    one = Watched(trained, nodes)
    settled = perf_counter() + SETTLING_SECONDS
    while perf_counter() < settled:
        trained.step()
    found = compared(trained, (one.bare, one.bare, one.on), steps, pairs)
    account = accounted(trained, one, 2 * pairs * steps)
    one.close()
    told("nothing", found)
    highest = told("watched", found, 2)
    said = f", the product says {one.overhead.ratio:.2%}" if one.overhead is not None else ""
    recorded = f"{one.recorded} of {one.steps} watched steps recorded"
    print(f"    {recorded}{said}; upper end {highest:.2%}, budget {budget:.0%}")
    print(f"  one run    {account}", flush=True)
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

        found = compared(trained, (plain, on), steps, pairs)
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
    fewer = max(pairs // FEWER, min(pairs, LEAST_PAIRS))
    every_step(trained, nodes, steps, fewer)
    for way, on in (("hooks", lambda: hooks(trained)), ("profiler", profiler)):
        try:
            told(way, compared(trained, (plain, on), steps, fewer))
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
