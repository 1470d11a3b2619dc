"""The weights screen in the app: what it asks for, what its keys do, and what it says of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from screens.views.weights.screen import WeightsScreen
from tests.fixtures.record import recorded
from tests.fixtures.record_weights import recorded_weights
from tests.screens.explorer.test_explorer import Stage, check_golden, on_stage
from tests.screens.screen_text import screen_text
from tests.screens.views.test_weights import STARTED
from tui_profiler.messages import (
    AnalyseParameters,
    Hello,
    LoopState,
    MeasureSensitivity,
    Message,
    Pause,
    Resume,
    StopAnalysing,
    known,
)
from tui_profiler.queries.parameters.weights import SCHEMES, figure
from tui_profiler.session import apply


def shown(stage: Stage) -> WeightsScreen:
    screen = stage.app.screen
    assert isinstance(screen, WeightsScreen)
    return screen


@pytest.mark.parametrize("size", [(120, 40), (80, 24), (60, 15)])
async def test_the_weights_screen_looks_as_agreed(size: tuple[int, int]) -> None:
    async with on_stage(recorded_weights(), size) as (stage, pilot):
        await pilot.press("w")
        await pilot.pause()
        await pilot.press("j", "j", "j")
        await pilot.pause()
        check_golden(f"weights-{size[0]}x{size[1]}", screen_text(stage.app))


def accepting(*names: str) -> list[Message]:
    return [
        replace(message, accepts=names) if isinstance(message, Hello) else message
        for message in recorded()
    ]


async def test_opening_asks_for_the_values_once_and_keys_ask_for_sensitivity() -> None:
    wanted = ("AnalyseParameters", "MeasureSensitivity", "StopAnalysing")
    async with on_stage(accepting(*wanted)) as (stage, pilot):
        await pilot.press("w")
        await pilot.pause()
        await pilot.pause()
        assert stage.requests == [AnalyseParameters()]
        await pilot.press("x", "v", "v", "X")
        assert stage.requests[1:] == [
            MeasureSensitivity(SCHEMES[0], "conv1.weight"),
            MeasureSensitivity(SCHEMES[2]),
        ]
        await pilot.press("j", "x", "c", "c")
        await pilot.pause()
        assert "nothing to stop" in screen_text(stage.app)
        # bn1.weight has one axis; the values had not come yet.
        assert stage.requests[3:] == [StopAnalysing()]
        await pilot.press("a")
        assert stage.requests[4:] == [AnalyseParameters()]


async def test_what_is_going_on_is_stopped_by_a_key() -> None:
    wanted = ("AnalyseParameters", "MeasureSensitivity", "StopAnalysing")
    async with on_stage([*accepting(*wanted), STARTED]) as (stage, pilot):
        await pilot.press("w")
        await pilot.pause()
        await pilot.press("c")
        assert stage.requests == [StopAnalysing()]


async def test_where_there_is_no_row_for_it_the_last_one_says_what_goes_on() -> None:
    async with on_stage(recorded_weights(), (80, 24)) as (stage, pilot):
        await pilot.press("w", "v")
        await pilot.pause()
        assert "x and X measure int8 per tensor" in screen_text(stage.app).splitlines()[-1]
    async with on_stage([*recorded_weights(), STARTED], (80, 24)) as (stage, pilot):
        await pilot.press("w")
        await pilot.pause()
        last = screen_text(stage.app).splitlines()[-1]
        assert last.split() == [
            "reading",
            "─" * 12,
            "0.0",
            "%",
            *["0", "of", "44", "tensors", "c", "stops"],
        ]


async def test_values_are_asked_for_as_soon_as_somebody_can_be_asked() -> None:
    async with on_stage(accepting("AnalyseParameters", "StopAnalysing")) as (stage, pilot):
        hello = stage.app._newest.hello
        stage.app._newest = replace(stage.app._newest, hello=None)
        stage.app._show()
        await pilot.press("w", "a")
        assert stage.requests == []
        assert "the worker is starting" in screen_text(stage.app)
        stage.app._newest = replace(stage.app._newest, hello=hello)
        stage.app._show()
        stage.app._newest = replace(stage.app._newest, heard_at=1e9)
        stage.app._show()
        assert stage.requests == [AnalyseParameters()]
        await pilot.press("c")
        assert stage.requests[1:] == [StopAnalysing()]


async def test_p_twice_pauses_the_model_from_here_and_once_resumes_it() -> None:
    messages = accepting("AnalyseParameters", "StopAnalysing", "Pause", "Resume")
    async with on_stage([*messages, STARTED]) as (stage, pilot):
        await pilot.press("w", "P")
        assert "P again pauses the model" in screen_text(stage.app)
        await pilot.press("P")
        assert stage.requests == [Pause()]
        stage.app._newest = apply(stage.app._newest, LoopState("paused", 1e9))
        stage.app._show()
        await pilot.press("P")
        assert stage.requests == [Pause(), Resume()]


async def test_the_keys_of_a_view_are_listed_there_and_lead_back() -> None:
    async with on_stage(recorded_weights()) as (stage, pilot):
        await pilot.press("w", "question_mark")
        await pilot.pause()
        listed = screen_text(stage.app)
        assert "keys of weights" in listed
        assert "measure the output error of changing this weight" in listed
        assert "unfold to that depth" not in listed
        await pilot.press("escape")
        assert shown(stage)


async def test_where_it_is_not_accepted_the_reason_is_said() -> None:
    async with on_stage(accepting("Stop")) as (stage, pilot):
        await pilot.press("w")
        await pilot.pause()
        assert "161 parameters" in screen_text(stage.app)
        await pilot.press("X")
        await pilot.pause()
        assert "not possible here" in screen_text(stage.app)
        assert stage.requests == []


async def test_the_cursor_takes_the_selection_along_and_a_copy_is_the_full_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.delenv("TMUX", raising=False)
    monkeypatch.chdir(tmp_path)
    async with on_stage(recorded_weights()) as (stage, pilot):
        tree = stage.app._newest.tree
        assert tree is not None
        stage.explorer.tree_widget.select(tree.find("layers.2") or 0)
        await pilot.press("w")
        await pilot.pause()
        assert shown(stage).view.name == "layers.2.attention_norm.weight"
        await pilot.press("j", "y", "p")
        await pilot.pause()
        await stage.app.workers.wait_for_complete()
        name = shown(stage).view.name
        assert (tmp_path / "cache" / "tui-profiler" / "copied.txt").read_text() == name
        await pilot.press("e", "ctrl+u", *"all.csv", "enter")
        await pilot.pause()
        await stage.app.workers.wait_for_complete()
        lines = (tmp_path / "all.csv").read_text().splitlines()
        assert len(lines) == 1 + len(shown(stage).view.rows)
        owner = name.rpartition(".")[0]
        await pilot.press("escape")
        await pilot.pause()
        selected = stage.explorer.tree_widget.view.selected
        assert tree.nodes[selected].path == owner


async def test_sorting_keeps_the_row_and_says_by_what() -> None:
    async with on_stage(recorded_weights()) as (stage, pilot):
        await pilot.press("w", "G")
        await pilot.pause()
        name = shown(stage).view.name
        await pilot.press("s", "s", "S")
        await pilot.pause()
        assert shown(stage).view.name == name
        assert (shown(stage).view.sort, shown(stage).view.descending) == ("std", False)
        assert "by std" in screen_text(stage.app)
        await pilot.press("b")
        assert shown(stage).view.shows_buffers


@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
async def test_a_number_or_a_click_orders_the_weights_and_the_name_leads_back(
    size: tuple[int, int],
) -> None:
    async with on_stage(recorded_weights(), size) as (stage, pilot):
        await pilot.press("w")
        await pilot.pause()
        view = shown(stage).view
        before = view.rows
        lines = screen_text(stage.app).splitlines()
        y = next(at for at, line in enumerate(lines) if line.startswith(" name"))
        titles = lines[y].replace("int8 dB", "int8").split()
        await pilot.press(str(1 + titles.index("std")))
        deviations = [known(figure(row, "std")) or 0.0 for row in view.rows]
        assert deviations == sorted(deviations, reverse=True)
        assert "↓std" in screen_text(stage.app)
        x = lines[y].index("int8 dB")
        await pilot.click(offset=(x, y))
        assert (view.sort, view.descending) == ("int8", True)
        assert "↓int8dB" in screen_text(stage.app)
        orders = []
        for _ in range(3):
            await pilot.click(offset=(2, y))
            orders.append((view.sort, view.descending))
        assert orders == [("name", False), ("name", True), ("order", False)]
        assert view.rows == before
