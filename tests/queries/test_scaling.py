"""Exponents, their words, and the knee, against numpy and against laws that are known."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from msgspec.structs import replace

from tests.queries.sweeps import AT, swept
from tui_profiler.messages import Unknown
from tui_profiler.queries.scaling import MOST_SPREAD, fit, knees, scalings, time_slope
from tui_profiler.queries.sweep import Sweep
from tui_profiler.reports.text.sweep import sweep_table

SETTINGS = (1, 2, 4, 8, 16)


def law(power: float, *, noise: float = 0.0, rounds: int = 2) -> list[tuple[int, list[float]]]:
    chance = random.Random(3)
    return [
        (x, [1e-3 * x**power * math.exp(chance.gauss(0, noise)) for _ in range(rounds)])
        for x in SETTINGS
    ]


@pytest.mark.parametrize("power", [-1.0, 0.0, 0.5, 1.0, 2.0])
def test_an_exact_law_gives_its_own_power(power: float) -> None:
    slope = fit(law(power))
    assert slope.exponent == pytest.approx(power, abs=1e-12)
    assert slope.spread == pytest.approx(0, abs=1e-9)


def test_the_slope_is_that_of_least_squares() -> None:
    observed = law(1.3, noise=0.1, rounds=3)
    x = np.log([s for s, values in observed for _ in values])
    y = np.log([value for _, values in observed for value in values])
    assert fit(observed).exponent == pytest.approx(np.polyfit(x, y, 1)[0], rel=1e-9)


def test_the_spread_of_one_round_is_that_of_the_line() -> None:
    """Student's t for three degrees of freedom is 3.182; numpy gives the variance of the slope."""
    observed = law(1.0, noise=0.1, rounds=1)
    x = np.log([s for s, _ in observed])
    y = np.log([values[0] for _, values in observed])
    _, covariance = np.polyfit(x, y, 1, cov=True)
    assert fit(observed).spread == pytest.approx(3.182 * np.sqrt(covariance[0, 0]), rel=1e-6)


def test_ninety_five_of_a_hundred_intervals_hold_the_power() -> None:
    chance = np.random.default_rng(7)
    held = 0
    for _ in range(2000):
        noise = chance.normal(0, 0.08, (len(SETTINGS), 2))
        slope = fit(
            [(x, list(1e-3 * x * np.exp(row))) for x, row in zip(SETTINGS, noise, strict=True)]
        )
        assert slope.spread is not None
        held += abs(slope.exponent - 1) <= slope.spread
    assert 0.935 <= held / 2000 <= 0.965


@pytest.mark.parametrize(
    ("power", "word"),
    [
        (-1.0, "inverse"),
        (0.1, "flat"),
        (0.5, "between flat and linear"),
        (0.9, "linear"),
        (2.1, "quadratic"),
        (1.5, "between linear and quadratic"),
    ],
)
def test_a_power_has_its_word(power: float, word: str) -> None:
    assert fit(law(power)).word == word


def test_a_cost_that_is_fixed_at_first_says_both() -> None:
    """100 µs, and 1 µs for each item, up to 10,000 items: flat, then linear."""
    observed = [(x, [1e-4 + 1e-6 * x] * 2) for x in (1, 10, 100, 1000, 10_000)]
    assert fit(observed).word == "flat, then linear"


@pytest.mark.parametrize(
    ("timed", "reason"),
    [
        ([], "it was not timed"),
        ([(1, [1e-3]), (2, [2e-3])], "timed at 2 of 5 points, 3 needed"),
        ([(1, [1e-3])], "timed at 1 of 5 points, 3 needed"),
        ([(1, [2e-6]), (2, [4e-6]), (4, [8e-6])], "as short as 2.0 µs: too short for the clock"),
    ],
)
def test_times_that_carry_no_exponent_say_why(
    timed: list[tuple[int, list[float]]], reason: str
) -> None:
    assert time_slope(timed, 5) == Unknown(reason)


def test_unsteady_times_carry_none() -> None:
    slope = time_slope([(x, [1e-3 * x, 9e-3 * x]) for x in (1, 2, 4)], 3)
    assert isinstance(slope, Unknown)
    assert slope.reason.startswith("too noisy: 1.00 ± ")
    assert fit([(x, [1e-3 * x, 9e-3 * x]) for x in (1, 2, 4)]).spread > MOST_SPREAD  # type: ignore[operator]


@pytest.mark.parametrize(("apart", "is_known"), [(1.19, True), (1.22, False)])
def test_an_exponent_is_known_to_three_tenths_or_not_at_all(
    apart: float, *, is_known: bool
) -> None:
    """Of four degrees of freedom, t = 2.776 times the standard error: 0.28 and 0.32."""
    slope = time_slope([(x, [1e-3 * x, apart * 1e-3 * x]) for x in (1, 2, 4)], 3)
    assert isinstance(slope, Unknown) is not is_known


def test_each_node_grows_as_it_was_made_to() -> None:
    """Times 1 ms + 0.1 ms an item, FLOPs in proportion to the batch: see ``sweeps``."""
    (scaling,) = scalings(swept())
    root, linear = scaling.nodes[:2]
    assert (scaling.axis, scaling.highest, scaling.at) == ("batch", 16, ())
    assert not isinstance(linear.time, Unknown)
    assert linear.time.word == "linear"
    assert not isinstance(root.flops, Unknown)
    assert (root.flops.exponent, root.flops.spread) == (pytest.approx(1.0), None)


def test_the_knee_is_where_a_fixed_and_a_growing_cost_are_equal() -> None:
    """Of a + b·n the power n / (a + b·n)² is greatest at n = a / b: here 1 ms / 0.125 ms = 8."""
    (knee,) = knees(swept(fixed=1e-3, each=0.125e-3))
    assert (knee.batch, knee.is_first, knee.is_last) == (8, False, False)
    assert knee.gain == pytest.approx((8 / 2e-3) / (1 / 1.125e-3))
    assert knee.cost == pytest.approx(2e-3 / 1.125e-3)


def test_without_a_fixed_cost_the_smallest_batch_is_the_knee() -> None:
    (knee,) = knees(swept(fixed=0.0, each=1e-3))
    assert knee.is_first


def in_rounds(*latencies: tuple[float, float]) -> Sweep:
    """Return batches 1, 2, 4, … whose latency differs between two rounds."""
    sweep = swept(fixed=1e-3, each=0.125e-3)
    visits = tuple(
        replace(
            visit,
            latency_p50=latencies[visit.place][visit.round],
            items_per_second=2**visit.place / latencies[visit.place][visit.round],
        )
        for visit in sweep.visits
    )
    return replace(sweep, visits=visits)


def test_batches_that_the_rounds_do_not_tell_apart_are_a_range() -> None:
    quiet = [(1.12, 1.13), (1.25, 1.25), (1.5, 1.5), (2.0, 2.0), (3.0, 3.0)]
    (sure,) = knees(in_rounds(*quiet))
    assert (sure.least_batch, sure.batch, sure.most_batch, sure.is_distinct) == (8, 8, 8, True)
    busy = [*quiet[:2], (1.4, 1.6), (1.9, 2.1), quiet[-1]]
    (near,) = knees(in_rounds(*busy))  # 1.4 ms at 4 is better than 2.1 ms at 8.
    assert (near.least_batch, near.batch, near.most_batch, near.is_distinct) == (4, 8, 8, True)


def test_rounds_that_differ_more_than_the_batches_have_no_knee() -> None:
    (knee,) = knees(in_rounds((0.5, 22.0), (35.0, 285.0), (92.0, 286.0), (9.0, 9.0), (9.0, 300.0)))
    assert not knee.is_distinct
    text = "\n".join(sweep_table(in_rounds(*[(0.5, 300.0)] * 5), columns=100))
    assert "– too noisy: the rounds differ more than the batches" in text


def test_a_failed_point_is_in_no_fit() -> None:
    (scaling,) = scalings(swept(failed={AT[16]: "out of memory"}))
    assert scaling.highest == 8
    assert not isinstance(scaling.nodes[1].time, Unknown)
    assert scaling.nodes[1].time.points == 4
