"""Lines of ``other``: shares by samples of the stack, beside what the program itself measured.

``python -m benchmarks.training.line_truth [--seconds 20] [MIXTURE...]``

Each mixture is a training loop that spends its time outside of all parts in lines of known length:
a loop of Python, a sleep, operators, and waiting for a lock that another thread holds. The program
times each line itself, so that other load on the machine is in both figures. Both are shares of
what the four kinds of lines take together.
"""

from __future__ import annotations

import argparse
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, sleep

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tui_profiler.messages.training import SourceLine, TrainingStep
from tui_profiler.probe.measure.clock.clock import ModuleClock
from tui_profiler.probe.measure.step.recorder import StepRecorder
from tui_profiler.probe.measure.step.steps import TrainingSteps
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.torch_compat.modules import has_parameters
from tui_profiler.probe.trace.trace import trace

MS = 1e-3
PARTS = ("python", "sleep", "operator", "lock")
MIXTURES: dict[str, tuple[float, float, float, float]] = {
    "python 3, sleep 3": (3, 3, 0, 0),
    "python 10, sleep 10": (10, 10, 0, 0),
    "python 2, operator 8": (2, 0, 8, 0),
    "python 20, lock 5": (20, 0, 0, 5),
    "all 4": (4, 4, 4, 4),
    "all 12": (12, 12, 12, 12),
    "python 1, sleep 6, operator 2, lock 3": (1, 6, 2, 3),
}
"""Milliseconds of each part, on an idle machine."""
MARKS = (("_count(int",), ("sleep(wants",), ("self._multiply(int",), ("_wanted.set()", "_lock.acq"))
"""What stands in the lines of each part."""
MOST_OFF = 0.1


class Program:
    """A training loop, and what it measured of its own lines.

    Args:
        milliseconds: of each of ``PARTS``.
    """

    def __init__(self, milliseconds: tuple[float, float, float, float]) -> None:
        self.net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64))
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=1e-3)
        self.seconds: Counter[str] = Counter()
        self._wants = dict(zip(PARTS, milliseconds, strict=True))
        self._matrix, self._lock = torch.randn(256, 256), threading.Lock()
        self._rounds = {
            "python": self._rounds_of(_count, 2_000),
            "operator": self._rounds_of(self._multiply, 4),
        }
        self._lock.acquire()
        self._wanted, self._is_over = threading.Event(), False
        self._holder = threading.Thread(target=self._release, daemon=True)
        self._holder.start()

    def _rounds_of(self, run: Callable[[int], None], rounds: int) -> float:
        """Return how often a part is repeated in a millisecond."""
        run(rounds)
        least = min(_timed(run, rounds) for _ in range(20))
        return rounds / least * MS

    def _multiply(self, rounds: int) -> None:
        for _ in range(rounds):
            torch.mm(self._matrix, self._matrix)

    def _release(self) -> None:
        """Release the lock, some time after each step wants it; the next one takes it again."""
        while self._wanted.wait() and not self._is_over:
            self._wanted.clear()
            sleep(self._wants["lock"] * MS)
            self._lock.release()

    def close(self) -> None:
        """End the thread that releases the lock."""
        self._is_over = True
        self._wanted.set()
        self._holder.join()

    def step(self) -> None:
        """Train one step; each part is one line of this function, between two readings."""
        wants, rounds = self._wants, self._rounds
        loss = self.net(torch.ones(4, 64)).square().mean()
        loss.backward()
        self.optimizer.step()
        began = perf_counter()
        _count(int(rounds["python"] * wants["python"]))
        at = {"python": perf_counter()}
        sleep(wants["sleep"] * MS)
        at["sleep"] = perf_counter()
        self._multiply(int(rounds["operator"] * wants["operator"]))
        at["operator"] = perf_counter()
        self._wanted.set()
        self._lock.acquire()
        at["lock"] = perf_counter()
        for name, ended in at.items():
            self.seconds[name] += ended - began
            began = ended


def _count(rounds: int) -> None:
    total = 0
    for number in range(rounds):
        total += number & 7


def _timed(run: Callable[[int], None], rounds: int) -> float:
    began = perf_counter()
    run(rounds)
    return perf_counter() - began


def part_of(line: SourceLine) -> str:
    """Return which part a line is of; empty where it is of none, or of several."""
    if line.function == "_count":
        return "python"
    if line.function == "Program._multiply":
        return "operator"
    text = Path(line.file).read_text(encoding="utf-8").splitlines()
    inside = text[(line.first_line or line.line) - 1 : line.line]
    found = [
        name
        for name, marks in zip(PARTS, MARKS, strict=True)
        if any(mark in one for one in inside for mark in marks)
    ]
    return found[0] if len(found) == 1 else ""


def shares(step: TrainingStep) -> dict[str, float]:
    """Return the share of each part of what all of them take, by samples."""
    found = dict.fromkeys((*PARTS, ""), 0.0)
    for line in step.lines:
        found[part_of(line)] += line.share
    whole = sum(found[part] for part in PARTS)
    return {name: share / whole for name, share in found.items()}


def measure(program: Program, seconds: float) -> TrainingStep:
    """Train, and return what is reported of the steps; all of them are recorded."""
    inputs = (Inputs((torch.ones(4, 64),), {}, (), None),)
    tree = trace(program.net, inputs).nodes
    clock = ModuleClock(program.net, traced=None, strangers=has_parameters)
    clock.recording = False
    clock.install()
    steps = TrainingSteps(tree, program.net, clock, StepRecorder(clock, lambda: True), budget=0.2)
    steps.start()
    found: TrainingStep | None = None
    end, take_at = perf_counter() + seconds, 0.0
    try:
        while (now := perf_counter()) < end:
            program.step()
            if now >= take_at:
                steps.take(clock.take(), (), perf_counter())
                for message in steps.messages(1.0):
                    found = message if isinstance(message, TrainingStep) else found
                take_at = now + 0.5
    finally:
        steps.close()
        clock.uninstall()
    assert found is not None
    return found


def main() -> int:
    """Print each mixture: the truth, what samples say, and what is reported of lines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mixtures", nargs="*", metavar="MIXTURE", default=[*MIXTURES])
    parser.add_argument("--seconds", type=float, default=20.0, help="of each mixture")
    parser.add_argument("--verbose", action="store_true", help="also print every line")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    worst = 0.0
    for name in asked.mixtures:
        program = Program(MIXTURES[name])
        step = measure(program, asked.seconds)
        program.close()
        whole, ours = sum(program.seconds.values()), shares(step)
        print(f"{name}: {step.samples} samples in other")
        for part in PARTS:
            if not program.seconds[part] / whole > 0.005:
                continue
            truth = program.seconds[part] / whole
            worst = max(worst, abs(ours[part] - truth))
            print(f"  {part:10}{truth:7.1%} true   {ours[part]:7.1%} by samples")
        print(f"  {'elsewhere':10}{'':12}   {ours['']:7.1%}   no sample {step.lines_unsampled:.1%}")
        if asked.verbose:
            for line in step.lines:
                first = f"{line.first_line}-" if line.first_line else ""
                print(f"    {line.share:7.1%} {line.function}:{first}{line.line} {line.text}")
    print(f"largest difference {worst:.1%}; {'at most' if worst <= MOST_OFF else 'over'} 10 %")
    return 0 if worst <= MOST_OFF else 1


if __name__ == "__main__":
    sys.exit(main())
