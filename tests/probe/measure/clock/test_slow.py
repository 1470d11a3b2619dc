"""Which forwards are told whole; by hand."""

from __future__ import annotations

import numpy as np
import pytest
from torch import nn

from tests.probe.measure.clock.module_nodes import module_nodes
from tests.probe.measure.clock.test_aggregate import UNIT, WARM, block, simple
from tui_profiler.probe.measure.clock.aggregate import Aggregator


def warmed() -> tuple[Aggregator, nn.Module]:
    model = block()
    aggregator = Aggregator(module_nodes(model), model)
    aggregator.add([simple(model) for _ in range(WARM)])
    assert aggregator.slow(0.0, 0.0) is None
    return aggregator, model


def test_the_slowest_so_far_is_told_once_with_its_own_times() -> None:
    aggregator, model = warmed()
    aggregator.add([simple(model) for _ in range(5)])
    first = aggregator.slow(1.0, 0.0)
    assert first is not None
    assert first.seconds == pytest.approx(10 * UNIT)
    aggregator.add([simple(model), simple(model, 2.0), simple(model, 1.5)])
    slow = aggregator.slow(2.0, 25 * UNIT)
    assert slow is not None
    assert (slow.forward, slow.seconds) == (7, pytest.approx(20 * UNIT))
    # It began at 0 by the clock of forwards, on which it was 25 when the other clock was 2 s.
    assert slow.began == pytest.approx(2.0 - 25 * UNIT)
    nodes = np.frombuffer(slow.nodes, np.uint32).tolist()
    whole = dict(zip(nodes, np.frombuffer(slow.whole, np.float32) / UNIT, strict=True))
    own = dict(zip(nodes, np.frombuffer(slow.own, np.float32) / UNIT, strict=True))
    # root(0) - a(1) - b(2), c(3); d(4): twice as long as usual.
    assert whole == pytest.approx({0: 20, 1: 12, 2: 2, 3: 4, 4: 4})
    assert own == pytest.approx({0: 4, 1: 6, 2: 2, 3: 4, 4: 4})
    assert aggregator.slow(3.0, 0.0) is None
    aggregator.add([simple(model, 1.9)])
    assert aggregator.slow(4.0, 0.0) is None


def test_after_a_hundred_what_is_slower_than_99_of_them_is_told() -> None:
    aggregator, model = warmed()
    aggregator.add([simple(model, 4.0)])
    for number in range(160):
        aggregator.add([simple(model, 1.0 + number % 10 / 100)])
    assert aggregator.slow(1.0, 0.0) is not None
    aggregator.add([simple(model, 1.05)])
    assert aggregator.slow(2.0, 0.0) is None
    aggregator.add([simple(model, 2.0), simple(model, 1.8)])
    slow = aggregator.slow(3.0, 0.0)
    assert slow is not None
    assert slow.seconds == pytest.approx(20 * UNIT)
