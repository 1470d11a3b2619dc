"""Bars and sparklines."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui_profiler.formatting.canvas import (
    ASCII,
    UNICODE,
    Glyphs,
    bar,
    bar_scale,
    half_cells,
    nice_ceiling,
    sparkline,
    split_cells,
)

SHARES = st.floats(min_value=0, max_value=1e6)


@pytest.mark.parametrize(
    ("largest", "scale"), [(0, 0.05), (0.05, 0.05), (0.051, 0.1), (0.33, 0.5), (0.51, 1), (1, 1)]
)
def test_the_scale_is_the_smallest_that_holds_the_largest(largest: float, scale: float) -> None:
    assert bar_scale(largest) == scale


@pytest.mark.parametrize(
    ("share", "halves"), [(0, 0), (0.25, 12), (0.5, 24), (0.51, 24), (1, 24), (0.02, 1)]
)
def test_a_bar_is_as_long_as_its_share(share: float, halves: int) -> None:
    assert half_cells(share, 0.5, 12) == halves


def test_a_bar_without_a_scale_is_empty() -> None:
    assert half_cells(0.5, 0, 12) == 0


@pytest.mark.parametrize(("halves", "drawn"), [(0, ""), (1, "╸"), (2, "━"), (5, "━━╸")])
def test_a_bar_is_drawn_in_half_cells(halves: int, drawn: str) -> None:
    assert bar(halves) == drawn


def test_a_bar_can_be_drawn_in_ascii() -> None:
    assert bar(5, ASCII) == "==-"


def test_cells_are_shared_out_by_largest_remainder() -> None:
    # 5 cells over 1:1:1 are 1.67 each: one each, and the two left go to the first two.
    assert split_cells([1, 1, 1], 5) == (2, 2, 1)


def test_nothing_gives_no_cells() -> None:
    assert split_cells([0, 0], 10) == (0, 0)


@pytest.mark.parametrize("part", [math.nan, math.inf, -math.inf])
def test_a_part_that_is_not_finite_gives_no_cells(part: float) -> None:
    assert split_cells([part, 1], 10) == (0, 0)


@given(st.lists(SHARES, min_size=1, max_size=12), st.integers(1, 200))
def test_no_cell_is_lost_or_added(parts: list[float], cells: int) -> None:
    given_out = split_cells(parts, cells)
    assert sum(given_out) == (cells if sum(parts) > 0 else 0)


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=12), st.integers(1, 200))
def test_no_part_is_a_whole_cell_off(parts: list[int], cells: int) -> None:
    whole = sum(parts)
    given_out = split_cells(parts, cells)
    assert all(
        abs(Fraction(part * cells, whole) - got) < 1
        for part, got in zip(parts, given_out, strict=True)
        if whole
    )


@pytest.mark.parametrize(
    ("value", "ceiling"), [(0, 1), (0.7, 1), (1, 1), (1.01, 2), (3, 5), (5.1, 10), (0.003, 0.005)]
)
def test_the_ceiling_is_one_two_or_five(value: float, ceiling: float) -> None:
    assert nice_ceiling(value) == pytest.approx(ceiling)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0])
def test_what_is_no_scale_has_the_ceiling_one(value: float) -> None:
    assert nice_ceiling(value) == 1


@given(st.floats(min_value=1e-9, max_value=1e15))
def test_the_ceiling_is_never_below(value: float) -> None:
    assert value <= nice_ceiling(value) * (1 + 1e-9)


def test_a_column_is_as_high_as_its_value() -> None:
    assert sparkline([0, 1, 2, 4, 8], 8) == ("▁▁▂▄█",)


def test_a_missing_value_is_blank_and_a_zero_is_not() -> None:
    assert sparkline([None, 0], 8) == (" ▁",)


def test_a_value_above_the_top_is_cut() -> None:
    assert sparkline([100], 8) == ("█",)


def test_a_value_that_is_not_a_number_is_drawn_lowest() -> None:
    assert sparkline([float("nan")], 8) == ("▁",)


def test_two_rows_have_twice_the_steps() -> None:
    assert sparkline([4, 8, 12, 16], 16, rows=2) == ("  ▄█", "▄███")


def test_a_sparkline_can_be_drawn_in_ascii() -> None:
    assert sparkline([None, 1, 8], 8, glyphs=ASCII) == (" .@",)


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
def test_what_stands_in_a_column_is_one_cell(glyphs: Glyphs) -> None:
    columns = (glyphs.full, glyphs.half, glyphs.track, glyphs.beyond, glyphs.place, glyphs.divider)
    assert {len(glyph) for glyph in columns} == {1}


def test_the_ascii_set_is_ascii() -> None:
    assert all(getattr(ASCII, name).isascii() for name in Glyphs.__struct_fields__)


@given(
    st.lists(st.none() | st.floats(min_value=0, max_value=1e9), max_size=40),
    st.floats(min_value=0, max_value=1e9),
    st.integers(1, 3),
)
def test_every_row_has_a_column_for_every_value(
    values: list[float | None], top: float, rows: int
) -> None:
    drawn = sparkline(values, top, rows)
    assert [len(row) for row in drawn] == [len(values)] * rows
