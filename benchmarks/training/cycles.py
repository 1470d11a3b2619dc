"""Viewers come and go while a model trains: nothing differs, raises, or stays.

    python -m benchmarks.training.cycles [--cycles 1000] [--seed 0]

One thread trains a convolutional network with in-place activations, batch norm, dropout, clipping
and momentum; another begins and ends watching periods, in each of which every step is recorded.
Afterwards the same steps are run unwatched from the same seed: parameters, buffers and gradients
have to be equal to the bit. The exit code is 1 where they are not, or where something of ours is
left in the process.
"""

from __future__ import annotations

import argparse
import random
import sys
import threading
import time
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad, clip_grad_norm_
from torch.optim import optimizer as optimizers
from torch.utils.data import DataLoader, TensorDataset, dataloader

from tui_profiler.probe.measure.clock.clock import ModuleClock
from tui_profiler.probe.measure.step.recorder import StepRecorder
from tui_profiler.probe.measure.step.steps import TrainingSteps
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.trace.trace import trace

WRAPPERS = ("clip_grad_norm_", "_get_total_norm", "_clip_grads_with_norm_")


class Found(NamedTuple):
    """What a run of cycles did."""

    steps: int
    recorded: int
    differing: list[str]
    """Names of what is not equal to the bit."""
    left: list[str]
    """What of ours stayed in the process."""
    raised: list[str]
    seconds: float


class Training:
    """A network that trains on one thread, from one seed."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        block = nn.Sequential(
            nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(inplace=True)
        )
        self.model = nn.Sequential(
            block, nn.Dropout(0.1), block, nn.Flatten(), nn.Linear(4 * 8 * 8, 3)
        )
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3, momentum=0.9)
        data = TensorDataset(torch.rand(64, 4, 8, 8))
        self._data = DataLoader(data, batch_size=4, generator=torch.Generator().manual_seed(1))
        self.steps = 0
        self.raised: list[str] = []
        self.stop = threading.Event()

    def run(self, steps: int | None = None) -> None:
        """Train until told to stop, or for so many steps."""
        torch.manual_seed(2)
        try:
            while steps is None or self.steps < steps:
                for (x,) in self._data:
                    if self.stop.is_set() or self.steps == steps:
                        return
                    self._step(x)
        except BaseException as error:
            self.raised.append(repr(error))

    def _step(self, x: Tensor) -> None:
        self.optimizer.zero_grad()
        self.model(x).square().mean().backward()
        clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.steps += 1

    def state(self) -> dict[str, Tensor]:
        """Return every parameter, buffer and gradient."""
        gradients = {
            f"{name}.grad": one.grad
            for name, one in self.model.named_parameters()
            if one.grad is not None
        }
        return {**self.model.state_dict(), **gradients}


def replaced() -> dict[str, object]:
    """Return what we may replace in a process, by name."""
    return {
        "Module.__call__": nn.Module.__call__,
        "_engine_run_backward": vars(torch.autograd)["_engine_run_backward"],
        "_BaseDataLoaderIter.__next__": vars(dataloader._BaseDataLoaderIter)["__next__"],
        **{name: vars(clip_grad)[name].__closure__[0].cell_contents for name in WRAPPERS},
        "step pre-hooks": dict(optimizers._global_optimizer_pre_hooks),
        "step post-hooks": dict(optimizers._global_optimizer_post_hooks),
    }


def cycles(number: int, seed: int) -> Found:
    """Let viewers come and go so many times while a network trains."""
    chance = random.Random(seed)
    training = Training()
    nodes = trace(training.model, (Inputs((torch.rand(4, 4, 8, 8),), {}, (), 4),)).nodes
    before = replaced()
    thread = threading.Thread(target=training.run)
    recorded = 0
    began = time.perf_counter()
    thread.start()
    try:
        for _ in range(number):
            clock = ModuleClock(training.model)
            clock.recording = chance.random() < 0.5
            steps = TrainingSteps(
                nodes, training.model, clock, StepRecorder(clock, lambda: True), 0.02
            )
            clock.install()
            steps.start()
            for _ in range(chance.randint(1, 4)):
                time.sleep(chance.choice((0.0, 1e-3, 5e-3)))
                steps.take(clock.take(), (), time.perf_counter())
            recorded += steps.take_recorded()[0] // 9  # Calls of modules in a step.
            steps.close()
            clock.uninstall()
    finally:
        training.stop.set()
        thread.join()
    seconds = time.perf_counter() - began
    after = replaced()
    left = [name for name, thing in before.items() if after[name] != thing]
    alone = Training()
    alone.run(training.steps)
    expected = alone.state()
    found = training.state()
    differing = [name for name in expected if not torch.equal(expected[name], found[name])]
    return Found(training.steps, recorded, differing, left, training.raised, seconds)


def main() -> int:
    """Run the cycles and print what they did."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cycles", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    found = cycles(options.cycles, options.seed)
    print(
        f"{options.cycles:,} viewers in {found.seconds:.0f} s: {found.steps:,} steps, "
        f"{found.recorded:,} of them recorded; differing: {found.differing or 'none'}, "
        f"left: {found.left or 'none'}, raised: {found.raised or 'none'}"
    )
    return int(bool(found.differing or found.left or found.raised))


if __name__ == "__main__":
    sys.exit(main())
