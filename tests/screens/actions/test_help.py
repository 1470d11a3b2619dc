"""The list of keys: as many columns as there is room for, and what is typed filters it."""

from __future__ import annotations

from itertools import pairwise

import pytest

from screens.actions.help import key_lines
from screens.actions.table import EXPLORER, Key, shown
from screens.actions.view_keys import (
    COMPARE,
    EVERY,
    FINDINGS,
    FLAT,
    MEMORY,
    OF_NODE,
    ROOFLINE,
    TIMELINE,
    WEIGHTS,
)
from screens.widgets.lines import line_width, text
from tests.fixtures.record import recorded
from tests.screens.explorer.test_explorer import check_golden, on_stage
from tests.screens.screen_text import screen_text
from tui_profiler.session import EMPTY

OWN = (WEIGHTS, FLAT, FINDINGS, ROOFLINE, TIMELINE, MEMORY)
SCREENS = (EXPLORER, OF_NODE, COMPARE, *((*own, *EVERY) for own in OWN))
BODY = 38
"""Rows of a terminal of 40, without the title and the row of keys."""


def drawn(keys: tuple[Key, ...], cells: int, rows: int, search: str = "") -> list[str]:
    return [text(line) for line in key_lines(search, EMPTY, keys, size=(cells, rows))]


@pytest.mark.parametrize("keys", SCREENS)
def test_at_120_columns_every_key_of_a_screen_is_visible_with_all_that_it_does(
    keys: tuple[Key, ...],
) -> None:
    lines = drawn(keys, 120, BODY)

    assert len(lines) <= BODY
    said = " ".join(" ".join(line[at : at + 60] for line in lines) for at in (0, 60))
    words = " ".join(said.split())
    assert "…" not in words.replace("1…9", "")
    for key in keys:
        assert f"{shown(key)} {key.help}" in words


@pytest.mark.parametrize("cells", [40, 60, 80, 111, 112, 120, 168, 200])
@pytest.mark.parametrize("rows", [5, 22, 38, 60])
def test_no_key_is_lost_in_any_size_and_no_row_is_too_wide(cells: int, rows: int) -> None:
    lines = key_lines("", EMPTY, EXPLORER, size=(cells, rows))
    column = cells // max(cells // 56, 1)

    assert all(line_width(line) <= cells for line in lines)
    parts = [
        text(line)[at : at + column]
        for line in lines
        for at in range(0, cells - column + 1, column)
    ]
    for key in EXPLORER:
        assert any(f"{part} ".startswith(f"  {shown(key)} ") for part in parts)


def test_columns_are_read_from_top_to_bottom_and_none_ends_with_a_title() -> None:
    lines = drawn(EXPLORER, 120, BODY)
    left = [line[:60].rstrip() for line in lines]
    right = [line[60:].rstrip() for line in lines]

    assert left[0] == " move"
    for column in (left, right):
        filled = [line for line in column if line]
        assert filled[-1].startswith("  ")
        for line, below in pairwise(filled):
            is_title = not line.startswith("  ")
            assert not is_title or below.startswith("  ")


def test_where_there_is_room_what_a_key_does_is_whole_and_groups_are_apart() -> None:
    one = drawn(EXPLORER, 40, 0)

    assert one[0] == ""
    assert one.count("") == 7
    words = " ".join(" ".join(one).split())
    assert all(f"{shown(key)} {key.help}" in words for key in EXPLORER)


def test_what_is_typed_filters_and_nothing_found_says_so() -> None:
    lines = drawn(EXPLORER, 120, BODY, "sibling")

    assert [line.split()[0] for line in lines if line.startswith("  ")] == ["]", "[", "s"]
    assert 'no key matches "zzz"' in drawn(EXPLORER, 120, BODY, "zzz")[1]


@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
async def test_the_list_of_keys_looks_as_agreed(size: tuple[int, int]) -> None:
    async with on_stage(recorded(), size) as (stage, pilot):
        await pilot.press("question_mark")
        await pilot.pause()
        check_golden(f"help-{size[0]}x{size[1]}", screen_text(stage.app))
        await pilot.press(*"roof")
        await pilot.pause()
        shown_now = screen_text(stage.app)
        assert "roofline: achieved" in shown_now
        assert "next sibling" not in shown_now
