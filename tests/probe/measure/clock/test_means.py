"""Means over one set of forwards, held against sums made here, forward by forward."""

from __future__ import annotations

import random
from collections import deque

import numpy as np
import pytest
from torch import nn

from tests.probe.measure.clock.module_nodes import module_nodes
from tests.probe.measure.clock.test_aggregate import UNIT, WARM, block, forward, simple
from tui_profiler.messages import Tick
from tui_profiler.probe.measure.clock.aggregate import LEAST_LATENCIES, Aggregator
from tui_profiler.probe.measure.clock.clock import Forward
from tui_profiler.probe.measure.clock.thread_usage import ThreadUsage
from tui_profiler.probe.measure.clock.totals_columns import BLOCKS

ROOT, A, B, C, D = range(5)
CHILDREN = {ROOT: (A, D), A: (B, C)}


def means(tick: Tick) -> dict[int, tuple[float, float]]:
    """Mean and own mean of every node, in units."""
    nodes = np.frombuffer(tick.nodes, np.uint32).tolist()
    columns = [
        (np.frombuffer(column, np.float32).astype(float) / UNIT).tolist()
        for column in (tick.mean_per_forward, tick.own_mean_per_forward)
    ]
    return dict(zip(nodes, zip(*columns, strict=True), strict=True))


def tick_nodes(tick: Tick) -> list[int]:
    return np.frombuffer(tick.nodes, np.uint32).tolist()


def busy(
    model: nn.Module, chance: random.Random, *, calls_d: int = 1
) -> tuple[Forward, list[float]]:
    """A forward in which a part, and another one each time, is interrupted; its units by node."""
    late = chance.choice((A, B, C, D))
    took = {B: 1.0, C: 2.0, D: 3.0, A: 0.5, ROOT: 0.25}
    took[late] += chance.uniform(2.0, 9.0)
    at = took[ROOT]
    start_a = at
    b = (model.a.b, at, at := at + took[B])
    c = (model.a.c, at, at := at + took[C])
    at += took[A]
    a = (model.a, start_a, at)
    begins = [at + number * took[D] for number in range(calls_d)]
    ds = [(model.d, begin, begin + took[D]) for begin in begins]
    at += calls_d * took[D] + 0.5  # Of the root itself: it ends last.
    spent = [at, took[A] + took[B] + took[C], took[B], took[C], calls_d * took[D]]
    return forward((model, 0.0, at), a, b, c, *ds), spent


def filled(model: nn.Module, recorded: list[Forward], window: int = 64) -> Tick:
    aggregator = Aggregator(module_nodes(model), model, window=window)
    aggregator.add([simple(model) for _ in range(WARM)])
    for one in recorded:
        aggregator.add([one])
    return aggregator.tick(1.0)


def test_means_add_up_where_medians_do_not() -> None:
    model, chance = block(), random.Random(3)
    made = [busy(model, chance, calls_d=1 + number % 2) for number in range(50)]
    tick = filled(model, [one for one, _ in made])
    found = means(tick)
    for node, children in CHILDREN.items():
        whole, own = found[node]
        assert own + sum(found[child][0] for child in children) == pytest.approx(whole, rel=1e-6)
    assert tick.mean_forwards == tick.forwards == len(made)
    expected = np.mean([spent for _, spent in made], axis=0)
    assert [found[node][0] for node in range(5)] == pytest.approx(expected.tolist(), rel=1e-6)
    # The medians of the same forwards leave a good part of the whole out.
    medians = np.frombuffer(tick.per_forward, np.float32)[np.argsort(tick_nodes(tick))]
    own = np.frombuffer(tick.own_per_forward, np.float32)[np.argsort(tick_nodes(tick))]
    assert (medians[B] + medians[C] + own[A]) / medians[A] < 0.8


def test_a_forward_far_beyond_the_others_is_left_out_as_a_whole() -> None:
    model = block()
    used = ThreadUsage(4 * UNIT, 2 * UNIT, 3, 0, 1, 5)
    usual = [
        simple(model, 1.0 + number % 3 / 10)._replace(usage=used)
        for number in range(LEAST_LATENCIES + 8)
    ]
    stalled = forward(
        (model, 0, 400), (model.a, 1, 7), (model.a.b, 2, 3), (model.a.c, 3, 5), (model.d, 7, 399)
    )._replace(usage=ThreadUsage(9 * UNIT, 390 * UNIT, 900, 7, 8, 9))
    with_one = filled(model, [*usual, stalled])
    without = filled(model, usual)
    assert (with_one.outliers, with_one.mean_forwards) == (1, without.mean_forwards)
    assert with_one.forwards == without.forwards + 1
    # Not even its calls that took no longer than ever are in the means.
    assert means(with_one) == means(without)
    # Nor is what its thread waited for.
    assert with_one.thread == without.thread
    assert with_one.thread is not None
    assert with_one.thread.waiting == pytest.approx(2 * UNIT)
    assert with_one.thread.involuntary_switches == pytest.approx(5.0)
    assert np.frombuffer(with_one.maximum, np.float32).max() == pytest.approx(400 * UNIT)


def test_what_means_leave_out_is_told_with_its_time_and_its_waiting() -> None:
    """40 forwards of 16 units wait for 1, one of 400 for 390: of all 1040 units 430 are waited."""
    model = block()
    used = ThreadUsage(4 * UNIT, 1 * UNIT, 3, 0, 1, 5)
    usual = [simple(model, 1.0)._replace(usage=used) for _ in range(LEAST_LATENCIES + 8)]
    each = usual[0].seconds
    stalled = forward(
        (model, 0, 400), (model.a, 1, 7), (model.a.b, 2, 3), (model.a.c, 3, 5), (model.d, 7, 399)
    )._replace(usage=ThreadUsage(9 * UNIT, 390 * UNIT, 900, 7, 8, 9))
    tick = filled(model, [*usual, stalled])
    assert tick.outliers == 1
    count = tick.mean_forwards
    whole = count * each + 400 * UNIT
    assert tick.outliers_share == pytest.approx(400 * UNIT / whole)
    assert tick.thread is not None
    assert tick.thread_of_all is not None
    assert tick.thread.waiting == pytest.approx(UNIT)
    assert tick.thread_of_all.waiting == pytest.approx((count + 390) * UNIT / (count + 1))
    assert tick.thread_of_all.seconds == pytest.approx(whole / (count + 1))


def test_that_forwards_ran_unseen_is_known() -> None:
    model = block()
    recorded = [simple(model) for _ in range(8)]
    followed = [one._replace(since=one.began) for one in recorded]
    assert not filled(model, [recorded[0], *followed]).is_sampled
    assert filled(model, [recorded[0], *followed, recorded[1], *followed]).is_sampled


def test_a_thread_uses_no_more_than_the_time_of_its_forward() -> None:
    # Readings lie outside of it: behind a forward of microseconds they take as long, or wait.
    model = block()
    used = ThreadUsage(100 * UNIT, 50 * UNIT, 3, 0, 1, 5)
    thread = filled(model, [simple(model, 1.0)._replace(usage=used)]).thread
    assert thread is not None
    assert thread.on_core == pytest.approx(thread.seconds)
    assert thread.waiting == 0.0


def test_forwards_that_vary_are_no_outliers() -> None:
    model, chance = block(), random.Random(5)
    # Some take 1.6 times the median: as many on a busy machine do.
    recorded = [simple(model, chance.uniform(1.0, 4.0)) for _ in range(200)]
    assert filled(model, recorded, window=256).outliers == 0


def test_on_a_quiet_machine_a_little_more_is_no_outlier() -> None:
    model = block()
    recorded = [simple(model, 1.0 + number % 2 / 1000) for number in range(LEAST_LATENCIES * 2)]
    longer = [simple(model, 1.4) for _ in range(3)]
    assert filled(model, [*recorded, *longer]).outliers == 0


@pytest.mark.parametrize("window", [8, 64])
def test_the_set_is_of_the_last_forwards(window: int) -> None:
    model = block()
    slow = [simple(model, 1.4) for _ in range(4 * window)]
    fast = [simple(model, 1.0) for _ in range(2 * window)]
    tick = filled(model, [*slow, *fast], window)
    assert window * (BLOCKS - 1) / BLOCKS <= tick.mean_forwards <= window
    assert means(tick)[ROOT][0] == pytest.approx(10.0, rel=1e-6)


def test_a_node_that_some_forwards_do_not_call_has_its_mean_over_all() -> None:
    model = block()
    without_d = forward((model, 0, 8), (model.a, 1, 7), (model.a.b, 2, 3), (model.a.c, 3, 5))
    tick = filled(model, [simple(model) if number % 4 else without_d for number in range(16)])
    whole, own = means(tick)[ROOT]
    assert means(tick)[D][0] == pytest.approx(2 * 12 / 16, rel=1e-6)
    assert whole == pytest.approx(own + means(tick)[A][0] + means(tick)[D][0], rel=1e-6)


def test_before_the_first_forward_there_is_no_mean() -> None:
    model = block()
    tick = Aggregator(module_nodes(model), model).tick(1.0)
    assert (tick.mean_per_forward, tick.own_mean_per_forward, tick.mean_forwards) == (b"", b"", 0)


def test_means_forget_what_lies_back() -> None:
    # Against a window of plain sums: the set is its last forwards, to a block.
    model, chance = block(), random.Random(11)
    aggregator = Aggregator(module_nodes(model), model, window=16)
    aggregator.add([simple(model) for _ in range(WARM)])
    last: deque[float] = deque(maxlen=16)
    for _ in range(100):
        one, spent = busy(model, chance)
        aggregator.add([one])
        last.append(spent[ROOT])
        tick = aggregator.tick(1.0)
        if not tick.outliers:
            of_set = list(last)[-tick.mean_forwards :]
            assert means(tick)[ROOT][0] == pytest.approx(np.mean(of_set), rel=1e-5)
