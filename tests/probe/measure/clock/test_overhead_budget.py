from __future__ import annotations

import random
from statistics import median

import pytest

from tui_profiler.messages import Overhead
from tui_profiler.probe.measure.clock.overhead_budget import (
    COLD_FACTOR,
    LEAST_COMPARED,
    LEAST_ROOM,
    LEAST_SHARE,
    MARGIN,
    MOST_FACTOR,
    CallCost,
    EstimatedCost,
    Governor,
    MeasuredCost,
    StepCost,
    interval_of_median,
    interval_of_share,
    seconds_to_next_tick,
    total_overhead,
)


def overhead(ratio: float, low: float, high: float) -> Overhead:
    return Overhead(ratio=ratio, low=low, high=high, pairs=30)


@pytest.mark.parametrize(
    ("count", "rank"),
    # Tabulated ranks of the 95 % interval of a median: Conover, and many a table after him.
    [(6, 1), (8, 1), (9, 2), (12, 3), (15, 4), (20, 6), (25, 8), (30, 10), (50, 18), (100, 40)],
)
def test_the_interval_has_the_tabulated_ranks(count: int, rank: int) -> None:
    assert interval_of_median([float(place) for place in range(1, count + 1)]) == (
        rank,
        count + 1 - rank,
    )


def test_fewer_than_six_pairs_give_no_interval() -> None:
    assert interval_of_median([1.0] * 5) is None
    meter = MeasuredCost()
    for _ in range(5):
        meter.add(1.0, 1.0)
    assert total_overhead(meter) is None


def test_the_interval_holds_the_median_as_often_as_promised() -> None:
    chance = random.Random(4)
    held = 0
    for _ in range(2_000):
        values = [chance.expovariate(1.0) for _ in range(31)]
        low, high = interval_of_median(values) or (0.0, 0.0)
        held += low <= 0.6931 <= high
    assert held / 2_000 > 0.95


def test_the_ratio_is_the_median_of_the_pairs_less_one() -> None:
    meter = MeasuredCost()
    watched = [1.01, 1.03, 1.02, 1.05, 1.00, 9.0, 1.02]
    for seconds in watched:
        meter.add(seconds, 1.0)
    found = total_overhead(meter)
    assert found is not None
    assert found.ratio == pytest.approx(median(watched) - 1)
    assert found.low == pytest.approx(0.0)
    assert found.high == pytest.approx(8.0)
    assert found.pairs == 7


def test_a_drift_that_falls_on_both_halves_of_a_pair_is_not_overhead() -> None:
    meter = MeasuredCost()
    for pair in range(20):
        slowness = 1 + pair
        meter.add(1.02 * slowness, 1.0 * slowness)
    found = total_overhead(meter)
    assert found is not None
    assert found.low == pytest.approx(0.02)
    assert found.high == pytest.approx(0.02)


def test_pairs_without_time_are_left_out() -> None:
    meter = MeasuredCost()
    for _ in range(6):
        meter.add(0.0, 1.0)
        meter.add(1.0, 0.0)
    assert total_overhead(meter) is None


def test_only_the_latest_pairs_count() -> None:
    meter = MeasuredCost()
    for _ in range(500):
        meter.add(2.0, 1.0)
    for _ in range(200):
        meter.add(1.0, 1.0)
    found = total_overhead(meter)
    assert found is not None
    assert (found.ratio, found.pairs) == (0.0, 200)


def test_what_is_done_between_forwards_is_added() -> None:
    meter = MeasuredCost()
    for _ in range(6):
        meter.add(1.01, 1.0)
    for _ in range(4):
        meter.add_between(0.002, running_seconds=0.4)
    found = total_overhead(meter)
    assert found is not None
    assert (found.low, found.ratio, found.high) == pytest.approx((0.015, 0.015, 0.015))


def test_the_interval_holds_what_ticks_cost_apart_from_one_another() -> None:
    meter = MeasuredCost()
    for _ in range(6):
        meter.add(1.01, 1.0)
    for seconds in (0.020, 0.004, 0.006):
        meter.add_between(seconds, running_seconds=0.5)
    found = total_overhead(meter)
    assert found is not None
    assert (found.low, found.ratio, found.high) == pytest.approx((0.018, 0.03, 0.05))


def test_of_many_ticks_the_interval_is_narrower_than_from_the_least_to_the_greatest() -> None:
    share, low, high = interval_of_share([(0.005, 0.5)] + [(0.001, 0.5)] * 9)
    # By hand: 1.4 ms of 500 a tick, 0.4 ms its standard error, 2.571 times as far the ends.
    assert share == pytest.approx(0.0028)
    assert low == pytest.approx(0.002)  # Less than the least tick is not possible.
    assert high == pytest.approx(0.0028 + 2.571 * 0.0004 / 0.5)


def test_the_interval_holds_the_share_of_a_longer_run_as_often_as_promised() -> None:
    chance = random.Random(4)
    held = 0
    for _ in range(2_000):
        parts = [(chance.uniform(0.5, 1.5), chance.uniform(50, 150)) for _ in range(8)]
        _, low, high = interval_of_share(parts)
        held += low <= 0.01 <= high
    assert held / 2_000 > 0.95


def test_few_ticks_reach_from_the_least_share_to_the_greatest() -> None:
    """Of five, one of which took ten times as long, a standard error would reach less far."""
    found = interval_of_share([(0.010, 0.5)] + [(0.001, 0.5)] * 4)
    assert found == pytest.approx((0.0056, 0.002, 0.02))


def test_a_share_is_of_all_parts_together() -> None:
    share, *_ = interval_of_share([(0.01, 0.5), (0.01, 4.5)])
    assert share == pytest.approx(0.02 / 5)


def test_what_is_done_between_forwards_costs_the_same_however_few_are_recorded() -> None:
    meter = MeasuredCost()
    for _ in range(6):
        meter.add(1.10, 1.0)
        meter.add_between(0.002, running_seconds=0.4)
    found = total_overhead(meter, share=0.2)
    assert found is not None
    assert (found.low, found.ratio, found.high) == pytest.approx((0.025, 0.025, 0.025))


def test_windows_cost_what_they_take_of_the_time_from_one_to_the_next() -> None:
    meter = MeasuredCost()
    for _ in range(6):
        meter.add(1.01, 1.0)
    meter.windows_share = 0.003
    found = total_overhead(meter, share=0.5)
    assert found is not None
    assert (found.low, found.ratio, found.high) == pytest.approx((0.008, 0.008, 0.008))
    assert meter.between() == pytest.approx((0.003, 0.003, 0.003))


def test_a_share_of_the_forwards_costs_a_share() -> None:
    meter = MeasuredCost()
    for _ in range(6):
        meter.add(1.10, 1.0)
    found = total_overhead(meter, share=0.2)
    assert found is not None
    assert found.ratio == pytest.approx(0.02)


def test_both_ends_of_the_interval_cost_a_share() -> None:
    meter = MeasuredCost()
    for cost in (1.08, 1.09, 1.10, 1.10, 1.11, 1.12, 1.13):
        meter.add(cost, 1.0)
    whole, fifth = total_overhead(meter, share=1.0), total_overhead(meter, share=0.2)
    assert whole is not None
    assert fifth is not None
    for name in ("ratio", "low", "high"):
        assert getattr(fifth, name) == pytest.approx(getattr(whole, name) / 5)


def test_an_estimate_for_a_share_of_forwards_has_both_ends_at_that_share() -> None:
    cost = EstimatedCost()
    for seconds in (0.9, 1.0, 1.1):
        cost.add(100_000, seconds, 0.0, 10.0)
    whole, fifth = total_overhead(cost, 1.0), total_overhead(cost, 0.2)
    assert whole is not None
    assert fifth is not None
    assert 0 < whole.low < whole.high
    for name in ("ratio", "low", "high"):
        assert getattr(fifth, name) == pytest.approx(getattr(whole, name) / 5)


CALIBRATED = 2.5e-6
CALLS = 32


def learned(added: float, *, share: float, steps: int = 4_000, seed: int = 3) -> CallCost:
    """Return what is learned of steps of 2 ms, one in ten of which takes up to six times as long.

    Args:
        added: seconds per call that recording adds.
        share: of the steps that are recorded.
        steps: how many.
        seed: of what they take.
    """
    chance, cost, due = random.Random(seed), StepCost(CALIBRATED), 0.0
    for _ in range(steps):
        due += share
        calls = CALLS if due >= 1.0 else 0
        due -= due >= 1.0
        seconds = (
            2e-3 * chance.uniform(0.9, 1.1) * (chance.uniform(1, 6) ** (chance.random() < 0.1))
        )
        cost.add(seconds + calls * added, calls)
    return cost.call


@pytest.mark.parametrize("share", [0.05, 0.3, 0.5, 0.9])
def test_what_recording_a_step_costs_is_learned_beside_noise(share: float) -> None:
    found = learned(9e-6, share=share)
    assert found.seconds == pytest.approx(9e-6, rel=0.2)
    assert found.low <= 9e-6 <= found.high < 12e-6


def test_what_is_learned_is_never_below_what_is_calibrated_nor_far_above() -> None:
    assert learned(-5e-6, share=0.3).low == CALIBRATED
    assert learned(-50e-6, share=0.3) == CallCost(CALIBRATED, CALIBRATED, CALIBRATED)
    most = MOST_FACTOR * CALIBRATED
    assert learned(500e-6, share=0.3) == CallCost(most, most, most)


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_before_steps_can_be_compared_the_worst_that_was_seen_is_held(share: float) -> None:
    found = learned(9e-6, share=share)
    assert (found.low, found.high) == (CALIBRATED, COLD_FACTOR * CALIBRATED)


def test_nothing_is_compared_across_what_is_no_step() -> None:
    cost = StepCost(CALIBRATED)
    for _ in range(LEAST_COMPARED):
        for calls in (0, CALLS):
            cost.add(1.0 + calls * 9e-6, calls)
            cost.skip()
    assert cost.call.high == COLD_FACTOR * CALIBRATED
    for _ in range(LEAST_COMPARED):
        for calls in (0, CALLS):
            cost.add(1.0 + calls * 9e-6, calls)
    assert cost.call.seconds == pytest.approx(9e-6)


def test_an_estimate_is_of_what_was_learned_where_it_was() -> None:
    cost = EstimatedCost()
    cost.add(1_000, 1.0, 0.0, 1.0, call=CallCost(9e-6, 8e-6, 11e-6))
    found = cost.recording()
    assert found is not None
    assert (found.ratio, found.low, found.high) == pytest.approx((9e-3, 8e-3, 11e-3))


def test_every_forward_is_recorded_within_the_budget() -> None:
    governor = Governor(budget=0.02)
    governor.update(overhead(0.01, 0.005, 0.015))
    assert all(governor.records_next() for _ in range(100))


def test_a_cost_above_the_budget_is_cut_to_a_share_evenly_spread() -> None:
    governor = Governor(budget=0.02)
    governor.update(overhead(0.03, 0.02, MARGIN * 0.1))
    recorded = [governor.records_next() for _ in range(100)]
    assert sum(recorded) == 20
    assert recorded[4::5] == [True] * 20


def test_the_upper_end_of_what_recording_costs_fits_into_the_budget_with_room() -> None:
    governor = Governor(budget=0.02)
    for ratio in (0.021, 0.05, 0.3):
        governor.update(overhead(ratio, ratio - 0.01, ratio + 0.01))
        assert governor.share * (ratio + 0.01) == pytest.approx(MARGIN * 0.02)


def test_what_is_paid_anyway_leaves_less_for_recording() -> None:
    governor = Governor(budget=0.02)
    governor.update(overhead(0.05, 0.04, 0.06), between=0.005)
    assert governor.share * 0.06 + 0.005 == pytest.approx(MARGIN * 0.02)


def test_what_is_paid_anyway_counts_against_the_budget() -> None:
    governor = Governor(budget=0.02)
    governor.update(overhead(0.018, 0.016, 0.02), between=0.003)
    assert governor.share * 0.02 + 0.003 == pytest.approx(MARGIN * 0.02)


def test_where_it_is_all_of_the_budget_recording_still_gets_a_little() -> None:
    governor = Governor(budget=0.02)
    governor.update(overhead(0.005, 0.004, 0.01), between=0.03)
    assert governor.share * 0.01 == pytest.approx(LEAST_ROOM * 0.02)


@pytest.mark.parametrize("share", [0.3, 0.45, 0.7, 0.95])
def test_as_many_forwards_are_recorded_as_the_share_says(share: float) -> None:
    governor = Governor(budget=0.02)
    governor.share = share
    recorded = [governor.records_next() for _ in range(1_000)]
    assert sum(recorded) == pytest.approx(1_000 * share, abs=1)


def test_a_cost_just_below_the_budget_is_cut_because_it_may_be_above() -> None:
    governor = Governor(budget=0.02)
    governor.update(overhead(0.015, 0.01, 0.02))
    assert governor.share == pytest.approx(MARGIN * 0.02 / 0.02)


def test_a_cost_between_room_and_budget_takes_nothing_back() -> None:
    governor = Governor(budget=0.02)
    governor.update(overhead(0.011, 0.01, 0.03))
    assert governor.share == 1.0
    governor.update(overhead(0.03, 0.02, 0.04))
    assert governor.share == pytest.approx(MARGIN * 0.02 / 0.04)
    governor.update(overhead(0.011, 0.01, 0.05))
    assert governor.share == pytest.approx(MARGIN * 0.02 / 0.04)


def test_a_share_that_was_decided_at_a_worse_time_does_not_last() -> None:
    governor = Governor(budget=0.02)
    governor.update(overhead(0.3, 0.2, 0.4), between=0.008)
    governor.update(overhead(0.018, 0.01, 0.03), between=0.001)
    assert governor.share == pytest.approx((MARGIN * 0.02 - 0.001) / 0.03)


def test_every_forward_is_recorded_again_when_it_costs_less() -> None:
    governor = Governor(budget=0.02)
    governor.update(overhead(0.08, 0.07, 0.09))
    governor.update(overhead(MARGIN * 0.02 - 0.001, 0.002, 0.02))
    assert governor.share == 1.0


def test_some_forwards_are_recorded_whatever_it_costs() -> None:
    governor = Governor(budget=0.0)
    governor.update(overhead(5.0, 4.0, 6.0))
    assert governor.share == LEAST_SHARE
    assert sum(governor.records_next() for _ in range(1_000)) == pytest.approx(5, abs=1)


def test_of_short_steps_a_smaller_share_is_recorded_but_one_per_second() -> None:
    governor = Governor(budget=0.0)
    for seconds, share in ((0.5, LEAST_SHARE), (0.002, 0.002), (0.0005, 0.0005)):
        governor.update(overhead(5.0, 4.0, 6.0), step_seconds=seconds)
        assert governor.share == share


def test_where_the_budget_is_used_up_no_more_than_one_step_per_second_is_recorded() -> None:
    governor = Governor(budget=0.02)
    for seconds, share in ((0.1, LEAST_ROOM * 0.02 / 0.15), (0.0025, 0.0025)):
        governor.update(overhead(0.13, 0.12, 0.15), between=0.017, step_seconds=seconds)
        assert governor.share == pytest.approx(share)


@pytest.mark.parametrize(
    ("cost_seconds", "budget", "seconds"),
    [(0.0001, 0.02, 0.25), (0.001, 0.02, 0.5), (0.5, 0.02, 1.0), (0.001, 0.0, 1.0)],
)
def test_ticks_that_cost_more_come_less_often(
    cost_seconds: float, budget: float, seconds: float
) -> None:
    assert seconds_to_next_tick(cost_seconds, budget) == pytest.approx(seconds)
