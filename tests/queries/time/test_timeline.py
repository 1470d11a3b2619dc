"""The last minutes in columns, against figures computed from the ticks and samples themselves."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from msgspec.structs import replace

from tests.fixtures.record import recorded
from tests.screens.panel_session import FACTS, H200, LOADING, TRACED, folded, sample, tick
from tui_profiler.messages import Ended, Message, Sample, Tick
from tui_profiler.queries.time.timeline import Axis, axis, marks, past, steps, usual_step
from tui_profiler.session import EMPTY, Session
from tui_profiler.session.history import MAX_SECONDS

BEGIN: tuple[Message, ...] = (*LOADING, *TRACED)


def ticks(*told: tuple[float, int]) -> Session:
    """Ticks at times, with the forwards so far; each has its number of forwards as its latency."""
    return folded((*BEGIN, *(latency(at, forwards) for at, forwards in told)))


def latency(at: float, forwards: int, seconds: float | None = None) -> Tick:
    p50 = forwards / 1000 if seconds is None else seconds
    return replace(tick(at, calls=forwards), latency_p50=p50, latency_p95=2 * p50)


@pytest.mark.parametrize("step", [1, 2, 5])
def test_the_figures_of_a_recorded_session_are_those_of_its_messages(step):
    messages = recorded()
    session = folded(messages)
    told = [m for m in messages if isinstance(m, Tick) and m.forwards > 0]
    last_of_second = {math.floor(m.at): m for m in told}
    newest = math.floor(told[-1].at / step)
    columns = 20
    p50: list[float | None] = [None] * columns
    p95: list[float | None] = [None] * columns
    for second, said in sorted(last_of_second.items()):
        column = columns - 1 - (newest - second // step)
        if column >= 0:
            p50[column] = said.latency_p50
            p95[column] = max(p95[column] or 0.0, said.latency_p95)
    cpu: list[list[float]] = [[] for _ in range(columns)]
    samples = {math.floor(m.at): m for m in messages if isinstance(m, Sample)}
    for second, said in samples.items():
        column = columns - 1 - (newest - second // step)
        if 0 <= column < columns:
            cpu[column].append(sum(core.utilisation for core in said.cores) / len(said.cores))
    found = past(session, axis(session, told[-1].at, columns, step))
    assert (list(found.p50), list(found.p95)) == (p50, p95)
    assert list(found.cpu) == pytest.approx([sum(c) / len(c) if c else None for c in cpu])
    assert found.gpu == (None,) * columns


def test_a_second_in_which_no_forward_was_finished_is_blank():
    session = ticks((10.0, 5), (11.0, 8), (12.0, 8), (12.5, 8), (13.0, 9))
    found = past(session, axis(session, 13.0, 5, 1))
    assert found.p50 == (None, 0.005, 0.008, None, 0.009)


def test_seconds_without_data_are_blank_and_the_present_moves_on():
    session = ticks((10.0, 5), (11.0, 8))
    assert past(session, axis(session, 13.9, 5, 1)).p50 == (None, 0.005, 0.008, None, None)


def test_columns_advance_one_at_a_time():
    session = ticks(*((float(second), second) for second in range(10, 40)))
    before = past(session, axis(session, 39.0, 6, 5)).p50
    assert past(session, axis(session, 39.9, 6, 5)).p50 == before
    assert past(session, axis(session, 40.0, 6, 5)).p50 == (*before[1:], None)


def test_a_forward_longer_than_a_column_fills_those_that_it_ran_in():
    session = folded((*BEGIN, latency(10.0, 1, 0.5), latency(20.0, 2, 4.0)))
    found = past(session, axis(session, 20.0, 12, 1)).p50
    assert found == (None, 0.5, *[None] * 5, *[4.0] * 5)


def test_after_the_end_the_axis_stands_still():
    session = folded((Ended(0, True, 1, 5.0),), ticks((10.0, 5), (11.0, 8)))
    assert axis(session, 99.0, 5, 1) == Axis(5, 1, 11)


def test_a_clock_that_was_set_back_harms_nothing():
    session = ticks((90.0, 5), (11.0, 8))
    assert past(session, axis(session, 11.0, 3, 1)).p50 == (None, None, 0.008)


def test_a_gpu_and_its_power_are_that_of_the_model():
    other = replace(H200, utilisation=0.1, power_watts=70.0, cuda_index=0)
    mine = replace(H200, cuda_index=1)
    at_one = folded((replace(FACTS, device="cuda:1"), sample(5.0, gpus=(other, mine))))
    found = past(at_one, axis(at_one, 5.0, 1, 1))
    assert (found.gpu, found.watts) == ((0.97,), (412.0,))
    on_cpu = folded((FACTS, sample(5.0, gpus=(other, mine), package_watts=31.0)))
    found = past(on_cpu, axis(on_cpu, 5.0, 1, 1))
    assert (found.gpu, found.watts) == ((0.1,), (31.0,))


def test_of_nothing_every_column_is_blank():
    found = past(EMPTY, axis(EMPTY, 3.0, 2, 5))
    assert found.p50 == found.p95 == found.cpu == found.gpu == found.watts == (None, None)


@pytest.mark.parametrize("columns", [1, 31, 45, 85, 165])
def test_spans_reach_as_far_as_the_past_and_begin_at_five_minutes(columns):
    possible = steps(columns)
    assert usual_step(columns) in possible
    assert all(step * columns < MAX_SECONDS for step in possible[:-1])
    assert usual_step(columns) == possible[-1] or usual_step(columns) * columns >= 300


@pytest.mark.parametrize("columns", [1, 31, 45, 85, 165])
@pytest.mark.parametrize("step", [1, 2, 5, 10, 20, 30])
def test_times_stand_below_their_own_columns(columns, step):
    found = marks(Axis(columns, step, 100))
    assert all((columns - 1 - column) * step == ago for column, ago in found)
    assert all(b[0] - a[0] >= 12 for a, b in pairwise(found))
