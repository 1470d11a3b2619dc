"""A recording in words."""

from __future__ import annotations

import time

import pytest
from msgspec.structs import replace

from tui_profiler.messages import Playback, Skipped
from tui_profiler.queries.panel.playback import damage, origin, place, speed

WHOLE = Playback(2.0, True, begins=1.5, ends=61.5, recorded_at=1_795_000_000.0, host="tower")


def test_a_place_is_told_from_the_beginning() -> None:
    assert place(WHOLE, 13.8) == "12.3 of 60.0 s"


@pytest.mark.parametrize(("times", "said"), [(1.0, "×1"), (64.0, "×64"), (0.25, "×1/4")])
def test_a_speed_is_told(times: float, said: str) -> None:
    assert speed(replace(WHOLE, speed=times)) == said


def test_when_and_where_it_was_recorded_is_told() -> None:
    assert origin(WHOLE).startswith("recorded 2026-11-1")
    assert origin(WHOLE).endswith(" on tower")


@pytest.mark.parametrize("recorded_at", [None, 1e300, float("nan"), float("-inf")])
def test_a_time_that_cannot_be_is_told_too(recorded_at: float | None) -> None:
    assert origin(replace(WHOLE, recorded_at=recorded_at)).startswith("recorded")


def test_a_hostile_host_is_made_safe_and_short() -> None:
    said = origin(replace(WHOLE, host="\x1b[31m" + "x" * 300))
    assert "\x1b" not in said
    assert len(said) < 60


def test_of_a_whole_recording_nothing_is_missing() -> None:
    assert damage(WHOLE) == ()


def test_what_is_missing_is_told_with_its_places() -> None:
    places = (Skipped(2.5, 2), Skipped(9.0, 1))
    broken = replace(WHOLE, skipped=places, frames_skipped=3, is_whole=False, dropped=1200)
    assert damage(broken) == (
        "damaged: 3 frames skipped after 1.0 s, 7.5 s",
        "cut off: no end record",
        "1,200 messages dropped by a slow disk",
    )


def test_a_splice_is_one_sentence_with_its_time_and_not_counted_as_damage() -> None:
    recorded_at = WHOLE.recorded_at
    assert recorded_at is not None
    clock = time.strftime("%H:%M:%S", time.localtime(recorded_at + 2.5))
    one = replace(WHOLE, skipped=(Skipped(2.5, 1, "another recording"),), frames_skipped=1)
    assert damage(one) == (
        f"spliced at {clock} (1.0 s): frames of another recording follow, not shown",
    )
    places = (Skipped(2.5, 2, "cut out"), Skipped(4.5, 0, "repeated"), Skipped(9.0, 1))
    several = replace(WHOLE, skipped=places, frames_skipped=3, recorded_at=None)
    assert damage(several) == (
        "spliced at 1.0 s: frames were cut out, and 1 more places",
        "damaged: 1 frame skipped after 7.5 s",
    )
