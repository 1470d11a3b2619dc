"""The sentence that says what limits a whole model."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.queries.cost.test_opaque import counted
from tests.small_model import ACT, CEILINGS, FC, ROOT, TRACED, folded, tick
from tui_profiler.messages import CacheCeiling, RoofQuality
from tui_profiler.reports.text.sections.summary import modules_on_paper, wants

GOOD = RoofQuality(1.0, 0.0)
CALM = replace(CEILINGS, op_seconds=1e-9)
LARGE, SMALL = 2**20, 2**12


@pytest.mark.parametrize(
    ("caches", "helps"),
    [
        ((), "faster memory"),
        # All 10,712 bytes of weights, and what fc reads of them.
        ((CacheCeiling(2, LARGE, 2e9, GOOD),), "a faster L2 cache"),
        ((CacheCeiling(3, LARGE, 2e9, GOOD),), "a faster L3 cache"),
        ((CacheCeiling(2, SMALL, 2e9, GOOD),), "faster memory"),
    ],
)
def test_the_level_whose_roof_limits_is_the_one_that_helps(
    caches: tuple[CacheCeiling, ...], helps: str
) -> None:
    times = tick({ROOT: (20e-6, 0.0), FC: (20e-6, 20e-6)})
    said = wants(folded((*TRACED, replace(CALM, caches=caches), times)))
    assert said == f"memory-bound overall, 100 % of the time: {helps} helps most"


def test_memory_bound_time_is_that_of_the_level_that_has_most_of_it() -> None:
    """The weights of fc come from memory, the few activations of act from L2."""
    caches = (CacheCeiling(2, SMALL, 2e9, GOOD),)
    times = tick({ROOT: (20.1e-6, 0.0), FC: (20e-6, 20e-6), ACT: (0.1e-6, 0.1e-6)})
    assert "faster memory" in wants(folded((*TRACED, replace(CALM, caches=caches), times)))
    # Where fc is not called it is act alone.
    times = tick({ROOT: (0.3e-6, 0.0), ACT: (0.3e-6, 0.3e-6)})
    assert "a faster L2 cache helps" in wants(
        folded((*TRACED, replace(CALM, caches=caches), times))
    )


def test_on_paper_no_level_is_named() -> None:
    whole = folded(tuple(map(counted, TRACED)))
    assert wants(whole).endswith("1.38 FLOP/B, at most 10: fewer bytes or faster memory")
    # With an operator of unknown work nothing is advised.
    assert wants(folded(TRACED)) == ""
    assert modules_on_paper(folded(TRACED)) == ""
