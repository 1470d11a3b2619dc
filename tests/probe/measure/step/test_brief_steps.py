"""Steps that are not recorded, of which only times are kept: all is known of them as of others."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Thread, get_ident

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from tests.probe.measure.step.loops import (
    WIDTH,
    Data,
    Net,
    Spent,
    Watched,
    batches,
    optimizer,
    watched,
)
from tests.probe.measure.step.test_recorder import calls_of_ours
from tui_profiler.messages import Unknown
from tui_profiler.probe.measure.clock.backward import BackwardPasses
from tui_profiler.probe.measure.clock.overhead_budget import Governor
from tui_profiler.probe.measure.step.marks import MARKS
from tui_profiler.probe.measure.step.steps import BRIEF_SHARE, LEAST_FOR_SLOW
from tui_profiler.probe.process.yielding import pause

APART = 10
"""One step in so many is recorded."""
APART_SECONDS = 0.5
"""A pause that is longer than any step, even on a busy machine."""


def seldom() -> Governor:
    governor = Governor(0.02)
    governor.share = 1 / APART
    return governor


def settle(watching: Watched, step: Callable[[], None]) -> None:
    """Run steps until most are not recorded."""
    for _ in range(4):
        step()
        watching.take()
    for _ in range(2 * APART):  # The first ones are recorded whatever the share is.
        step()
    watching.take()


def brief_step(watching: Watched, step: Callable[[], None]) -> None:
    """Run steps until only times are kept of the present one, and the next one."""
    for _ in range(3 * APART):
        brief = watching.recorder._brief
        if brief is not None and not brief.ended:
            return
        step()
    raise AssertionError("no step is brief")


def trained_net() -> tuple[Net, Callable[[], None]]:
    """Return a module and a function that runs one training step of it."""
    net = Net(Spent())
    sgd = torch.optim.SGD(net.parameters(), lr=1e-3)

    def step() -> None:
        sgd.zero_grad()
        net(torch.ones(2, WIDTH)).sum().backward()
        sgd.step()

    return net, step


def test_every_step_counts_and_one_in_so_many_is_recorded() -> None:
    spent = Spent()
    net = Net(spent)
    sgd = torch.optim.SGD(net.parameters(), lr=1e-3)
    data = batches(spent)

    def step() -> None:
        sgd.zero_grad()
        net(next(data)).sum().backward()
        sgd.step()

    with watched(net, governor=seldom()) as watching:
        settle(watching, step)
        before = watching.take()
        counted = watching.steps.steps
        for _ in range(6 * APART):
            step()
        told = watching.take()
        assert before is None, "nothing is new"
        assert told is not None
        assert told.steps == counted + 6 * APART
        recorded = told.recorded_so_far
        brief_step(watching, step)
        found = calls_of_ours(step)
        for _ in range(6 * APART):
            step()
        told = watching.take()
        assert told is not None
        assert 5 <= told.recorded_so_far - recorded <= 9
    assert (told.passes, told.updates, told.forwards) == (1, 1, 1)
    assert not isinstance(told.parts.data, Unknown)
    del found["yielding.py pause"]  # The program's own.
    assert found.total() <= 5, found  # Loader, pass, before and after the optimizer's step.


def test_what_keeping_times_costs_is_counted_and_a_small_part_of_steps() -> None:
    net, step = trained_net()
    with watched(net, governor=seldom()) as watching:
        settle(watching, step)
        training = watching.steps
        training._brief_step_seconds = 1e-9
        counted, most = training.brief_seconds, BRIEF_SHARE * training._lengths.p50
        for _ in range(6 * APART):
            step()
        watching.take()
        found = training.brief_seconds - counted
        assert 40e-9 < found < 61e-9, "of most of the steps"
        training._brief_step_seconds = 1.0
        counted, most = training.brief_seconds, BRIEF_SHARE * training._lengths.p50
        for _ in range(6 * APART):
            step()
        watching.take()
        found = training.brief_seconds - counted
        assert 40 * most < found < 61 * most


def test_what_other_threads_do_belongs_to_no_step() -> None:
    """Of the thread that trains only times are kept; of others everything is told as usual."""
    spent = Spent()
    net, other = Net(spent), Net(spent)
    sgd = torch.optim.SGD(net.parameters(), lr=1e-3)
    data, others_data = batches(spent), batches(spent)

    def step() -> None:
        sgd.zero_grad()
        net(next(data)).sum().backward()
        sgd.step()

    def elsewhere() -> None:
        other(next(others_data)).sum().backward()

    def on_another_thread(run: Callable[[], None]) -> None:
        thread = Thread(target=run)
        thread.start()
        thread.join()

    with watched(net, governor=seldom()) as watching:
        settle(watching, step)
        brief_step(watching, step)
        watching.take()
        recorder = watching.recorder
        on_another_thread(elsewhere)
        assert [mark.kind for mark in recorder.marks] == ["data"]
        assert len(recorder.passes) == 1
        assert {mark.thread for mark in recorder.marks} != {get_ident()}
        watching.take()
        counted = watching.steps.steps
        step()
        step()
        pause(APART_SECONDS)
        # Training moves to another thread: the pause in between is not a step.
        on_another_thread(lambda: [step() for _ in range(3 * APART)] and None)
        watching.take()
        assert watching.steps.steps == counted + 2 + 3 * APART - 1
        assert max(watching.steps._lengths._last) < APART_SECONDS
        assert recorder.thread != get_ident()


def test_of_steps_far_longer_than_others_one_that_waited_for_its_batch_is_usual() -> None:
    spent = Spent()
    net, items = Net(spent), Data(spent)
    sgd = torch.optim.SGD(net.parameters(), lr=1e-3)
    data = iter(DataLoader(items, batch_size=2))
    logged = [0.0]

    def log() -> None:
        time.sleep(logged[0])  # In code of the program: ours is in no line.

    def step() -> None:
        sgd.zero_grad()
        net(next(data)).sum().backward()
        sgd.step()
        log()

    with watched(net, governor=seldom()) as watching:
        for _ in range(LEAST_FOR_SLOW):
            step()
        watching.take()
        lines = watching.steps._lines
        for waits in ("data", "log"):
            brief_step(watching, step)
            watching.take()
            watching.slow.clear()
            known = len(lines._are_untold)
            items.seconds = APART_SECONDS if waits == "data" else 0.0
            logged[0] = 2 * APART_SECONDS if waits == "log" else 0.0
            step()
            items.seconds = logged[0] = 0.0
            step()
            told = watching.take()
            assert told is not None
            own = max(list(watching.steps._lengths._own)[-2:])
            assert (own >= APART_SECONDS) == (waits == "log")
            assert len(lines._are_untold) == known + 2
            (slow,) = watching.slow
            assert slow.seconds >= APART_SECONDS
    assert "log" in {one.function.split(".")[-1] for one in slow.lines}
    assert "log" not in {one.function.split(".")[-1] for one in told.lines}, "of the usual ones"


def test_longer_steps_are_recorded_soon_though_many_short_ones_were_to_pass() -> None:
    net = nn.Linear(WIDTH, WIDTH)
    sgd = torch.optim.SGD(net.parameters(), lr=1e-3)
    governor = seldom()

    def step() -> None:
        net(torch.ones(2, WIDTH)).sum().backward()
        sgd.step()

    with watched(net, governor=governor) as watching:
        settle(watching, step)
        governor.share = 1e-6
        for _ in range(2 * APART):
            step()
        recorder = watching.recorder
        assert recorder._brief is not None
        assert recorder._brief.left > 1_000
        governor.share = 1.5e-6
        recorder.decide_if_more()
        assert recorder._brief.left > 1_000
        step()
        assert recorder._brief.left > 1_000
        governor.share = 0.1
        recorder.decide_if_more()
        recorded = 0
        for _ in range(3 * APART):
            step()
            recorded += recorder.is_recorded
    assert 2 <= recorded <= 4


def test_a_slow_step_is_told_with_its_parts() -> None:
    spent = Spent()
    net = Net(spent)
    sgd = torch.optim.SGD(net.parameters(), lr=1e-3)
    waits = [0.0]
    sgd.register_step_pre_hook(lambda *_: spent.wait("optimizer", waits[0]))

    def step() -> None:
        sgd.zero_grad()
        net(torch.ones(2, WIDTH)).sum().backward()
        sgd.step()

    with watched(net, governor=seldom()) as watching:
        for _ in range(2):
            for _ in range(LEAST_FOR_SLOW):
                step()
            watching.take()
        brief_step(watching, step)
        watching.take()
        watching.slow.clear()
        net.times, waits[0] = (0.0, 1.0), 1.0
        step()
        net.times, waits[0] = (0.0, 0.0), 0.0
        step()
        watching.take()
        (slow,) = watching.slow
    assert slow.seconds >= 2.0
    assert isinstance(slow.parts.backward, float)
    assert isinstance(slow.parts.optimizer, float)
    assert slow.parts.backward >= 1.0
    assert slow.parts.optimizer >= 1.0
    assert slow.seconds >= slow.parts.backward + slow.parts.optimizer
    assert isinstance(slow.parts.forward, Unknown), "it was not recorded"


def test_a_step_of_a_base_class_and_one_that_raised_end_no_step() -> None:
    spent = Spent()
    net = Net(spent)
    sgd = optimizer(net, spent)
    torch.optim.SGD(net.parameters(), lr=0.1)  # Whereby the base class has torch's hooks as well.
    fails = [False]

    def may_fail(*_: object) -> None:
        if fails[0]:
            raise ValueError("of the program")

    plain = torch.optim.Adam(net.parameters(), lr=1e-3)
    plain.register_step_pre_hook(may_fail)
    chosen = [sgd, plain]

    def step() -> None:
        chosen[0].zero_grad()
        net(torch.ones(2, WIDTH)).sum().backward()
        chosen[0].step()

    with watched(net, governor=seldom()) as watching:
        settle(watching, step)
        counted = watching.steps.steps
        for _ in range(3 * APART):
            step()
            assert watching.recorder._brief is None, "its own step and that of its class"
        told = watching.take()
        assert told is not None
        assert (told.steps, told.updates) == (counted + 3 * APART, 1)
    chosen.reverse()
    with watched(net, governor=seldom()) as watching:
        settle(watching, step)
        brief_step(watching, step)
        watching.take()
        counted = watching.steps.steps
        fails[0] = True
        with pytest.raises(ValueError, match="of the program"):
            step()
        fails[0] = False
        for _ in range(3 * APART):
            step()
        told = watching.take()
        assert told is not None
        assert told.steps == counted + 3 * APART


def test_a_second_optimizer_has_all_told_again() -> None:
    spent = Spent()
    net = Net(spent)
    first, second = (torch.optim.SGD(net.parameters(), lr=1e-3) for _ in range(2))
    both = [False]

    def step() -> None:
        net(torch.ones(2, WIDTH)).sum().backward()
        first.step()
        if both[0]:
            second.step()

    with watched(net, governor=seldom()) as watching:
        settle(watching, step)
        brief_step(watching, step)
        both[0] = True
        watching.take()
        counted = watching.steps.steps
        for _ in range(20 * APART):
            step()
            watching.take()
        assert watching.steps.steps == pytest.approx(counted + 20 * APART, abs=2)
        assert watching.recorder.ends_at == id(second), "the later one"
        assert not MARKS.can_be_brief(id(first)), "another one steps beside it"


def test_steps_are_told_of_again_where_watching_ends_while_one_ends() -> None:
    net = nn.Linear(WIDTH, WIDTH)
    sgd = torch.optim.SGD(net.parameters(), lr=1e-3)
    passes = BackwardPasses(net)
    passes.listen()

    def step() -> None:
        net(torch.ones(2, WIDTH)).sum().backward()
        sgd.step()

    class ClosedMeanwhile(Governor):
        def pass_over(self) -> int:
            watching.close()
            return 5

    watching = Watched(
        net, torch.ones(2, WIDTH), records=lambda: False, governor=ClosedMeanwhile(0.02)
    )
    try:
        for _ in range(5 * APART):
            if watching.recorder._is_open:
                step()
                watching.take()
        assert not watching.recorder._is_open
        counted = passes.passes
        step()
        assert passes.passes == counted + 1
        assert watching.recorder._brief is None
    finally:
        passes.close()
        watching.close()


def test_the_next_step_is_decided_anew_where_that_is_asked_for() -> None:
    net = nn.Linear(WIDTH, WIDTH)
    sgd = torch.optim.SGD(net.parameters(), lr=1e-3)
    governor = seldom()
    passes = BackwardPasses(net)

    def step() -> None:
        net(torch.ones(2, WIDTH)).sum().backward()
        sgd.step()

    with watched(net, governor=governor) as watching:
        watching.clock.passes = passes
        passes.listen()
        settle(watching, step)
        governor.share = 1e-6
        for _ in range(2 * APART):
            step()
        watching.take()
        brief, counted = watching.recorder._brief, passes.passes
        assert brief is not None
        governor.share = 1.0
        step()
        assert watching.recorder._brief is brief
        watching.recorder.decide_next()
        step()
        assert watching.recorder.is_recorded
        watching.take()
        passes.close()
    assert passes.passes == counted + 2


def test_deciding_anew_records_no_more_than_the_share() -> None:
    net = nn.Linear(WIDTH, WIDTH)
    sgd = torch.optim.SGD(net.parameters(), lr=1e-3)
    recorded = 0
    with watched(net, governor=seldom()) as watching:

        def step() -> None:
            net(torch.ones(2, WIDTH)).sum().backward()
            sgd.step()

        settle(watching, step)
        for number in range(10 * APART):
            if number % 3 == 0:
                watching.recorder.decide_next()
            step()
            recorded += watching.recorder.is_recorded
        watching.take()
    assert 9 <= recorded <= 11


def test_every_mark_is_reported_again_once_steps_do_not_decide() -> None:
    net, step = trained_net()
    with watched(net, governor=seldom()) as watching:
        settle(watching, step)
        brief_step(watching, step)
        recorder = watching.recorder
        recorder.marks.clear()
        recorder.passes.clear()
        recorder.stop_driving()
        net(torch.ones(2, WIDTH)).sum().backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        told = {mark.kind for mark in recorder.marks}
    assert (told, len(recorder.passes)) == ({"clip"}, 1)
