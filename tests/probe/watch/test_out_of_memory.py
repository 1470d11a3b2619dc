"""What viewers are told of a program whose memory runs out: of a GPU, by a fake of its observer."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from time import perf_counter
from types import TracebackType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.probe.measure.clock.module_nodes import module_nodes
from tui_profiler.messages import Figure, OutOfMemory, Unknown
from tui_profiler.probe.measure.clock.clock import ModuleClock
from tui_profiler.probe.measure.step.recorder import StepRecorder
from tui_profiler.probe.measure.step.steps import TrainingSteps
from tui_profiler.probe.trace.out_of_memory import Frame
from tui_profiler.probe.watch import out_of_memory
from tui_profiler.probe.watch.out_of_memory import MemoryErrors

Observer = Callable[[int, int, int, int], None]
GIB = 1 << 30


class Gpu:
    """What ``torch._C._cuda_attach_out_of_memory_observer`` is for."""

    def __init__(self) -> None:
        self.observers: list[Observer] = []

    def attach(self, observer: Observer) -> bool:
        self.observers.append(observer)
        return True

    def run_out(self) -> None:
        """Raise as the allocator does, after its observers were told."""
        for one in self.observers:
            one(0, 2 * GIB, 80 * GIB, GIB)
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")


class Viewer:
    """Keeps what it is told, as it was when it was told."""

    def __init__(self, root: nn.Module | None = None) -> None:
        self.root = root
        self.raised: list[out_of_memory.Raised] = []

    def memory_ran_out(
        self, frames: Sequence[Frame], device: str, wanted: Figure, *, is_uncaught: bool
    ) -> None:
        self.raised.append(
            out_of_memory.read_state(
                frames,
                self.root,
                set(),
                device=device,
                wanted=wanted,
                is_uncaught=is_uncaught,
            )
        )

    def told(self, in_backward: nn.Module | str = "no") -> OutOfMemory:
        return out_of_memory.message(
            self.raised[-1], at=1.0, steps=3, in_backward=in_backward, root=self.root
        )


class _RunOut(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: Tensor, run_out: Callable[[], None]) -> Tensor:
        context.run_out = run_out
        return x.clone()

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]  # two
        context.run_out()
        return gradient, None


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8, bias=False)
        self.forwards: Callable[[], None] | None = None
        self.backwards: Callable[[], None] = lambda: None

    def forward(self, x: Tensor) -> Tensor:
        if self.forwards is not None:
            self.forwards()
        return _RunOut.apply(self.linear(x), self.backwards).relu()  # type: ignore[no-any-return, no-untyped-call]  # torch


def net() -> nn.Sequential:
    return nn.Sequential(Block(), Block(), Block())


@pytest.fixture
def hook() -> Iterator[list[type[BaseException]]]:
    """A program's own ``sys.excepthook``; returns what came to it."""
    found: list[type[BaseException]] = []
    before = sys.excepthook
    sys.excepthook = lambda kind, error, trace: found.append(kind)
    yield found
    sys.excepthook = before


def test_a_gpu_tells_before_its_error_goes_on() -> None:
    gpu, model = Gpu(), net()
    viewer = Viewer(model)
    errors = MemoryErrors(gpu.attach)
    errors.listen(viewer, hooks=False)
    errors.attach()
    model[1].forwards = gpu.run_out
    with pytest.raises(torch.OutOfMemoryError):
        model(torch.ones(2, 8))
    found = viewer.told()
    assert (found.device, found.wanted, found.part, found.node) == (
        "cuda:0",
        2 * GIB,
        "forward",
        "1",
    )
    assert found.parameters == 3 * 8 * 8 * 4
    assert found.line.startswith(__file__)
    assert not found.is_uncaught, "the program may catch it"
    assert found.steps == 3
    errors.leave(viewer)
    with pytest.raises(torch.OutOfMemoryError):
        model(torch.ones(2, 8))
    assert len(viewer.raised) == 1, "nobody listens"


def test_on_a_thread_of_the_engine_it_is_the_backward() -> None:
    gpu, model = Gpu(), net()
    viewer = Viewer(model)
    errors = MemoryErrors(gpu.attach)
    errors.listen(viewer, hooks=False)
    errors.attach()
    model[2].backwards = gpu.run_out
    loss = model(torch.ones(2, 8)).sum()
    with pytest.raises(torch.OutOfMemoryError):
        loss.backward()
    assert viewer.told().part == "backward"
    assert viewer.told(in_backward=model[2]).node == "2"
    assert viewer.told(in_backward=nn.Linear(1, 1)).why_no_node == "it is not in the model"
    unknown = viewer.told(in_backward="this step was not recorded")
    assert (unknown.node, unknown.why_no_node) == (None, "this step was not recorded")


def test_an_error_of_ours_never_takes_the_place_of_the_programs() -> None:
    class Failing(Viewer):
        def memory_ran_out(self, *given: object, **named: object) -> None:  # type: ignore[override]  # any
            raise ZeroDivisionError

    gpu, model = Gpu(), net()
    errors = MemoryErrors(gpu.attach)
    errors.listen(Failing(), hooks=False)
    errors.attach()
    model[0].forwards = gpu.run_out
    with pytest.raises(torch.OutOfMemoryError) as caught:
        model(torch.ones(2, 8))
    errors.raised(caught.value)


def test_what_nothing_catches_is_told_once_and_goes_on(hook: list[type[BaseException]]) -> None:
    own, model = sys.excepthook, net()
    viewer, errors = Viewer(model), MemoryErrors(Gpu().attach)
    errors.listen(viewer, hooks=True)
    assert sys.excepthook is not own
    model[2].backwards = lambda: torch.empty(1 << 58)
    loss = model(torch.ones(2, 8)).sum()
    with pytest.raises(RuntimeError) as caught:
        loss.backward()
    sys.excepthook(RuntimeError, caught.value, caught.value.__traceback__)
    sys.excepthook(RuntimeError, caught.value, caught.value.__traceback__)
    sys.excepthook(ValueError, ValueError("another"), None)
    assert hook == [RuntimeError, RuntimeError, ValueError]
    assert len(viewer.raised) == 1
    found = viewer.told()
    assert (found.device, found.part, found.is_uncaught) == ("cpu", "backward", True)
    assert found.wanted == 4.0 * (1 << 58)
    assert found.gradients == 0.0, "the backward had come to no weight"
    assert isinstance(found.allocated, Unknown)
    errors.leave(viewer)
    assert sys.excepthook is own


def test_a_hook_that_came_later_stays(hook: list[type[BaseException]]) -> None:
    viewer, errors = Viewer(), MemoryErrors(Gpu().attach)
    errors.listen(viewer, hooks=True)
    ours = sys.excepthook

    def later(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        ours(kind, error, trace)

    sys.excepthook = later
    errors.leave(viewer)
    assert sys.excepthook is later
    sys.excepthook(MemoryError, MemoryError(), None)
    assert hook == [MemoryError]
    assert not viewer.raised
    errors.listen(viewer, hooks=True)
    assert sys.excepthook is later, "it leads to ours"
    sys.excepthook(MemoryError, MemoryError(), None)
    assert len(viewer.raised) == 1
    assert isinstance(viewer.told().parameters, Unknown), "there was no model"


class Training:
    """Steps of a model, all of them recorded."""

    def __init__(self, model: nn.Module) -> None:
        self._clock = ModuleClock(model)
        self._clock.install()
        recorder = StepRecorder(self._clock, lambda: True)
        self.steps = TrainingSteps(module_nodes(model), model, self._clock, recorder, 1.0)
        self.steps.start()

    def take(self) -> None:
        self.steps.take(self._clock.take(), (), perf_counter())

    def close(self) -> None:
        self.steps.close()
        self._clock.uninstall()


@pytest.mark.parametrize("place", [0, 1, 2])
def test_the_module_that_a_backward_was_in_is_found(place: int) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    training = Training(model)

    def step() -> None:
        model(torch.ones(2, 8)).square().sum().backward()
        optimizer.step()

    def run_out() -> None:
        nonlocal during
        during = perf_counter()
        torch.empty(1 << 58)

    during = 0.0
    try:
        step()
        training.take()
        assert training.steps.module_in_backward(perf_counter(), is_inside=False) == (
            "this step was not recorded"
        )
        for _ in range(3):
            step()
            training.take()
        model[place].backwards = run_out
        with pytest.raises(RuntimeError):
            step()
        after = perf_counter()
        training.take()
        assert training.steps.module_in_backward(after, is_inside=False) is model[place]
        assert training.steps.module_in_backward(during, is_inside=True) is model[place]
    finally:
        training.close()
