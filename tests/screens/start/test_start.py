"""The start screen: what can be opened is listed, found by typing, and given."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import torchvision
from textual.pilot import Pilot

from screens.actions.help import KeysScreen
from screens.settings.preferences import Preferences
from screens.start.offer_sources import (
    demo_models,
    files_here,
    library_models,
    opened_before,
    running,
)
from screens.start.screen import StartApp, StartScreen
from screens.widgets.lines import line_width, text
from screens.widgets.offer_lines import start_lines
from tests.recording.files import fixture, write
from tests.screens.explorer.test_explorer import check_golden
from tests.screens.screen_text import screen_text
from tests.small_model import TRACED
from tui_profiler.formatting.canvas import ASCII, UNICODE
from tui_profiler.messages import LoadSpec
from tui_profiler.queries.start_offers import Offer
from tui_profiler.source.cached_tree_files import keep
from tui_profiler.source.torch_processes import UsersPrograms

DEMOS = demo_models()
STANDING = (
    Offer("recent", "resnet50", "--batch 4", "2 h ago", "resnet50", LoadSpec("resnet50", batch=4)),
    Offer("recent", "net.py:build", "in ~/models", "3 days ago", "net.py:build", LoadSpec("m")),
    *DEMOS,
    Offer("files here", "net.py", "Python", "2.10 KiB", "./net.py"),
    Offer("files here", "resnet.safetensors", "weights", "97.8 MiB", "./resnet.safetensors"),
    Offer("running", "served", "pid 4711  python serve.py  watched 3m 20s", process=4711),
    Offer("running", "stuck", "pid 4712  it says nothing", process=4712, is_live=False),
)


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nothing of this machine: no cache, no running programs, an empty folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TUI_PROFILER_DIR", str(tmp_path / "sockets"))
    (tmp_path / "here").mkdir()
    return tmp_path / "here"


@asynccontextmanager
async def on_start(
    folder: Path, size: tuple[int, int] = (120, 40)
) -> AsyncIterator[tuple[StartApp, Pilot[Offer | None]]]:
    app = StartApp(Preferences(), str(folder))
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        yield app, pilot


@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
async def test_it_looks_as_agreed(places: Path, size: tuple[int, int]) -> None:
    async with on_start(places, size) as (app, pilot):
        screen = app.screen
        assert isinstance(screen, StartScreen)
        screen.offer(STANDING)
        await pilot.press("down")
        await pilot.pause()
        check_golden(f"start-{size[0]}x{size[1]}", screen_text(app))  # type: ignore[arg-type]


async def test_what_is_typed_finds_it_and_enter_gives_it(places: Path) -> None:
    async with on_start(places) as (app, pilot):
        assert "demo:cnn" in screen_text(app)  # type: ignore[arg-type]  # any app
        assert "nothing was opened yet" in screen_text(app)  # type: ignore[arg-type]
        await pilot.press(*"deco", "enter")
        await pilot.pause()
    assert app.return_value is not None
    assert app.return_value.model == "demo:decoder"


async def test_any_name_can_be_typed(places: Path) -> None:
    async with on_start(places) as (app, pilot):
        await pilot.press(*"resnet18", "enter")
    assert app.return_value is not None
    assert app.return_value.model == "resnet18"
    assert app.return_value.spec is None


async def test_every_letter_is_typed_and_esc_clears_then_quits(places: Path) -> None:
    async with on_start(places) as (app, pilot):
        await pilot.press(*"qjk?g:")
        await pilot.pause()
        assert "open qjk?g:" in screen_text(app)  # type: ignore[arg-type]
        assert "esc clear" in screen_text(app)  # type: ignore[arg-type]
        await pilot.press("backspace", "ctrl+u")
        await pilot.press(*"q")
        await pilot.press("escape")
        await pilot.pause()
        assert app.is_running
        assert "esc quit" in screen_text(app)  # type: ignore[arg-type]
        await pilot.press("escape")
    assert app.return_value is None
    assert app.return_code == 0


@pytest.mark.parametrize("key", ["ctrl+c", "ctrl+q"])
async def test_it_is_quit_while_something_is_typed(places: Path, key: str) -> None:
    async with on_start(places) as (app, pilot):
        await pilot.press("v", key)
    assert app.return_code == 0


async def test_its_keys_are_listed_and_not_those_of_the_explorer(places: Path) -> None:
    async with on_start(places) as (app, pilot):
        for opening, closing in (("question_mark", "q"), ("f1", "escape")):
            await pilot.press(opening)
            await pilot.pause()
            assert isinstance(app.screen, KeysScreen)
            shown = screen_text(app)  # type: ignore[arg-type]
            assert "keys of the start screen" in shown
            assert "open what is under the cursor" in shown
            assert "roofline" not in shown
            await pilot.press(closing)
            await pilot.pause()
            assert isinstance(app.screen, StartScreen)
        await pilot.press("v", "f1")
        await pilot.pause()
        assert isinstance(app.screen, KeysScreen)


@pytest.mark.parametrize(
    ("typed", "model"),
    [
        ("res50", "resnet50"),
        ("18 resnet", "resnet18"),
        ("mobilenetv3large", "mobilenet_v3_large"),
        ("resnset50", "resnet50"),
    ],
)
async def test_torchvisions_models_are_found_by_parts(places: Path, typed: str, model: str) -> None:
    async with on_start(places) as (app, pilot):
        assert f"{len(torchvision.models.list_models())} torchvision" in screen_text(app)  # type: ignore[arg-type]
        await pilot.press(*(("space" if one == " " else one) for one in typed), "enter")
    assert app.return_value is not None
    assert app.return_value.model == model


async def test_a_folder_with_the_name_that_is_typed_is_meant(places: Path) -> None:
    (places / "resn").mkdir()
    async with on_start(places) as (app, pilot):
        await pilot.press(*"resn", "enter")
    assert app.return_value == Offer("as typed", "resn", "a model's name, or a path", model="resn")


def test_the_names_of_libraries_are_read_without_importing_them(places: Path) -> None:
    program = (
        "import sys; from screens.start.offer_sources import library_models;"
        "names = {offer.model for offer in library_models()}; assert 'resnet50' in names;"
        "assert not {'torch', 'torchvision', 'timm'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_timms_names_have_its_prefix() -> None:
    timm = pytest.importorskip("timm")
    names = {offer.model for offer in library_models() if offer.section == "timm"}
    assert names == {f"timm:{name}" for name in timm.list_models()}


async def test_the_cursor_moves_and_stays_where_it_is(places: Path) -> None:
    async with on_start(places) as (app, pilot):
        await pilot.press("down", "down", "up")
        assert isinstance(app.screen, StartScreen)
        await app.screen.look_for_programs()
        await pilot.press("enter")
    assert app.return_value == DEMOS[1]


def test_files_are_offered_by_what_they_are(places: Path, tmp_path: Path) -> None:
    (places / "net.py").write_text("import torch\n")
    (places / "plain.py").write_text("print()\n")
    (places / "w.safetensors").write_bytes(b"x" * 2048)
    (places / "notes.txt").write_text("torch")
    (places / "sub").mkdir()
    (places / "sub.pt").mkdir()
    (places / "\x1b[31m.pt").write_bytes(b"")
    os.mkfifo(places / "pipe.pt")
    shutil.move(write(tmp_path / "r", fixture()[:5]), places / "yesterday")
    found = files_here(str(places))
    assert {offer.name: offer.detail for offer in found} == {
        "net.py": "Python",
        "w.safetensors": "weights",
        "\\x1b[31m.pt": "weights, or a whole model",
        "yesterday": "recording",
    }
    assert {offer.model for offer in found} >= {"./net.py", str(places / "yesterday")}
    assert files_here(str(places / "gone")) == ()


def test_what_was_opened_before_says_where_and_when(places: Path, tmp_path: Path) -> None:
    (places / "net.py").write_text("")
    keep(LoadSpec("net.py:build", batch=2, folder=str(places)), ())
    for path in (tmp_path / "cache").rglob("*.trace"):
        os.utime(path, (1, 1))
    keep(LoadSpec("resnet50", folder=str(places)), TRACED[4:])
    first, second = opened_before("/")
    assert (first.name, first.detail, first.right) == ("resnet50", "", "a moment ago")
    assert (second.name, second.detail) == ("net.py:build", f"--batch 2  in {places}")
    assert opened_before(str(places))[1].detail == "--batch 2"


def test_no_program_runs() -> None:
    assert running(UsersPrograms()) == ()


@pytest.mark.parametrize("size", [(5, 2), (20, 4), (60, 14), (80, 23), (120, 39), (200, 60)])
def test_every_row_is_exactly_as_wide_as_asked(size: tuple[int, int]) -> None:
    hostile = Offer("files here", "漢" * 90, "x" * 300, "y" * 30)
    for glyphs in (UNICODE, ASCII):
        for offers in ((), STANDING, (*STANDING, hostile)):
            lines = start_lines(offers, max(len(offers) - 1, 0), "\x1b[31m", size, glyphs)
            assert [line_width(line) for line in lines] == [size[0]] * size[1]
            assert "\x1b" not in "".join(map(text, lines))


def test_a_long_name_with_nothing_beside_it_is_whole() -> None:
    name = "timm:vit_base_patch16_siglip_gap_512_of_fifty_characters"
    lines = start_lines((Offer("timm", name, model=name),), 0, "vit", (80, 23), UNICODE)
    assert name in text(lines[3])
    assert text(lines[2]).rstrip().endswith("1 found")


def test_the_selected_one_is_in_sight() -> None:
    for at in range(len(STANDING)):
        lines = start_lines(STANDING, at, "", (80, 12), UNICODE)
        assert sum(text(line).startswith("▌") for line in lines) == 1


async def test_a_program_that_does_not_listen_is_asked_about_first(places: Path) -> None:
    offer = Offer("running", "serve.py", "pid 4713  not watched", process=4713, asks="start one")
    async with on_start(places) as (app, pilot):
        screen = app.screen
        assert isinstance(screen, StartScreen)
        screen.offer((offer,))
        await pilot.press(*"serve.py", "enter")

        def last_line() -> str:
            return screen_text(app).splitlines()[-1]  # type: ignore[arg-type]  # any app

        assert "start one" in last_line()
        await pilot.press("escape")
        assert "start one" not in last_line()
        assert app.is_running
        await pilot.press("enter", "enter")
    assert app.return_value == offer
