"""A node's past, one value a second."""

from __future__ import annotations

import pytest

from tests.screens.panel_session import CONV2, CONV_OP, H200, LOADING, TRACED, folded, sample, tick
from tui_profiler.messages import Unknown
from tui_profiler.queries.time import series
from tui_profiler.session import EMPTY, Session


def ticked(*times: tuple[float, float]) -> Session:
    return folded((*LOADING, *TRACED, *(tick(at, last) for at, last in times)))


def test_each_second_gives_the_last_call_known_at_its_end():
    session = ticked((5.0, 0.001), (5.25, 0.002), (6.1, 0.003), (6.9, 0.004))
    assert series.last_calls(session, CONV2, 3) == (
        None,
        pytest.approx(0.002),
        pytest.approx(0.004),
    )


def test_a_second_without_a_tick_is_blank():
    session = ticked((5.0, 0.001), (8.0, 0.002))
    assert series.last_calls(session, CONV2, 4) == (
        pytest.approx(0.001),
        None,
        None,
        pytest.approx(0.002),
    )


def test_seconds_further_back_than_asked_for_are_left_out():
    session = ticked(*((5.0 + second, 0.001 * (second + 1)) for second in range(10)))
    assert series.last_calls(session, CONV2, 2) == (pytest.approx(0.009), pytest.approx(0.010))


def test_a_clock_that_was_set_back_harms_nothing():
    session = ticked((9.0, 0.001), (5.0, 0.002))
    assert series.last_calls(session, CONV2, 2) == (None, pytest.approx(0.002))


@pytest.mark.parametrize("columns", [0, -1])
def test_no_columns_give_no_values(columns):
    assert series.last_calls(ticked((5.0, 0.001)), CONV2, columns) == ()


def test_what_is_not_timed_has_no_past():
    assert series.last_calls(ticked((5.0, 0.001)), CONV_OP, 2) == (None, None)
    assert series.last_calls(EMPTY, CONV2, 2) == (None, None)


def test_samples_fill_from_the_right():
    session = folded((sample(1.0), sample(2.0, process_bytes=Unknown("no such process"))))
    assert series.utilisation(session, 3) == (None, pytest.approx(0.97), pytest.approx(0.97))
    assert series.process_memory(session, 3) == (
        None,
        pytest.approx(812 * 2**20 / 8_321_499_136),
        None,
    )


def test_a_gpu_that_comes_later_has_no_earlier_past():
    session = folded((sample(1.0), sample(2.0, gpus=(H200,))))
    assert series.gpu_utilisation(session, 0, 2) == (None, 0.97)
    assert series.gpu_utilisation(session, 1, 2) == (None, None)
