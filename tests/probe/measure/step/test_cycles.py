from __future__ import annotations

from benchmarks.training.cycles import cycles


def test_viewers_that_come_and_go_change_nothing_in_a_training() -> None:
    found = cycles(60, seed=1)
    assert found.recorded > 0
    assert (found.differing, found.left, found.raised) == ([], [], [])
