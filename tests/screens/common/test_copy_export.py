"""What ``y`` copies and ``e`` writes, from the keys to the file."""

from __future__ import annotations

import csv
import io
import os
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace
from textual.pilot import Pilot

from screens.common.copy_export import chosen_file, default_name, written
from tests.fixtures.record import recorded
from tests.screens.explorer.test_explorer import Stage, on_stage
from tests.screens.screen_text import screen_text
from tui_profiler.messages import Message, Nodes
from tui_profiler.reports.json.report import json_report
from tui_profiler.reports.perfetto.trace import perfetto_trace
from tui_profiler.reports.text.full import full_markdown

HOSTILE = "\x1b]52;c;eA==\x07[/b]=1+1\u202e" + "漢" * 500


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("TMUX", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


async def done(stage: Stage, pilot: Pilot[int]) -> str:
    """Wait until what was asked for is done, and give the screen."""
    await pilot.pause()
    await stage.app.workers.wait_for_complete()
    await pilot.pause()
    return screen_text(stage.app)


def copied(folder: Path) -> str:
    return (folder / "cache" / "tui-profiler" / "copied.txt").read_text()


def with_hostile_names() -> Sequence[Message]:
    return [
        replace(m, nodes=tuple(replace(n, name=HOSTILE, path=HOSTILE) for n in m.nodes))
        if isinstance(m, Nodes)
        else m
        for m in recorded()
    ]


async def test_y_y_copies_the_path(folder: Path) -> None:
    async with on_stage(recorded()) as (stage, pilot):
        await pilot.press("j", "j", "y")
        assert "copy:  p path  r row  l panel  s screen  esc cancels" in screen_text(stage.app)
        await pilot.press("y")
        shown = await done(stage, pilot)
    assert copied(folder) == "bn1"
    assert "copied bn1: OSC 52, " in shown


async def test_the_root_has_no_path_to_copy() -> None:
    async with on_stage(recorded()) as (stage, pilot):
        await pilot.press("y", "p")
        assert "the path of the root is empty" in await done(stage, pilot)


async def test_a_row_a_panel_and_the_screen_are_copied_as_they_are_seen(folder: Path) -> None:
    async with on_stage(recorded()) as (stage, pilot):
        await pilot.press("j")
        await pilot.pause()
        seen = screen_text(stage.app).splitlines()
        row = next(line for line in seen if line.startswith("▌"))
        await pilot.press("y", "r")
        await done(stage, pilot)
        assert copied(folder) == row.partition("│")[0].strip("▌ ")
        await pilot.press("y", "l")
        await done(stage, pilot)
        panel = copied(folder).splitlines()
        assert panel[0].split() == row.partition("│")[2].split() or "conv1" in panel[0]
        assert any(line.startswith(" timing ──") for line in panel)
        await pilot.press("y", "s")
        await pilot.pause()
        await done(stage, pilot)
        # The status row says what was copied before; all others are as they were seen.
        again = copied(folder).splitlines()
        same = [a == b for a, b in zip(again, seen, strict=False)]
        assert len(again) == 40
        assert same.count(False) <= 1


async def test_hostile_names_are_copied_whole_and_printable(folder: Path) -> None:
    async with on_stage(with_hostile_names()) as (stage, pilot):
        await pilot.press("j", "y", "p")
        await done(stage, pilot)
        path = copied(folder)
        assert path.isprintable()
        assert path.endswith("漢" * 500)
        assert path.startswith("\\x1b]52;c;eA==\\x07[/b]=1+1\\u202e")
        for what in "rls":
            await pilot.press("y", what)
            await done(stage, pilot)
            assert all(c.isprintable() or c == "\n" for c in copied(folder))


async def test_the_screen_is_exported_as_text_with_its_absolute_path(folder: Path) -> None:
    async with on_stage(recorded()) as (stage, pilot):
        seen = screen_text(stage.app).splitlines()
        await pilot.press("e", "enter")
        shown = await done(stage, pilot)
        text = (folder / "resnet50-explorer.txt").read_text()
        assert text.splitlines()[:38] == seen[:38]
        assert f"wrote the screen as text: {folder}/resnet50-explorer.txt"[:100] in shown


async def test_nothing_is_overwritten_without_asking(folder: Path) -> None:
    file = folder / "a.txt"
    file.write_text("mine")
    async with on_stage(recorded()) as (stage, pilot):
        await pilot.press("e", "ctrl+u", *"a.txt", "enter")
        assert "a.txt is there already  o overwrite it  esc keeps it" in await done(stage, pilot)
        await pilot.press("escape")
        await done(stage, pilot)
        assert file.read_text() == "mine"
        await pilot.press("e", "ctrl+u", *"a.txt", "enter", "o")
        await done(stage, pilot)
        assert "layer1" in file.read_text()
        assert [name for name in os.listdir(folder) if "a.txt" in name] == ["a.txt"]


async def test_the_rows_on_screen_are_exported_as_csv(folder: Path) -> None:
    async with on_stage(recorded()) as (stage, pilot):
        await pilot.press("slash", *"type:linear", "enter")
        await pilot.press("e", "ctrl+u", *"rows.csv", "enter")
        await done(stage, pilot)
        lines = list(csv.DictReader(io.StringIO((folder / "rows.csv").read_text())))
    assert [line["path"] for line in lines] == ["", "fc"]
    # 2048 x 1000 weights and 1000 biases; torchvision says 25,557,032 in all.
    assert [line["parameters"] for line in lines] == ["25557032", "2049000"]


async def test_a_report_of_the_whole_session_is_exported(folder: Path) -> None:
    async with on_stage(recorded()) as (stage, pilot):
        session = stage.app.session
        for name in ("r.md", "r.json", "r.pftrace"):
            await pilot.press("e", "ctrl+u", *name, "enter")
            # The path may be longer than the line: how long the temporary folder's is.
            assert "wrote " in await done(stage, pilot)
            assert (folder / name).is_file()
    assert (folder / "r.md").read_text() == full_markdown(session)
    assert (folder / "r.json").read_text() == json_report(session) + "\n"
    assert (folder / "r.pftrace").read_bytes() == perfetto_trace(session, 1)


async def test_hostile_names_are_exported_safely(folder: Path) -> None:
    async with on_stage(with_hostile_names()) as (stage, pilot):
        for name in ("x.txt", "x.csv", "x.svg"):
            await pilot.press("e", "ctrl+u", *name, "enter")
            await done(stage, pilot)
            text = (folder / name).read_text()
            assert "\x1b" not in text
            assert "\u202e" not in text
    ElementTree.parse(folder / "x.svg")


async def test_what_cannot_be_written_is_said(folder: Path) -> None:
    async with on_stage(recorded()) as (stage, pilot):
        for name in ("x.pdf", "x", "missing/x.txt"):
            await pilot.press("e", "ctrl+u", *name, "enter")
            shown = await done(stage, pilot)
            said = "No such file or directory" if "/" in name else "formats, by extension"
            assert said in shown
        assert [name for name in os.listdir(folder) if name.startswith("x")] == []


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("resnet50", "resnet50-explorer.txt"),
        ("../../etc/passwd", "etc-passwd-explorer.txt"),
        ("\x1b[31m漢", "31m-explorer.txt"),
        ("-rf", "rf-explorer.txt"),
        ("漢", "model-explorer.txt"),
        ("a" * 500, "a" * 60 + "-explorer.txt"),
    ],
)
def test_any_model_gives_a_plain_file_name(model: str, name: str) -> None:
    assert default_name(model, "explorer") == name


def test_a_file_is_absolute_and_home_is_known(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert chosen_file("~/a.txt") == Path("/home/me/a.txt")
    assert chosen_file(" b/../c.svg ") == folder / "c.svg"


def test_only_plain_files_are_written_again(folder: Path) -> None:
    (folder / "folder.txt").mkdir()
    with pytest.raises(FileExistsError):
        written(folder / "folder.txt", "text", again=True)
    with pytest.raises(FileExistsError):
        written(folder / "folder.txt", "text", again=False)
