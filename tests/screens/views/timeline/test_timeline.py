"""The timeline screen on a recorded session: how it looks, and what its keys do."""

from __future__ import annotations

from array import array

import pytest
from msgspec.structs import replace
from textual.pilot import Pilot

from screens.views.timeline.screen import TimelineScreen
from screens.widgets.line_widgets import LinesWidget
from screens.widgets.lines import line_width, text
from tests.fixtures.record import recorded
from tests.screens.explorer.test_explorer import Stage, check_golden, on_stage, until_traced
from tests.screens.panel_session import folded
from tests.screens.screen_text import screen_text
from tests.training_session import column, step_parts, training_step
from tui_profiler.formatting.text import safe
from tui_profiler.messages import (
    LoopState,
    Pressure,
    ProgramsSeen,
    ProgramUse,
    SlowForward,
    SlowStep,
    ThreadTime,
    Tick,
    Unknown,
)
from tui_profiler.queries.cost.totals import hottest
from tui_profiler.queries.time.slow_forwards import slow_words


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
            titles = [x for x in screen_text(stage.app).split("\n") if x.startswith(" last")]
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


@pytest.mark.parametrize("size", [(60, 15), (80, 24), (120, 40), (200, 50)])
@pytest.mark.parametrize("name", ["short", "a\x1b[2Jlong one, of 30 characters"])
async def test_what_was_different_in_the_slowest_forward_is_never_cut(
    size: tuple[int, int], name: str
) -> None:
    usual = ThreadTime(0.004, 0.003, 0.001, 0.0, 0.0, 0.0, 1.0)
    used = ThreadTime(1.5, 0.3, 0.8, 0.0, 0.0, 5.0, 900.0)
    whole = [array("f", [1.5]).tobytes()] * 2
    slow = SlowForward(12.0, 7, 1.5, used, array("I", [0]).tobytes(), *whole, began=10.0)
    unknown = Unknown("no")
    others = tuple(ProgramUse(pid, name, 0.9, 2**20) for pid in (12345, 12346))
    seen = ProgramsSeen(2.0, others, 2.0, 9, Pressure(unknown, unknown, unknown), 12.0)
    messages = recorded()
    [tick] = [one for one in messages if isinstance(one, Tick)][-1:]
    told = [*messages, replace(tick, thread=usual), slow, seen]
    async with on_stage(told, size) as (stage, pilot):
        await opened(pilot)
        plots = timeline(stage).query_one("#view", LinesWidget).lines
        await pilot.press("t")
        await pilot.pause()
        shown = " ".join(screen_text(stage.app).split())
        words = slow_words(stage.app._newest, stage.app._newest.slow[0])
        assert "(pid 12346) 90 % of a core, off the core 400 ms" in words
        assert " ".join(safe(words).split()) in shown
        lines = timeline(stage).query_one("#view", LinesWidget).lines
        assert len(lines) == len(plots)
        assert {line_width(line) for line in lines} == {size[0]}


@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
async def test_a_step_of_training_and_the_slowest_one(size: tuple[int, int]) -> None:
    parts = step_parts(data=0.018, forward=0.02, backward=0.025, optimizer=0.031, other=0.046)
    mean = replace(training_step(parts, seconds=0.14), backward=column(0.025, 0.01))
    mean = replace(mean, forward=column(0.02, 0.01), own_recomputed=column(0.0, 0.0))
    slow = SlowStep(5.0, 512, 0.24, replace(parts, data=0.118), thread=None, lines=())
    async with on_stage([*recorded(), mean, slow], size) as (stage, pilot):
        await pilot.press("j", "j", "t")
        await pilot.pause()
        check_golden(f"step-{size[0]}x{size[1]}", screen_text(stage.app))
        await pilot.press("t")
        await pilot.pause()
        check_golden(f"slow-step-{size[0]}x{size[1]}", screen_text(stage.app))
        await pilot.press("t")
        await pilot.pause()
        assert "one step, 140 ms" in screen_text(stage.app)


async def test_enter_zooms_into_step_and_forward_together() -> None:
    parts = step_parts(forward=0.02, backward=0.03)
    async with on_stage(recorded()) as (stage, pilot):
        tree = stage.app._newest.tree
        assert tree is not None
        node = tree.find("layer2")
        assert node is not None
        mean = replace(training_step(parts, seconds=0.05), nodes=array("I", (0, node)).tobytes())
        stage.app._newest = folded([mean], stage.app._newest)
        stage.app._show()
        await opened(pilot)
        await pilot.press("down", *["right"] * 5, "enter")
        await pilot.pause()
        shown = screen_text(stage.app)
        assert "one step › layer2, 500 ms of 50.0 ms" in shown
        assert "one forward › layer2" in shown
        await pilot.press("escape")
        await pilot.pause()
        assert "one step, 50.0 ms" in screen_text(stage.app)


async def test_a_slow_step_has_nothing_to_zoom_into() -> None:
    parts = step_parts(forward=0.02, backward=0.03)
    slow = SlowStep(5.0, 512, 0.24, parts, thread=None, lines=())
    async with on_stage([*recorded(), training_step(parts, seconds=0.05), slow]) as (stage, pilot):
        await opened(pilot)
        await pilot.press("down", "t", "enter")
        await pilot.pause()
        assert "modules of a slow step are not timed" in screen_text(stage.app)
        assert timeline(stage).root == 0
