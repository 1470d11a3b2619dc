"""A sample of ``benchmarks/mutated_frames.py``: damage is refused or read as a message."""

from __future__ import annotations

from benchmarks.mutated_frames import outcomes


def test_damaged_frames_are_survived_by_both_ends() -> None:
    told = outcomes(2_000, seed=3)
    assert sum(told.values()) == 2_000
    assert told["by the viewer, refused"] > 100
    assert told["by the program, refused"] > 100
