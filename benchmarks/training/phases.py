"""Parts of a training step against what a loop spends in them by its own timers.

    python -m benchmarks.training.phases [--steps N] [--milliseconds N]

Twelve loops: in each, one part of the step (loader, forward, backward, clipping, optimizer, or what
is left) sleeps or spins for a known time more than the others. What it really took, on a busy
machine too, the loop reads from the clock itself, with nothing of ours in between: in ``forward()``
and in ``step()`` of the optimizer, around loader, backward and clipping; the rest of the step is
*other*, and has what recording the step took, which is printed as *ours*. Beside it stands by how
much what we tell of the same steps, all of them recorded, differs. The exit code is 1 where a part
of at least two milliseconds differs by more than 5 %.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_
from torch.utils.data import DataLoader, Dataset

from tui_profiler.messages.training import TrainingStep
from tui_profiler.probe.measure.clock.clock import ModuleClock
from tui_profiler.probe.measure.step.recorder import StepRecorder
from tui_profiler.probe.measure.step.steps import TrainingSteps
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.trace.trace import trace

WIDTH = 64
LAYERS = 8
PARTS = ("data", "forward", "backward", "clip", "optimizer", "other")
LEAST_SECONDS = 2e-3
TOLERANCE = 0.05
TRIES = 10


def spin(seconds: float) -> None:
    """Keep a core busy."""
    end = perf_counter() + seconds
    while perf_counter() < end:
        pass


class _Backward(torch.autograd.Function):
    @staticmethod
    def forward(context, x, wait):  # type: ignore[no-untyped-def]
        context.wait = wait
        return x.clone()

    @staticmethod
    def backward(context, gradient):  # type: ignore[no-untyped-def]
        context.wait()
        return gradient, None


class Loop:
    """A training loop that waits in one part, and times all of them."""

    def __init__(self, part: str, wait: Callable[[], None]) -> None:
        self.true: Counter[str] = Counter()
        self.around: Counter[str] = Counter()
        """Forward and optimizer, with what we do before and after."""
        self.waits = {name: wait if name == part else _nothing for name in PARTS}
        self.net = _Net(self)
        self.optimizer = _Sgd(self.net.parameters(), lr=1e-3)
        self.optimizer.loop = self
        self.data = iter(DataLoader(_Data(self.waits["data"]), batch_size=1))

    @contextmanager
    def on(self, part: str, *, is_around: bool = False) -> Iterator[None]:
        """Time a part, or what we are in as well."""
        began = perf_counter()
        yield
        times = self.around if is_around else self.true
        times[part] += perf_counter() - began

    @property
    def ours(self) -> float:
        """Seconds in which we were entered and left, around forward and optimizer."""
        return sum(seconds - self.true[part] for part, seconds in self.around.items())

    def forget(self) -> None:
        """Begin anew."""
        self.true.clear()
        self.around.clear()

    def step(self) -> None:
        """Run one step."""
        began = perf_counter()
        before = sum(self.true.values()) - self.true["other"]
        with self.on("data"):
            x = next(self.data)
        with self.on("forward", is_around=True):
            y = self.net(x)
        loss = y.square().mean()
        self.optimizer.zero_grad()
        with self.on("backward"):
            loss.backward()
        with self.on("clip"):
            clip_grad_norm_(self._parameters(), 1.0)
        self.waits["other"]()
        with self.on("optimizer", is_around=True):
            self.optimizer.step()
        parts = sum(self.true.values()) - self.true["other"] - before
        self.true["other"] += perf_counter() - began - parts

    def _parameters(self) -> Iterator[Tensor]:
        self.waits["clip"]()  # Inside of the clipping, which asks for them.
        yield from self.net.parameters()


class _Net(nn.Module):
    def __init__(self, loop: Loop) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)))
        self.loop = loop

    def forward(self, x: Tensor) -> Tensor:
        """Return (batch, features) of (batch, features)."""
        with self.loop.on("forward"):
            self.loop.waits["forward"]()
            return _Backward.apply(self.layers(x), self.loop.waits["backward"])  # type: ignore[no-any-return, no-untyped-call]


class _Data(Dataset[Tensor]):
    def __init__(self, wait: Callable[[], None]) -> None:
        self.wait = wait

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, item: int) -> Tensor:
        self.wait()
        return torch.ones(WIDTH)


class _Sgd(torch.optim.SGD):
    loop: Loop

    def step(self, closure=None):  # type: ignore[no-untyped-def]
        with self.loop.on("optimizer"):
            self.loop.waits["optimizer"]()
            return super().step(closure)


def _nothing() -> None:
    return None


def told(loop: Loop, steps: int) -> TrainingStep:
    """Return what is told of steps of a loop, all of them in the means."""
    net = loop.net
    nodes = trace(net, (Inputs((torch.ones(1, WIDTH),), {}, (), 1),)).nodes
    clock = ModuleClock(net)
    clock.recording = False
    clock.install()
    found = TrainingSteps(nodes, net, clock, StepRecorder(clock, lambda: True), 0.02)
    found.start()
    try:
        for _ in range(4):
            loop.step()
            found.take(clock.take(), (), perf_counter())
        for _ in range(TRIES):
            found.forget_means()
            loop.forget()
            for _ in range(steps):
                loop.step()
            found.take(clock.take(), (), perf_counter())
            message = next(one for one in found.messages(0.0) if isinstance(one, TrainingStep))
            if message.recorded == steps:
                return message
        return message
    finally:
        found.close()
        clock.uninstall()


def main() -> int:
    """Run every loop and print what differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--milliseconds", type=float, default=8.0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    seconds = options.milliseconds / 1e3
    worst = 0.0
    print(
        f"{'waits in':<10} {'by':<6}" + "".join(f"{name:>22}" for name in PARTS) + f"{'ours':>10}"
    )
    for part in PARTS:
        for how, take in (("sleep", time.sleep), ("spin", spin)):
            loop = Loop(part, lambda take=take: take(seconds))  # type: ignore[misc]
            found = told(loop, options.steps)
            cells = []
            for name in PARTS:
                true = loop.true[name] / options.steps
                share = getattr(found.parts, name) / true - 1
                is_long = true >= LEAST_SECONDS
                worst = max(worst, abs(share) if is_long else 0.0)
                shown = f"{share:+.1%}" if is_long else ""
                cells.append(f"{true * 1e3:>13.2f} ms {shown:>6}")
            kept = (
                "" if found.recorded == options.steps else f"  {found.recorded} of {options.steps}"
            )
            ours = f"{loop.ours / options.steps * 1e3:>7.2f} ms"
            print(f"{part:<10} {how:<6}" + "".join(cells) + ours + kept)
    print(f"largest difference of a part of {LEAST_SECONDS * 1e3:.0f} ms and more: {worst:.1%}")
    return int(worst > TOLERANCE)


if __name__ == "__main__":
    sys.exit(main())
