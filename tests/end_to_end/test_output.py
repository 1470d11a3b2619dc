"""What is written to the terminal: little, in pace with it, and nothing after it is given back."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.end_to_end.conftest import Start
from tests.end_to_end.terminal import Terminal
from tests.end_to_end.test_program import LIVE, quit_cleanly
from tests.recording.files import fixture, write


def paused_seconds(shown: str) -> int:
    found = re.search(r"paused (\d+) s", shown)
    return int(found[1]) if found else 0


def bytes_of_a_paused_second(terminal: Terminal) -> float:
    terminal.wait_for(LIVE)
    terminal.send("p")
    begun = paused_seconds(terminal.wait_for(lambda shown: paused_seconds(shown) >= 2))
    before = terminal.bytes_read
    ended = paused_seconds(terminal.wait_for(lambda shown: paused_seconds(shown) >= begun + 2))
    return (terminal.bytes_read - before) / (ended - begun)


def test_a_paused_view_writes_its_clock_alone_and_everything_after_coming_back(
    start: Start,
) -> None:
    terminal = start("demo:cnn", answers=True)
    assert bytes_of_a_paused_second(terminal) <= 100
    keys = terminal.text().splitlines()[-1]
    assert keys.endswith("keys ")
    terminal.resize(100, 30)
    terminal.resize(120, 40)
    terminal.wait_for(lambda now: now.splitlines()[-1] == keys)
    quit_cleanly(terminal)


def test_textual_draws_by_itself_where_that_is_asked_for(start: Start) -> None:
    terminal = start("demo:cnn", "--stock-output", answers=True)
    assert bytes_of_a_paused_second(terminal) > 200
    quit_cleanly(terminal)


@pytest.mark.parametrize("answers", [False, True])
def test_on_a_slow_link_keys_are_answered_and_no_answer_is_left_to_the_shell(
    start: Start, tmp_path: Path, answers: bool
) -> None:
    file = write(tmp_path / "session.rec", fixture())
    terminal = start("open", str(file), answers=answers, bytes_per_second=20_000)
    terminal.wait_for("▸")
    for wanted in ("‖", "▸", "‖", "▸"):
        before = terminal.bytes_read
        terminal.send("p")
        terminal.wait_for(wanted)
        # Three seconds of this link: no more was before the answer.
        assert terminal.bytes_read - before < 60_000
    quit_cleanly(terminal)
    assert b"1;1R" not in terminal.raw[terminal.raw.rfind(b"\x1b[?1049l") :]
