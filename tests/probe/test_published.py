"""Ours equal torchvision's published multiply-accumulates, to the three decimals it gives."""

from __future__ import annotations

import pytest

from benchmarks.published import NAMES, build, gmacs
from tui_profiler.probe.trace.trace import trace


@pytest.mark.parametrize("name", NAMES)
def test_macs_and_parameters_are_the_published_ones(name: str) -> None:
    published = build(name)

    made = trace(published.model, (published.inputs,))

    assert made.method == "dispatch:fake"
    assert f"{gmacs(made):.3f}" == f"{published.gmacs:.3f}"
    assert made.costs[0].parameters == published.parameters
    assert made.done.uncosted == ()
    assert made.done.bounded == ()
