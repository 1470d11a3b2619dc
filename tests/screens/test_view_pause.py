"""A view that is paused stays so from screen to screen, until it is let go on, wherever that is."""

from __future__ import annotations

from pathlib import Path

import pytest

from screens.view_pause import ViewPause
from tests.fixtures.record import recorded
from tests.recording.files import fixture, write
from tests.screens.screen_text import screen_text
from tests.screens.test_explorer import on_stage
from tests.screens.test_playing import played
from tui_profiler.messages import Request
from tui_profiler.session import EMPTY


@pytest.mark.parametrize("opened", ["m", "t", "r", "w", "f", "o"])
async def test_what_is_paused_beside_the_explorer_is_paused_in_it_and_the_other_way(
    opened: str,
) -> None:
    async with on_stage(recorded()) as (stage, pilot):
        await pilot.press(opened, "p", "escape")
        await pilot.pause()
        assert stage.app.screen is stage.explorer
        assert "paused" in screen_text(stage.app).split("\n")[0]

        await pilot.press(opened)
        await pilot.pause()
        assert "paused" in screen_text(stage.app).split("\n")[0]
        await pilot.press("p", "escape")
        await pilot.pause()
        assert "live" in screen_text(stage.app).split("\n")[0]


async def test_a_recording_is_halted_and_played_from_any_view(tmp_path: Path) -> None:
    file = write(tmp_path / "session.rec", fixture())
    async with played(file) as (app, _, pilot):
        assert app.session.playback is not None
        was_playing = app.session.playback.is_playing
        for key in ("m", "o"):
            await pilot.press(key, "p")
            await pilot.pause(0.05)
            assert app.session.playback.is_playing is not was_playing
            await pilot.press("p", "escape")
            await pilot.pause(0.05)
            assert app.session.playback.is_playing is was_playing


async def test_what_was_paused_before_it_was_known_to_be_a_recording_can_go_on(
    tmp_path: Path,
) -> None:
    asked: list[Request] = []
    pause = ViewPause(asked.append)
    pause.press(EMPTY, 0.0)
    assert pause.held is not None
    async with played(write(tmp_path / "session.rec", fixture())) as (app, _, _):
        assert app.session.playback is not None
        pause.press(app.session, 1.0)
        assert (pause.held, asked) == (None, [])
        pause.press(app.session, 1.0)
        assert (pause.held, len(asked)) == (None, 1)


async def test_a_key_that_can_do_nothing_says_so() -> None:
    async with on_stage(recorded()[:2]) as (stage, pilot):
        for key, said in (("o", "node needs the tree"), ("E", "energy needs the tree")):
            await pilot.press(key)
            await pilot.pause()
            assert said in screen_text(stage.app)
        await pilot.press("x")
        await pilot.pause()
        assert "nothing to try" in screen_text(stage.app)
