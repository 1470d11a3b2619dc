"""Training loops whose parts take known times, and the steps that we tell of them.

Each part is timed from inside, around what it waits for, and by the loop around it. What we tell
has to lie between the two, however busy the machine is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from tui_profiler.messages import SlowStep
from tui_profiler.messages.training import TrainingStep
from tui_profiler.probe.measure.clock.clock import ModuleClock
from tui_profiler.probe.measure.clock.overhead_budget import Governor
from tui_profiler.probe.measure.step.recorder import StepRecorder
from tui_profiler.probe.measure.step.steps import TrainingSteps
from tui_profiler.probe.process.yielding import pause
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.torch_compat.forward_kind import Kind
from tui_profiler.probe.torch_compat.modules import has_parameters
from tui_profiler.probe.trace.trace import trace
from tui_profiler.session.training import StepColumns

WIDTH = 8
TRIES = 40


class Spent:
    """What was spent in each part of a loop."""

    def __init__(self) -> None:
        self.inside: Counter[str] = Counter()
        self.around: Counter[str] = Counter()

    @contextmanager
    def on(self, part: str) -> Iterator[None]:
        """Time a part from outside."""
        began = perf_counter()
        yield
        self.around[part] += perf_counter() - began

    def wait(self, part: str, seconds: float) -> None:
        """Take a time in a part."""
        began = perf_counter()
        pause(seconds)
        self.inside[part] += perf_counter() - began

    def clear(self) -> None:
        """Begin anew."""
        self.inside.clear()
        self.around.clear()


class WaitBackward(torch.autograd.Function):
    """Returns its input, and waits in the backward."""

    @staticmethod
    def forward(context: Any, x: Tensor, wait: Callable[[], None]) -> Tensor:
        context.wait = wait
        return x.clone()

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None]:
        context.wait()
        return gradient, None


class Net(nn.Module):
    """A linear layer that takes its time, forward and backward.

    Args:
        spent: where its time is noted, under ``prefix`` and the name of the part.
        forward: seconds, as the next.
        backward: its time there.
        prefix: tells it from others.
    """

    def __init__(
        self, spent: Spent, forward: float = 0.0, backward: float = 0.0, prefix: str = ""
    ) -> None:
        super().__init__()
        self.spent, self.prefix = spent, prefix
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.times = forward, backward
        self.waits: Callable[[], None] = lambda: None
        """What else its backward does."""

    def forward(self, x: Tensor) -> Tensor:
        """Return (batch, features) of (batch, features)."""
        forward, backward = self.times
        self.spent.wait(f"{self.prefix}forward", forward)

        def wait() -> None:
            self.spent.wait(f"{self.prefix}backward", backward)
            self.waits()

        return WaitBackward.apply(self.linear(x), wait)  # type: ignore[no-any-return, no-untyped-call]


class Data(Dataset[Tensor]):
    """Items that take their time."""

    def __init__(self, spent: Spent, seconds: float = 0.0) -> None:
        self.spent, self.seconds = spent, seconds

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, item: int) -> Tensor:
        self.spent.wait("data", self.seconds)
        return torch.ones(WIDTH)


class Sgd(torch.optim.SGD):
    """An optimizer that takes its time."""

    spent: Spent
    seconds = 0.0

    def step(self, closure: Any = None) -> Any:
        """Step."""
        self.spent.wait("optimizer", self.seconds)
        return super().step(closure)


def optimizer(net: nn.Module, spent: Spent, seconds: float = 0.0) -> Sgd:
    """Return an optimizer of all parameters of ``net``."""
    made = Sgd(net.parameters(), lr=1e-3)
    made.spent, made.seconds = spent, seconds
    return made


def batches(spent: Spent, seconds: float = 0.0) -> Iterator[Tensor]:
    """Yield (2, features)."""
    return iter(DataLoader(Data(spent, seconds / 2), batch_size=2))


class Watched:
    """A model whose steps are told, every one recorded; other models are timed as a whole.

    Args:
        model: that is watched.
        inputs: of its tree.
        records: whether the step that begins is recorded, after the first ones.
        governor: tells how many behind one that is not recorded are not either; None: each is asked
            for.
        kind: of the forward that the tree is of; None: all are as that one.
    """

    def __init__(
        self,
        model: nn.Module,
        *inputs: Tensor,
        records: Callable[[], bool] = lambda: True,
        governor: Governor | None = None,
        kind: Kind | None = None,
    ) -> None:
        self.tree = trace(model, (Inputs(inputs, {}, (), None),)).nodes
        self.clock = ModuleClock(model, traced=kind, strangers=has_parameters)
        self.clock.recording = False
        self.clock.install()
        self.recorder = StepRecorder(self.clock, records, governor)
        self.steps = TrainingSteps(self.tree, model, self.clock, self.recorder, 0.02)
        self.steps.start()
        self.slow: list[SlowStep] = []

    def take(self) -> TrainingStep | None:
        """Return what is told of steps so far, None where there is nothing new."""
        self.steps.take(self.clock.take(), (), perf_counter())
        told = None
        for message in self.steps.messages(1.0):
            if isinstance(message, TrainingStep):
                told = message
            elif isinstance(message, SlowStep):
                self.slow.append(message)
        return told

    def of(self, told: TrainingStep, path: str) -> Any:
        """Return the times of the module at a path."""
        node = next(place for place, one in enumerate(self.tree) if one.path == path)
        return StepColumns(told).of(node)

    def close(self) -> None:
        """Put everything back."""
        self.steps.close()
        self.clock.uninstall()


@contextmanager
def watched(
    model: nn.Module, *inputs: Tensor, governor: Governor | None = None
) -> Iterator[Watched]:
    """Watch a model."""
    given = inputs or (torch.ones(2, WIDTH),)
    if governor is None:
        found = Watched(model, *given)
    else:
        found = Watched(model, *given, records=governor.records_next, governor=governor)
    try:
        yield found
    finally:
        found.close()


def run(
    watching: Watched,
    spent: Spent,
    step: Callable[[], None],
    steps: int = 16,
    batches: int | None = None,
) -> TrainingStep:
    """Run a loop, and return what is told where all of its steps are in the means.

    ``spent`` is of the same steps then. A step that the machine made an outlier is in none: another
    try is made.
    """
    for _ in range(4):  # What ends a step is known after the first ones.
        step()
        watching.take()
    for _ in range(TRIES):
        watching.steps.forget_means()
        spent.clear()
        for _ in range(batches or steps):
            step()
        told = watching.take()
        assert told is not None
        if told.recorded == steps:
            return told
    raise AssertionError(f"of {steps} steps {told.recorded} were told in every try")
