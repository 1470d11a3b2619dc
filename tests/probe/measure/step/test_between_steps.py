"""What lies between steps, told apart by what the program does."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from tests.probe.measure.step.loops import WIDTH, Net, Spent, Watched, watched
from tui_profiler.messages.training import TrainingStep
from tui_profiler.probe.measure.clock.call_recorder import RootCall
from tui_profiler.probe.measure.step.between_steps import Batch, BetweenSteps, Gap, Interval
from tui_profiler.probe.measure.step.loader_iterators import Fetch, Fetcher, LoaderIterators

TRAIN, NEXT_EPOCH, EVALUATION, SECOND = 1, 2, 3, 4
"""Iterators; the loader of the first two is the same."""


class Steps:
    """Intervals of ten seconds, described by what happens in them, one event per second."""

    def __init__(self) -> None:
        self.between = BetweenSteps()
        self.at = 0.0

    def judge(self, *events: object, made: float = 0.0, known: bool = True) -> tuple[Gap, ...]:
        """Judge an interval that ends with a forward and a backward pass.

        Args:
            events: an iterator's number, negative: it was over; "no grad", "eval" or "other" calls.
            made: seconds before its first batch, for the evaluation's iterator.
            known: whether calls were counted.
        """
        batches, calls = [], []
        for place, event in enumerate(events):
            second = self.at + place + 1.0
            if isinstance(event, int):
                number = abs(event)
                loader = TRAIN if number in (TRAIN, NEXT_EPOCH) else number
                made_at = second - made if number == EVALUATION and made else 0.0
                fetch = Fetch(Fetcher(number, loader, made_at), True, event < 0)
                batches.append(Batch(second, second + 0.5, fetch))
            elif known:
                training, items = event == "no grad", 1 if event == "small eval" else 8
                calls.append(RootCall(0, second, second + 0.25, training, False, items))
        work = self.at + len(events) + 1.0
        if known:
            calls.append(RootCall(0, work, work, True, True, 8))
        ended = work + 1.0
        found = self.between.judge(Interval(self.at, ended, batches, calls, [work], known))
        self.at = ended
        return found


def kinds(gaps: tuple[Gap, ...]) -> list[tuple[str, float]]:
    return [(one.kind, one.seconds) for one in gaps]


@pytest.mark.parametrize("known", [True, False])
def test_batches_of_another_loader_are_an_evaluation_s(*, known: bool) -> None:
    steps = Steps()
    assert steps.judge(TRAIN, known=known) == ()
    found = steps.judge(EVALUATION, EVALUATION, -EVALUATION, TRAIN, known=known)
    assert kinds(found) == [("evaluation", 2.5)]
    assert found[0].data_seconds == 1.5
    assert steps.judge(TRAIN, known=known) == ()


def test_an_evaluation_in_the_first_interval_is_one_by_its_loader_being_over() -> None:
    steps = Steps()
    assert kinds(steps.judge(TRAIN, EVALUATION, -EVALUATION)) == [("evaluation", 1.5)]
    assert steps.judge(TRAIN) == ()


def test_an_evaluation_begins_when_its_iterator_is_made() -> None:
    steps = Steps()
    steps.judge(TRAIN)
    (found,) = steps.judge(EVALUATION, -EVALUATION, TRAIN, made=0.75)
    assert found.seconds == 1.5 + 0.75


def test_an_evaluation_between_two_epochs_is_not_the_new_iterator_of_the_loader() -> None:
    steps = Steps()
    steps.judge(TRAIN)
    found = steps.judge(-TRAIN, EVALUATION, -EVALUATION, NEXT_EPOCH)
    assert kinds(found) == [("evaluation", 1.5)]
    assert steps.judge(NEXT_EPOCH) == ()


def test_a_batch_fetched_before_an_evaluation_stays_the_step_s() -> None:
    steps = Steps()
    steps.judge(TRAIN)
    assert kinds(steps.judge(TRAIN, EVALUATION, EVALUATION)) == [("evaluation", 1.5)]
    assert kinds(steps.judge(EVALUATION, EVALUATION)) == [], "a new loader, and no other"


def test_evaluating_on_the_loader_of_the_steps_is_an_evaluation() -> None:
    steps = Steps()
    steps.judge(TRAIN)
    assert kinds(steps.judge(NEXT_EPOCH, NEXT_EPOCH, TRAIN)) == [("evaluation", 1.5)]


def test_two_loaders_in_each_step_both_feed_it() -> None:
    steps = Steps()
    steps.judge(SECOND, TRAIN)
    assert not steps.between.was_mistaken
    assert steps.judge(SECOND, TRAIN) == ()
    assert steps.between.was_mistaken, "of the step before"
    assert steps.judge(SECOND, TRAIN) == ()
    assert not steps.between.was_mistaken
    assert kinds(steps.judge(SECOND, EVALUATION, -EVALUATION, TRAIN)) == [("evaluation", 1.5)]


def test_forwards_in_eval_mode_are_an_evaluation_s_also_in_each_step() -> None:
    steps = Steps()
    for _ in range(12):
        assert kinds(steps.judge(TRAIN, "eval", "eval")) == [("evaluation", 1.25)]


def test_small_forwards_in_eval_mode_without_a_loader_are_inference() -> None:
    steps = Steps()
    steps.judge()
    assert kinds(steps.judge("small eval", "small eval")) == [("inference", 1.25)]
    assert kinds(steps.judge("eval", "eval")) == [("evaluation", 1.25)]


def test_one_forward_without_gradients_in_each_step_is_a_part_of_it() -> None:
    teacher, acting = Steps(), Steps()
    for _ in range(8):
        assert teacher.judge(TRAIN, "no grad") == ()
        assert acting.judge("no grad") == ()
    assert kinds(teacher.judge(TRAIN, *["no grad"] * 5)) == [("inference", 4.25)]


def test_a_rollout_before_some_updates_is_inference_with_its_forwards() -> None:
    steps = Steps()
    for _ in range(8):
        (found,) = steps.judge(*["no grad"] * 20)
        assert (found.kind, found.calls, found.call_seconds) == ("inference", 20, 5.0)
        for _ in range(3):
            assert steps.judge() == ()


def test_what_was_seen_late_has_lasted_all_along() -> None:
    between = BetweenSteps()
    call = RootCall(0, 6.0, 7.0, True, False, 1, calls=50)
    work = RootCall(0, 8.0, 8.0, True, True, 8)
    (found,) = between.judge(Interval(0.0, 10.0, (), [call, work], [9.0], True, seen_from=5.0))
    assert (found.began, found.ended, found.are_calls_known) == (0.0, 7.0, False)


def test_iterators_are_told_apart_and_those_of_one_loader_known_as_such() -> None:
    loader = DataLoader(TensorDataset(torch.ones(4)))
    numbers = LoaderIterators()

    def add(iterator: Iterator[object]) -> Fetcher:
        return numbers.add(iterator, iterator._index_sampler)  # type: ignore[attr-defined]

    first, second = iter(loader), iter(loader)
    known = add(first), add(second), add(iter(DataLoader(TensorDataset(torch.ones(4)))))
    assert len({one.iterator for one in known}) == 3
    assert known[0].loader == known[1].loader != known[2].loader
    assert numbers.get(first) == known[0]
    assert numbers.get(iter(loader)) is None


class Evaluated:
    """A loop that evaluates every few steps, from the first one on."""

    def __init__(self, every: int, batches: int, wait_ms: float) -> None:
        self.spent = Spent()
        self.net = Net(self.spent)
        self.every, self.steps = every, 0
        sgd = torch.optim.SGD(self.net.parameters(), lr=1e-3)
        train = DataLoader(TensorDataset(torch.ones(1_000, WIDTH)), batch_size=2)
        self.validation = DataLoader(Slow(self.spent, batches, wait_ms * 1e-3))
        data = iter(train)

        def step() -> None:
            (x,) = next(data)
            sgd.zero_grad()
            self.net(x).sum().backward()
            sgd.step()
            self.steps += 1
            if self.steps % every == 0:
                self.evaluate()

        self.step: Callable[[], None] = step

    def evaluate(self) -> None:
        with self.spent.on("evaluation"), torch.no_grad():
            self.net.eval()
            for x in self.validation:
                self.net(x)
            self.net.train()


class Slow(torch.utils.data.Dataset[Tensor]):
    """Items that take their time."""

    def __init__(self, spent: Spent, count: int, seconds: float) -> None:
        self.spent, self.count, self.seconds = spent, count, seconds

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, item: int) -> Tensor:
        if item >= self.count:
            raise IndexError
        self.spent.wait("evaluation data", self.seconds)
        return torch.ones(WIDTH)


@pytest.mark.parametrize(("every", "batches"), [(1, 1), (4, 1), (5, 2), (20, 10)])
@pytest.mark.parametrize("is_recorded", [True, False])
def test_an_evaluation_is_in_no_figure_of_a_step_from_the_first_one_on(
    every: int, batches: int, *, is_recorded: bool
) -> None:
    loop = Evaluated(every, batches, wait_ms=20)
    watching = Watched(loop.net, torch.ones(2, WIDTH), records=lambda: is_recorded)
    told: TrainingStep | None = None
    try:
        for _ in range(41):
            loop.step()
            told = watching.take() or told
    finally:
        watching.close()
    assert told is not None
    (between,) = told.between
    done = loop.steps // every
    assert between.kind == "evaluation"
    # The last one's step has not ended, and the first step ended what is none.
    assert done - 2 <= between.count <= done
    assert between.every == (pytest.approx(every) if between.count > 1 else 0.0)
    assert batches * 0.02 <= between.data_seconds <= between.seconds
    assert between.seconds * between.count <= loop.spent.around["evaluation"]
    assert isinstance(told.parts.data, float)
    assert told.parts.data < 0.01, "without waiting for the evaluation's batches"
    assert told.seconds < 0.02 * batches * 10
    assert told.forwards == 1
    assert told.longer_share < 0.5


def test_calls_between_steps_count_in_the_rate_of_the_model_s_calls() -> None:
    net = Net(Spent())
    sgd = torch.optim.SGD(net.parameters(), lr=1e-3)
    told: TrainingStep | None = None
    with watched(net) as watching:
        for _ in range(8):
            with torch.no_grad():
                for _ in range(24):
                    net(torch.ones(1, WIDTH))
            for _ in range(4):
                net(torch.ones(2, WIDTH)).sum().backward()
                sgd.step()
                sgd.zero_grad()
            told = watching.take() or told
    assert told is not None
    (between,) = told.between
    assert (between.kind, between.forwards, between.every) == ("inference", 24, 4.0)
    assert isinstance(told.calls_per_second, float)
    wall = (between.seconds * between.count) / between.share
    steps = told.steps
    assert told.calls_per_second * wall == pytest.approx(steps + between.count * 24)


def test_calls_that_are_not_recorded_are_counted_up_to_the_step_s_own() -> None:
    model = nn.Linear(WIDTH, WIDTH)
    with watched(model) as watching:
        clock = watching.clock
        clock.record_step(is_recorded=False)
        clock.peek()
        with torch.no_grad():
            first = model(torch.ones(3, WIDTH))
            model.eval()
            model(torch.ones(5, WIDTH))
            model.train()
        model(torch.ones(7, WIDTH))
        with torch.no_grad():
            again = model(torch.ones(3, WIDTH))
        calls = clock.take_root_calls()
        recorded = clock.take()
    assert torch.equal(first, again)
    assert recorded == []
    assert [(one.training, one.is_grad, one.items) for one in calls] == [
        (True, False, 3),
        (False, False, 5),
        (True, True, 7),
    ]
    assert calls[0].began < calls[0].ended <= calls[1].began
