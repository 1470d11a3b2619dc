"""How much of the time between forwards slices get, on forwards that are made up."""

from __future__ import annotations

import pytest

from tui_profiler.probe.worker.slice_budget import SLICE_SECONDS, SliceBudget, share_left


def run(budget: SliceBudget, share: float, *, slice_seconds: float, after: float = 0.0) -> float:
    """Run 10,000 forwards of 10 ms and return the share of their time that slices cost."""
    spent, is_after = 0.0, False
    for _ in range(10_000):
        budget.forward(0.01 + (after if is_after else 0.0), share)
        spent += after if is_after else 0.0
        is_after = budget.is_due
        if is_after:
            budget.slice(slice_seconds)
            spent += slice_seconds
    return spent / 100.0


@pytest.mark.parametrize("slice_seconds", [SLICE_SECONDS / 10, SLICE_SECONDS, 10 * SLICE_SECONDS])
def test_slices_keep_their_share_however_long_they_are(slice_seconds: float) -> None:
    budget = SliceBudget()
    assert run(budget, 0.02, slice_seconds=slice_seconds) == pytest.approx(0.02, rel=0.05)
    assert budget.cost == pytest.approx(0.02, rel=0.05)


def test_what_a_slice_costs_the_forward_after_it_counts() -> None:
    budget = SliceBudget()
    share = run(budget, 0.02, slice_seconds=SLICE_SECONDS, after=0.02)
    assert share == pytest.approx(0.02, rel=0.1)
    assert budget.cost == pytest.approx(share, rel=0.1)


def test_no_slice_is_due_without_a_budget() -> None:
    assert run(SliceBudget(), 0.0, slice_seconds=SLICE_SECONDS) == 0.0


def test_slices_get_what_watching_leaves_and_a_quarter_at_least() -> None:
    assert share_left(0.02, 0.008) == pytest.approx(0.012)
    assert share_left(0.02, 0.05) == pytest.approx(0.005)
    assert share_left(0.02, None) == pytest.approx(0.01)
    assert share_left(0.02, -0.01) == pytest.approx(0.02)
