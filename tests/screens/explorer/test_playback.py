"""The explorer on a recording: its keys, what they refuse, where it says it comes from."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace
from textual.pilot import Pilot

from screens.actions.help import key_lines
from screens.app.explorer_app import ProfilerApp
from screens.explorer.requests import typed_position
from tests.recording.files import fixture, write
from tests.screens.screen_text import screen_text
from tui_profiler.formatting.text import width
from tui_profiler.messages import Failed, Hello, LoadSpec, Playback
from tui_profiler.recording.reader import open_recording
from tui_profiler.session import EMPTY
from tui_profiler.source.recorded import Player

HOUR = Playback(1.0, False, begins=2.0, ends=3602.0)


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("playing") / "resnet50.rec", fixture())


@asynccontextmanager
async def played(
    path: Path, size: tuple[int, int] = (120, 40)
) -> AsyncIterator[tuple[ProfilerApp, Player, Pilot[int]]]:
    """The app on a recording that paused at its first figures."""
    player = Player(open_recording(path), clock=lambda: 0.0)
    spec = LoadSpec("resnet50", started_at=0.0)
    app = ProfilerApp(player, spec, lambda spec: player, clock=player.now)
    async with app.run_test(size=size) as pilot:
        while app.session.playback is None:
            await pilot.pause(0.01)
        await pilot.pause()
        yield app, player, pilot


async def shown(app: ProfilerApp, pilot: Pilot[int]) -> str:
    await pilot.pause()
    await pilot.pause(0.05)
    return screen_text(app)


@pytest.mark.parametrize("columns", [60, 80, 100, 120, 200])
async def test_its_place_is_in_the_header_at_every_width(recording: Path, columns: int) -> None:
    async with played(recording, (columns, 24)) as (app, _, pilot):
        header = (await shown(app, pilot)).split("\n")[0]
        assert " of 22.4 s" in header
        assert width(header) <= columns
        assert columns < 80 or ("recorded 2026-11-1" in header and "on host" in header)


async def test_a_seek_shows_the_figures_of_that_place(recording: Path) -> None:
    async with played(recording) as (app, player, pilot):
        await pilot.press("at", *"50%", "enter")
        await shown(app, pilot)
        halfway = app.session.tick
        assert halfway is not None
        assert player.now() - halfway.at < 1.0
        await pilot.press("shift+left")
        assert "loading" in app.screen.classes or "starting" in await shown(app, pilot)


async def test_a_seek_keeps_what_is_unfolded_and_selected(recording: Path) -> None:
    async with played(recording) as (app, _, pilot):
        await pilot.press("j", "j", "j", "j", "j", "right", "j")
        tree = app.screen_stack[0].tree_widget  # type: ignore[attr-defined] # the explorer's
        before = tree.view
        await pilot.press("greater_than_sign", "less_than_sign")
        await shown(app, pilot)
        assert tree.view == before


async def test_the_last_row_says_what_the_key_does_next(recording: Path) -> None:
    async with played(recording) as (app, _, pilot):
        for _ in range(2):
            playback = app.session.playback
            assert playback is not None
            label = " p pause " if playback.is_playing else " p play "
            assert label in await shown(app, pilot)
            await pilot.press("p")
            await pilot.pause(0.1)
            playback_now = app.session.playback
            assert playback_now is not None
            assert playback_now.is_playing != playback.is_playing


async def test_what_needs_a_model_is_refused_with_the_reason(recording: Path) -> None:
    async with played(recording) as (app, _, pilot):
        for keys in ("P", "full_stop", "ctrl+r"):
            await pilot.press(keys)
            assert "this is a recording: no model runs here" in await shown(app, pilot)


async def test_a_failure_in_a_recording_offers_nothing_to_restart(tmp_path: Path) -> None:
    said = fixture()
    said.append((Failed("run", "out of memory"), said[-1][1]))
    async with played(write(tmp_path / "failed.rec", said)) as (app, _, pilot):
        await pilot.press("at", *"end", "enter")
        text = await shown(app, pilot)
        assert "out of memory" in text
        assert "ctrl+r restart" not in text
        await pilot.press("x")
        assert app.session.failure is not None


async def test_keys_pressed_in_one_burst_each_count(recording: Path) -> None:
    async with played(recording) as (app, _, pilot):
        await pilot.press("plus", "plus", "plus", "minus")
        assert "×4" in await shown(app, pilot)


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("12.5", 14.5),
        ("1:30", 92.0),
        ("1:00:00", 3602.0),
        ("50%", 1802.0),
        ("end", 3602.0),
        ("soon", None),
        ("", None),
        ("1:x", None),
        ("nan", None),
        ("inf%", None),
    ],
)
def test_a_place_is_typed_as_one_thinks_of_it(text: str, at: float | None) -> None:
    assert typed_position(text, HOUR) == at


def test_keys_that_are_not_accepted_are_dimmed_with_the_reason() -> None:
    live = replace(EMPTY, hello=Hello(1, 1, ("Start", "Pause", "Step", "SetBatch", "SetPhase")))
    played = replace(EMPTY, hello=Hello(1, 1, ("Play", "Halt", "Seek", "SetSpeed"), "nothing runs"))
    for session, dimmed in (
        (live, "back: only a recording is played"),
        (played, "pause model: nothing runs"),
    ):
        lines = ["".join(text for text, _ in line) for line in key_lines("", session)]
        assert any(dimmed in line for line in lines)
        assert all(width(line) <= 100 for line in lines)
