"""What is written to the terminal: little, in pace with it, and nothing after it is given back."""

from __future__ import annotations

import pytest

from tests.end_to_end.conftest import Start
from tests.end_to_end.test_program import LIVE, quit_cleanly


def bytes_of_two_paused_seconds(start: Start, *options: str) -> int:
    terminal = start("demo:cnn", *options, answers=True)
    terminal.wait_for(LIVE, seconds=120)
    terminal.send("p")
    terminal.wait_for("paused 2 s")
    before = terminal.bytes_read
    terminal.wait_for("paused 4 s")
    written = terminal.bytes_read - before
    quit_cleanly(terminal)
    return written


def test_a_paused_view_writes_its_clock_alone(start: Start) -> None:
    assert bytes_of_two_paused_seconds(start) <= 200


def test_textual_draws_by_itself_where_that_is_asked_for(start: Start) -> None:
    assert bytes_of_two_paused_seconds(start, "--stock-output") > 400


@pytest.mark.parametrize("answers", [False, True])
def test_on_a_slow_link_keys_are_answered_and_no_answer_is_left_to_the_shell(
    start: Start, answers: bool
) -> None:
    terminal = start("demo:cnn", answers=answers, bytes_per_second=20_000)
    terminal.wait_for(LIVE, seconds=120)
    for wanted in ("paused", LIVE, "paused", LIVE):
        terminal.send("p")
        terminal.wait_for(wanted, seconds=3)
    quit_cleanly(terminal)
    assert b"1;1R" not in terminal.raw[terminal.raw.rfind(b"\x1b[?1049l") :]


def test_coming_back_to_the_terminal_draws_everything_again(start: Start) -> None:
    terminal = start("demo:cnn", answers=True)
    terminal.wait_for(LIVE, seconds=120)
    terminal.send("p")
    shown = terminal.wait_for("paused")
    terminal.resize(100, 30)
    terminal.resize(120, 40)
    keys = shown.splitlines()[-1]
    assert keys.endswith("keys ")
    terminal.wait_for(lambda now: now.splitlines()[-1] == keys)
    quit_cleanly(terminal)
