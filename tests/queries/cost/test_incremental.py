"""Long questions in small steps, and what a new tick has worked out before it is shown."""

from __future__ import annotations

from array import array
from collections.abc import Generator
from itertools import accumulate

import pytest

from benchmarks.terminal.tree import messages
from tui_profiler.connection import wire
from tui_profiler.queries.cost.bound import limits, mix_arguments, mixes
from tui_profiler.queries.cost.incremental import STEP, Incremental, sums_in_steps
from tui_profiler.queries.forward.strip import own_sums, prepared
from tui_profiler.session import EMPTY, Session, apply

NODES = 3 * STEP


def counted(asked: list[object]) -> Incremental[int]:
    @Incremental
    def answer(of: object) -> Generator[None, None, int]:
        asked.append(of)
        yield
        yield
        return len(asked)

    return answer


def test_a_question_is_worked_out_once_whether_in_steps_or_at_once() -> None:
    asked: list[object] = []
    answer, of, other = counted(asked), object(), object()
    assert len(list(answer.steps(of))) == 2
    assert answer(of) == 1
    assert list(answer.steps(of)) == []
    assert answer(other) == 2
    assert answer(of) == 1
    assert asked == [of, other]


def test_steps_that_were_left_answer_nothing() -> None:
    asked: list[object] = []
    answer = counted(asked)
    next(answer.steps("a"))
    assert answer("a") == 2


@pytest.mark.parametrize("count", [0, 1, STEP - 1, STEP, 2 * STEP + 1])
def test_sums_in_steps_are_running_sums(count: int) -> None:
    column = array("d", range(count))
    assert Incremental(sums_in_steps)(column) == array("d", accumulate(column))


@pytest.fixture(scope="module")
def large() -> Session:
    session, decoder = EMPTY, wire.message_decoder()
    for frame in messages(NODES):
        for message in decoder.feed(frame):
            session = apply(session, message)
    return session


def test_no_step_of_a_new_tick_goes_through_more_than_a_few_thousand_nodes(large: Session) -> None:
    # Own times and each bound's are added up, after what holds each node back was found.
    assert len(list(prepared(large))) >= (2 + 3 + 4) * NODES // STEP


def test_what_was_prepared_is_not_worked_out_again(large: Session) -> None:
    list(prepared(large))
    tree, ceilings, timings = large.tree, large.ceilings, large.timings
    assert tree is not None
    assert timings is not None
    assert list(own_sums.steps(tree, timings)) == []
    assert list(limits.steps(tree, ceilings)) == []
    assert ceilings is not None
    assert list(mixes.steps(*mix_arguments(large, ceilings))) == []
    assert list(prepared(large)) == []
    assert sum(mixes(*mix_arguments(large, ceilings)).of(0)) == pytest.approx(
        own_sums(tree, timings)[-1]
    )


def test_nothing_is_prepared_before_there_are_times() -> None:
    assert list(prepared(EMPTY)) == []
