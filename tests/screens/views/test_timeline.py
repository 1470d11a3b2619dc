"""The timeline screen on a recorded session: how it looks, and what its keys do."""

from __future__ import annotations

import pytest
from textual.pilot import Pilot

from screens.views.timeline.screen import TimelineScreen
from screens.widgets.lines import LinesWidget, line_width, text
from tests.fixtures.record import recorded
from tests.screens.explorer.test_explorer import Stage, check_golden, on_stage, until_traced
from tests.screens.panel_session import folded
from tests.screens.screen_text import screen_text
from tui_profiler.messages import LoopState
from tui_profiler.queries.cost.totals import hottest


def timeline(stage: Stage) -> TimelineScreen:
    screen = stage.app.screen
    assert isinstance(screen, TimelineScreen)
    return screen


def path(stage: Stage) -> str:
    tree = stage.app._newest.tree
    assert tree is not None
    return tree.nodes[timeline(stage).node].path


async def opened(pilot: Pilot[int]) -> None:
    await pilot.press("t")
    await pilot.pause()
    await pilot.pause()


@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
async def test_the_timeline_looks_as_agreed(size: tuple[int, int]) -> None:
    async with on_stage(recorded(), size) as (stage, pilot):
        await opened(pilot)
        await pilot.press("z")
        await pilot.pause()
        check_golden(f"timeline-{size[0]}x{size[1]}", screen_text(stage.app))


async def test_arrows_walk_in_time_and_in_depth() -> None:
    async with on_stage(recorded()) as (stage, pilot):
        await opened(pilot)
        await pilot.press("down")
        assert path(stage) == "conv1"
        await pilot.press("right", "right", "right", "right", "right")
        assert path(stage) == "layer2"
        await pilot.press("j", "l")
        assert path(stage) == "layer2.1"
        await pilot.press("up", "left")
        assert path(stage) == "layer1"
        await pilot.press("up", "up", "up")
        assert path(stage) == ""


async def test_enter_zooms_in_and_escape_zooms_out_before_it_leaves() -> None:
    async with on_stage(recorded()) as (stage, pilot):
        await opened(pilot)
        await pilot.press("down", *["right"] * 5, "enter", "down", "enter")
        screen = timeline(stage)
        tree = stage.app._newest.tree
        assert tree is not None
        assert tree.nodes[screen.root].path == "layer2.0"
        await pilot.press("escape")
        await pilot.pause()
        assert tree.nodes[screen.root].path == "layer2"
        assert "one forward › layer2" in screen_text(stage.app)
        await pilot.press("backspace")
        assert screen.root == 0
        assert stage.app.screen is screen
        await pilot.press("escape")
        await pilot.pause()
        assert stage.app.screen is stage.explorer
        assert tree.nodes[stage.explorer.tree_widget.view.selected].path == "layer2.0"


async def test_q_leaves_at_once_and_enter_opens_a_leaf() -> None:
    async with on_stage(recorded()) as (stage, pilot):
        await opened(pilot)
        await pilot.press("down", *["right"] * 5, "enter", "q")
        await pilot.pause()
        assert stage.app.screen is stage.explorer
        await opened(pilot)
        await pilot.press("z", "enter")
        await pilot.pause()
        assert type(stage.app.screen).__name__ == "NodeScreen"


async def test_the_span_goes_round() -> None:
    async with on_stage(recorded()) as (stage, pilot):
        await opened(pilot)
        spans = []
        for _ in range(5):
            await pilot.pause()
            titles = [x for x in screen_text(stage.app).split("\n") if x.startswith(" the last")]
            spans.append(titles[0].rsplit(", ", 1)[1])
            await pilot.press("s")
        assert spans == [f"{n} s per column" for n in (5, 10, 20, 1, 2)]


async def test_before_times_it_is_on_paper_and_colour_comes_with_them() -> None:
    async with on_stage(until_traced()) as (stage, pilot):
        await opened(pilot)
        assert "one forward, on paper" in screen_text(stage.app)
        stage.app._newest = folded(recorded()[len(until_traced()) :], stage.app._newest)
        stage.app._show()
        await pilot.pause()
        assert "median of the last" in screen_text(stage.app)


async def test_a_held_model_leaves_a_gap() -> None:
    held = LoopState("paused", 20.0, 1, "model paused")
    async with on_stage([*recorded(), held]) as (stage, pilot):
        await opened(pilot)
        before = screen_text(stage.app)
        stage.now += 50
        timeline(stage).refresh_view()
        await pilot.pause()
        after = screen_text(stage.app)
        plots = [next(x for x in one.split("\n") if "█" in x) for one in (before, after)]
        assert plots[1].rstrip().rindex("█") == plots[0].rstrip().rindex("█") - 10


@pytest.mark.parametrize("columns", [60, 80, 99, 100, 120, 160, 200])
@pytest.mark.parametrize("rows", [15, 24, 40, 60])
async def test_no_row_is_wider_than_the_terminal(columns: int, rows: int) -> None:
    async with on_stage(recorded(), (columns, rows)) as (stage, pilot):
        await opened(pilot)
        shown_rows = timeline(stage).query_one("#view", LinesWidget).lines
        assert {line_width(line) for line in shown_rows} == {columns}
        assert any("one forward" in text(line) for line in shown_rows)
        assert any("now" in text(line) for line in shown_rows)


async def test_the_hottest_stays_inside_what_fills_the_width() -> None:
    async with on_stage(recorded()) as (stage, pilot):
        await opened(pilot)
        await pilot.press("down", *["right"] * 5, "enter")
        screen, session = timeline(stage), stage.app._newest
        assert session.tree is not None
        assert session.tree.nodes[screen.root].path == "layer2"
        assert not session.tree.nodes[hottest(session)].path.startswith("layer2")
        await pilot.press("z")
        assert path(stage).startswith("layer2.")
