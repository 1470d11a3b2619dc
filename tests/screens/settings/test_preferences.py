"""The explorer as its user is used to it: keys, columns, theme, rate, and what it kept."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest
from textual.pilot import Pilot

from screens.app.explorer_app import ProfilerApp
from screens.common.column_list import ColumnsScreen
from screens.explorer.screen import ExplorerScreen
from screens.settings.appearance import GlyphSet, ThemeName
from screens.settings.config import USUAL, Config, Problem, Settings
from screens.settings.preferences import Preferences
from screens.settings.saved_view import SavedView, SavedViews
from screens.settings.theme import THEMES
from screens.terminal.driver import QuietDriver
from tests.fixtures.record import recorded
from tests.recorded_source import Recorded
from tests.screens.screen_text import screen_text
from tests.screens.settings.test_appearance import of_page_437
from tui_profiler.formatting.text import width
from tui_profiler.messages import LoadSpec
from tui_profiler.queries.tree.columns import COLUMN_NAMES, COLUMN_WORDS

SPEC = LoadSpec("resnet50", started_at=0.0)
SIZES = [(120, 40), (80, 24), (60, 15)]


@asynccontextmanager
async def explored(
    config: Config = USUAL, kept: SavedViews | None = None, size: tuple[int, int] = (120, 40)
) -> AsyncIterator[tuple[ProfilerApp, ExplorerScreen, Pilot[int]]]:
    source = Recorded(recorded())
    preferences = Preferences(config, kept, SPEC.model)

    def again(spec: LoadSpec) -> Recorded:
        return Recorded(recorded())

    app = ProfilerApp(source, SPEC, again, preferences=preferences, clock=lambda: 30.0)
    async with app.run_test(size=size) as pilot:
        while app._newest.hello is None or source.left:
            await pilot.pause(0.01)
        app._show()
        await pilot.pause()
        explorer = app.screen_stack[0]
        assert isinstance(explorer, ExplorerScreen)
        yield app, explorer, pilot


def break_the_only_file(folder: Path) -> None:
    (file,) = folder.iterdir()
    file.write_text("{")


def with_keys(**keys: str) -> Config:
    given = {name.replace("_", "-"): tuple(value.split()) for name, value in keys.items()}
    return Config(settings=Settings(keys=given))


@pytest.mark.parametrize(
    ("inside", "wanted", "begins_with_it"),
    [
        ({}, True, True),
        ({"STY": "1.pts-0.host"}, True, False),
        ({"STY": "1.pts-0.host", "TMUX": "/tmp/tmux-0/default,1,0"}, True, True),
        ({}, False, False),
    ],
)
def test_the_mouse_is_left_where_it_would_cost_the_escape_key(
    inside: dict[str, str], wanted: bool, begins_with_it: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("STY", "TMUX"):
        monkeypatch.delenv(name, raising=False)
    for name, value in inside.items():
        monkeypatch.setenv(name, value)
    assert Preferences(Config(settings=Settings(mouse=wanted))).mouse is begins_with_it


async def test_a_key_that_was_given_does_what_it_was_given_for() -> None:
    async with explored(with_keys(unfold_all="x", sort="f2")) as (_, explorer, pilot):
        tree = explorer.tree_widget
        before = len(tree.outline or ())
        await pilot.press("right_curly_bracket")
        assert len(tree.outline or ()) == before
        await pilot.press("x", "f2")
        assert len(tree.outline or ()) > before
        assert tree.view.sort == "params"


async def test_two_keys_can_change_places() -> None:
    async with explored(with_keys(sort="z", hottest="s")) as (_, explorer, pilot):
        await pilot.press("s")
        tree = explorer.tree_widget
        assert tree.view.sort == "order"
        assert tree.view.selected > 0
        await pilot.press("z")
        assert tree.view.sort == "params"


async def test_the_search_opens_with_the_key_that_it_was_given() -> None:
    async with explored(with_keys(filter="f3")) as (app, explorer, pilot):
        assert "f3 search" in screen_text(app)
        await pilot.press("slash", "f3", "f", "c", "enter")
        assert explorer.tree_widget.view.filter_text == "fc"


async def test_the_list_of_keys_shows_the_keys_as_they_are() -> None:
    async with explored(with_keys(hottest="x")) as (app, _, pilot):
        await pilot.press("question_mark", *"hottest")
        shown = screen_text(app)
        assert "\n  x go to the module with the most self time" in shown


async def test_a_view_beside_the_explorer_has_the_same_keys() -> None:
    async with explored(with_keys(machine="f4", log="f5")) as (app, _, pilot):
        await pilot.press("f4")
        assert type(app.screen).__name__ == "MachineScreen"
        await pilot.press("escape", "f5")
        assert type(app.screen).__name__ == "LogScreen"


async def test_columns_and_order_are_those_of_the_configuration() -> None:
    settings = Settings(columns=("flops", "calls", "share"), sort="flops")
    async with explored(Config(settings=settings)) as (app, explorer, _):
        tree = explorer.tree_widget
        assert tree.columns_shown == ("flops", "calls", "share")
        assert (tree.view.sort, tree.view.descending) == ("flops", True)
        assert "by FLOP" in screen_text(app)


async def test_columns_are_chosen_in_a_list_and_the_tree_follows() -> None:
    async with explored() as (app, explorer, pilot):
        tree = explorer.tree_widget
        usual = tree.columns_shown
        await pilot.press("c")
        assert isinstance(app.screen, ColumnsScreen)
        await pilot.press("space")
        assert tree.columns_shown == usual[1:]
        await pilot.press("space", "J")
        assert tree.columns_shown[:2] == (usual[1], usual[0])
        await pilot.press("escape")
        assert tree.columns_shown == usual
        await pilot.press("c", "space", "enter", "c", "escape")
        assert tree.columns_shown == usual[1:]
        await pilot.press("c", "0", "enter")
        assert tree.columns_shown == usual
        assert tree.chosen_columns == ()


@pytest.mark.parametrize("size", SIZES)
async def test_the_list_of_columns_is_no_wider_than_the_terminal(size: tuple[int, int]) -> None:
    async with explored(size=size) as (app, _, pilot):
        await pilot.press("c", *["j"] * len(COLUMN_NAMES))
        shown = screen_text(app).split("\n")
        assert max(map(width, shown)) <= size[0]
        assert any("esc cancel" in line for line in shown)
        last = COLUMN_WORDS[COLUMN_NAMES[-1]][0]
        assert any("▌" in line and last in line for line in shown)


async def test_the_sort_goes_through_what_is_shown() -> None:
    settings = Settings(columns=("self", "bar", "params"))
    async with explored(Config(settings=settings)) as (_, explorer, pilot):
        seen = []
        for _ in range(5):
            await pilot.press("s")
            seen.append(explorer.tree_widget.view.sort)
        assert seen == ["self", "params", "name", "order", "self"]


async def test_the_theme_goes_through_ours_and_is_kept(tmp_path: Path) -> None:
    async with explored(kept=SavedViews(tmp_path)) as (app, _, pilot):
        seen = [app.theme]
        for _ in THEMES[1:]:
            await pilot.press("T")
            seen.append(app.theme)
        assert seen == [theme.name for theme in THEMES]
    async with explored(kept=SavedViews(tmp_path)) as (app, _, _):
        assert app.theme == THEMES[-1].name


async def test_the_look_is_kept_from_one_start_to_the_next(tmp_path: Path) -> None:
    async with explored(kept=SavedViews(tmp_path)) as (_, explorer, pilot):
        await pilot.press("right_curly_bracket", "s", "s", "a", "c", "space", "enter")
        await pilot.press("slash", "f", "c", "enter")
        before = explorer.tree_widget.view
        columns = explorer.tree_widget.columns_shown
        assert before.filter_text == "fc"
    async with explored(kept=SavedViews(tmp_path)) as (_, explorer, _):
        after = explorer.tree_widget.view
        tree = explorer.session.tree
        assert tree is not None
        modules = [index for index, node in enumerate(tree.nodes) if node.kind == "module"]
        assert [after.unfolded[i] for i in modules] == [before.unfolded[i] for i in modules]
        assert (after.sort, after.show_operators) == (before.sort, True)
        assert after.filter_text == ""
        assert explorer.tree_widget.columns_shown == columns


async def test_folds_outlive_a_restart_of_the_worker(tmp_path: Path) -> None:
    async with explored(kept=SavedViews(tmp_path)) as (app, explorer, pilot):
        await pilot.press("right_curly_bracket")
        rows = len(explorer.tree_widget.outline or ())
        assert rows > 20
        first = app._source
        app.restart()
        while (source := app._source) is first or cast(Recorded, source).left:
            await pilot.pause(0.01)
        app._show()
        await pilot.pause()
        assert len(explorer.tree_widget.outline or ()) == rows


@pytest.mark.parametrize("size", SIZES)
async def test_what_is_wrong_in_the_file_is_said_once(size: tuple[int, int]) -> None:
    problems = (Problem(7, "theme: there is no 'blue'"), Problem(9, "rate: no"))
    config = Config(problems=problems)
    async with explored(config, size=size) as (app, explorer, pilot):
        said = "config.toml:7: theme: there is no 'blue'"
        # Where the last row is too short for it, it lies over the screen for a while.
        over = [one.message for one in app._notifications]
        assert said in "\n".join((screen_text(app), *over))
        explorer.say("something else")
        await pilot.pause()
        explorer.refresh_all()
        assert said not in screen_text(app)
        assert "resnet50" in screen_text(app)


async def test_the_rate_is_changed_by_keys_within_its_limits() -> None:
    async with explored(Config(settings=Settings(rate=2.0))) as (app, _, pilot):
        assert app.rate == 2
        rates = []
        for key in ("plus", "equals_sign", "plus", "minus", *["minus"] * 4):
            await pilot.press(key)
            rates.append(app.rate)
        assert rates == [4, 10, 10, 4, 2, 1, 0.5, 0.5]
        assert "redrawn every 2 s, the limit" in screen_text(app)


async def test_a_broken_memory_is_left_out_with_a_word(tmp_path: Path) -> None:
    kept = SavedViews(tmp_path)
    kept.write("resnet50", SavedView(sort="macs"))
    break_the_only_file(tmp_path)
    async with explored(kept=kept) as (app, explorer, _):
        assert "saved view ignored" in screen_text(app)
        assert explorer.tree_widget.view.sort == "order"


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ["ascii", "block"])
async def test_every_screen_is_drawn_in_the_set_that_was_chosen(
    name: GlyphSet, size: tuple[int, int]
) -> None:
    config = Config(settings=Settings(glyphs=name))
    seen = ""
    async with explored(config, size=size) as (app, _, pilot):
        await pilot.press("3", "j", "j")
        for keys in ("j", "c", "enter", "slash", "escape", "o", "escape", "question_mark"):
            await pilot.press(keys)
            await pilot.pause()
            seen += screen_text(app)
    drawable = str.isascii if name == "ascii" else of_page_437
    assert [line for line in seen.split("\n") if not drawable(line)] == []
    assert max(map(width, seen.split("\n"))) <= size[0]


@pytest.mark.parametrize("theme", ["terminal", "terminal-light"])
async def test_in_the_terminals_colours_the_cursor_row_is_reversed_as_one(theme: ThemeName) -> None:
    async with explored(Config(settings=Settings(theme=theme))) as (_, explorer, _):
        style = explorer.tree_widget.role_style
        inks = [style(f"{ink} cursor") for ink in ("ink", "muted", "faint", "compute", "accent")]
        assert {one.reverse for one in inks} == {True}
        assert len({(one.color, one.bgcolor) for one in inks}) == 1
        assert style("compute").color != style("memory").color


class Written(QuietDriver):
    """Keeps what would go to the terminal."""

    text = ""

    def write(self, data: str) -> None:
        self.text += data

    def flush(self) -> None:
        pass


async def test_the_mouse_is_left_to_the_terminal_and_taken_again() -> None:
    async with explored() as (app, explorer, _):
        # Nothing real is drawn on: there is no mouse to have.
        assert "mouse off" in explorer.appearance.toggle_mouse()
        driver = Written(app)
        assert driver.has_mouse
        driver.has_mouse = False
        assert driver.text.endswith("\x1b[?1006l")
        assert "\x1b[?1000h" not in driver.text
        driver.has_mouse = True
        assert driver.text.endswith("\x1b[?1000h\x1b[?1006h")
