"""Every widget of every screen, every row, on sessions whose every string is hostile.

The screens are found through the table of keys, the strings through the types of the messages: a
new screen and a new field are walked by themselves.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import wcwidth
from msgspec.structs import replace
from textual import events
from textual.pilot import Pilot
from textual.widgets._toast import Toast

from screens.actions.table import EXPLORER
from screens.app.explorer_app import ProfilerApp
from screens.app.ranks_app import RanksApp
from screens.settings.config import USUAL
from screens.settings.preferences import Preferences
from screens.start.picker import picker_lines
from screens.widgets.lines import text
from tests.hostile import MARK, SESSIONS, TEXTS, Maker
from tests.recorded_source import Recorded
from tests.screens.screen_text import resize
from tui_profiler.connection.sockets import Place
from tui_profiler.formatting.canvas import ASCII, UNICODE, Glyphs
from tui_profiler.messages import LoadSpec, Message, Program
from tui_profiler.reports.json.report import json_report
from tui_profiler.reports.text.table import table
from tui_profiler.session import EMPTY, Session, apply
from tui_profiler.source.attached import Found
from tui_profiler.source.ranks import Ranks

SIZES = [(120, 40), (80, 24), (60, 15), (20, 5), (200, 50)]
LEAVING = {"leave", "app.suspend_process"}


KEYS = [key for key in EXPLORER if key.action not in LEAVING]
SCREENS = [key for key in KEYS if key.group == "screens" or key.action == "node"]


@asynccontextmanager
async def app_on(
    messages: Sequence[Message], size: tuple[int, int], glyphs: Glyphs
) -> AsyncIterator[tuple[ProfilerApp, Pilot[int]]]:
    """Return an app that was told all of the messages."""
    spec = Maker(1).made_like(LoadSpec(TEXTS[0], inputs=("1,3",)))
    source = Recorded(messages)
    settings = replace(USUAL.settings, glyphs="ascii" if glyphs == ASCII else "unicode")
    preferences = Preferences(replace(USUAL, settings=settings))
    app = ProfilerApp(
        source, spec, lambda _: Recorded(()), preferences=preferences, clock=lambda: 12.0
    )
    async with app.run_test(size=size, notifications=True) as pilot:
        while source.left:
            await pilot.pause(0.01)
        app._show()
        await pilot.pause()
        yield app, pilot


def check_every_row(app: ProfilerApp | RanksApp, glyphs: Glyphs = UNICODE) -> str:
    """Look at each row that each widget draws; give all of it."""
    seen: list[str] = []
    for widget in app.screen.query("*"):
        cells, rows = widget.size
        for y in range(rows if widget.display else 0):
            strip = widget.render_line(y)
            where = f"{app.screen} {widget} row {y}: {strip.text!r}"
            assert strip.text.isprintable(), where
            assert wcwidth.wcswidth(strip.text) == strip.cell_length, where
            # Of a notification Textual draws the frame, and we the text.
            assert strip.cell_length == cells or isinstance(widget, Toast), where
            assert glyphs is UNICODE or strip.text.isascii(), where
            seen.append(strip.text)
        right = widget.region.right if widget.display else 0
        assert right <= app.size.width, f"{widget} ends at {right} of {app.size.width}"
    return "\n".join(seen)


@pytest.mark.parametrize("kind", SESSIONS)
async def test_every_row_of_every_screen_is_safe_and_as_wide_as_it_should_be(kind: str) -> None:
    seed = list(SESSIONS).index(kind)
    glyphs = ASCII if seed % 2 else UNICODE
    async with app_on(SESSIONS[kind](seed), (120, 40), glyphs) as (app, pilot):
        seen = check_every_row(app, glyphs)
        assert kind == "loading" or MARK in seen
        for size in (*SIZES, SIZES[seed]):
            await resize(pilot, *size)
            check_every_row(app, glyphs)
        for key in SCREENS:
            await pilot.press(key.keys.split(",")[0])
            check_every_row(app, glyphs)
            await pilot.press("escape")


async def test_every_key_leaves_every_row_safe() -> None:
    async with app_on(SESSIONS["live"](2), (80, 24), UNICODE) as (app, pilot):
        for key in KEYS:
            if key not in SCREENS:
                await pilot.press(key.keys.split(",")[0])
                app.post_message(events.Paste(TEXTS[0]))
                await pilot.pause()
                check_every_row(app)
                await pilot.press("escape")
        assert app.clipboard.isprintable()
        assert app.title.isprintable()


def folded(messages: Sequence[Message]) -> Session:
    session = EMPTY
    for message in messages:
        session = apply(session, message)
    return session


@pytest.mark.parametrize("kind", ["live", "failed", "gone", "unavailable"])
@pytest.mark.parametrize("seed", range(4))
def test_every_row_of_a_report_is_safe(kind: str, seed: int) -> None:
    session = folded(SESSIONS[kind](seed))
    assert all(line.isprintable() for line in table(session, columns=100))
    assert all(line.isprintable() for line in json_report(session).split("\n"))


def hostile_programs(seed: int) -> list[Program]:
    maker = Maker(seed)
    return [
        maker.made_like(Program("net", pid, "train.py", 0.0, 1.0, pid, 4, "run", "helper"))
        for pid in range(4)
    ]


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
@pytest.mark.parametrize("seed", range(4))
def test_every_row_of_the_picker_is_safe(seed: int, glyphs: Glyphs) -> None:
    found = tuple(
        Found(Place(Path("/1"), 1, 0, program.name), program) for program in hostile_programs(seed)
    )
    for line in picker_lines(found, 1, 80, 20, glyphs):
        assert text(line).isprintable()


async def test_every_row_of_the_ranks_is_safe() -> None:
    programs = hostile_programs(1)
    ranks = Ranks(programs[0], 0.0, None)
    app = RanksApp(ranks, LoadSpec("x"), begins_with_all=True)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        for number, program in enumerate(programs):
            ranks._told.put_nowait((str(number), program))
            for message in SESSIONS["live"](number):
                ranks._told.put_nowait((str(number), message))
        while not ranks._told.empty():
            await pilot.pause(0.01)
        app._show()
        for size in SIZES:
            await resize(pilot, *size)
            check_every_row(app)
            await pilot.press("j", "enter")
            await pilot.pause()
            check_every_row(app)
            await pilot.press("R")
