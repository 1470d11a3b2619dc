"""What recording does on the thread that trains: little in a step that is not recorded."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from threading import get_ident
from types import FrameType

import torch
from torch import nn

from benchmarks.training.recorded_steps import RecordedSteps
from tests.probe.measure.clock.module_nodes import module_nodes
from tui_profiler.probe.measure.clock.backward import ALIKE, BackwardPasses

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
