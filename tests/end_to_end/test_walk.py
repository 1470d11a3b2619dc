"""A sample of ``benchmarks/terminal/walk.py``, which presses every key of every screen."""

from __future__ import annotations

import time
from pathlib import Path
from typing import ClassVar

import pytest
from textual.binding import Binding, BindingType
from textual.screen import Screen

import screens.views.log
from benchmarks.terminal.walk import Piece, walk_piece
from benchmarks.terminal.walk_session import ELSEWHERE, PLACES, bound, session, typed, unwalked
from screens.actions.table import DEPTHS, EXPLORER
from tests.recording.files import fixture, write

LEAVING = {"q", "\x1a", "\x12"}
"""These end the walk, and are pressed there; ctrl+r is its last step."""


def test_no_screen_has_keys_that_nobody_walks() -> None:
    assert unwalked() == set()
    assert all(ELSEWHERE.values())


def test_a_new_screen_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    class NewScreen(Screen[None]):
        BINDINGS: ClassVar[list[BindingType]] = [Binding("j", "down")]

    NewScreen.__module__ = "screens.views.log"
    monkeypatch.setattr(screens.views.log, "NewScreen", NewScreen, raising=False)
    assert unwalked() == {"NewScreen"}


def test_the_session_touches_every_key() -> None:
    pressed = {press.key for step in session() if step.place is None for press in step.presses}
    named = {name for key in (*EXPLORER, *DEPTHS) for name in key.keys.split(",")}
    assert {typed(name) for name in named} - LEAVING <= pressed
    for place in PLACES:
        steps = [step for step in session() if step.place == place]
        pressed = {press.key for step in steps for press in step.presses}
        assert {typed(name) for name in bound(place.kind)} - {"\x1a"} <= pressed, place.name


def test_a_walk_through_a_recording_meets_nothing_wrong(tmp_path: Path) -> None:
    file = write(tmp_path / "session.rec", fixture())
    steps, piece = tuple(session())[::9], Piece("a recording", "100x30", 0)
    walk_piece(["open", str(file)], (100, 30), steps, piece, time.monotonic() + 200)
    assert piece.wrong == ""
    assert piece.ends == len(steps)
