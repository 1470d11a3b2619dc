"""The palette: every command by name, carried out as its key would."""

from __future__ import annotations

from inspect import signature

import pytest
from msgspec.structs import replace
from textual.actions import parse

from screens.actions.commands import Command, commands, matching
from screens.actions.palette import PaletteScreen, palette_lines
from screens.actions.table import DEPTHS, EXPLORER, OF_FUNCTION
from screens.settings.theme import PREFIX, THEMES, short_name
from screens.widgets.lines import line_width, text
from tests.fixtures.record import recorded
from tests.screens.explorer.test_explorer import check_golden, on_stage
from tests.screens.panel_session import folded
from tests.screens.screen_text import screen_text
from tui_profiler.formatting.canvas import ASCII, UNICODE
from tui_profiler.messages import Hello, Resume
from tui_profiler.queries.tree.focus import SORT_KEYS
from tui_profiler.session import EMPTY

NAMES = [short_name(theme.name) for theme in THEMES]


def every() -> tuple[Command, ...]:
    return commands(EMPTY, NAMES)


def test_every_action_of_the_keys_is_a_command() -> None:
    actions = {command.action for command in every()}
    assert {key.action for key in (*EXPLORER, *DEPTHS)} - actions == {"palette"}
    assert {f"sort_by('{key}')" for key in SORT_KEYS if key != "bar"} <= actions
    assert {f"use_theme('{name}')" for name in NAMES} <= actions


async def test_every_command_names_a_function_that_takes_what_it_gives() -> None:
    async with on_stage(recorded()) as (stage, _):
        for command in every():
            namespace, name, given = parse(command.action)
            if namespace == "app":
                function = getattr(stage.app, f"action_{name}")
            elif on := OF_FUNCTION[name].on:
                function = getattr(getattr(stage.explorer, on), name)
            else:
                function = getattr(stage.explorer, f"action_{name}")
            signature(function).bind(*given)


def test_what_is_refused_says_why_and_comes_last() -> None:
    session = folded((Hello(1, 1, ("Pause",), "this process is not ours"),))
    found = matching("", commands(session, ()))
    refused = [bool(command.why_not) for command in found]
    assert refused == sorted(refused)
    why = {command.action: command.why_not for command in found}
    assert why["batch"] == "this process is not ours"
    assert why["hold"] == ""
    assert why["seek_to"] == "only a recording is played"


@pytest.mark.parametrize("typed", ["theme", "T"])
def test_the_word_and_the_key_both_find_each_theme_by_its_name(typed: str) -> None:
    found = [command.name for command in matching(typed, every())]

    assert found[: 1 + len(NAMES)] == ["theme", *(f"theme {name}" for name in sorted(NAMES))]


def test_a_key_finds_what_it_does_before_what_its_letter_is_in() -> None:
    assert matching("t", every())[0].action == "side('timeline')"
    assert matching("ctrl+p", every()) == ()
    assert matching("j", every())[0].action == "move(1)"
    sorts = matching("s", every())
    assert [one.action.partition("(")[0] for one in sorts[:3]] == ["sort", "sort_by", "sort_by"]
    own = tuple(replace(key, keys="f2") if key.action == "theme" else key for key in EXPLORER)
    mine = [one.name for one in matching("f2", commands(EMPTY, NAMES, own))]
    assert mine == ["theme", *(f"theme {name}" for name in sorted(NAMES))]


@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
async def test_the_palette_looks_as_agreed(size: tuple[int, int]) -> None:
    async with on_stage(recorded(), size) as (stage, pilot):
        await pilot.press("colon", *"sor", "down")
        await pilot.pause()
        check_golden(f"palette-{size[0]}x{size[1]}", screen_text(stage.app))


@pytest.mark.parametrize("key", ["colon", "ctrl+p"])
async def test_what_is_chosen_is_carried_out(key: str) -> None:
    async with on_stage(recorded()) as (stage, pilot):
        await pilot.press(key, *"by params", "enter")
        await pilot.pause()
        assert stage.explorer.tree_widget.view.sort == "params"
        assert stage.app.screen is stage.explorer
        await pilot.press(key, *"theme light", "enter")
        await pilot.pause()
        assert stage.app.theme == "profiler-light"


async def test_a_command_may_open_a_prompt_or_a_screen() -> None:
    async with on_stage(recorded()) as (stage, pilot):
        await pilot.press("colon", *"search", "enter", *"fc", "enter")
        await pilot.pause()
        assert stage.explorer.tree_widget.view.filter_text == "fc"
        await pilot.press("colon", *"log", "enter")
        await pilot.pause()
        assert stage.app.screen is not stage.explorer


async def test_a_refused_command_is_not_carried_out() -> None:
    hello = Hello(1, 1, ("Pause", "Resume"), "this process is not ours")
    async with on_stage([hello, *recorded()[1:]]) as (stage, pilot):
        await pilot.press("colon", *"batch", "enter")
        await pilot.pause()
        assert isinstance(stage.app.screen, PaletteScreen)
        assert "not now: this process is not ours" in screen_text(stage.app)
        await pilot.press("escape", "escape")
        await pilot.pause()
        assert stage.app.screen is stage.explorer
        assert stage.requests == []
        assert Resume() not in stage.requests


async def test_esc_closes_it_at_once_whatever_was_typed() -> None:
    async with on_stage(recorded()) as (stage, pilot):
        await pilot.press("colon", *"sor", "escape")
        assert stage.app.screen is stage.explorer
        await pilot.press("colon", *"sort by params", "ctrl+u", *"order", "enter")
        assert stage.explorer.tree_widget.view.sort == "order"


async def test_letters_typed_in_it_press_no_key() -> None:
    async with on_stage(recorded()) as (stage, pilot):
        await pilot.press("colon", *"qjk?P:")
        await pilot.pause()
        assert isinstance(stage.app.screen, PaletteScreen)
        assert 'no command matches "qjk?P:"' in screen_text(stage.app)


@pytest.mark.parametrize("size", [(5, 1), (20, 5), (60, 13), (80, 20), (96, 20)])
def test_every_row_is_exactly_as_wide_as_asked(size: tuple[int, int]) -> None:
    hostile = Command("\x1b[31m" + "漢" * 90, "x" * 300, "none", "ctrl+x", "\u202e" * 300)
    for glyphs in (UNICODE, ASCII):
        for found in ((), (hostile,), (*every(), hostile)):
            lines = palette_lines(found, max(len(found) - 1, 0), "\x07" * 9, size, glyphs)
            assert [line_width(line) for line in lines] == [size[0]] * size[1]
            assert not {c for line in lines for c in text(line)} & set("\x1b\u202e\x07")


@pytest.mark.parametrize("theme", NAMES)
async def test_what_lies_around_it_stays_in_sight_in_every_theme(theme: str) -> None:
    async with on_stage(recorded(), (80, 30)) as (stage, pilot):
        stage.app.theme = PREFIX + theme
        await pilot.pause()
        first, *_, last = screen_text(stage.app).rstrip("\n").split("\n")
        await pilot.press("colon")
        await pilot.pause()
        shown = screen_text(stage.app).rstrip("\n").split("\n")
        assert (shown[0], shown[-1]) == (first, last)


def test_without_its_sign_the_enter_key_is_written_out() -> None:
    drawn = [text(line).rstrip() for line in palette_lines(every(), 0, "", (80, 20), ASCII)]
    [opens] = [line for line in drawn if line.lstrip("> ").startswith("open ")]
    assert opens.endswith("enter")
