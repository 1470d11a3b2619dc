"""What the benchmark of the time to a tree takes for right, and how it comes out."""

from __future__ import annotations

import pytest
import torch

from benchmarks.costs.time_to_tree import COUNTERS, OURS, Runs, Subject, tell, timed


@pytest.fixture(scope="module")
def subject() -> Subject:
    model = torch.nn.Linear(10, 10)
    return Subject("linear", model, (torch.zeros(1, 10),), 100, "10 times 10")


def runs(seconds: float, macs: float) -> Runs:
    return Runs([seconds] * 3, macs)


def test_within_one_percent_is_right() -> None:
    assert runs(1, 101).is_right(100)
    assert not runs(1, 101.1).is_right(100)
    assert not Runs(error="no").is_right(100)


@pytest.mark.parametrize(
    ("ours", "theirs", "good"),
    [
        (runs(1.5, 100), runs(1.0, 100), True),
        (runs(1.6, 100), runs(1.0, 100), False),
        (runs(1.6, 100), runs(1.0, 50), True),
        (runs(0.5, 90), runs(1.0, 100), False),
        (runs(9.0, 100), Runs(error="raised"), True),
        (Runs(error="raised"), runs(1.0, 100), False),
    ],
)
def test_ours_is_held_against_the_fastest_that_is_right(ours, theirs, good, subject) -> None:
    assert tell(subject, {OURS: ours, "other": theirs}) is good


@pytest.mark.parametrize("counter", [OURS, "FlopCounterMode", "FlopCounterMode, on meta"])
def test_a_counter_counts_in_a_process_of_its_own(counter: str, subject: Subject) -> None:
    assert timed(subject, counter)["macs"] == 100


def test_a_counter_that_raises_or_ends_its_process_is_told(monkeypatch, subject) -> None:
    import os

    def raising(_: Subject):
        raise ValueError("not\nthis one")

    def ending(_: Subject):
        return lambda: os._exit(3)

    monkeypatch.setitem(COUNTERS, "raising", raising)
    monkeypatch.setitem(COUNTERS, "ending", ending)
    assert timed(subject, "raising") == {"error": "ValueError: not"}
    assert "status" in timed(subject, "ending")["error"]
