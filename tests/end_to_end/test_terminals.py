"""Every screen in every kind of terminal; terminals that are stuck, dead, or none at all."""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from benchmarks.terminal.walk_program import Walk
from benchmarks.terminal.walk_session import AT_ONCE
from screens.settings.appearance import ThemeName
from screens.settings.saved_view import SavedView, SavedViews
from tests.end_to_end.terminal import COMMAND, Terminal
from tests.recording.files import fixture, write

KINDS: list[tuple[str, tuple[int, int], dict[str, str]]] = [
    ("linux console", (80, 25), {"TERM": "linux", "COLORTERM": ""}),
    ("xterm of few colours", (80, 24), {"TERM": "xterm", "COLORTERM": ""}),
    ("screen", (120, 40), {"TERM": "screen", "COLORTERM": "", "STY": "1.pts-0.host"}),
    ("no colour", (60, 15), {"NO_COLOR": "1"}),
    ("LANG=C", (80, 24), {"LANG": "C", "LC_ALL": "C"}),
    ("tiny", (20, 5), {"TERM": "xterm-256color", "COLORTERM": ""}),
]
FIRST = "resnet50"
SUSPENDED = "linux console"
"""In this one, every screen is stopped by ctrl+Z and goes on."""


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write(tmp_path_factory.mktemp("recording") / "session.rec", fixture()))


@pytest.mark.parametrize(("name", "size", "environment"), KINDS, ids=[kind[0] for kind in KINDS])
def test_every_screen_in_a_terminal(
    name: str,
    size: tuple[int, int],
    environment: dict[str, str],
    recording: str,
    tmp_path: Path,
) -> None:
    walk = Walk(["open", recording], size, str(tmp_path), environment)
    try:
        walk.terminal.wait_for(" ms ")
        for place in AT_ONCE:
            walk.settle()  # Escape and the next key read at once would be one key, with alt.
            before = walk.terminal.text()
            walk.press(place.opening[0], place.name)
            walk.terminal.wait_for(lambda shown, before=before: shown != before)
            if name == SUSPENDED:
                walk.suspend()
            walk.settle()
            there = walk.terminal.text()
            walk.press("\x1b", f"back from {place.name}")
            walk.terminal.wait_for(lambda shown, there=there: shown != there)
        walk.settle()
        walk.leave()
    finally:
        walk.terminal.close()


@pytest.mark.parametrize("theme", ["light", "terminal"])
def test_no_color_wins_over_the_theme_of_last_time(
    theme: ThemeName, recording: str, tmp_path: Path
) -> None:
    state = {"XDG_STATE_HOME": str(tmp_path)}
    kept = SavedViews(tmp_path / "tui-profiler" / "models")
    assert kept.write(FIRST, SavedView(kind="ResNet", theme=theme)) == ""
    shown = [_colours(recording, {**state, **more}) for more in ({}, {"NO_COLOR": "1"})]
    assert shown[0], "the theme of last time has colours"
    assert not shown[1]
    assert kept.read(FIRST)[0].theme == theme, "it is not forgotten"


def _colours(recording: str, environment: dict[str, str]) -> set[str]:
    """Return the colours other than greys that an explorer writes until it is left."""
    terminal = Terminal([*COMMAND, "open", recording], environment=environment)
    try:
        terminal.wait_for(" ms ")
        terminal.send("q")
        assert terminal.wait_for_exit() == 0
        codes = re.findall(r"\x1b\[([\d;]*)m", bytes(terminal.raw).decode())
    finally:
        terminal.close()
    true = {one for code in codes for one in re.findall(r"[34]8;2;(\d+;\d+;\d+)", code)}
    plain = {one for code in codes for one in re.sub(r"[34]8;[\d;]*", "", code).split(";")}
    # 30 to 36 and 90 to 96: black, white and bright black are greys.
    of_terminal = {one for one in plain if re.fullmatch(r"(?:[34]|9|10)[1-6]", one)}
    return {one for one in true if len(set(one.split(";"))) > 1} | of_terminal


@pytest.mark.parametrize(
    ("redirection", "what"), [("</dev/null", "input"), (">file", "output"), ("2>file", "error")]
)
def test_what_is_no_terminal_is_refused_with_a_sentence(
    redirection: str, what: str, tmp_path: Path
) -> None:
    command = ["sh", "-c", f"exec {COMMAND[0]} demo:cnn {redirection}"]
    terminal = Terminal(command, folder=str(tmp_path))
    try:
        assert terminal.wait_for_exit() == 2
        file = tmp_path / "file"
        wait_until(
            lambda: b"none" in terminal.raw or (file.exists() and b"none" in file.read_bytes())
        )
        said = bytes(terminal.raw).decode() + (file.read_text() if file.exists() else "")
        assert f"standard {what} is not one" in " ".join(said.split())
        assert "\x1b" not in said
    finally:
        terminal.close()


def wait_until(claim: Callable[[], bool]) -> None:
    """Wait for what a program that has ended wrote last: it may be on its way."""
    deadline = time.monotonic() + 60
    while not claim() and time.monotonic() < deadline:
        select.select([], [], [], 0.02)


def test_a_terminal_that_takes_nothing_more_can_be_left(recording: str) -> None:
    terminal = Terminal([*COMMAND, "open", recording])
    try:
        terminal.wait_for(FIRST)
        terminal.stop_reading()
        for _ in range(80):
            terminal.send("T")  # Every theme paints all of it anew.
        process = psutil.Process(terminal.pid)
        wait_until_idle(process)
        os.kill(terminal.pid, signal.SIGTERM)
        assert terminal.wait_for_exit() == 143
        assert terminal.modes_are_restored()
    finally:
        terminal.close()


def wait_until_idle(process: psutil.Process) -> None:
    """Wait until a process uses no more time: it is stuck, or has nothing to do."""
    before, since = -1.0, time.monotonic()
    while time.monotonic() - since < 0.5:
        used = sum(process.cpu_times()[:2])
        if used > before + 0.03:
            before, since = used, time.monotonic()
        select.select([], [], [], 0.02)


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[list[str]]:
    """A tmux server of the test's own."""
    program = shutil.which("tmux")
    if program is None:
        pytest.skip("tmux is not installed")
    command = [program, "-S", str(tmp_path / "socket"), "-f", "/dev/null"]
    yield command
    subprocess.run([*command, "kill-server"], check=False, capture_output=True)


def test_inside_tmux(tmux: list[str], recording: str) -> None:
    def ask(*arguments: str) -> str:
        return subprocess.run(
            [*tmux, *arguments], check=True, capture_output=True, text=True
        ).stdout

    def wait_for(wanted: str) -> str:
        deadline = time.monotonic() + 240
        while wanted not in (shown := ask("capture-pane", "-p")):
            assert time.monotonic() < deadline, shown
            select.select([], [], [], 0.02)
        return shown

    ask("new-session", "-d", "-x", "80", "-y", "24", "cat")
    ask("set-option", "-g", "remain-on-exit", "on")
    ask("respawn-pane", "-k", " ".join([*COMMAND, "open", recording]))
    assert max(map(len, wait_for("layer1").split("\n"))) <= 80
    ask("send-keys", "?")
    wait_for("type to search")
    ask("send-keys", "Escape")
    ask("resize-window", "-x", "120", "-y", "40")
    assert len(wait_for("machine").split("\n")) >= 40
    pid = int(ask("display-message", "-p", "#{pane_pid}"))
    ask("kill-server")
    psutil.wait_procs([psutil.Process(pid)] if psutil.pid_exists(pid) else [], timeout=240)
    assert not psutil.pid_exists(pid)


def test_inside_gnu_screen(recording: str, tmp_path: Path) -> None:
    program = shutil.which("screen")
    if program is None:
        pytest.skip("GNU screen is not installed")
    sockets = tmp_path / "sockets"
    sockets.mkdir(mode=0o700)
    (tmp_path / "screenrc").write_text("startup_message off\ndefutf8 on\naltscreen on\n")
    environment = {"SCREENDIR": str(sockets)}
    command = [program, "-U", "-c", str(tmp_path / "screenrc"), "-S", "test"]
    quit_it = [program, "-S", "test", "-X", "quit"]
    terminal = Terminal([*command, *COMMAND, "open", recording], 80, 24, environment=environment)
    try:
        terminal.wait_for("layer1")
        terminal.send("?")
        terminal.wait_for("type to search")
        terminal.send("\x1b")
        terminal.resize(120, 40)
        terminal.wait_for("slowest modules")  # Of the tree: the list of keys is gone.
        assert not terminal.screen.beyond
        found = psutil.process_iter(["cmdline"])  # None of one that has ended meanwhile.
        ours = [one for one in found if recording in (one.info["cmdline"] or ())]
        assert ours
        terminal.send("q")
        terminal.wait_for_exit()
        assert not psutil.wait_procs(ours, timeout=240)[1]
    finally:
        subprocess.run(quit_it, check=False, capture_output=True, env=os.environ | environment)
        terminal.close()
