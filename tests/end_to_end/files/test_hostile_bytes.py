"""Hostile names in the real program: none puts anything of its own into the bytes written."""

from __future__ import annotations

import base64
import re
import subprocess
from pathlib import Path

import pytest

from benchmarks.terminal.walk_program import Walk
from benchmarks.terminal.walk_session import AT_ONCE, typed
from screens.actions.table import EXPLORER
from tests.end_to_end.conftest import Start
from tests.end_to_end.terminal import COMMAND
from tests.hostile import MARK, SESSIONS, TEXTS
from tests.recording.files import write

ASKING = ("copy", "why", "operators", "batch")
MODEL = """
import torch

NAMES = [text.replace(".", "·") + str(n) for n, text in enumerate(TEXTS)]


class Failing(torch.nn.Module):
    def forward(self, x):
        raise ValueError("\\n".join(NAMES))


def build():
    net = torch.nn.Sequential()
    for name in NAMES:
        kind = type(name.replace("\\0", ""), (torch.nn.Linear,), {})
        layer = kind(8, 8)
        layer.register_parameter(name, torch.nn.Parameter(torch.zeros(1)))
        net.add_module(name, layer)
        print(name)
    return net


def failing():
    return torch.nn.Sequential(build(), Failing())
"""


def test_the_check_itself_finds_what_a_name_adds() -> None:
    plain = b"\x1b[?1049h\x1b[2;1H\x1b[1;38;2;1;2;3mlayer \xe2\x94\x81\x1b[0m\r\n"
    assert not_ours(plain) == []
    hostile = (
        b"\x1b[7;5;9m",
        b"\x1b]0;x\x07",
        b"\xc2\x9b31m",
        b"\xe2\x80\xae",
        b"\x1b[2J",
        b"\x1bc",
    )
    assert all(not_ours(plain + name) for name in hostile)


@pytest.mark.parametrize("kind", [kind for kind in SESSIONS if kind != "loading"])
def test_a_recording_adds_nothing_to_the_bytes(kind: str, tmp_path: Path) -> None:
    said = [(message, number / 100) for number, message in enumerate(SESSIONS[kind](2))]
    file = write(tmp_path / "session.rec", said)
    walk = Walk(["open", str(file)], (120, 40), str(tmp_path))
    try:
        walk.terminal.wait_for(MARK)
        for place in AT_ONCE:
            walk.terminal.send(place.opening[0])
            walk.terminal.wait_for(lambda _, mark=place.mark: walk.shows(mark))
            # A plain escape that is read together with the next key would be alt and that key.
            walk.terminal.send("\x1b[27u")
            walk.terminal.wait_for(lambda _, mark=place.mark: not walk.shows(mark))
            walk.terminal.send("j")
        for key in EXPLORER:
            if key.action in ASKING:
                walk.press(typed(key.keys.split(",")[0]), key.action)
                walk.press("\x1b[27u", key.action)
        walk.leave()
        raw = bytes(walk.terminal.raw)
    finally:
        walk.terminal.close()
    assert not_ours(raw) == []
    assert MARK.encode() in raw


@pytest.fixture
def model(tmp_path: Path) -> str:
    file = tmp_path / f"\x1b]0;{MARK}\x07[bold]\u202enet.py"
    file.write_text(f"TEXTS = {TEXTS!r}\n{MODEL}")
    return str(file)


def test_a_real_model_adds_nothing_to_the_bytes(model: str, start: Start) -> None:
    terminal = start(f"{model}:failing")
    terminal.wait_for("✗")
    terminal.send("L")
    terminal.wait_for("follows the end")
    terminal.send("\x1b")
    terminal.wait_for("restart")
    terminal.send("q")
    assert terminal.wait_for_exit() == 0
    assert not_ours(bytes(terminal.raw)) == []
    assert MARK.encode() in terminal.raw


def test_a_report_of_a_real_model_adds_nothing_to_the_bytes(model: str) -> None:
    arguments = ["report", f"{model}:build", "--input", "1,8", "--no-run", "--format", "json"]
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, check=False, timeout=240)
    assert done.returncode == 0, done.stderr
    assert not_ours(done.stdout) == []
    assert not_ours(done.stderr) == []
    assert MARK.encode() in done.stdout


_SEQUENCE = re.compile(
    rb"\x1b\[\?\d+(?:;\d+)*(?:[hl]|\$p)"  # modes, and questions about them
    rb"|\x1b\[(?:\d+(?:;\d+)?)?H|\x1b\[\d*[ABCDG]"  # where to write
    rb"|\x1b\[6n"  # where that is
    rb"|\x1b\[[<>]\d*u"  # the keyboard's protocol
    rb"|\x1b\[(?!7;5;9)[\d;]*m"  # colours; these three together are a hostile name's
)


_COPIED = re.compile(rb"\x1b\]52;c;([A-Za-z0-9+/=]*)\x07")


def not_ours(raw: bytes) -> list[str]:
    """Return what is neither a sequence of our own nor printable text, with what follows."""
    # What was copied goes through the terminal in base64, and out of the clipboard as it was.
    raw = _COPIED.sub(lambda found: base64.b64decode(found[1]), raw)
    text = _SEQUENCE.sub(b"", raw).decode(errors="backslashreplace")
    found = [match.start() for match in re.finditer(r"[^\n\r -~]", text)]
    return [repr(text[place : place + 40]) for place in found if not text[place].isprintable()]
