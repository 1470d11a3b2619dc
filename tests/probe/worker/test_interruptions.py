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
    ParametersDone,
    ParametersStarted,
    Pause,
    Request,
    SetBatch,
    StopAnalysing,
    StopTrial,
    TensorStatistics,
    Try,
    Wish,
)
from tui_profiler.messages.parameters import Scheme
from tui_profiler.probe.parameters.subjects import Subject, subjects_of_model
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.trials.trials import Trials
from tui_profiler.probe.worker.parameter_requests import WeightReader

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
        ((READ, MEASURE, Pause(), StopAnalysing()), False, (Pause(), StopAnalysing())),
        ((READ, StopAnalysing(), READ), False, (StopAnalysing(), READ)),
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


def reader_of(link: Asked, module: torch.nn.Module) -> WeightReader:
    return WeightReader(link, lambda: 0.0, lambda: subjects_of_model(module), "random")


def test_what_is_asked_comes_before_reading_goes_on() -> None:
    link = Asked(MEASURE, Pause())
    reader = reader_of(link, torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(20))))
    reader.begin(READ)
    assert (reader.next_request(), reader.next_request()) == (MEASURE, Pause())
    assert reader.is_reading
    reader.stop()
    assert [one.was_stopped for one in link.sent if isinstance(one, ParametersDone)] == [True]


def test_reading_goes_to_its_end_while_nothing_is_asked() -> None:
    link = Asked()
    reader = reader_of(link, torch.nn.Linear(8, 8))
    reader.begin(READ)
    assert reader.next_request() is None
    assert not reader.is_reading
    read = {one.name for one in link.sent if isinstance(one, TensorStatistics) and not one.pending}
    assert read == {"weight", "bias"}


def test_a_second_look_takes_the_place_of_the_first() -> None:
    link = Asked()
    reader = reader_of(link, torch.nn.Linear(8, 8))
    reader.begin(READ)
    reader.begin(AnalyseParameters("bias"))
    reader.next_request()
    said = [one for one in link.sent if isinstance(one, ParametersStarted | ParametersDone)]
    assert [type(one) for one in said] == [ParametersStarted, ParametersDone] * 2
    assert [one.was_stopped for one in said if isinstance(one, ParametersDone)] == [True, False]


def test_where_the_tensors_cannot_be_had_the_reason_is_told() -> None:
    def subjects() -> list[Subject]:
        raise MemoryError("no room for its values")

    link = Asked()
    WeightReader(link, lambda: 0.0, subjects, "random").begin(READ)
    [done] = link.sent
    assert isinstance(done, ParametersDone)
    assert done.why == "MemoryError: no room for its values"
