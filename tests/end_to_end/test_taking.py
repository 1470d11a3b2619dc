"""Copy and export by the real program on a real pty, with names that want to do harm."""

from __future__ import annotations

import asyncio
import base64
import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.end_to_end.conftest import Start
from tests.end_to_end.terminal import COMMAND
from tests.fixtures.record import recorded
from tests.recording.files import fixture, timed, write
from tests.screens.common.test_copy_export import HOSTILE, with_hostile_names
from tests.screens.explorer.test_explorer import on_stage
from tui_profiler.messages import Message, ModelFacts

OSC_52 = re.compile(rb"\x1b\]52;c;([A-Za-z0-9+/=]*)\x07")


@pytest.fixture
def hostile_recording(tmp_path: Path) -> Path:
    messages: list[Message] = [
        replace(m, name=HOSTILE, type=HOSTILE) if isinstance(m, ModelFacts) else m
        for m in with_hostile_names()
    ]
    return write(tmp_path / "hostile.rec", timed(messages))


@pytest.mark.parametrize(
    ("environment", "wraps"),
    [({"TERM": "xterm-256color", "STY": ""}, False), ({"TERM": "screen", "STY": "1.pts"}, True)],
)
def test_hostile_names_are_copied_once_and_whole(
    environment: dict[str, str],
    wraps: bool,
    start: Start,
    hostile_recording: Path,
    tmp_path: Path,
) -> None:
    here = {**environment, "TMUX": "", "XDG_CACHE_HOME": str(tmp_path)}
    terminal = start(
        "open", str(hostile_recording), environment=here, folder=str(tmp_path), columns=140
    )
    terminal.wait_for("recorded 20")
    terminal.send("j")
    terminal.send("yy")
    terminal.wait_for("copied the path: OSC 52, ")
    raw = bytes(terminal.raw)
    passed_on = raw.replace(b"\x1b\\\x1bP", b"") if wraps else raw
    found = OSC_52.findall(passed_on)
    assert len(found) == 1
    text = base64.b64decode(found[0]).decode()
    assert text.isprintable()
    assert text.endswith("漢" * 500)
    assert (tmp_path / "tui-profiler" / "copied.txt").read_text() == text
    # Nothing of the name itself reached the terminal.
    assert b"]52;c;eA==\x07" not in raw
    assert "\u202e".encode() not in raw

    terminal.send("e\x15out.svg\r")
    terminal.wait_for("wrote the screen as SVG")
    assert "\x1b" not in (tmp_path / "out.svg").read_text()
    terminal.send("e\x15out.svg\r")
    terminal.wait_for("out.svg is there already")
    terminal.send("\x1b")
    terminal.wait_for(lambda shown: "is there already" not in shown)
    terminal.send("q")
    assert terminal.wait_for_exit() == 0


async def test_what_the_explorer_exports_is_what_is_reported_without_a_screen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    recording = write(tmp_path / "resnet50.rec", fixture())
    command = [*COMMAND, "report", str(recording), "--format", "csv"]
    program = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    reported = (await program.communicate())[0].decode()
    assert program.returncode == 0
    async with on_stage(recorded()) as (stage, pilot):
        await pilot.press("right_curly_bracket", "a", "e", "ctrl+u", *"a.csv", "enter")
        await pilot.pause()
        await pilot.pause()
        await stage.app.workers.wait_for_complete()
    assert (tmp_path / "a.csv").read_text() == reported
    assert reported.count("\n") > 151
