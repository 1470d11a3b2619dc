"""Ours equal torchvision's published multiply-accumulates, to the three decimals it gives."""

from __future__ import annotations

import pytest

from benchmarks.costs.published import SAMPLE, build, counted, explanation, gmacs, packed_parameters
from tui_profiler.probe.trace.trace import trace


@pytest.mark.parametrize("name", SAMPLE)
def test_macs_and_parameters_are_the_published_ones(name: str) -> None:
    published = build(name)

    made = trace(published.model, (published.inputs,))

    assert made.method == "dispatch:fake"
    assert f"{gmacs(made):.3f}" == f"{published.gmacs:.3f}"
    assert made.costs[0].parameters == published.parameters
    assert made.done.uncosted == ()
    assert made.done.bounded == () or published.folder == "detection"


def test_a_quantised_model_has_the_macs_of_its_float_twin() -> None:
    published = build("quantized_shufflenet_v2_x0_5/IMAGENET1K_FBGEMM_V1")

    row = counted(published)

    assert row.has_equal_macs
    assert "folded norms" in (explanation(row) or "")
    assert 0 < packed_parameters(published.model) < published.parameters
