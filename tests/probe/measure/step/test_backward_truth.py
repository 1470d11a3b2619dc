"""The backward of modules against waits of known length in it."""

from __future__ import annotations

import pytest

from benchmarks.training.backward_cases import CASES
from benchmarks.training.backward_truth import ROOT_TOLERANCE, TOLERANCE, truth


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad=True")
@pytest.mark.parametrize("name", CASES)
def test_a_wait_is_found_in_its_module_and_nowhere_else(name: str) -> None:
    for steps in (5, 15, 45):  # On a busy machine every one of a few steps may be interrupted.
        found = truth(CASES[name], steps)
        assert found.nearest, "nothing waited"
        assert found.least_own >= 0.0
        assert found.beyond <= 1e-9
        assert found.trouble == ""
        errors = {place: ratio - 1 for place, ratio in found.nearest.items()}
        far = {place: one for place, one in errors.items() if abs(one) > TOLERANCE}
        if not far and abs(found.root_error) <= ROOT_TOLERANCE:
            break
    assert far == {}
    assert abs(found.root_error) <= ROOT_TOLERANCE
