"""What a click does: it presses the key that it is on, and goes to the block that it is on."""

from __future__ import annotations

import pytest
from textual.pilot import Pilot

from screens.actions.help import KeysScreen
from screens.common.column_list import ColumnsScreen
from screens.views.node.screen import NodeScreen
from screens.views.roofline.screen import RooflineScreen
from screens.widgets.key_bar import key_at, key_bar
from screens.widgets.lines import text
from tests.fixtures.record import recorded
from tests.screens.explorer.test_explorer import Stage, on_stage
from tests.screens.screen_text import screen_text
from tui_profiler.formatting.canvas import ASCII, UNICODE, Glyphs

LEFT = (("esc", "back"), ("↑↓", "move"), ("↵", "open"), ("J K", "carry"))
RIGHT = (("t", "timeline"), ("r", ""), ("?", "keys"))


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
def test_every_key_and_its_label_is_found_in_the_row_and_blanks_are_none(glyphs: Glyphs) -> None:
    line = key_bar(LEFT, RIGHT, 80, glyphs)
    drawn = text(line)

    assert key_at(line, drawn.index("esc")) == "esc"
    assert key_at(line, drawn.index("back") + 3) == "esc"
    assert key_at(line, drawn.index("back") + 5) == ""
    up = drawn.index("move") - 3
    assert [key_at(line, x) for x in (up, up + 1, up + 3)] == ["↑", "↓", "↓"]
    assert key_at(line, drawn.index("open")) == "↵"
    assert key_at(line, drawn.index("carry")) == "J"
    assert key_at(line, drawn.index("timeline")) == "t"
    assert key_at(line, drawn.rindex(" r ") + 1) == "r"
    assert key_at(line, drawn.index("?")) == "?"
    assert [key_at(line, x) for x in (0, 80)] == ["", ""]


async def _press(stage: Stage, pilot: Pilot[int], label: str, row: int = -1) -> None:
    """Click where a label is written in a row, the last one by default."""
    lines = screen_text(stage.app).splitlines()
    y = row % stage.app.size.height
    await pilot.click(offset=(lines[y].index(label), y))
    await pilot.pause()
    await pilot.pause()


@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
async def test_a_click_on_a_key_of_the_last_row_presses_it(size: tuple[int, int]) -> None:
    async with on_stage(recorded(), size) as (stage, pilot):
        await _press(stage, pilot, "roofline")
        assert isinstance(stage.app.screen, RooflineScreen)
        await _press(stage, pilot, "?")
        assert isinstance(stage.app.screen, KeysScreen)
        await _press(stage, pilot, "back")
        assert isinstance(stage.app.screen, RooflineScreen)
        await _press(stage, pilot, "esc")
        assert stage.app.screen is stage.explorer
        await _press(stage, pilot, "↵")
        assert isinstance(stage.app.screen, NodeScreen)


async def test_a_click_answers_a_question_and_ends_what_is_typed() -> None:
    async with on_stage(recorded()) as (stage, pilot):
        await _press(stage, pilot, "search")
        await pilot.press(*"conv1")
        await _press(stage, pilot, "keeps")
        assert stage.explorer.tree_widget.view.filter_text == "conv1"
        await pilot.press("escape", "slash", *"bn1")
        await _press(stage, pilot, "cancels")
        assert stage.explorer.tree_widget.view.filter_text == ""
        await pilot.press("y")
        await _press(stage, pilot, "cancels")
        assert stage.explorer.prompt.open_one is None
        await pilot.press("c")
        await pilot.pause()
        assert isinstance(stage.app.screen, ColumnsScreen)
        lines = screen_text(stage.app).splitlines()
        row = next(y for y, line in enumerate(lines) if "esc cancel" in line)
        await _press(stage, pilot, "cancel", row)
        assert stage.app.screen is stage.explorer


async def test_a_click_on_a_block_of_the_strip_goes_to_its_module() -> None:
    async with on_stage(recorded()) as (stage, pilot):
        tree = stage.app._newest.tree
        assert tree is not None
        await _press(stage, pilot, "layer2", 2)
        selected = stage.explorer.tree_widget.view.selected
        assert tree.nodes[selected].path == "layer2"
        await pilot.click(offset=(screen_text(stage.app).splitlines()[2].index("layer3") + 20, 3))
        await pilot.pause()
        assert tree.nodes[stage.explorer.tree_widget.view.selected].path == "layer3"
        await pilot.press("o")
        await pilot.pause()
        screen = stage.app.screen
        assert isinstance(screen, NodeScreen)
        await _press(stage, pilot, "layer4", 3)
        assert tree.nodes[screen.node].path == "layer4"
        await pilot.press("escape")
        await pilot.pause()
        assert tree.nodes[stage.explorer.tree_widget.view.selected].path == "layer4"
