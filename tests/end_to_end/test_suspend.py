"""ctrl+Z and what signals stand for it, under a real shell: the normal screen is left as it was."""

from __future__ import annotations

import os
import re
import select
import shlex
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.end_to_end.terminal import COMMAND, Terminal
from tests.recording.files import fixture, write

OURS = {1000, 1002, 1003, 1004, 1006, 1015, 1016, 2026, 2048}
"""Modes that a shell never sets: mouse, focus, synchronized output, sizes."""


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Terminal]:
    terminal = Terminal(
        ["bash", "--norc", "--noprofile", "-i"],
        environment={"PS1": "ready> ", "XDG_STATE_HOME": str(tmp_path)},
    )
    recording = write(tmp_path / "a.rec", fixture())
    terminal.wait_for("ready>")
    terminal.send(f"{shlex.join([*COMMAND, 'open', str(recording)])}\n")
    terminal.wait_for("layer1")
    yield terminal
    terminal.close()


def on_normal_screen(raw: bytes) -> bytes:
    """What was written while the alternate screen was not shown."""
    parts = re.split(rb"\x1b\[\?1049([hl])", raw)
    shown = [parts[0]]
    shown += [text for mode, text in zip(parts[1::2], parts[2::2], strict=True) if mode == b"l"]
    return b"".join(shown)


def modes_on(raw: bytes) -> set[int]:
    found = {int(n): mode == b"h" for n, mode in re.findall(rb"\x1b\[\?(\d+)([hl])", raw)}
    return {number for number, is_on in found.items() if is_on}


def keyboard_levels(raw: bytes) -> int:
    return len(re.findall(rb"\x1b\[>\d+u", raw)) - len(re.findall(rb"\x1b\[<u", raw))


def storm(terminal: Terminal) -> None:
    for columns, rows in [(20, 5), (200, 60), (1, 1), (80, 24), (37, 11), (120, 40)] * 5:
        terminal.resize(columns, rows)


def test_nothing_stays_on_the_normal_screen_after_sizes_and_stops(shell: Terminal) -> None:
    (program,) = psutil.Process(shell.pid).children()

    def is_stopped(_: str) -> bool:
        return program.status() == psutil.STATUS_STOPPED

    for number in (1, 5, 1, 5):
        storm(shell)
        for _ in range(number):
            os.kill(program.pid, signal.SIGTSTP)
        storm(shell)
        shell.wait_for(is_stopped)
        shell.wait_for(lambda _: shell.raw.endswith(b"ready> "))
        raw = bytes(shell.raw)
        assert raw.rfind(b"\x1b[?1049l") > raw.rfind(b"\x1b[?1049h")
        assert not modes_on(raw) & OURS
        assert keyboard_levels(raw) == 0
        entered = raw.count(b"\x1b[?1049h")
        shell.send("fg\n")
        shell.wait_for(lambda _, n=entered: shell.raw.count(b"\x1b[?1049h") > n)
    shell.wait_for("layer1")
    shell.send("q")
    shell.wait_for(lambda _: not program.is_running() or program.status() == psutil.STATUS_ZOMBIE)
    shell.wait_for(lambda _: shell.raw.endswith(b"ready> "))
    raw = bytes(shell.raw)
    assert not modes_on(raw) & OURS
    assert keyboard_levels(raw) == 0
    text = re.sub(rb"\x1b\[[^a-zA-Z]*[a-zA-Z]", b"", on_normal_screen(raw)).decode()
    for line in filter(None, map(str.strip, re.split(r"[\r\n]+", text))):
        # A shell may break its own line where the terminal is narrow, and its prompt as well.
        is_piece = " ".join(line.split()) in "ready> fg [1]+ Stopped"
        assert is_piece or re.match(r"ready>|\[1\]\+ +Stopped|.*a\.rec$|\.?r?e?c$", line), line


def test_a_stop_from_outside_takes_the_terminal_back(shell: Terminal) -> None:
    (program,) = psutil.Process(shell.pid).children()
    os.kill(program.pid, signal.SIGSTOP)  # No time is left to give the terminal back.
    shell.wait_for(lambda _: shell.raw.endswith(b"ready> "))
    entered = shell.raw.count(b"\x1b[?1049h")
    shell.send("echo $((6 * 7)) of the shell\n")
    shell.wait_for(lambda _: b"42 of the shell" in shell.raw)
    shell.send("fg\n")
    shell.wait_for(lambda _: shell.raw.count(b"\x1b[?1049h") > entered)
    shell.wait_for(lambda text: "layer1" in text and "of the shell" not in text)
    shell.send("?")
    shell.wait_for("type to search")  # One reader of keys, in the terminal's raw mode.
    shell.send("resnet")
    shell.wait_for("resnet\u258f")
    assert keyboard_levels(bytes(shell.raw)) == 1


def test_stops_typed_at_once_are_one(shell: Terminal) -> None:
    (program,) = psutil.Process(shell.pid).children()
    shell.send("\x1a" * 300)  # Most of them are still to be looked at when it stops.
    shell.wait_for(lambda _: program.status() == psutil.STATUS_STOPPED)
    shell.wait_for(lambda _: shell.raw.endswith(b"ready> "))
    entered = shell.raw.count(b"\x1b[?1049h")
    shell.send("fg\n")
    shell.wait_for(lambda _: shell.raw.count(b"\x1b[?1049h") > entered)
    shell.send("?")
    shell.wait_for("type to search")
    assert shell.raw.count(b"\x1b[?1049l") == entered


def test_a_process_continued_while_it_leaves_still_ends(tmp_path: Path) -> None:
    # A kernel that hangs up a terminal continues its processes too.
    recording = write(tmp_path / "a.rec", fixture())
    terminal = Terminal(
        [*COMMAND, "open", str(recording)], environment={"XDG_STATE_HOME": str(tmp_path)}
    )
    terminal.wait_for("layer1")
    terminal.send("q")
    ends = time.monotonic() + 60
    while terminal.is_alive() and time.monotonic() < ends:
        os.kill(terminal.pid, signal.SIGCONT)
        select.select([], [], [], 0.002)
    try:
        assert terminal.wait_for_exit(0.1) == 0
    finally:
        terminal.close()
