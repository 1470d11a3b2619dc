"""The frame that stands in a real terminal before Textual is imported, and how that takes it over.

The import is held up at a gate, so that a test has all the time it needs before it.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.end_to_end.conftest import Start
from tests.end_to_end.terminal import COMMAND, Terminal, alternate_screen_is_left
from tests.end_to_end.test_program import quit_cleanly
from tests.end_to_end.test_suspend import keyboard_levels, modes_on, on_normal_screen

GATE = Path(__file__).with_name("gate")
LIVE = "● live"
TEXTUALS = b"\x1b[?1004h"
"""What Textual's driver asks for, and we do not."""


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    path = tmp_path / "gate"
    os.mkfifo(path)
    return path


@pytest.fixture
def held(gate: Path) -> dict[str, str]:
    """The environment in which nobody gets to Textual before the gate is opened."""
    return {"GATE_textual": str(gate), "PYTHONPATH": str(GATE)}


def open_gate(gate: Path) -> None:
    with gate.open("w"):  # Waits until somebody is at it.
        pass


@pytest.fixture(scope="module")
def opened_before(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a user who has opened the model, in a wide and in a narrow terminal."""
    own = tmp_path_factory.mktemp("opened") / "cache"
    shutil.copytree(cache, own, ignore=shutil.ignore_patterns("remembered"))
    environment = {"XDG_CACHE_HOME": str(own)}
    for columns, rows, there in ((120, 40, LIVE), (80, 24, "cached")):
        terminal = Terminal([*COMMAND, "demo:cnn"], columns, rows, environment)
        terminal.wait_for(there)
        quit_cleanly(terminal)
    return environment


def cells(terminal: Terminal) -> list[list[tuple[object, ...]]]:
    """What the screen shows, with its colours."""
    screen = terminal.screen
    return [
        [tuple(screen.buffer[y][x]) for x in range(screen.columns)] for y in range(screen.lines)
    ]


def test_the_stages_stand_there_before_textual_and_keys_wait_for_it(
    start: Start, gate: Path, held: dict[str, str]
) -> None:
    terminal = start("demo:cnn", environment=held)
    shown = terminal.wait_for("? keys")
    assert bytes(terminal.raw).startswith(b"\x1b[?1049h\x1b[?25l")
    assert "demo:cnn" in shown.split("\n")[0]
    assert "loading" in shown.split("\n")[0]
    assert "· import torch  check versions" in shown
    assert TEXTUALS not in terminal.raw
    terminal.send("?")
    assert terminal.text() == shown, "typed text is echoed"
    open_gate(gate)
    terminal.wait_for("type to search")
    terminal.send("\x1b")
    terminal.wait_for("check versions")
    quit_cleanly(terminal)
    assert terminal.raw.count(b"\x1b[?1049h") == 1
    assert alternate_screen_is_left(bytes(terminal.raw))


@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
def test_the_cached_tree_stands_there_and_is_not_written_again(
    start: Start,
    gate: Path,
    held: dict[str, str],
    opened_before: dict[str, str],
    size: tuple[int, int],
    tmp_path: Path,
) -> None:
    never = tmp_path / "never"
    os.mkfifo(never)
    terminal = start(
        "demo:cnn",
        forgets=False,
        environment={
            **held,
            **opened_before,
            "GATE_torch": str(never),
        },  # What is on screen stays as it is.
        columns=size[0],
        rows=size[1],
    )
    shown = terminal.wait_for("? keys")
    assert "cached" in shown
    assert "classifier Linear" in shown
    assert TEXTUALS not in terminal.raw
    before, header, written = cells(terminal), shown.split("\n")[0], len(terminal.raw)
    open_gate(gate)
    terminal.wait_for(lambda shown: shown.split("\n")[0] != header)
    takeover, after = bytes(terminal.raw[written:]), cells(terminal)
    assert TEXTUALS in takeover
    clock = header.index("loading") - 2
    assert after[0][:clock] == before[0][:clock]
    assert after[1:] == before[1:]
    assert len(re.sub(rb"\x1b\[[?>0-9;$]*[a-zA-Z]", b"", takeover).decode()) < 20, (
        "all but the clock"
    )
    assert b"\x1b[?1049h" not in takeover
    quit_cleanly(terminal)


def test_another_size_has_the_stages_first(
    start: Start, gate: Path, held: dict[str, str], opened_before: dict[str, str]
) -> None:
    environment = {**held, **opened_before}
    terminal = start("demo:cnn", forgets=False, environment=environment, columns=100, rows=34)
    shown = terminal.wait_for("? keys")
    assert "cached" not in shown
    assert "· import torch  check versions" in shown
    open_gate(gate)
    terminal.wait_for("cached a moment ago")
    quit_cleanly(terminal)


def test_a_size_that_changes_meanwhile_is_drawn_whole(
    start: Start, gate: Path, held: dict[str, str], opened_before: dict[str, str]
) -> None:
    terminal = start("demo:cnn", forgets=False, environment={**held, **opened_before})
    terminal.wait_for("? keys")
    terminal.resize(80, 24)
    terminal.resize(120, 40)  # As it was, but the terminal may have lost what stood there.
    with terminal._lock:
        terminal._screen.erase_in_display(2)
    open_gate(gate)
    shown = terminal.wait_for(lambda shown: "on paper, cached" in shown and "? keys" in shown)
    assert "classifier Linear" in shown
    quit_cleanly(terminal)


@pytest.mark.parametrize(
    ("ends", "code"),
    [
        (lambda terminal: terminal.send("\x03"), 130),
        (lambda terminal: terminal.send("\x1c"), 131),
        (lambda terminal: os.kill(terminal.pid, signal.SIGTERM), 143),
        (lambda terminal: os.kill(terminal.pid, signal.SIGHUP), 129),
    ],
    ids=["ctrl+c", "ctrl+backslash", "SIGTERM", "SIGHUP"],
)
def test_who_ends_before_textual_leaves_the_terminal_whole(
    start: Start, held: dict[str, str], ends: Callable[[Terminal], None], code: int
) -> None:
    terminal = start("demo:cnn", environment=held)
    terminal.wait_for("? keys")
    ends(terminal)
    assert terminal.wait_for_exit() == code
    assert terminal.modes_are_restored()
    assert alternate_screen_is_left(bytes(terminal.raw))
    said = on_normal_screen(bytes(terminal.raw))
    assert re.sub(rb"\x1b\[[?0-9;]*[a-zA-Z]", b"", said) == b""


def test_an_error_before_textual_leaves_the_terminal_whole(
    start: Start, held: dict[str, str], tmp_path: Path
) -> None:
    broken = {**held, "GATE_textual": str(tmp_path / "nowhere"), "XDG_STATE_HOME": str(tmp_path)}
    terminal = start("demo:cnn", environment=broken)
    assert terminal.wait_for_exit() == 70
    assert terminal.modes_are_restored()
    raw = bytes(terminal.raw)
    assert b"? keys" in re.sub(rb"\x1b\[[?0-9;]*m", b"", raw)
    assert alternate_screen_is_left(raw)
    assert b"tui-profiler crashed: internal error (FileNotFoundError" in on_normal_screen(raw)


def test_a_stop_before_textual_gives_the_terminal_back_and_draws_again(
    gate: Path, held: dict[str, str], tmp_path: Path
) -> None:
    terminal = Terminal(
        ["bash", "--norc", "--noprofile", "-i"],
        environment={"PS1": "ready> ", "XDG_CACHE_HOME": str(tmp_path), **held},
    )
    try:
        terminal.wait_for("ready>")
        terminal.send(f"{shlex.join([*COMMAND, 'demo:cnn'])}\n")
        for times in (1, 2):
            terminal.wait_for(lambda shown: "? keys" in shown and "ready" not in shown)
            (program,) = psutil.Process(terminal.pid).children()
            terminal.send("?\x1a")
            terminal.wait_for(lambda _, n=times: terminal.raw.count(b"Stopped") == n)
            terminal.wait_for(lambda _: terminal.raw.endswith(b"ready> "))
            assert alternate_screen_is_left(bytes(terminal.raw))
            terminal.send("echo $((6 * 7)) of the shell\n")  # Echoed, and in its own modes.
            terminal.wait_for("42 of the shell")
            terminal.send("fg\n")
        terminal.wait_for(lambda shown: "? keys" in shown and "ready" not in shown)
        os.kill(program.pid, signal.SIGSTOP)  # No time is left to give the terminal back.
        terminal.wait_for(lambda _: terminal.raw.count(b"Stopped") == 3)
        terminal.send("fg\n")
        terminal.wait_for(lambda shown: "? keys" in shown and "ready" not in shown)
        open_gate(gate)
        terminal.wait_for("import torch")
        terminal.send("q")
        terminal.wait_for(lambda _: not program.is_running())
        terminal.wait_for(lambda _: terminal.raw.endswith(b"ready> "))
        raw = bytes(terminal.raw)
        assert not modes_on(raw) & {1000, 1004, 1006, 1049, 2026, 2048}
        assert keyboard_levels(raw) == 0
    finally:
        terminal.close()


@pytest.mark.parametrize("how", ["--stock-output", "TEXTUAL_THEME", "piped"])
def test_where_the_frame_would_not_be_the_explorers_none_is_drawn(
    start: Start, held: dict[str, str], gate: Path, how: str
) -> None:
    if how == "piped":
        done = subprocess.run(
            [*COMMAND, "demo:cnn"], capture_output=True, check=False, stdin=subprocess.DEVNULL
        )
        assert done.returncode == 2
        assert b"\x1b" not in done.stdout + done.stderr
        return
    options = [how] if how.startswith("--") else []
    environment = held if options else {**held, how: "dracula"}
    terminal = start("demo:cnn", *options, environment=environment)
    terminal.wait_for("demo:cnn: starting")
    assert b"\x1b" not in terminal.raw
    open_gate(gate)
    terminal.wait_for("? keys")
    quit_cleanly(terminal)


def test_without_colour_the_frame_has_none(start: Start, gate: Path, held: dict[str, str]) -> None:
    terminal = start("demo:cnn", environment={**held, "NO_COLOR": "1"})
    terminal.wait_for("? keys")
    colours = re.findall(rb"[34]8;2;(\d+);(\d+);(\d+)", bytes(terminal.raw))
    assert colours
    assert all(len(set(colour)) == 1 for colour in colours), "only greys"
    open_gate(gate)
    terminal.wait_for(lambda _: TEXTUALS in terminal.raw)
    quit_cleanly(terminal)
