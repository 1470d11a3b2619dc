"""Steps of memory in a recording, and recordings that are older than they are."""

from __future__ import annotations

from pathlib import Path

from tests.fixtures.record_memory import memory, recorded_with_memory
from tests.recording.files import fixture, timed, write
from tui_profiler.recording.reader import open_recording
from tui_profiler.session import Tree
from tui_profiler.source.recorded import SeekIndex


def tree_at_the_end(path: Path) -> Tree:
    recording = open_recording(path)
    try:
        tree = SeekIndex(recording).session(len(recording.entries)).tree
    finally:
        recording.close()
    assert tree is not None
    return tree


def test_steps_are_recorded_with_their_tree(tmp_path: Path) -> None:
    tree = tree_at_the_end(write(tmp_path / "new.rec", timed(recorded_with_memory())))
    assert tree.memory is not None
    assert tree.memory.steps == memory()[0]


def test_a_recording_without_steps_opens(tmp_path: Path) -> None:
    tree = tree_at_the_end(write(tmp_path / "old.rec", fixture()))
    assert tree.memory is None
