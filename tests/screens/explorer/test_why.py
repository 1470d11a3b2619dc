"""The answer to ``i``, in the panel."""

from __future__ import annotations

import pytest

from screens.views.inspector.why_lines import Why, why_pages
from screens.widgets.line_widgets import LinesWidget
from screens.widgets.lines import line_width, text
from screens.widgets.rows import Look
from tests.fixtures.record import recorded
from tests.queries.sessions import session_of
from tests.screens.explorer.test_explorer import Stage, on_stage
from tests.screens.screen_text import screen_text
from tui_profiler.messages import Failed
from tui_profiler.queries.panel.provenance import why


def panel_of(stage: Stage) -> LinesWidget:
    shown = stage.explorer.query("#inspector, #compact").results(LinesWidget)
    [panel] = [each for each in shown if each.region]
    return panel


@pytest.mark.parametrize("size", [(120, 40), (80, 24), (60, 15)])
async def test_it_is_read_to_its_last_word_and_then_closes(size: tuple[int, int]) -> None:
    async with on_stage(recorded(), size) as (stage, pilot):
        tree = stage.explorer.tree_widget
        told = why(stage.explorer.session, tree.view.selected, tree.columns_shown)
        before = screen_text(stage.app)
        pages = []
        while not pages or screen_text(stage.app) != before:
            await pilot.press("i")
            await pilot.pause()
            pages.append("\n".join(map(text, panel_of(stage).lines)))
            assert len(pages) < 9
        assert "for more" not in pages[-2]
        read = " ".join(pages[:-1]).split()
        for word in " ".join(f"{figure} {sentence}" for figure, sentence in told).split():
            assert word in read
        assert len(stage.app._notifications) == 0


async def test_it_stays_while_figures_come_and_speaks_of_the_selected_node() -> None:
    async with on_stage(recorded()) as (stage, pilot):
        await pilot.press("i")
        stage.now += 600
        stage.explorer.refresh_all()
        await pilot.pause()
        assert "any key closes" in screen_text(stage.app)
        assert "conv1" not in text(panel_of(stage).lines[0])
        stage.explorer.tree_widget.move(1)
        await pilot.pause()
        assert "any key closes" in screen_text(stage.app)
        assert text(panel_of(stage).lines[0]).startswith(" conv1 ")


@pytest.mark.parametrize(("key", "row"), [("j", 1), ("G", 5), ("escape", 0)])
async def test_a_key_closes_it_and_does_what_it_does_otherwise(key: str, row: int) -> None:
    async with on_stage(recorded()) as (stage, pilot):
        tree = stage.explorer.tree_widget
        await pilot.press("3", "i")
        tree.filter_by("fc")
        await pilot.press(key)
        await pilot.pause()
        assert "any key closes" not in screen_text(stage.app)
        assert tree.view.filter_text == "fc"  # The first escape is the answer's.
        outline = tree.outline
        assert outline is not None
        assert outline.cursor == min(row, len(outline) - 1)


async def test_it_is_copied_whole() -> None:
    async with on_stage(recorded(), (60, 15)) as (stage, pilot):
        await pilot.press("i", "y")
        await pilot.pause()
        assert "i for more" in screen_text(stage.app)
        told = why(stage.explorer.session, 0)
        copied = stage.explorer._panel_text()
        assert copied == "".join(f"{figure}: {sentence}\n" for figure, sentence in told)


@pytest.mark.parametrize("size", [(120, 40), (80, 24), (60, 15)])
async def test_it_takes_the_place_of_a_failure_until_it_is_read(size: tuple[int, int]) -> None:
    failed = Failed("first run", "boom", fatal=True)
    async with on_stage([*recorded(), failed], size) as (stage, pilot):
        assert "boom" in screen_text(stage.app)
        await pilot.press("i")
        await pilot.pause()
        assert "measured, " in screen_text(stage.app)
        assert "what" not in screen_text(stage.app)
        await pilot.press("escape")
        await pilot.pause()
        assert "boom" in screen_text(stage.app)


@pytest.mark.parametrize("cells", [20, 48, 80])
@pytest.mark.parametrize("rows", [1, 4, 30])
def test_pages_are_exactly_as_wide_as_asked_and_lose_no_letter(cells: int, rows: int) -> None:
    session = session_of(f"m M 0 0\n  a {'B' * 30} 0 0")
    asked = Why(nodes=12)
    pages = why_pages(Look(session, 1, 0.0, cells), asked, rows)
    lines = [line for page in pages for line in page]
    told = asked.answer(session, 1)
    assert {line_width(line) for line in lines} == {cells}
    assert all(len(page) == rows for page in pages[:-1])
    letters = "".join(part for line in lines for part, _ in line).replace(" ", "")
    assert letters == "".join(f"{figure}{sentence}" for figure, sentence in told).replace(" ", "")
