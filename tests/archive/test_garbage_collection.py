"""The collector, paused and put back."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from tui_profiler.archive.reading.garbage_collection import without_collector


@pytest.fixture
def collections() -> Iterator[list[int]]:
    """Return the generations that are collected while the test runs."""
    found: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            found.append(info["generation"])

    gc.callbacks.append(note)
    yield found
    gc.callbacks.remove(note)


def test_what_was_made_meanwhile_is_not_collected_at_once(collections: list[int]) -> None:
    with without_collector():
        kept = [[] for _ in range(100_000)]
    after = [[] for _ in range(100)]
    assert collections == []
    assert gc.isenabled()
    assert len(kept) + len(after) == 100_100


def test_a_cycle_that_was_made_meanwhile_is_collected_later() -> None:
    gc.collect()
    with without_collector():
        cycle: list[object] = []
        cycle.append(cycle)
        del cycle
    assert gc.collect() > 0


def test_what_a_program_froze_stays_frozen() -> None:
    gc.freeze()
    try:
        before = gc.get_freeze_count()
        with without_collector():
            pass
        assert gc.get_freeze_count() == before > 0
    finally:
        gc.unfreeze()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with without_collector():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
