from __future__ import annotations

import math

import pytest
from torch import nn

from tui_profiler.probe.measure.clock.call_recorder import Watching, _Begun
from tui_profiler.probe.measure.clock.thread_usage import ThreadUsageReader
from tui_profiler.probe.measure.clock.warm_up import Throughput, WarmUp


def forwards_in_warm_up(*seconds: float) -> int:
    warm_up = WarmUp()
    taken = [warm_up.takes(one) for one in seconds]
    assert taken == sorted(taken, reverse=True)
    assert warm_up.forwards == sum(taken)
    return sum(taken)


def test_the_first_forward_and_three_alike_are_the_warm_up() -> None:
    assert forwards_in_warm_up(0.5, *[0.01] * 20) == 4


def test_it_goes_on_while_forwards_get_faster() -> None:
    assert forwards_in_warm_up(0.5, 0.2, 0.1, 0.05, *[0.01] * 20) == 7


def test_within_a_fifth_of_the_median_is_alike() -> None:
    assert forwards_in_warm_up(1.0, 0.081, 0.1, 0.119, *[0.1] * 20) == 4
    assert forwards_in_warm_up(1.0, 0.079, 0.1, 0.121, *[0.1] * 20) > 4


def test_the_first_is_never_one_of_the_three() -> None:
    assert forwards_in_warm_up(*[0.01] * 20) == 4


def test_a_model_that_is_never_steady_is_warm_after_ten() -> None:
    assert forwards_in_warm_up(*[0.01, 0.1] * 20) == 10


def test_a_slow_model_is_warm_after_five_seconds() -> None:
    assert forwards_in_warm_up(4.0, 3.0, 3.0, 3.0, 3.0) == 2
    assert forwards_in_warm_up(60.0, 50.0) == 1


def test_no_throughput_before_the_first_forward() -> None:
    assert math.isnan(Throughput().per_second())


def test_the_time_since_the_forward_before_counts() -> None:
    throughput = Throughput()
    throughput.add(10.0, 11.0, 4)
    throughput.add(11.0, 12.0, 4)
    assert throughput.per_second() == pytest.approx(4.0)


def test_forwards_that_overlap_add_only_what_they_took_longer() -> None:
    throughput = Throughput()
    throughput.add(10.0, 12.0, 4)
    throughput.add(12.0, 11.0, 4)  # It began and ended while the other one ran.
    throughput.add(12.0, 14.0, 4)
    assert throughput.per_second() == pytest.approx(12 / 4)


def test_a_gap_is_forgotten_with_the_seconds_that_it_lies_in() -> None:
    throughput = Throughput()
    throughput.add(None, 1.0, 4)
    assert throughput.gaps == 1
    throughput.add(1.0, 2.0, 4)
    assert throughput.per_second() == pytest.approx(4.0), "the items before the gap are in no time"
    for at in range(2, 8):
        throughput.add(at, at + 1.0, 4)
    assert throughput.gaps == 0
    assert throughput.per_second() == pytest.approx(4.0)


def test_memory_does_not_grow_with_fast_forwards() -> None:
    throughput = Throughput()
    for at in range(200_000):
        throughput.add(at / 1e4, (at + 1) / 1e4, 1)
    assert len(throughput._buckets) < 200
    assert throughput.per_second() == pytest.approx(1e4)


def test_a_forward_on_another_thread_that_ended_sooner_and_is_noted_later_moves_no_end() -> None:
    """Threads note their forwards in any order: the time since the last end never goes back."""
    root = nn.Identity()
    watching = Watching(nn.Module.__call__, 100)
    reading = ThreadUsageReader().read()
    begun = _Begun([], True, True, False, "no_grad", reading, None, False)
    for start, end in ((10.0, 15.0), (12.0, 14.0), (16.0, 17.0)):
        watching._finish(root, begun, start, end)
    taken = watching.take()
    assert [one.since for one in taken] == [None, 15.0, 15.0]
    throughput = Throughput()
    for one, end in zip(taken[1:], (14.0, 17.0), strict=True):
        assert one.since is not None
        throughput.add(one.since, end, 4)
    assert throughput.per_second() == pytest.approx(8 / 2)


def test_rare_forwards_are_a_warm_up_for_five_seconds_and_three_of_them() -> None:
    """A training with steps of 2.8 s has forwards of 0.1 to 0.3 s."""
    warm_up = WarmUp()
    taken = [warm_up.takes(0.1 * (1 + place % 3), ended=2.8 * place) for place in range(8)]
    assert taken.count(True) == 3
    quick = WarmUp()
    assert [quick.takes(0.1 * (1 + place % 3), ended=0.3 * place) for place in range(8)] == [
        True
    ] * 8
