"""Marks on autograd's graph: what they keep alive, what they ask, and what happens to errors."""

from __future__ import annotations

import gc
import signal
import sys
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

import pytest
import torch
import torch._dynamo.compiled_autograd
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from benchmarks.training.recorded_steps import RecordedSteps, seconds
from tests.probe.measure.clock.module_nodes import module_nodes
from tui_profiler.probe.measure.clock.graph_marks import MOST_IDLE, MOST_TENSORS, GraphMarks, Place
from tui_profiler.probe.torch_compat.internals import sequence_number
from tui_profiler.probe.torch_compat.kineto import Window


class Payload:
    """Lives as long as the node that it is kept in."""


class Keeps(torch.autograd.Function):
    made: ClassVar[list[weakref.ref[Payload]]] = []

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.payload = Payload()
        Keeps.made.append(weakref.ref(ctx.payload))
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient


class Keeping(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.relu = nn.Linear(4, 4), nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = Keeps.apply(self.relu(Keeps.apply(self.inner(x))))
        return found


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(64, 256), nn.Linear(256, 64)

    def forward(self, x: Tensor) -> Tensor:
        gate = torch.sigmoid(x)
        found: Tensor = gate * self.second(torch.relu(self.first(x)))
        return found


def test_nothing_of_a_step_is_kept_alive() -> None:
    model = Keeping()
    Keeps.made.clear()
    with RecordedSteps(model, module_nodes(model)) as steps:
        out = model(torch.randn(2, 4))
        gone = weakref.ref(out)
        out.sum().backward()
        del out
        assert gone() is None
        assert [one() for one in Keeps.made] == [None, None], "before anything is taken"
        steps.take()
        last = weakref.ref(model)
        del model
        gc.collect()
        assert last() is None


def test_a_graph_that_is_dropped_takes_its_marks_along() -> None:
    model = Keeping()
    Keeps.made.clear()
    with RecordedSteps(model, module_nodes(model)) as steps:
        model(torch.randn(2, 4))
        assert [one() for one in Keeps.made] == [None, None]
        assert seconds(steps.take(), "backward", 0) == (0, 0)


def allocations_of_a_step(model: nn.Module, x: Tensor) -> list[int]:
    """Every size that a step allocates, and frees, in order."""
    model.zero_grad()
    window = Window(with_memory=True)
    with window:
        model(x).square().sum().backward()
    assert window.allocations is not None
    return [one.size_bytes for one in window.allocations]


def test_a_step_allocates_the_same_in_the_same_order() -> None:
    model, x = Net(), torch.randn(8, 64)
    allocations_of_a_step(model, x)
    alone = allocations_of_a_step(model, x)
    with RecordedSteps(model, module_nodes(model)) as steps:
        watched = [allocations_of_a_step(model, x) for _ in range(3)]
        assert seconds(steps.take(), "backward", 0)[0] > 0
    assert watched == [alone] * 3
    assert max(alone) > 0


class _Fields(type):
    def __getattr__(cls, name: str) -> NoReturn:
        raise ValueError("of the program's class")


class Hostile(metaclass=_Fields):
    """What asks its class for anything meets an error."""


class Sly(tuple[Any, ...]):
    def __iter__(self) -> NoReturn:
        raise AssertionError("it was asked")

    __len__ = __getitem__ = __iter__  # type: ignore[assignment]  # all of them


class Guarded(dict[str, Any]):
    def values(self) -> NoReturn:
        raise AssertionError("it was asked")

    __iter__ = items = __getitem__ = values  # type: ignore[assignment]  # all of them


@dataclass
class Lazy:
    hidden: Tensor

    def __getattribute__(self, name: str) -> object:
        raise AssertionError("it was asked")


@pytest.mark.parametrize("wrap", [lambda x: Sly((x,)), lambda x: Guarded(x=x), Lazy, lambda x: [x]])
def test_collections_are_looked_into_without_asking_them(wrap: Callable[[Tensor], object]) -> None:
    class Wraps(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.kept = nn.Linear(4, 4), nn.Identity()

        def forward(self, x: Tensor) -> object:
            self.last = self.inner(x).tanh()
            return self.kept(wrap(self.last))

    model = Wraps()
    nodes = module_nodes(model)
    with RecordedSteps(model, nodes) as steps:
        model(torch.randn(2, 4))
        model.last.sum().backward()
        whole, own = seconds(steps.take(), "backward", 0)
        assert steps.trouble == ""
    # The node of tanh is the model's own: it is known only from what is in the collection.
    assert 0 < own < whole


def test_an_error_of_ours_stays_with_us() -> None:
    class Makes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(4, 4)

        def forward(self, x: Tensor, hostile: object) -> tuple[Tensor, object]:
            return self.inner(x), hostile

    model = Makes()
    with RecordedSteps(model, module_nodes(model)) as steps:
        out, _ = model(torch.randn(2, 4), Hostile())
        out.sum().backward()
        steps.take()
        assert steps.trouble == "ValueError: of the program's class"
    assert model.inner.weight.grad is not None


def test_a_signal_handler_that_raises_in_the_backward_is_the_programs() -> None:
    model = Net()

    def interrupt(*_: object) -> NoReturn:
        raise TimeoutError("of the program")

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with RecordedSteps(model, module_nodes(model)) as steps:
            for _ in range(3):
                out = model(torch.randn(8, 64))
                out.register_hook(lambda gradient: signal.raise_signal(signal.SIGUSR1))
                with pytest.raises(TimeoutError, match="of the program"):
                    out.sum().backward()
                model(torch.randn(8, 64)).sum().backward()
                assert seconds(steps.take(), "backward", 0)[0] > 0
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_steps_that_are_not_recorded_have_no_marks() -> None:
    model = Net()
    with RecordedSteps(model, module_nodes(model)) as steps:
        steps.clock.record_step(is_recorded=False)
        model(torch.randn(8, 64)).sum().backward()
        assert seconds(steps.take(), "backward", 0) == (0, 0)
        steps.clock.record_step(is_recorded=True)
        with torch.no_grad():
            model(torch.randn(8, 64))
        times = steps.take()
        assert seconds(times, "forward", 0)[0] > 0
        assert seconds(times, "backward", 0) == (0, 0)


def test_whatever_a_call_is_given_is_marked() -> None:
    x = torch.ones(2, requires_grad=True)
    made = [x * factor for factor in range(6)]
    marks = GraphMarks()
    events = marks.new_events()
    assert events is not None
    first = sequence_number()
    marks.enter(events, first, (made[0], made[1]), {})
    marks.enter(events, first, (made[2], made[3]), {})
    marks.enter(events, first, (made[4],), {})
    marks.leave(events, first, made[5])
    marks.enter(events, first, (made[5],), {})
    marks.leave(events, first, None)
    assert marks.trouble == ""
    assert [one.grad_fn._sequence_nr() in events.seen for one in made if one.grad_fn] == [True] * 6


def test_without_the_gil_ended_threads_are_forgotten_without_reading_frames(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    marks = GraphMarks()
    places: dict[int, weakref.ref[Place]] = {}
    are_all_here, may_end = threading.Barrier(MOST_IDLE + 2), threading.Event()

    def run(number: int) -> None:
        events = marks.new_events()
        assert events is not None
        places[number] = weakref.ref(events.place)
        del events
        are_all_here.wait()
        if number == 0:
            may_end.wait()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(MOST_IDLE + 1)]
    for thread in threads:
        thread.start()
    are_all_here.wait()
    for thread in threads[1:]:
        thread.join()

    def crash() -> NoReturn:
        raise AssertionError("frames of running threads were read")

    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    monkeypatch.setattr(sys, "_current_frames", crash)
    try:
        marks.take()
        gc.collect()
        assert [number for number, place in places.items() if place() is not None] == [0]
    finally:
        may_end.set()
        threads[0].join()


@pytest.mark.parametrize("is_reentrant", [False, True])
def test_a_compiled_pass_from_a_leaf_too_is_searched_and_the_search_is_timed(
    is_reentrant: bool,
) -> None:
    model, leaf = Net(), torch.ones(64, requires_grad=True)
    x = torch.randn(8, 64, requires_grad=True)
    with RecordedSteps(model, module_nodes(model)) as steps:
        out = checkpoint(model, x, use_reentrant=True) if is_reentrant else model(x)
        roots = [out.sum(), *[leaf.sum() for _ in range(2 * MOST_TENSORS)], leaf]
        given = [torch.ones_like(root) for root in roots]
        with torch._dynamo.compiled_autograd._enable(lambda graph: graph):
            torch.autograd.backward(roots, given)
        steps.collect()
        (one,) = steps._passes
        assert one.is_compiled
        assert one.is_all_seen != is_reentrant
        assert 0 < steps.clock.search_seconds < 1
