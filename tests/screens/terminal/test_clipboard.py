"""The three ways to the clipboard: what is sent, through what, and what is said of it."""

from __future__ import annotations

import asyncio
import base64
import os
import re
import shutil
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from screens.terminal.clipboard import MOST_BYTES, MOST_OSC_BYTES, Copied, copied, osc52, said

XTERM = {"TERM": "xterm-256color"}


def decoded(sequence: str) -> str:
    found = re.fullmatch(r"\x1b\]52;c;([A-Za-z0-9+/=]*)\x07", sequence)
    assert found is not None
    return base64.b64decode(found[1]).decode()


def as_screen_passes_on(sequence: str) -> str:
    """What GNU screen sends to its terminal: the insides of device control strings."""
    parts = re.findall(r"\x1bP((?:(?!\x1b\\).)*)\x1b\\", sequence, re.S)
    assert all(len(part) < 256 for part in parts)
    assert "".join(f"\x1bP{part}\x1b\\" for part in parts) == sequence
    return "".join(parts)


@pytest.mark.parametrize("text", ["layer3.2.conv2", "", "Schicht ⚙ 漢", "a" * 5000, "=1+1\nb"])
def test_the_sequence_says_the_text_whatever_stands_between(text: str) -> None:
    assert decoded(osc52(text, XTERM)) == text
    in_tmux = osc52(text, {**XTERM, "TMUX": "/tmp/tmux-0/default,1,0"})
    assert in_tmux.startswith("\x1bPtmux;")
    assert in_tmux.endswith("\x1b\\")
    assert decoded(in_tmux[7:-2].replace("\x1b\x1b", "\x1b")) == text
    assert decoded(as_screen_passes_on(osc52(text, {"TERM": "screen", "STY": "1.pts"}))) == text


def test_what_a_terminal_would_show_or_drop_is_not_sent() -> None:
    for term in ("linux", "dumb", ""):
        assert osc52("text", {"TERM": term}) == ""
    longest = osc52("a" * MOST_OSC_BYTES, XTERM)
    assert len(longest) <= 100_000
    assert osc52("a" * (MOST_OSC_BYTES + 1), XTERM) == ""


async def test_the_text_is_in_a_file_of_the_users_alone(tmp_path: Path) -> None:
    sent: list[str] = []
    for text in ("first", "zwei\nlines 漢"):
        done = await copied(text, sent.append, XTERM, tmp_path / "cache")
        assert done == Copied(("OSC 52",), tmp_path / "cache" / "copied.txt")
        assert done.file is not None
        assert done.file.read_text() == text
        assert stat.S_IMODE(done.file.stat().st_mode) == 0o600
    assert [decoded(sequence) for sequence in sent] == ["first", "zwei\nlines 漢"]
    assert [file.name for file in (tmp_path / "cache").iterdir()] == ["copied.txt"]


async def test_too_much_is_cut_and_that_is_said(tmp_path: Path) -> None:
    done = await copied("ä" * MOST_BYTES, print, XTERM, tmp_path)
    assert done.is_cut
    assert done.file is not None
    assert done.file.stat().st_size == MOST_BYTES
    assert said("the screen", done).startswith("copied the first MiB of the screen into /")


async def test_where_nothing_works_it_says_so(tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    done = await copied("text", print, {"TERM": "dumb"}, in_the_way)
    assert said("the row", done).startswith("not copied: no clipboard, and no file either (")


def test_the_way_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    file = Path("/home/me/.cache/tui-profiler/copied.txt")
    assert said("layer1", Copied(("OSC 52",), file)) == (
        "copied layer1: OSC 52, ~/.cache/tui-profiler/copied.txt"
    )
    assert said("layer1", Copied((), Path("/var/x/copied.txt"))) == (
        "copied layer1 into /var/x/copied.txt: no clipboard here"
    )
    assert said("layer1", Copied(("OSC 52",), None, "No space left on device")) == (
        "copied layer1: OSC 52"
    )


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment inside a tmux of the test's own."""
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")
    socket = str(tmp_path / "tmux.sock")
    call = ["tmux", "-S", socket, "-f", "/dev/null"]
    subprocess.run([*call, "new-session", "-d", "sleep 60"], check=True)
    yield {**os.environ, "TMUX": f"{socket},1,0", "TERM": "screen", "SOCKET": socket}
    subprocess.run([*call, "kill-server"], check=True)


async def test_tmux_is_handed_the_text(tmux: dict[str, str], tmp_path: Path) -> None:
    sent: list[str] = []
    text = "layer3.2\n漢 $(reboot) '\"\\"
    done = await copied(text, sent.append, tmux, tmp_path)
    assert done.ways == ("tmux",)
    assert sent == []
    call = ["tmux", "-S", tmux["SOCKET"], "show-buffer"]
    shown = await asyncio.create_subprocess_exec(*call, stdout=subprocess.PIPE)
    assert (await shown.communicate())[0].decode() == text


@pytest.mark.parametrize("does", ["exec sleep 120", "exit 1", "exec 0<&-; exec sleep 120"])
async def test_a_tmux_that_does_not_answer_holds_nothing_up(does: str, tmp_path: Path) -> None:
    fake = tmp_path / "bin" / "tmux"
    fake.parent.mkdir()
    fake.write_text(f"#!/bin/sh\n{does}\n")
    fake.chmod(0o700)
    environ = {**XTERM, "TMUX": "x,1,0", "PATH": f"{fake.parent}:{os.environ['PATH']}"}
    sent: list[str] = []
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0.01)
            turns += 1

    counting = asyncio.create_task(count())
    start = time.monotonic()
    done = await copied("text" * 50_000, sent.append, environ, tmp_path, tmux_seconds=0.2)
    spent = time.monotonic() - start
    counting.cancel()
    assert spent < 60
    # The loop went on meanwhile.
    assert does == "exit 1" or turns >= 2
    assert done.ways == ()
    done = await copied("text", sent.append, environ, tmp_path, tmux_seconds=0.2)
    assert done.ways == ("OSC 52",)
    assert decoded(sent[0][7:-2].replace("\x1b\x1b", "\x1b")) == "text"
