"""Layers by class and operators by intensity, of a tree counted by hand."""

from __future__ import annotations

import pytest

from tests.small_model import TRACED, folded
from tui_profiler.messages import Unknown, known
from tui_profiler.queries.cost import distribution
from tui_profiler.session import Tree


@pytest.fixture
def tree() -> Tree:
    found = folded(TRACED).tree
    assert found is not None
    return found


def test_layers_are_counted_by_class_with_what_they_own(tree: Tree) -> None:
    found = distribution.layer_types(tree)

    whole = tree.costs[0].flops
    by_class = {part.type: part for part in found}
    assert list(by_class) == ["Conv2d", "Linear", "ReLU", "Net"]
    assert by_class["Conv2d"] == distribution.LayerType("Conv2d", 1, 108, 13824, 13824 / whole)
    assert (by_class["Linear"].parameters, by_class["ReLU"].parameters) == (2570, 0)
    assert by_class["Net"].flops == Unknown("not counted: mine::strange")
    assert sum(known(part.flops) or 0 for part in found) == whole


def test_bands_hold_every_operator_of_known_intensity(tree: Tree) -> None:
    found = {part.band: part for part in distribution.intensity_bands(tree)}

    assert tuple(found) == distribution.BANDS
    assert sum(part.ops for part in found.values()) == 3  # Of 4, one without a formula.
    assert sum(part.flops for part in found.values()) == tree.costs[0].flops
    assert found["above 100"] == distribution.BandShare("above 100", 0, 0, 0.0)


@pytest.mark.parametrize(
    ("ratio", "band"),
    [
        (0.0, "below 10"),
        (9.99, "below 10"),
        (10.0, "10 to 50"),
        (49.9, "10 to 50"),
        (50.0, "50 to 100"),
        (100.0, "50 to 100"),
        (100.1, "above 100"),
    ],
)
def test_where_a_band_begins_and_ends(ratio: float, band: distribution.Band) -> None:
    assert distribution.band_of(ratio) == band
