"""What recording does on the thread that trains: little in a step that is not recorded."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from threading import get_ident
from types import FrameType

import pytest
import torch
from torch import nn

from benchmarks.training.recorded_steps import RecordedSteps
from tests.probe.measure.amid_a_call import AmidACall
from tests.probe.measure.clock.module_nodes import module_nodes
from tui_profiler.probe.measure.clock.backward import ALIKE, BackwardPasses
from tui_profiler.probe.measure.step.marks import Mark
from tui_profiler.probe.measure.step.recorder import Pass, StepRecorder
from tui_profiler.probe.measure.values.step_values import StepValues

LAYERS = 80


class Loop:
    def __init__(self) -> None:
        self.model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(LAYERS)))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3)

    def step(self) -> None:
        self.optimizer.zero_grad()
        self.model(torch.ones(2, 4)).sum().backward()
        self.optimizer.step()


def calls_of_ours(step: Callable[[], None]) -> Counter[str]:
    """Return how often lines of Python of ours were entered, by file and function."""
    found: Counter[str] = Counter()

    def count(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and "/tui_profiler/" in (name := frame.f_code.co_filename):
            found[f"{name.rpartition('/')[2]} {frame.f_code.co_name}"] += 1

    sys.setprofile(count)
    try:
        step()
    finally:
        sys.setprofile(None)
    return found


def test_a_step_that_is_not_recorded_runs_little_of_ours() -> None:
    loop, share = Loop(), [True]
    with RecordedSteps(loop.model, module_nodes(loop.model)) as steps:
        passes = BackwardPasses(loop.model)
        passes.threads.add(get_ident())
        passes.listen()
        steps.recorder._records_next = lambda: share[0]
        for _ in range(ALIKE + 2):
            loop.step()
        recorded = calls_of_ours(loop.step)
        share[0] = False
        for _ in range(20):  # The first ones are recorded whatever the share is.
            loop.step()
        found = calls_of_ours(loop.step)
        passes.close()
    assert recorded.total() > 3 * LAYERS, "a module call runs three functions or more"
    assert not [one for one in found if "settings" in one and "_settings_of" not in one]
    assert found["call_recorder.py watch"] == 0, "it is as the step before"
    for one in [one for one in found if one.startswith(("thread_usage.py", "internals.py"))]:
        del found[one]  # Read in long steps: how long one is on a busy machine nobody knows.
    assert found.total() <= 34, found


def test_a_backward_runs_no_line_of_ours_for_a_mark() -> None:
    loop = Loop()
    with RecordedSteps(loop.model, module_nodes(loop.model)) as steps:
        loop.step()
        out = loop.model(torch.ones(2, 4)).sum()
        steps.take()
        found = calls_of_ours(out.backward)
        marks, trouble = steps.clock.take_marks()
    assert trouble == ""
    assert len(marks) == LAYERS
    assert [one.number for one in marks] == sorted((one.number for one in marks), reverse=True)
    for one in [one for one in found if one.startswith("source_line")]:
        del found[one]  # Once per pass: how deep the stack is depends on who runs the test.
    assert found.total() < LAYERS / 2, found


class Window:
    """One that is told of everything."""

    is_over = is_waiting = False

    def await_forward(self) -> None: ...

    def begin(self) -> None: ...

    def after_pass(self, one: Pass, *, is_one_of_several: bool) -> None: ...

    def after_data(self) -> None: ...

    def after_step(self) -> None: ...


def take_window(recorder: StepRecorder) -> None:
    recorder.window = None


TAKEN_AMID: tuple[
    tuple[Callable[[StepRecorder, Loop], object], Callable[[StepRecorder], None]], ...
] = (
    (lambda one, _: one.take_mark(Mark("data", get_ident(), 0.0, 1.0)), take_window),
    (lambda one, _: one.after_pass(0.0, 1.0), take_window),
    (lambda one, _: one.before_roots((torch.ones(1),)), take_window),
    (
        lambda one, loop: one.before_update(loop.optimizer, has_closure=False),
        StepRecorder.forget_values,
    ),
    (
        lambda one, _: one.take_mark(Mark("optimizer", get_ident(), 0.0, 1.0, -1)),
        StepRecorder.forget_values,
    ),
    (lambda one, _: one.take_mark(Mark("optimizer", get_ident(), 0.0, 1.0)), StepRecorder.close),
)
"""What is told on the thread that trains, and what another thread takes away meanwhile."""


@pytest.mark.parametrize(("told", "taken"), TAKEN_AMID)
def test_what_is_taken_away_meanwhile_raises_nothing_in_the_program(
    told: Callable[[StepRecorder, Loop], object], taken: Callable[[StepRecorder], None]
) -> None:
    loop, is_over = Loop(), False
    for instruction in range(1, 400):
        with RecordedSteps(loop.model, module_nodes(loop.model)[:1]) as steps:
            recorder = steps.recorder
            recorder.window, recorder.ends_at = Window(), 0
            recorder.next_values = StepValues(frozenset(map(id, loop.model.parameters())))
            recorder.take_mark(Mark("optimizer", get_ident(), 0.0, 1.0))  # A step begins.
            recorder.ends_at = 0 if taken is StepRecorder.close else 1
            amid = AmidACall("recorder.py", instruction, partial(taken, recorder))
            amid.run(partial(told, recorder, loop))
        is_over = amid.passed < instruction
        if is_over:
            break
    assert is_over
    assert instruction > 3
