from __future__ import annotations

from collections import deque

import numpy as np
import pytest
import torch
from torch import nn

from tui_profiler.probe.measure.clock.device_clock import DeviceEvent, DeviceMark
from tui_profiler.probe.measure.clock.graph_marks import INNER_BEGAN, INNER_ENDED, Recomputed
from tui_profiler.probe.measure.clock.tree_index import TreeIndex
from tui_profiler.probe.measure.step.backward_calls import (
    APART,
    by_node,
    calls_again,
    stretches,
    waits_in,
)
from tui_profiler.probe.measure.step.recorder import Pass
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.trace.trace import trace


def test_a_call_lasts_from_its_first_mark_to_the_first_below_it() -> None:
    # Nodes 10 to 19 of one call, 12 to 14 of one inside; 5 to 9 of the call before.
    marks = [(19, 1.0), (14, 2.0), (11, 4.0), (9, 5.0), (4, 7.5)]
    entries, exits = np.array([10, 12, 5, 30]), np.array([20, 15, 10, 40])
    began, ended = stretches(marks, entries, exits, 8.0)
    assert began.tolist()[:3] == [1.0, 2.0, 5.0]
    assert ended.tolist()[:3] == [5.0, 4.0, 7.5]
    assert np.isnan(began[3])


def test_the_first_call_of_a_graph_ends_with_the_pass() -> None:
    _, ended = stretches([(3, 1.0)], np.array([0]), np.array([4]), 2.5)
    assert ended.tolist() == [2.5]


def test_a_pass_inside_of_a_pass_is_apart_and_ends_what_it_has_begun() -> None:
    marks = [(50, 1.0), (40, 2.0), (INNER_BEGAN, 2.5), (120, 3.0), (110, 4.0), (INNER_ENDED, 5.0)]
    entries, exits = np.array([38, 105, 115]), np.array([45, 115, 125])
    began, ended = stretches([*marks, (35, 6.0)], entries, exits, 9.0)
    assert began.tolist() == [2.0, 4.0, 3.0]
    assert ended.tolist() == [6.0, 5.0, 4.0]


def test_own_seconds_and_those_inside_make_a_node_s() -> None:
    nodes = [0, 1, 2, 1, -1]
    began = np.array([0.0, 1.0, 2.0, 6.0, 3.0])
    ended = np.array([10.0, 5.0, 4.0, 8.0, 3.5])
    found = by_node(nodes, began, ended)
    assert found == {0: (10.0, 4.0), 1: (6.0, 4.0), 2: (2.0, 2.0)}


def test_of_two_alike_the_one_that_ended_first_is_inside() -> None:
    began, ended = np.array([1.0, 1.0, 1.0]), np.array([3.0, 3.0, 3.0])
    assert by_node([2, 1, 0], began, ended) == {0: (2.0, 0.0), 1: (2.0, 0.0), 2: (2.0, 2.0)}
    assert by_node([APART, 1, 0], began, ended) == {0: (0.0, 0.0), 1: (0.0, 0.0)}


def test_a_node_inside_itself_is_counted_once() -> None:
    found = by_node([0, 1, 1], np.array([0.0, 1.0, 2.0]), np.array([9.0, 6.0, 5.0]))
    assert found == {0: (9.0, 4.0), 1: (5.0, 5.0)}


def test_what_is_run_again_is_in_no_backward_around_it() -> None:
    found = by_node([0, 1, APART], np.array([0.0, 1.0, 2.0]), np.array([9.0, 6.0, 5.0]))
    assert found == {0: (6.0, 4.0), 1: (2.0, 2.0)}


def test_a_wait_for_a_collective_is_in_no_backward_and_ends_with_what_it_was_in() -> None:
    one = Pass(1, 1.0, 9.0)
    again = np.array([[2.0], [3.0]])
    waits = waits_in(one, [(0.2, 0.8), (2.5, 2.75), (4.0, 4.5), (8.0, 9.5)], again)
    assert waits.tolist() == [[4.0, 8.0], [4.5, 9.0]]
    found = by_node([0, 1, APART], np.array([1.0, 6.0, 8.0]), np.array([9.0, 8.5, 9.0]))
    assert found == {0: (7.5, 5.5), 1: (2.0, 2.0)}


class Event:
    """A device event that has completed."""

    def record(self) -> None:
        """Do nothing."""

    def query(self) -> bool:
        """Return true."""
        return True


@pytest.mark.parametrize("is_compiled", [False, True])
def test_graphs_of_compiled_autograd_are_left_out_with_their_numbers_and_marks(
    is_compiled: bool,
) -> None:
    linear, captured = nn.Linear(2, 2), torch.fx.symbolic_trace(nn.Linear(2, 2))
    model = nn.Sequential(linear, torch.fx.symbolic_trace(nn.Linear(2, 2)))
    nodes = trace(model, (Inputs((torch.ones(1, 2),), {}, (), None),)).nodes
    index = TreeIndex(nodes, model)
    free: deque[DeviceEvent] = deque()
    marks = [(DeviceMark(Event(), free), DeviceMark(Event(), free)) for _ in range(3)]
    events: list[object] = [linear, 1.0, 2.0, model[1], 2.0, 3.0, captured, 0.5, 4.0]
    again = Recomputed(1, events, [5, 6, 7, 8, 3, 9], marks)
    [(found, kept)] = calls_again(Pass(1, 0.0, 9.0, (again,), is_compiled=is_compiled), index)
    calls = 2 if is_compiled else 3
    assert kept.events == events[: 3 * calls]
    assert kept.numbers == again.numbers[: 2 * calls]
    assert kept.marks == marks[:calls]
    assert found.began.tolist() == [1.0, 2.0, 0.5][:calls]
    assert -1 not in found.nodes[:2]
