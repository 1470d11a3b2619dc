"""What the thread that trains used in a step, where it is not read in every step."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter, sleep, thread_time

import torch
from torch import nn

from tests.probe.measure.step.loops import Watched, watched
from tui_profiler.messages import TrainingStep, known
from tui_profiler.probe.measure.step.recorder import LEAST_READ_SECONDS, READ_AGAIN_SECONDS

WIDTH = 2


def trainer(wait: Callable[[int], float]) -> tuple[nn.Module, Callable[[], None]]:
    """Return a model and a step of it that sleeps for as long as its number says."""
    net = nn.Linear(WIDTH, 1)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    done = 0

    def step() -> None:
        nonlocal done
        net(torch.ones(2, WIDTH)).sum().backward()
        if seconds := wait(done):
            sleep(seconds)
        optimizer.step()
        optimizer.zero_grad()
        done += 1

    return net, step


def begun(watching: Watched, step: Callable[[], None]) -> None:
    for _ in range(4):  # What ends a step is known after the first ones.
        step()
        watching.take()
    watching.steps.forget_means()


def told_after(watching: Watched, steps: int, step: Callable[[], None]) -> TrainingStep:
    for _ in range(steps):
        step()
    told = watching.take()
    assert told is not None
    return told


def test_it_is_kept_of_the_steps_in_which_it_was_read() -> None:
    """Steps of half and of twice the time from which it is read in each take turns."""
    net, step = trainer(lambda done: LEAST_READ_SECONDS * (2.0 if done // 8 % 2 else 0.4))
    with watched(net, torch.ones(2, WIDTH)) as watching:
        begun(watching, step)
        used = thread_time()
        told = told_after(watching, 64, step)
        used = thread_time() - used
    assert told.thread is not None
    assert 16 <= told.thread_steps <= told.recorded
    on_core, seconds = known(told.thread.on_core), known(told.seconds)
    assert on_core is not None
    assert seconds is not None
    assert 0 < on_core <= used
    # It is of the longer ones, and says so: of the time of these, not of all steps.
    assert on_core < told.thread.seconds
    assert told.thread.seconds >= 0.9 * seconds


def test_of_steps_shorter_than_that_some_are_read() -> None:
    net, step = trainer(lambda done: 0.0)
    with watched(net, torch.ones(2, WIDTH)) as watching:
        begun(watching, step)
        ends_at = perf_counter() + 4 * READ_AGAIN_SECONDS
        reads = 0
        while perf_counter() < ends_at:
            told = told_after(watching, 16, step)
            reads = max(reads, told.thread_steps)
    assert told.thread is not None
    assert reads >= 1
    on_core = known(told.thread.on_core)
    assert on_core is not None
    assert 0 < on_core <= told.thread.seconds
