"""What is asked while the model is held: what waits, what ends it, what is forgotten."""

from __future__ import annotations

from collections import deque

import pytest
import torch

from tui_profiler.messages import (
    AnalyseParameters,
    LoadSpec,
    MeasureSensitivity,
    Message,
    Pause,
    Request,
    SetBatch,
    StopAnalysing,
    StopTrial,
    Try,
    Wish,
)
from tui_profiler.messages.parameters import Scheme
from tui_profiler.probe.parameters.model_subjects import subjects_of_model
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.trials.trials import Trials
from tui_profiler.probe.worker.parameter_requests import Analyst

READ, MEASURE = AnalyseParameters(), MeasureSensitivity(Scheme("int8"))


class Asked:
    """A link to a viewer that has asked everything already."""

    is_closed = False
    dropped = 0

    def __init__(self, *requests: Request) -> None:
        self.requests = deque(requests)
        self.sent: list[Message] = []

    def send(self, message: Message) -> None:
        self.sent.append(message)

    def next_request(self, timeout: float | None = 0.0) -> Request | None:
        return self.requests.popleft() if self.requests else None


@pytest.mark.parametrize(
    ("requests", "is_over", "left"),
    [
        ((READ, MEASURE, Pause()), False, (READ, MEASURE, Pause())),
        ((READ, MEASURE, Pause(), StopAnalysing()), False, (Pause(),)),
        ((READ, StopAnalysing(), READ), False, (READ,)),
        ((SetBatch(2), READ), True, (SetBatch(2), READ)),
        ((READ, StopTrial()), True, (READ,)),
    ],
)
def test_a_look_at_weights_waits_for_a_trial(
    requests: tuple[Request, ...], is_over: bool, left: tuple[Request, ...]
) -> None:
    asked: deque[Request] = deque()
    trials = Trials(Asked(*requests), LoadSpec(""), torch.nn.Identity(), (), Inputs(()))
    trials._listen(asked)
    assert bool(trials._stopped) == is_over
    assert tuple(asked) == left


def test_the_same_wish_twice_waits_once() -> None:
    wishes = (Wish("compile"), Wish("threads"), Wish("compile"))
    trials = Trials(Asked(*map(Try, wishes)), LoadSpec(""), torch.nn.Identity(), (), Inputs(()))
    trials._listen(deque())
    assert list(trials._waiting) == [Wish("compile"), Wish("threads")]


def test_stopping_a_look_forgets_the_one_that_waits() -> None:
    link = Asked(MEASURE, Pause(), StopAnalysing())
    many = torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(20)))
    analyst = Analyst(link, lambda: 0.0, lambda: subjects_of_model(many), "random")
    assert analyst.run(READ) == [Pause()]
