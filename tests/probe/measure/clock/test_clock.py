from __future__ import annotations

import gc
import io
import pickle
import struct
import threading
import weakref
from collections.abc import Callable, Iterator
from contextvars import copy_context
from time import perf_counter

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from tui_profiler.probe.measure.clock.call_recorder import Watching
from tui_profiler.probe.measure.clock.clock import Forward, ModuleClock
from tui_profiler.probe.torch_compat import module_call
from tui_profiler.probe.torch_compat.forward_kind import kind_of


class Leaf(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1


class Raises(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise ValueError("as asked")


class Catches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bad = Raises()
        self.good = Leaf()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        try:
            return self.bad(x)
        except ValueError:
            return self.good(x)


class Countdown(nn.Module):
    def forward(self, left: int) -> int:
        return 0 if left == 0 else 1 + self(left - 1)


X = torch.ones(2, 4)


@pytest.fixture(autouse=True)
def _call_is_torchs_afterwards() -> Iterator[None]:
    before = nn.Module.__call__
    yield
    assert nn.Module.__call__ is before


def installed(root: nn.Module, **settings: int) -> ModuleClock:
    clock = ModuleClock(root, **settings)
    clock.install()
    return clock


def modules(forward: Forward) -> list[nn.Module]:
    return forward.modules


def test_each_call_is_an_event_in_the_order_of_the_ends() -> None:
    model = nn.Sequential(Leaf(), nn.Sequential(Leaf()))
    clock = installed(model)
    model(X)
    (forward,) = clock.take()
    clock.uninstall()
    assert modules(forward) == [model[0], model[1][0], model[1], model]


def test_a_call_begins_after_its_caller_and_ends_before_it() -> None:
    model = nn.Sequential(Leaf())
    clock = installed(model)
    model(X)
    (forward,) = clock.take()
    clock.uninstall()
    leaf_start, root_start, leaf_end, root_end = struct.unpack("4d", forward.times)
    assert root_start < leaf_start < leaf_end < root_end


def test_nothing_is_recorded_after_it_is_taken_off() -> None:
    model = nn.Sequential(Leaf())
    clock = installed(model)
    clock.uninstall()
    model(X)
    assert not clock.is_installed
    assert clock.take() == []


def test_forwards_are_given_once() -> None:
    model = Leaf()
    clock = installed(model)
    model(X)
    model(X)
    assert len(clock.take()) == 2
    assert clock.take() == []
    clock.uninstall()


def test_other_models_are_ignored() -> None:
    model, other = nn.Sequential(Leaf()), nn.Sequential(Leaf())
    clock = installed(model)
    other(X)
    model[0](X)
    assert clock.take() == []
    clock.uninstall()


def test_a_call_that_raises_has_ended() -> None:
    model = Catches()
    clock = installed(model)
    model(X)
    (forward,) = clock.take()
    clock.uninstall()
    assert modules(forward) == [model.bad, model.good, model]


def test_a_forward_that_raises_is_closed_and_the_next_is_whole() -> None:
    model = nn.Sequential(Leaf(), Raises())
    clock = installed(model)
    for _ in range(2):
        with pytest.raises(ValueError, match="as asked"):
            model(X)
    first, second = clock.take()
    clock.uninstall()
    assert modules(first) == modules(second) == [model[0], model[1], model]


def test_a_root_that_calls_itself_is_one_forward() -> None:
    model = Countdown()
    clock = installed(model)
    assert model(3) == 3
    (forward,) = clock.take()
    clock.uninstall()
    assert modules(forward) == [model] * 4


def test_recording_stops_by_itself_when_it_has_seen_enough() -> None:
    model = nn.Sequential(nn.Identity())
    clock = ModuleClock(model)
    clock.install()
    try:
        clock.record_for(0.0, one_at_least=True)
        assert clock.waits
        for _ in range(3):
            model(X)
        assert not clock.waits
        first, second = clock.take()  # One alone does not tell what passes between two.
        assert first.since is None
        assert second.since == first.ended

        clock.record_for(60.0)
        for _ in range(3):
            model(X)
        assert len(clock.take()) == 3
        assert clock.waits

        clock.record_for(-1.0)
        model(X)
        assert clock.take() == []

        clock.recording = True
        clock.record_for(1e-9)
        clock.recording = True  # Not the same as before, though something is recorded.
        for _ in range(3):
            model(X)
        assert len(clock.take()) == 3
    finally:
        clock.uninstall()


def test_recording_gates_without_installing_anew() -> None:
    model = Leaf()
    clock = installed(model)
    call = nn.Module.__call__
    clock.recording = False
    model(X)
    clock.recording = True
    model(X)
    assert nn.Module.__call__ is call
    assert len(clock.take()) == 1
    clock.uninstall()


def test_a_forward_after_a_gap_says_so() -> None:
    model = Leaf()
    clock = installed(model)
    model(X)
    model(X)
    clock.recording = False
    clock.recording = True
    model(X)
    assert [forward.since is None for forward in clock.take()] == [True, False, True]
    clock.uninstall()


def test_a_gap_can_be_noted() -> None:
    model = Leaf()
    clock = installed(model)
    model(X)
    clock.note_gap()
    model(X)
    model(X)
    assert [forward.since is None for forward in clock.take()] == [True, True, False]
    clock.uninstall()


def test_what_is_around_a_forward_is_no_time_of_the_next() -> None:
    model = Leaf()
    clock = installed(model)
    closed_at: list[float] = []

    def around(forward: Callable[[], object]) -> object:
        try:
            return forward()
        finally:
            closed_at.append(perf_counter())

    clock.run_next_in(around)
    model(X)
    model(X)
    _, after = clock.take()
    clock.uninstall()
    assert after.since is not None
    assert closed_at[0] <= after.since <= after.began


def test_removed_for_a_while_it_is_really_off_and_keeps_what_it_has() -> None:
    model = Leaf()
    bare = nn.Module.__call__
    clock = installed(model)
    model(X)
    with clock.removed() as is_off:
        assert is_off
        assert nn.Module.__call__ is bare
        model(X)
    model(X)
    assert [forward.since is None for forward in clock.take()] == [True, True]
    clock.uninstall()


def test_pending_events_are_bounded_and_whole_forwards_are_dropped() -> None:
    model = nn.Sequential(Leaf(), Leaf())
    clock = installed(model, pending_events=6)
    for _ in range(5):
        model(X)
    assert clock.dropped == 3
    assert [len(modules(forward)) for forward in clock.take()] == [3, 3]
    model(X)
    (after_those,) = clock.take()
    assert after_those.since is None
    clock.uninstall()
    assert clock.dropped == 3


def test_one_forward_longer_than_the_bound_is_dropped() -> None:
    model = Countdown()
    clock = installed(model, pending_events=100)
    model(200)
    assert clock.take() == []
    assert clock.dropped == 1
    model(5)
    assert len(clock.take()) == 1
    clock.uninstall()


def test_what_is_dropped_is_not_held_in_memory() -> None:
    model = nn.Sequential(*[Leaf() for _ in range(10)])
    clock = installed(model, pending_events=5)
    model(X)
    leaf = weakref.ref(model[0])
    clock.recording = False
    del model
    gc.collect()
    assert leaf() is None
    clock.uninstall()


def test_no_module_is_held_once_it_is_taken_off() -> None:
    model = nn.Sequential(Leaf())
    clock = installed(model)
    model(X)
    root = weakref.ref(model)
    clock.uninstall()
    del model
    gc.collect()
    assert root() is None


def test_someone_elses_replacement_stays_and_ours_below_it_passes_through() -> None:
    model = nn.Sequential(Leaf())
    bare = nn.Module.__call__
    clock = installed(model)
    ours = nn.Module.__call__
    called = []

    def theirs(self: nn.Module, *args: object, **kwargs: object) -> object:
        called.append(self)
        return ours(self, *args, **kwargs)

    type.__setattr__(nn.Module, "__call__", theirs)
    clock.uninstall()
    assert nn.Module.__call__ is theirs
    assert torch.equal(model(X), X + 1)
    assert called == [model, model[0]]
    assert clock.take() == []
    root = weakref.ref(model)
    called.clear()
    del model
    gc.collect()
    assert root() is None
    type.__setattr__(nn.Module, "__call__", bare)


def test_a_replacement_that_surfaces_again_is_peeled_off() -> None:
    # torch.fx puts back what it found, which by then is a replacement that was to be removed.
    model = Leaf()
    bare = nn.Module.__call__
    clock = installed(model)
    ours = nn.Module.__call__
    type.__setattr__(nn.Module, "__call__", bare)
    clock.uninstall()
    type.__setattr__(nn.Module, "__call__", ours)
    clock.install()
    model(X)
    assert len(clock.take()) == 1
    clock.uninstall()
    assert nn.Module.__call__ is bare


def test_a_replacement_found_there_is_called_and_put_back() -> None:
    bare = nn.Module.__call__
    called = []

    def theirs(self: nn.Module, *args: object, **kwargs: object) -> object:
        called.append(self)
        return bare(self, *args, **kwargs)

    type.__setattr__(nn.Module, "__call__", theirs)
    model = nn.Sequential(Leaf())
    clock = installed(model)
    model(X)
    (forward,) = clock.take()
    clock.uninstall()
    assert nn.Module.__call__ is theirs
    type.__setattr__(nn.Module, "__call__", bare)
    assert called == [model, model[0]]
    assert modules(forward) == [model[0], model]


def test_two_clocks_watch_two_models_one_inside_the_other() -> None:
    inner = nn.Sequential(Leaf())
    outer = nn.Sequential(inner)
    bare = nn.Module.__call__
    first, second = installed(inner), installed(outer)
    outer(X)
    (of_inner,), (of_outer,) = first.take(), second.take()
    first.uninstall()
    second.uninstall()
    assert nn.Module.__call__ is bare
    assert modules(of_inner) == [inner[0], inner]
    assert modules(of_outer) == [inner[0], inner, outer]


def test_threads_that_run_the_same_root_do_not_mix() -> None:
    model = nn.Sequential(*[nn.Sequential(Leaf(), Leaf()) for _ in range(5)])
    expected = [part for block in model for part in (*block, block)] + [model]
    clock = installed(model)
    together = threading.Barrier(8)

    def run() -> None:
        together.wait()
        for _ in range(50):
            model(X)

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    forwards = clock.take()
    clock.uninstall()
    assert len(forwards) == 400
    assert all(modules(forward) == expected for forward in forwards)


class StartsThread(nn.Module):
    """Calls a submodule on a new thread that starts with a copy of this thread's context."""

    def __init__(self) -> None:
        super().__init__()
        self.part, self.aside = Leaf(), Leaf()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        thread = threading.Thread(target=copy_context().run, args=(self.aside, x))
        thread.start()
        thread.join()
        return self.part(x)


def test_where_new_threads_inherit_the_context_their_calls_are_not_the_forwards() -> None:
    model = StartsThread()
    watching = Watching(module_call.present_call(), 1000, is_context_inherited=True)
    watching.watch(model)
    module_call.put_call(watching.call)
    try:
        model(X)
    finally:
        module_call.take_off(watching.call, watching.replaced)
    (forward,) = watching.take()
    assert modules(forward) == [model.part, model]


def test_other_models_are_met_on_threads_while_a_forward_ends() -> None:
    model = Leaf()
    clock = ModuleClock(model, strangers=lambda module: module is not model)
    clock.install()
    together, raised = threading.Barrier(4), list[BaseException]()

    def run(called: Callable[[], nn.Module]) -> None:
        together.wait()
        try:
            for _ in range(2_000):
                called()(X)
        except BaseException as error:
            raised.append(error)

    # Each new model is a new entry in the times since the last forward.
    made: list[Callable[[], nn.Module]] = [lambda: model, lambda: model, Leaf, Leaf]
    threads = [threading.Thread(target=run, args=(one,)) for one in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    taken = clock.take()
    clock.uninstall()
    assert raised == []
    assert len(taken) == 4_000


def test_a_forward_under_way_when_it_is_taken_off_leaves_nothing() -> None:
    clock: ModuleClock

    class TakesOff(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            clock.uninstall()
            return x

    model = nn.Sequential(TakesOff(), Leaf())
    clock = installed(model)
    assert torch.equal(model(X), X + 1)
    assert clock.take() == []


def test_arguments_of_every_name_pass_through() -> None:
    class Named(nn.Module):
        def forward(self, x: int, *, module: int, args: int, events: int) -> tuple[int, ...]:
            return x, module, args, events

    model = nn.Sequential(Named())
    clock = installed(model)
    inside = model[0](1, module=2, args=3, events=4)
    root_clock = installed(model[0])
    assert model[0](1, module=2, args=3, events=4) == inside == (1, 2, 3, 4)
    root_clock.uninstall()
    clock.uninstall()


def test_outputs_are_the_same_to_the_bit() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout()).train()
    x = torch.rand(2, 3, 16, 16)
    torch.manual_seed(1)
    bare = model(x)
    clock = installed(model)
    torch.manual_seed(1)
    watched = model(x)
    clock.uninstall()
    assert torch.equal(bare, watched)


def test_hooks_run_while_watched() -> None:
    model = nn.Sequential(Leaf())
    seen = []
    model[0].register_forward_hook(lambda module, args, output: seen.append(output))
    clock = installed(model)
    model(X)
    clock.uninstall()
    assert len(seen) == 1


def test_a_model_is_saved_and_pickled_while_watched() -> None:
    model = nn.Sequential(nn.Linear(4, 4))
    clock = installed(model)
    model(X)
    buffer = io.BytesIO()
    torch.save(model, buffer)
    buffer.seek(0)
    loaded = torch.load(buffer, weights_only=False)
    copied = pickle.loads(pickle.dumps(model))
    clock.uninstall()
    assert torch.equal(loaded(X), model(X))
    assert torch.equal(copied(X), model(X))


class _Names(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


def test_the_fused_encoder_path_stays_on() -> None:
    model = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    x = torch.rand(1, 3, 8)
    clock = installed(model)
    with torch.no_grad(), _Names() as seen:
        model(x)
    clock.uninstall()
    assert "aten._transformer_encoder_layer_fwd.default" in seen.names


def test_symbolic_tracing_works_while_watched() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    clock = installed(model)
    call = nn.Module.__call__
    graph = torch.fx.symbolic_trace(model)
    assert nn.Module.__call__ is call
    assert [node.op for node in graph.graph.nodes].count("call_module") == 2
    clock.uninstall()


def test_forwards_as_traced_are_told_from_others_and_only_they_run_in_what_is_asked_for() -> None:
    model, inside = nn.Sequential(Leaf()), list[object]()

    def around(forward: Callable[[], object]) -> object:
        inside.append(forward())
        return inside[-1]

    clock = ModuleClock(model, traced=kind_of(model, (X,), {}))
    clock.install()
    clock.run_next_in(around)
    with torch.no_grad():
        model(X)
    model(X[:1])
    assert not inside
    model(X)
    model.eval()(X)
    found = clock.take()
    assert clock.asking_seconds > 0
    clock.uninstall()
    assert [forward.as_traced for forward in found] == [False, False, True, False]
    assert len(inside) == 1


def test_modules_called_while_the_root_does_not_run_are_told_once() -> None:
    model, other, met = nn.Sequential(Leaf()), nn.Sequential(Leaf()), list[nn.Module]()
    clock = ModuleClock(model, strangers=met.append)
    clock.install()
    for _ in range(3):
        model(X)
        other(X)
    clock.uninstall()
    other(X)
    assert len(met) == 2
    assert met[0] is other
    assert met[1] is other[0]
