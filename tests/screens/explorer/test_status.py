"""What is said over a screen, and in the last row: it is of this screen, and can be answered."""

from __future__ import annotations

import pytest

from screens.widgets.lines import text
from screens.widgets.prompt import Prompt
from tests.fixtures.record import recorded
from tests.screens.explorer.test_explorer import on_stage

LONG = "w " * 30


@pytest.mark.parametrize("key", ["o", "t", "r", "m", "colon", "c"])
async def test_what_is_said_over_a_screen_does_not_lie_over_the_next(key: str) -> None:
    async with on_stage(recorded(), (60, 15)) as (stage, pilot):
        stage.explorer.say(LONG)
        await pilot.pause()
        assert len(stage.app._notifications) == 1
        await pilot.press(key)
        await pilot.pause()
        assert stage.app.screen is not stage.explorer
        assert len(stage.app._notifications) == 0


async def test_what_is_said_as_a_screen_changes_stays() -> None:
    async with on_stage(recorded(), (60, 15)) as (stage, pilot):
        await pilot.press("m")
        await pilot.pause()
        stage.app.pop_screen()
        stage.app.notify("said of the next one")
        await pilot.pause()
        assert stage.app.screen is stage.explorer
        assert [one.message for one in stage.app._notifications] == ["said of the next one"]


async def test_below_100_columns_it_takes_the_width_and_few_rows() -> None:
    async with on_stage(recorded(), (60, 15)) as (stage, pilot):
        stage.explorer.say(LONG)
        await pilot.pause()
        [toast] = stage.explorer.query("Toast")
        assert toast.region.width == 60
        assert toast.region.height <= 5


async def test_what_the_last_row_is_too_short_for_lies_over_the_screen() -> None:
    async with on_stage(recorded(), (60, 15)) as (stage, pilot):
        stage.explorer.say("w" * 57)
        await pilot.pause()
        assert len(stage.app._notifications) == 0
        stage.explorer.say(LONG)
        await pilot.pause()
        assert [one.message for one in stage.app._notifications] == [LONG]


@pytest.mark.parametrize(
    ("cells", "said"), [(80, "hint"), (60, "hint"), (45, "esc cancels"), (16, "")]
)
def test_a_prompt_without_room_for_its_hint_says_its_keys(cells: int, said: str) -> None:
    shown = text(Prompt("export to ", hint="hint " * 7).line(cells))
    assert said in shown
    assert len(shown.rstrip()) <= cells


async def test_what_to_compare_with_is_told_at_60_columns() -> None:
    async with on_stage(recorded(), (60, 15)) as (stage, pilot):
        await pilot.press("C")
        assert stage.explorer.prompt.open_one is not None
        assert "night.rec" in text(stage.explorer.prompt.open_one.line(60))
