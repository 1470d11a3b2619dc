"""A sample of the walk through every key of every screen; all of it: ``benchmarks/walk.py``."""

from __future__ import annotations

from pathlib import Path

from benchmarks.walk import bound, opens, session, typed, walk
from screens.keys import DEPTHS, EXPLORER
from tests.recording.files import fixture, write


def test_the_session_touches_every_key() -> None:
    pressed = {key for _, keys in session() for key in keys}
    leaving = {"q", "\x1a"}  # These end the walk, and are pressed there.
    wanted = {typed(name) for key in (*EXPLORER, *DEPTHS) for name in key.keys.split(",")}
    wanted |= {typed(name) for key in filter(opens, EXPLORER) for name, _ in bound(key)}
    assert wanted - leaving <= pressed


def test_a_walk_through_a_recording_meets_nothing_wrong(tmp_path: Path) -> None:
    file = write(tmp_path / "session.rec", fixture())
    assert walk(["open", str(file)], (100, 30), every=9) > 10
