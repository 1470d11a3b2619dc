"""More nodes than one message holds: the ones with the most time are sent, the rest is counted."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from torch import nn

from tests.probe.measure.clock.module_nodes import module_nodes
from tui_profiler.connection import wire
from tui_profiler.messages import Tick
from tui_profiler.probe.measure.clock.aggregate import Aggregator
from tui_profiler.probe.measure.clock.clock import Forward
from tui_profiler.probe.measure.clock.totals_columns import MOST_NODES, most_time

NONE = np.zeros(0, np.intp)


def chosen(*total: float, before: NDArray[np.intp] = NONE) -> list[int]:
    return [int(row) for row in most_time(np.array(total), 2, before)]


def test_the_rows_with_the_most_time_are_given_in_order() -> None:
    assert chosen(3.0, 1.0, 9.0, 2.0) == [0, 2]


def test_rows_given_before_stay_while_no_other_has_taken_twice_as_much() -> None:
    before = np.array([0, 2])

    assert chosen(3.0, 6.0, 9.0, 2.0, before=before) == [0, 2]
    assert chosen(3.0, 6.1, 9.0, 2.0, before=before) == [1, 2]


def test_a_new_row_that_takes_the_most_is_given_at_once() -> None:
    assert chosen(3.0, 1.0, 9.0, 90.0, before=np.array([0, 2])) == [2, 3]


@pytest.fixture(scope="module")
def crowded() -> Tick:
    """The tick of a root with 9,000 more children than fit: each takes longer than the last."""
    model = nn.Sequential(*(nn.Identity() for _ in range(MOST_NODES + 9_000)))
    lasts = np.arange(1, len(model) + 1) * 1e-9
    ends = np.cumsum(lasts)
    times = np.concatenate([ends - lasts, [0.0], ends, ends[-1:]])
    forward = Forward([*model, model], times.tobytes(), since=None)
    aggregator = Aggregator(module_nodes(model), model)
    aggregator.add([forward] * 6)
    return aggregator.tick(1.0)


def test_a_tick_of_the_largest_model_fits_into_a_frame(crowded: Tick) -> None:
    assert len(wire.encode(crowded)) < wire.MAX_FRAME_BYTES
    assert crowded.forwards > 0


def test_the_root_and_the_slowest_are_sent_and_the_others_counted(crowded: Tick) -> None:
    nodes = np.frombuffer(crowded.nodes, np.uint32)

    assert crowded.left_out == 9_001
    assert nodes.tolist() == [0, *range(9_002, MOST_NODES + 9_001)]


def test_every_column_is_of_the_nodes_that_are_sent(crowded: Tick) -> None:
    seconds = np.array([sum(range(MOST_NODES + 9_001)), *range(9_002, MOST_NODES + 9_001)]) * 1e-9

    for column in (crowded.total, crowded.own):
        assert len(column) == 8 * MOST_NODES
    for column in (crowded.last, crowded.p50, crowded.p95, crowded.maximum, crowded.per_forward):
        np.testing.assert_allclose(np.frombuffer(column, np.float32), seconds, rtol=1e-3)
    assert len(crowded.own_per_forward) == 4 * MOST_NODES
    assert set(np.frombuffer(crowded.calls, np.uint64).tolist()) == {crowded.forwards}
