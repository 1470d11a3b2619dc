"""Headings: what a number or a click orders by, and how the order is marked."""

from __future__ import annotations

import pytest

from screens.widgets.heading import Heading, Order, Title
from screens.widgets.lines import line_width, text
from tui_profiler.formatting.canvas import ASCII

NAME = Title("name", 10, "name", is_left=True, is_text=True, usual="order")
TIME = Title("self ms", 9, "own")
SHARE = Title("%", 4, "own")
BAR = Title("bar", 5)
BYTES = Title("bytes", 6, "bytes")


def heading(column: str, *, descending: bool = False) -> Heading:
    return Heading((NAME, TIME, SHARE, BAR, BYTES), Order(column, descending), x=2, y=1)


def test_a_column_has_the_number_of_its_place_among_those_that_can_be_ordered_by() -> None:
    asked = heading("order")

    assert asked.columns == ("name", "own", "bytes")
    assert asked.numbered(1) == Order("name", descending=False)
    assert asked.numbered(3) == Order("bytes", descending=True)
    assert asked.numbered(4) is None
    assert asked.numbered(0) is None


@pytest.mark.parametrize(
    ("x", "y", "column"),
    [
        *((1, 1, None), (2, 1, "name"), (11, 1, "name"), (12, 1, "own"), (20, 1, "own")),
        *((24, 1, "own"), (25, 1, None), (29, 1, None), (30, 1, "bytes"), (35, 1, "bytes")),
        *((36, 1, None), (30, 0, None), (30, 2, None)),
    ],
)
def test_a_click_is_of_the_column_whose_cells_it_is_in(x: int, y: int, column: str | None) -> None:
    order = heading("order").clicked(x, y)

    assert (order.column if order is not None else None) == column


def test_the_second_time_turns_the_order_round_and_a_third_time_turns_it_back() -> None:
    once = heading("bytes", descending=True).numbered(3)
    assert once == Order("bytes", descending=False)
    assert heading("bytes", descending=False).numbered(3) == Order("bytes", descending=True)


def test_after_both_directions_of_the_names_comes_the_usual_order() -> None:
    assert heading("name", descending=False).numbered(1) == Order("name", descending=True)
    assert heading("name", descending=True).numbered(1) == Order("order")
    assert heading("order").numbered(1) == Order("name", descending=False)


def test_the_next_order_goes_from_left_to_right_and_round() -> None:
    seen, order = [], Order("order")
    for _ in range(5):
        order = heading(order.column).following()
        seen.append(order.column)
    assert seen == ["name", "own", "bytes", "order", "name"]


def test_the_first_title_of_the_order_is_marked_and_nothing_moves() -> None:
    plain = text(heading("order").line())
    assert plain == " name     " + "  self ms   %  bar bytes"
    assert text(heading("own", descending=True).line()) == plain.replace(" self", "↓self")
    assert text(heading("own").line(ASCII)) == plain.replace(" self", "^self")
    assert text(heading("name").line()).startswith(" ↑name ")
    strong = [part for part, role in heading("own").line() if "strong" in role]
    assert strong == [" ↑self ms"]


def test_where_title_and_mark_do_not_fit_the_blank_goes_then_the_unit_then_the_gap() -> None:
    def marked(title: str, cells: int) -> str:
        line = Heading((Title(title, cells, "a"),), Order("a", descending=True)).line()
        assert line_width(line) == cells
        return text(line)

    assert marked("int8 dB", 9) == " ↓int8 dB"
    assert marked("int8 dB", 8) == " ↓int8dB"
    assert marked("int8 dB", 7) == "  ↓int8"
    assert marked("params", 7) == "↓params"
