"""Which forward a tree is made of, where a module's forward is a whole loop around a model."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, ItemsView, Iterator
from time import perf_counter

import pytest
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from tui_profiler.probe.measure.clock.clock import ModuleClock
from tui_profiler.probe.torch_compat import module_call
from tui_profiler.probe.torch_compat.entry_method import EntryMethod
from tui_profiler.probe.torch_compat.forward_kind import Kind
from tui_profiler.probe.trace.record_program_forward import LOOP_CALLS
from tui_profiler.probe.watch.listener import Listener
from tui_profiler.probe.watch.model_choice import ModelChoice
from tui_profiler.probe.watch.next_forward import Search

TORCHS_OWN = nn.Module.__call__


class Trainer(nn.Module):
    """Its forward is a loop around a model, with something else meanwhile."""

    def __init__(self, turns: int, meanwhile: Callable[[], object]) -> None:
        super().__init__()
        self.loss = nn.MSELoss()
        self.net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
        self.turns, self.meanwhile = turns, meanwhile

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(self.turns):
            self.meanwhile()
            x = (x + self.loss(self.net(x), x).detach()) / 2
        return x


def modes() -> int:
    return torch._C._len_torch_dispatch_stack()


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    assert nn.Module.__call__ is TORCHS_OWN
    yield
    assert nn.Module.__call__ is TORCHS_OWN


def search_of(where: ModelChoice | None, loop_seconds: float) -> Search:
    wanted = where.is_model if where is not None else lambda module: isinstance(module, Trainer)
    return Search(wanted, "", lambda: None, where, loop_seconds=loop_seconds)


def test_the_model_inside_of_a_loop_is_heard_in_its_place() -> None:
    heard: list[Listener] = []
    inside: list[str] = []
    search = search_of(ModelChoice(), 0.0)

    def look() -> None:  # As the thread that looks on does now and then.
        if (found := search.heard()) is not None:
            heard.append(found)
            inside.append(search.inside)
        if not search.is_on and not heard:
            search.begin()

    torch.manual_seed(0)
    trainer, x = Trainer(4 * LOOP_CALLS, lambda: None), torch.randn(1, 2)
    output = trainer(x)
    trainer.meanwhile = look
    search.begin()
    assert torch.equal(trainer(x), output)
    (found,) = heard
    assert found.root is not None
    assert found.root() is trainer.net
    assert inside == [", inside of Trainer, whose forward goes on"]
    assert not search.inside  # Of what is run after the training.
    assert nn.Module.__call__ is TORCHS_OWN


def test_a_loop_is_recorded_no_further_and_leaves_nothing() -> None:
    during: list[tuple[int, bool]] = []
    search = search_of(None, 0.0)
    trainer = Trainer(2 * LOOP_CALLS, lambda: during.append((modes(), search.is_recording)))

    search.begin()
    trainer(torch.zeros(1, 2))

    assert during[:LOOP_CALLS] == [(1, True)] * LOOP_CALLS
    assert during[LOOP_CALLS + 1 :] == [(0, False)] * (LOOP_CALLS - 1)
    found = search.heard()
    assert found is not None
    assert found.hearing is None
    assert found.gave_up == (
        f"its forward is still running, and has called net {LOOP_CALLS} times:"
        " that may be the model to watch"
    )
    assert modes() == 0
    assert nn.Module.__call__ is TORCHS_OWN


def test_a_forward_that_calls_a_model_often_and_ends_soon_is_one() -> None:
    search = search_of(ModelChoice(), 60.0)
    trainer = Trainer(2 * LOOP_CALLS, lambda: None)

    search.begin()
    trainer(torch.zeros(1, 2))

    found = search.heard()
    assert found is not None
    assert found.root is not None
    assert found.root() is trainer


def test_a_loop_under_a_mode_of_its_programs_is_recorded_to_its_end() -> None:
    class Counting(Trainer):
        def forward(self, x: Tensor) -> Tensor:
            with FlopCounterMode(display=False):
                return super().forward(x)

    during: list[int] = []
    search = search_of(None, 0.0)

    search.begin()
    Counting(2 * LOOP_CALLS, lambda: during.append(modes()))(torch.zeros(1, 2))

    assert set(during) == {2}
    found = search.heard()
    assert found is not None
    assert found.hearing is not None
    assert modes() == 0


def test_a_model_that_was_recorded_is_freed_with_its_last_name() -> None:
    model = nn.Linear(2, 2)
    search = Search(lambda module: isinstance(module, nn.Linear), "", lambda: None, None)
    gc.disable()
    try:
        search.begin()
        model(torch.zeros(1, 2))
        found = search.heard()
        assert found is not None
        assert found.hearing is not None
        assert found.hearing.trace() is not None
        seen = weakref.ref(model)
        del model, found
        assert seen() is None
    finally:
        gc.enable()


def test_a_forward_is_recorded_from_before_its_modules_are_looked_through() -> None:
    during: list[bool] = []
    search = search_of(None, 60.0)

    class Asking(dict[str, nn.Module | None]):
        def items(self) -> ItemsView[str, nn.Module | None]:
            during.append(search.is_recording)
            return super().items()

    trainer = Trainer(1, lambda: None)
    trainer.__dict__["_modules"] = Asking(trainer._modules)
    search.begin()
    trainer(torch.zeros(1, 2))

    assert set(during) == {True}
    assert not search.is_recording
    search.end()


def test_a_mistake_in_leaving_a_loop_stays_out_of_its_program() -> None:
    def heard() -> None:
        raise RuntimeError("of ours")

    during: list[int] = []
    search = Search(lambda one: isinstance(one, Trainer), "", heard, None, loop_seconds=0.0)
    trainer = Trainer(2 * LOOP_CALLS, lambda: during.append(modes()))
    search.begin()
    trainer(torch.zeros(1, 2))
    search.end()

    assert during[LOOP_CALLS + 1 :] == [0] * (LOOP_CALLS - 1)
    assert not search.is_recording


def test_a_slow_model_that_was_taken_for_a_loop_is_recorded_for_longer_next_time() -> None:
    search, began = search_of(ModelChoice(), 0.5), [0.0]

    def slow() -> None:  # For longer than it is recorded, by the time half of it is done.
        while len(began) == LOOP_CALLS and perf_counter() - began[0] < 0.6:
            pass
        began.append(0.0)

    trainer = Trainer(LOOP_CALLS + 1, slow)
    search.begin()
    began[0] = perf_counter()
    trainer(torch.zeros(1, 2))
    assert search.heard() is None
    search.begin()
    began[:] = [perf_counter()]
    trainer(torch.zeros(1, 2))
    found = search.heard()

    assert found is not None
    assert found.root is not None
    assert found.root() is trainer


class Raising(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.inner(x)
        raise ValueError("not today")


def test_a_model_whose_recorded_forward_raised_is_freed_with_its_last_name() -> None:
    model = Raising()
    search = Search(lambda module: isinstance(module, Raising), "", lambda: None, None)
    gc.disable()
    try:
        search.begin()
        try:
            model(torch.zeros(1, 2))
        except ValueError as error:
            error.__traceback__ = None  # It holds the frames, and what they hold.
        search.end()
        seen = weakref.ref(model)
        del model
        assert seen() is None
    finally:
        gc.enable()


def listener_of(model: nn.Module) -> Listener:
    return Listener(lambda module: module is model, "", lambda: None)


@pytest.mark.parametrize("is_clock", [False, True])
def test_two_that_are_installed_at_once_on_two_threads_are_both_called(is_clock: bool) -> None:
    model, other, x = nn.Linear(2, 2), nn.ReLU(), torch.randn(3, 2)
    first = ModuleClock(model) if is_clock else listener_of(model)
    second = ModuleClock(other)
    thread = threading.Thread(target=first.install)
    with module_call.CHANGING:
        thread.start()
        thread.join(0.2)
        assert thread.is_alive(), "it replaces what is about to be replaced"
        second.install()
    thread.join()
    model(x)
    other(x)
    assert len(second.take()) == 1
    if isinstance(first, ModuleClock):
        assert len(first.take()) == 1
    else:
        assert first.hearing is not None
    first.uninstall()
    second.uninstall()


def test_a_clock_does_not_take_a_place_that_another_was_put_above_meanwhile() -> None:
    model, other, x = nn.Linear(2, 2), nn.ReLU(), torch.randn(3, 2)
    above = ModuleClock(other)

    def makes(of: nn.Module, kind: Kind | None, entry: EntryMethod | None) -> ModuleClock:
        above.install()  # As on another thread.
        return ModuleClock(of)

    listener = Listener(lambda module: module is model, "", lambda: None, makes_clock=makes)
    listener.install()
    model(x)
    other(x)
    assert listener.take_clock() is None
    assert listener.hearing is not None
    assert len(above.take()) == 1
    above.uninstall()


def test_a_call_that_was_taken_before_the_clock_goes_on_to_it() -> None:
    """As ``generate`` of transformers takes it, once for all tokens of a request."""
    model, x = nn.Sequential(nn.Linear(2, 2), nn.ReLU()), torch.randn(3, 2)
    expected = model(x)
    listener = Listener(
        lambda module: module is model,
        "",
        lambda: None,
        makes_clock=lambda of, kind, entry: ModuleClock(of, traced=kind, entry=entry),
    )
    listener.install()
    call = model.__call__
    outputs = [call(x) for _ in range(4)]
    clock = listener.take_clock()
    assert clock is not None
    assert [one.calls for one in clock.take()] == [3, 3, 3]  # The tree was made of the first.
    clock.uninstall()
    outputs.append(call(x))
    assert clock.take() == []
    assert all(torch.equal(one, expected) for one in outputs)
