"""The output layer: the same screen as Textual's own, paced, and given up at the first surprise."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
from collections.abc import Callable, Coroutine

import pytest
from rich.color import ColorSystem
from rich.segment import Segment
from rich.style import Style
from textual.app import App
from textual.strip import Strip

from benchmarks.terminal.noise import Noise
from benchmarks.terminal.output_fuzz import FuzzApp, differences, finished, fuzz_one
from screens.options.model import STOCK_OUTPUT
from screens.terminal.output import missing_names
from screens.terminal.pace import LEAST_BYTES, LOST_SECONDS, Pace


class Clock:
    """A clock that is set."""

    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def in_app(test: Callable[[FuzzApp, object], Coroutine[None, None, None]]) -> None:
    """Run a test in an app that writes to a terminal for each layer."""

    async def run() -> None:
        app = FuzzApp(random.Random(7), 80, 24)
        async with app.run_test(headless=False, size=(80, 24)) as pilot:
            await finished(app, pilot)
            await test(app, pilot)

    asyncio.run(run())


@pytest.mark.parametrize("seed", range(4))
def test_random_screens_look_as_textual_draws_them(seed: int) -> None:
    found, theirs, ours = asyncio.run(fuzz_one(seed, 25))
    assert not found, "\n".join(found[:5])
    assert ours < theirs


def test_without_colour_too() -> None:
    # In a process of its own: Rich keeps a style's codes for the colours it was first written in,
    # and another test may have written the same greys for a terminal of 16 colours.
    program = "import asyncio; from benchmarks.terminal.output_fuzz import fuzz_one; "
    program += "print(asyncio.run(fuzz_one(100, 25))[0])"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout == "[]\n", done.stdout + done.stderr


def test_nothing_is_written_where_nothing_changed() -> None:
    async def test(app: FuzzApp, pilot: object) -> None:
        theirs, ours = app.stock.size, app.ours.size
        app.refresh(layout=True)
        await finished(app, pilot)
        assert app.stock.size > theirs + 2_000
        assert app.ours.size == ours

    in_app(test)


def test_one_frame_is_under_way_and_the_next_is_what_became_of_all_since() -> None:
    async def test(app: FuzzApp, pilot: object) -> None:
        app.pace = Pace(Clock())  # However long it takes, no answer counts as lost.
        for _ in range(3):
            app.answer()
            await finished_drawing(pilot)
        assert app.pace.answers
        noise = app.query_one("#left", Noise)
        before = app.ours.size
        for _ in range(30):
            noise.change()
            await finished_drawing(pilot)
        assert app.ours.questions == 1
        assert app._cells.dirty
        under_way = app.ours.size - before
        app.answer()
        await finished(app, pilot)
        assert not differences(app)
        assert app.ours.size - before < under_way + 6_000

    in_app(test)


async def finished_drawing(pilot: object) -> None:
    await pilot.pause()  # type: ignore[attr-defined]


class Hostile(Noise):
    """Lets a control sequence through, as no widget should."""

    def render_line(self, y: int) -> Strip:
        return Strip([Segment("a\x1b[31mb")])


def test_a_control_sequence_ends_it_and_textual_draws_everything() -> None:
    async def test(app: FuzzApp, pilot: object) -> None:
        app.query_one("#left", Noise).change()
        await app.mount(Hostile(app.chance))
        await finished_drawing(pilot)
        assert "control character" in app.stock_because
        assert any("control character" in one.message for one in app._notifications)
        await app.query_one(Hostile).remove()
        for _ in range(3):
            await finished_drawing(pilot)
        assert not differences(app)

    in_app(test)


def test_it_is_left_out_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(STOCK_OUTPUT, "1")

    async def test(app: FuzzApp, pilot: object) -> None:
        assert app.stock_because == "requested"
        assert not app._notifications
        assert app.ours.size >= app.stock.size > 2_000
        assert not app.ours.questions

    in_app(test)


def test_a_name_that_is_gone_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    app = FuzzApp(random.Random(7), 80, 24)
    assert missing_names(app) == ""
    monkeypatch.delattr(app, "_batch_count")
    assert missing_names(app) == "_batch_count"
    monkeypatch.setattr(Strip, "render_ansi", lambda style: "")
    monkeypatch.delattr(App, "_display")
    assert missing_names(app) == "App._display, Strip.render_ansi, _batch_count"


def test_an_app_without_them_draws_as_textual_does_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stock = Strip.render_ansi

    def renamed(shade: Style, colours: ColorSystem) -> str:
        return stock(shade, colours)

    monkeypatch.setattr(Strip, "render_ansi", renamed)

    async def test(app: FuzzApp, pilot: object) -> None:
        assert app.stock_because == "not as expected: Strip.render_ansi"
        assert any("Strip.render_ansi" in one.message for one in app._notifications)
        assert app.ours.size >= app.stock.size > 2_000
        assert not app.ours.questions
        assert not differences(app)

    in_app(test)


def test_an_answer_that_never_comes_is_not_waited_for_again() -> None:
    clock = Clock()
    pace = Pace(clock)
    pace.answered()
    pace.sent(100, asks=True)
    clock.seconds = LOST_SECONDS - 0.1
    assert not pace.may_send(is_written=True)
    clock.seconds = LOST_SECONDS + 0.1
    assert pace.may_send(is_written=True)
    assert not pace.answers


def test_without_answers_the_writer_is_waited_for() -> None:
    pace = Pace(Clock())
    for asks in (True, True, True, False):
        assert pace.asks == asks
        pace.sent(100, asks=asks)
        assert not pace.may_send(is_written=False)
        assert pace.may_send(is_written=True)


def test_a_slow_link_gets_parts_and_a_fast_one_whole_frames() -> None:
    clock = Clock()
    pace = Pace(clock)
    for size in (50, 5_000, 1_200):  # 5 KB/s, 0.1 s away.
        pace.sent(size, asks=True)
        clock.seconds += 0.1 + (size - 50) / 5_000
        pace.answered()
    assert pace.most_bytes == pytest.approx(1_250, rel=0.06)
    pace.sent(100, asks=True)
    clock.seconds += 0.1
    pace.answered()
    assert pace.most_bytes == pytest.approx(1_250, rel=0.06)
    pace.sent(1_400, asks=True)
    clock.seconds += 0.101
    pace.answered()
    assert pace.most_bytes is None


def test_a_distant_terminal_is_not_taken_for_a_slow_one() -> None:
    clock = Clock()
    pace = Pace(clock)
    for size in (500, 8_000, 60):
        pace.sent(size, asks=True)
        clock.seconds += 0.6
        pace.answered()
        assert pace.most_bytes is None
    assert LEAST_BYTES < 1_000
