from __future__ import annotations

import pytest

from screens.options.grid_intensity import find, near, places


def test_every_row_is_a_place_of_its_own_with_a_possible_figure() -> None:
    rows = list(places())
    assert len(rows) > 200
    assert len({one.code for one in rows}) == len({one.name for one in rows}) == len(rows)
    for one in rows:
        assert len(one.code) == 3, one
        assert one.code.isupper(), one
        # IPCC AR5, annex III, life cycle: from 11 g (wind) to 820 g (coal), old coal and oil more.
        assert 10 < one.grams_per_kwh < 1400, one
        assert 2020 < one.year < 2027, one


def test_grids_are_ranked_as_by_what_they_burn() -> None:
    """Water and nuclear, gas, coal: Norway, France; Britain; Poland, South Africa."""
    names = ["NOR", "FRA", "GBR", "POL", "ZAF"]
    grams = [found.grams_per_kwh for name in names if (found := find(name)) is not None]
    assert len(grams) == 5
    assert grams == sorted(grams)


@pytest.mark.parametrize("name", ["", "Atlantis", "EU", "DE"])
def test_what_is_not_there_is_not_found(name: str) -> None:
    assert find(name) is None


def test_a_slip_of_the_hand_finds_what_was_meant() -> None:
    assert "Switzerland" in near("switserland")
    assert near("qqqq") == ()
