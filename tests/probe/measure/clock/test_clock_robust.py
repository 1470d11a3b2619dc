"""Whatever a program does while it is watched: its results are the same, and nothing is left."""

from __future__ import annotations

import functools
import io
import os
import random
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType

import pytest
import torch
from torch import nn

from benchmarks.watching.viewer_cycles import Traffic, cycles
from tests.probe.measure.amid_a_call import AmidACall
from tui_profiler.probe.measure.clock.clock import ModuleClock
from tui_profiler.probe.torch_compat.modules import has_parameters

X = torch.linspace(-1, 1, 8).reshape(2, 4)


class Streams(nn.Module):
    """Yield its parts' outputs one by one: a generator as forward."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

    def forward(self, x: torch.Tensor) -> Iterator[torch.Tensor]:
        for part in self.parts:
            x = part(x)
            yield x


class Interrupts(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise KeyboardInterrupt


@pytest.fixture
def model() -> nn.Module:
    torch.manual_seed(0)
    block = nn.Sequential(nn.Linear(4, 4), nn.GELU())
    return nn.Sequential(block, nn.LayerNorm(4), block, nn.Linear(4, 4)).eval()


@pytest.fixture(autouse=True)
def _call_is_torchs_afterwards() -> Iterator[None]:
    before = nn.Module.__call__
    yield
    assert nn.Module.__call__ is before


def watched_by(model: nn.Module) -> ModuleClock:
    clock = ModuleClock(model)
    clock.install()
    return clock


def test_a_generator_is_ended_where_it_is_given_and_its_calls_are_no_forwards() -> None:
    model = Streams()
    with torch.no_grad():
        bare = list(model(X))
        clock = watched_by(model)
        streamed = list(model(X))
        forwards = clock.take()
        clock.uninstall()
    assert all(map(torch.equal, bare, streamed))
    # Its parts are called after forward has returned: they belong to no forward of the root.
    assert [forward.modules for forward in forwards] == [[model]]


def test_a_generator_that_is_left_half_way_leaves_nothing() -> None:
    model = Streams()
    clock = watched_by(model)
    stream = model(X)
    next(stream)
    stream.close()
    assert len(list(model(X))) == 3
    assert [len(forward.modules) for forward in clock.take()] == [1, 1]
    clock.uninstall()


def test_an_interrupt_comes_through_and_the_next_forward_is_whole(model: nn.Module) -> None:
    clock = watched_by(model)
    model.append(Interrupts())
    with pytest.raises(KeyboardInterrupt):
        model(X)
    del model[-1]
    model(X)
    interrupted, whole = clock.take()
    clock.uninstall()
    assert [type(one).__name__ for one in interrupted.modules[-2:]] == ["Interrupts", "Sequential"]
    assert whole.modules[-1] is model
    assert len(whole.modules) == len(interrupted.modules) - 1


class TimedOut(Exception):
    """What a handler of a signal raises."""


def _raising_after(calls: int) -> Callable[[FrameType, str, object], None]:
    """Return a profile function that raises where a signal's handler may: after a call of ours."""
    left = calls

    def after(frame: FrameType, event: str, _: object) -> None:
        nonlocal left
        if event == "c_return" and "tui_profiler" in frame.f_code.co_filename:
            left -= 1
            if left == 0:
                raise TimedOut

    return after


def test_a_signal_that_raises_anywhere_comes_through_and_the_clock_goes_on(
    model: nn.Module,
) -> None:
    clock = watched_by(model)
    interrupted = 0
    while True:
        sys.setprofile(_raising_after(interrupted + 1))
        try:
            model(X)
        except TimedOut:
            interrupted += 1
        else:
            break
        finally:
            sys.setprofile(None)
        assert not clock.is_busy
        clock.take()
        model(X)
        (forward,) = clock.take()
        assert len(forward.modules) == 9
    clock.uninstall()
    assert interrupted > 40  # Five or more in each call of a module, and those around a forward.
    assert clock.dropped > 10


def test_a_signal_that_raises_anywhere_leaves_calls_of_other_models_timed(
    model: nn.Module,
) -> None:
    clock = ModuleClock(model, strangers=has_parameters)
    other = nn.Linear(4, 4)
    clock.install()
    model(X)
    other(X)
    clock.record_step(is_recorded=True)
    interrupted = 0
    while True:
        sys.setprofile(_raising_after(interrupted + 1))
        try:
            other(X)
        except TimedOut:
            interrupted += 1
        else:
            break
        finally:
            sys.setprofile(None)
        clock.take_others()
        other(X)
        assert len(clock.take_others()) == 1, interrupted
    clock.uninstall()
    assert interrupted > 5


def test_a_hook_that_raises_raises_as_without_a_clock(model: nn.Module) -> None:
    def faulty(*_: object) -> None:
        raise LookupError("a hook's fault")

    clock = watched_by(model)
    handle = model[1].register_forward_hook(faulty)
    with pytest.raises(LookupError, match="a hook's fault"):
        model(X)
    handle.remove()
    model(X)
    faulted, whole = clock.take()
    clock.uninstall()
    # What was called before it, the module with the hook, and the root: all have ended.
    assert faulted.modules[-2:] == [model[1], model]
    assert len(whole.modules) == 3 + 1 + 3 + 1 + 1


def test_recursion_to_pythons_limit_raises_as_without_a_clock() -> None:
    class Endless(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self(x)

    model = Endless()
    clock = watched_by(model)
    with pytest.raises(RecursionError):
        model(X)
    (forward,) = clock.take()
    assert set(forward.modules) == {model}
    clock.uninstall()


def test_viewers_come_and_go_while_eight_threads_run() -> None:
    traffic = Traffic(threads=8)
    found = cycles(traffic, number=300, seed=0)
    assert found.differing == 0
    assert found.raised == []
    assert found.forwards > 300
    assert found.recorded > 0
    assert found.most_assignments == 1


def test_traced_and_saved_meanwhile_it_is_what_it_was(model: nn.Module) -> None:
    with torch.no_grad():
        bare = model(X)
    clock = watched_by(model)
    chance = random.Random(0)
    stop = threading.Event()

    def flip() -> None:
        while not stop.is_set():
            clock.recording = chance.random() < 0.5
            clock.take()

    viewer = threading.Thread(target=flip)
    viewer.start()
    try:
        with torch.no_grad():
            for _ in range(10):
                graph = torch.fx.symbolic_trace(model)
                buffer = io.BytesIO()
                torch.save(model, buffer)
                buffer.seek(0)
                loaded = torch.load(buffer, weights_only=False)
                assert torch.equal(graph(X), bare)
                assert torch.equal(loaded(X), bare)
                assert torch.equal(model(X), bare)
    finally:
        stop.set()
        viewer.join()
        clock.uninstall()


def test_a_child_forked_while_recording_runs_on(model: nn.Module) -> None:
    clock = watched_by(model)
    with torch.no_grad():
        bare = model(X)
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:  # pragma: no cover - in the child
            try:
                # Threads of OpenMP that earlier tests started are not here, and are waited for.
                torch.set_num_threads(1)
                taken = len(clock.take())
                same = torch.equal(model(X), bare)
                after = len(clock.take())
                clock.uninstall()
                is_off = not clock.is_installed and torch.equal(model(X), bare)
                os.write(write, bytes([taken, same, after, is_off]))
            finally:
                os._exit(0)
        os.close(write)
        said = os.read(read, 10)
        os.close(read)
        _, status = os.waitpid(pid, 0)
        model(X)
    assert (status, list(said)) == (0, [1, 1, 1, 1])
    assert len(clock.take()) == 2
    clock.uninstall()


def test_one_forward_runs_inside_of_something_and_nothing_is_exchanged_for_it(
    model: nn.Module,
) -> None:
    clock = watched_by(model)
    replacement = nn.Module.__call__
    around: list[object] = []

    def inside(forward: Callable[[], object]) -> object:
        around.append(forward())
        return around[-1]

    with torch.no_grad():
        clock.run_next_in(inside)
        outputs = [model(X) for _ in range(3)]
    assert nn.Module.__call__ is replacement
    assert len(around) == 1
    assert around[0] is outputs[0]
    assert len(clock.take()) == 3
    clock.uninstall()


def test_what_the_model_raises_inside_of_something_is_its_own() -> None:
    class Falls(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise IndexError("of the model")

    model = Falls()
    clock = watched_by(model)
    clock.run_next_in(lambda forward: forward())
    with pytest.raises(IndexError, match="of the model"):
        model(X)
    clock.uninstall()


CALLED_BY_PROGRAMS: tuple[Callable[[ModuleClock], object], ...] = (
    lambda clock: clock.take_pass(),
    lambda clock: clock.begin_pass((torch.ones(1),)),
    lambda clock: clock.end_pass(),
    lambda clock: clock.record_step(is_recorded=True),
    lambda clock: clock.is_step_recorded,
    lambda clock: clock.read_usage(),
    lambda clock: clock.noting_usage(print),
    lambda clock: clock.mark_device(),
    lambda clock: clock.call_before_next(print),
)
"""What a program's own threads call while it trains."""


@pytest.mark.parametrize("call", CALLED_BY_PROGRAMS)
def test_uninstalled_amid_a_call_nothing_raises_and_nothing_is_recorded(
    call: Callable[[ModuleClock], object],
) -> None:
    model, is_over = nn.Linear(2, 2), False
    for instruction in range(1, 100):
        clock = watched_by(model)
        amid = AmidACall("clock.py", instruction, clock.uninstall)
        try:
            amid.run(functools.partial(call, clock))
        finally:
            clock.uninstall()
        assert not clock.is_step_recorded
        is_over = amid.passed < instruction
        if is_over:
            break
    assert is_over
    assert instruction > 3
