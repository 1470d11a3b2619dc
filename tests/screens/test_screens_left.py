"""What a screen held is freed when it was left: who walks for days does not fill the memory."""

from __future__ import annotations

import asyncio
import time
import weakref

import pytest
from textual import events
from textual._styles_cache import StylesCache
from textual.screen import Screen

from screens.actions.help import KeysScreen
from tests.fixtures.record import recorded
from tests.screens.explorer.test_explorer import on_stage

KEYS = "rtmwfL"


async def test_a_screen_that_was_left_is_freed_with_what_was_drawn_of_it() -> None:
    async with on_stage(recorded()) as (stage, pilot):
        left: list[weakref.ref[Screen[object]]] = []
        drawn: list[StylesCache] = []
        for key in KEYS:
            await pilot.press(key)
            assert len(stage.app.screen_stack) == 2
            left.append(weakref.ref(stage.app.screen))
            drawn.append(stage.app.screen._styles_cache)
            await pilot.press("escape")
        end = time.monotonic() + 60
        while (held := [one() for one in left if one() is not None]) and time.monotonic() < end:
            del held
            await asyncio.sleep(0.05)
        assert not held
        assert not any(one._cache for one in drawn)


@pytest.mark.parametrize("keys", ["qq", "q?", "?q"])
async def test_two_keys_typed_in_one_go_leave_the_list_of_keys_once(keys: str) -> None:
    async with on_stage(recorded()) as (stage, pilot):
        await pilot.press("question_mark")
        shown = stage.app.screen
        assert isinstance(shown, KeysScreen)
        for key in keys:  # ``press`` waits after each.
            stage.app.post_message(events.Key(key, key))
        await pilot.pause()
        assert shown not in stage.app.screen_stack
