"""Forward and backward beside each other, worked out by hand."""

from __future__ import annotations

import pytest

from tests.queries.training.test_step_blocks import session
from tui_profiler.queries.forward.strip import ELSEWHERE
from tui_profiler.queries.training.passes_strip import PassesStrip, passes_strip, places
from tui_profiler.session import EMPTY

BETWEEN = 5
# Forward: a 0.125 s, in it inner 0.0625, box 0.125. Backward: box 0.125 and 0.125 run again, a
# 0.125, and 0.125 in neither.
A, INNER, BOX, B = 2, 3, 4, 5


def laid(cells: int) -> PassesStrip:
    found = passes_strip(session(), cells, BETWEEN)
    assert found is not None
    return found


def test_the_backward_stands_right_of_the_forward_in_the_other_order() -> None:
    shown = laid(106)
    assert [(one.first, one.start, one.cells) for one in shown.forward.segments] == [
        *((A, 5, 16), (BOX, 22, 15)),
    ]
    assert [(one.first, one.start, one.cells) for one in shown.backward.segments] == [
        *((BOX, 42, 31), (A, 74, 16), (ELSEWHERE, 91, 15)),
    ]
    shares = [one.share for half in (shown.forward, shown.backward) for one in half.segments]
    assert shares == [0.12, 0.12, 0.25, 0.12, 0.0]  # Of the step.


def test_a_node_has_a_place_in_both() -> None:
    shown = laid(106)
    assert places(session(), shown, A) == ((5, 16), (74, 16))
    assert places(session(), shown, INNER) == ((5, 8), (74, 1))  # It has no backward.
    assert places(session(), shown, B) == ((22, 15), (42, 31))
    assert places(session(), shown, 0) == ()


@pytest.mark.parametrize("cells", range(58, 200, 7))
def test_segments_fill_the_cells_and_none_overlap(cells: int) -> None:
    shown = laid(cells)
    taken = [
        cell
        for half in (shown.forward, shown.backward)
        for one in half.segments
        for cell in range(one.start, one.start + one.cells)
    ]
    assert taken == sorted(set(taken))
    assert taken[0] == BETWEEN
    assert taken[-1] == cells - 1


def test_there_is_none_without_a_backward_or_room() -> None:
    assert passes_strip(session(), 57, BETWEEN) is None
    assert passes_strip(EMPTY, 120, BETWEEN) is None
