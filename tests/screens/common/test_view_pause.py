"""A view that is paused stays so from screen to screen, until it is let go on, wherever that is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from screens.actions.table import EXPLORER
from screens.app.explorer_app import ProfilerApp
from screens.common.view_pause import NOTHING_YET, ViewPause
from screens.explorer.screen import ExplorerScreen
from tests.fixtures.record import recorded
from tests.recorded_source import Recorded
from tests.recording.files import fixture, write
from tests.screens.explorer.test_explorer import on_stage
from tests.screens.explorer.test_playback import played
from tests.screens.screen_text import screen_text
from tui_profiler.messages import Hello, LoadSpec, Message, Tick
from tui_profiler.messages.live import WIRE_VERSION
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


def test_nothing_is_paused_before_there_is_anything_to_see() -> None:
    pause = ViewPause(lambda request: None)
    assert pause.press(EMPTY, 0.0) == NOTHING_YET
    assert pause.held is None


class Gated(Recorded):
    """Says hello, and the rest when it is let."""

    def __init__(self, messages: Sequence[Message]) -> None:
        super().__init__(messages)
        self.opened = asyncio.Event()

    async def messages(self) -> AsyncIterator[Message]:
        async for message in super().messages():
            yield message
            if isinstance(message, Hello):
                await self.opened.wait()


ENDS = {"leave", "detach"}


@pytest.mark.parametrize(
    "hello", [Hello(WIRE_VERSION, 1, (), "attached"), Hello(WIRE_VERSION, 1, ("Pause",))]
)
async def test_no_key_typed_while_a_program_is_waited_for_changes_what_comes(hello: Hello) -> None:
    told = [m for m in recorded() if not isinstance(m, Hello)]
    restarted: list[LoadSpec] = []
    source = Gated([hello, *told])

    def restart(spec: LoadSpec) -> Recorded:
        restarted.append(spec)
        return Recorded([])

    spec = LoadSpec("train.py", started_at=0.0, observed="script")
    last = max(m.at for m in told if isinstance(m, Tick))
    app = ProfilerApp(source, spec, restart, clock=lambda: last)
    async with app.run_test(size=(120, 40)) as pilot:
        while app._newest.hello is None:
            await pilot.pause(0.01)
        for key in EXPLORER:
            if key.action not in ENDS:
                await pilot.press(key.keys.split(",")[0], "escape", "escape")
        assert app.session.tree is None
        source.opened.set()
        while source.left:
            await pilot.pause(0.01)
        app._show()
        await pilot.pause()
        assert isinstance(app.screen, ExplorerScreen)
        first = screen_text(app).split("\n")[0]
        assert "live" in first
        assert "paused" not in first
    assert not restarted
