"""A log-log plot: places worked out by hand, dots against Unicode's own tables."""

import pytest

from tui_profiler.formatting.plot import Axis, Dots, axis_for, decade_label, keep_axis

TWO = Axis(0.0, 2.0)


@pytest.mark.parametrize(
    ("least", "greatest", "axis"),
    [
        (1, 100, Axis(0, 2)),
        (0.08, 200, Axis(-1.5, 2.5)),
        (0.1, 1000, Axis(-1, 3)),
        (5, 5, Axis(-1, 1)),  # At least two decades.
        (1e-9, 1, Axis(-6, 0)),  # At most six.
    ],
)
def test_an_axis_holds_what_it_must_in_half_decades(
    least: float, greatest: float, axis: Axis
) -> None:
    assert axis_for(least, greatest) == axis


@pytest.mark.parametrize(
    ("value", "cell"),
    [(1, 0), (1.25, 0), (1.26, 1), (10, 10), (99, 19), (100, 19), (0.99, None), (101, None)],
)
def test_a_value_lies_in_its_cell(value: float, cell: int | None) -> None:
    assert TWO.cell(value, 20) == cell


def test_a_place_is_a_share_of_the_decades() -> None:
    assert TWO.place(10, 20) == pytest.approx(10.0)
    assert TWO.place(10**0.5, 20) == pytest.approx(5.0)


def test_decades_are_the_whole_powers_on_the_axis() -> None:
    assert list(Axis(-1.5, 2.5).decades()) == [-1, 0, 1, 2]
    assert list(Axis(-1.0, 1.0).decades()) == [-1, 0, 1]


@pytest.mark.parametrize(
    ("wanted", "kept"),
    [
        (Axis(0, 2), Axis(0, 2)),
        (Axis(0.5, 1.5), Axis(0, 2)),  # Half a decade of slack is left as it is.
        (Axis(-0.5, 2), Axis(-0.5, 2)),
        (Axis(0, 3.5), Axis(0, 3.5)),
        (Axis(1, 3), Axis(1, 3)),  # A whole decade is empty.
    ],
)
def test_an_axis_keeps_still_while_it_can(wanted: Axis, kept: Axis) -> None:
    assert keep_axis(TWO, wanted) == kept


def test_an_axis_that_was_kept_is_never_too_long() -> None:
    assert keep_axis(Axis(-3, 2.5), Axis(-2.5, 3.5)) == Axis(-2.5, 3.5)


@pytest.mark.parametrize(
    ("exponent", "label"), [(-5, "1e-5"), (-2, "0.01"), (0, "1"), (3, "1000"), (6, "1e6")]
)
def test_a_decade_is_written_out_where_it_is_short(exponent: int, label: str) -> None:
    assert decade_label(exponent) == label


@pytest.mark.parametrize(
    ("kind", "x", "y", "character"),
    [
        ("braille", 0, 0, "\N{BRAILLE PATTERN DOTS-1}"),
        ("braille", 1, 0, "\N{BRAILLE PATTERN DOTS-4}"),
        ("braille", 0, 2, "\N{BRAILLE PATTERN DOTS-3}"),
        ("braille", 1, 3, "\N{BRAILLE PATTERN DOTS-8}"),
        ("blocks", 0, 0, "\N{UPPER HALF BLOCK}"),
        ("blocks", 0, 1, "\N{LOWER HALF BLOCK}"),
        ("ascii", 0, 0, "'"),
        ("ascii", 0, 1, ","),
    ],
)
def test_a_dot_lies_where_unicode_says(kind: str, x: int, y: int, character: str) -> None:
    dots = Dots(1, 1, kind)
    dots.set(x, y)
    assert dots.at(0, 0) == character


@pytest.mark.parametrize(("kind", "full"), [("braille", "⣿"), ("blocks", "█"), ("ascii", ";")])
def test_a_full_cell(kind: str, full: str) -> None:
    dots = Dots(1, 1, kind)
    for x in range(dots.across):
        for y in range(dots.down):
            dots.set(x, y)
    assert dots.at(0, 0) == full


def drawn(dots: Dots) -> list[str]:
    return ["".join(dots.at(x, y) for x in range(dots.columns)) for y in range(dots.rows)]


def test_a_slope_of_one_dot_a_column() -> None:
    dots = Dots(2, 1)
    dots.curve([(0, 3), (1, 2), (2, 1), (3, 0)])
    assert drawn(dots) == ["⡠⠊"]


def test_a_steep_curve_has_no_gaps() -> None:
    dots = Dots(1, 1)
    dots.curve([(0, 3), (1, 0)])
    assert drawn(dots) == ["⡸"]  # Dot 7, then 4, 5 and 6.


def test_a_dashed_line_leaves_out_what_it_draws() -> None:
    dots = Dots(4, 1)
    dots.curve(((x, 0) for x in range(8)), dash=2)
    assert drawn(dots) == ["⠉ ⠉ "]


def test_dots_outside_are_not_drawn() -> None:
    dots = Dots(2, 2, "blocks")
    for x, y in [(-1, 0), (0, -1), (4, 0), (0, 4)]:
        dots.set(x, y)
    assert drawn(dots) == ["  ", "  "]
