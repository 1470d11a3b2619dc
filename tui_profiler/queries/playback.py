"""A recording in words: where it stands, where it comes from, what is damaged in it."""

from __future__ import annotations

import time

from tui_profiler.messages import Playback
from tui_profiler.text import middle, safe
from tui_profiler.units import thousands

MOST_HOST_CELLS = 20
MOST_PLACES = 5


def place(playback: Playback, now: float) -> str:
    """Give where it stands: ``12.3 of 60.0 s``; seconds since its beginning."""
    return f"{now - playback.begins:.1f} of {playback.ends - playback.begins:.1f} s"


def speed(playback: Playback) -> str:
    """Give how fast it is played: ``×2``, ``×1/4``."""
    times = playback.speed
    return f"×{times:g}" if times >= 1 else f"×1/{1 / times:g}"


def origin(playback: Playback) -> str:
    """Give when and where it was recorded: ``recorded 2026-11-21 10:50 on host``."""
    if playback.recorded_at is None:
        return "recorded: when and where is damaged"
    try:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(playback.recorded_at))
    except (ValueError, OverflowError, OSError):  # A header that someone made up.
        when = "at no time that there is"
    return f"recorded {when} on {middle(safe(playback.host), MOST_HOST_CELLS)}"


def damage(playback: Playback) -> tuple[str, ...]:
    """Give what is missing, a phrase each; none where the recording is whole."""
    said = []
    if playback.frames_skipped:
        places = [f"{skipped.at - playback.begins:.1f} s" for skipped in playback.skipped]
        more = ", …" if len(places) > MOST_PLACES else ""
        where = ", ".join(places[:MOST_PLACES]) + more
        said.append(f"damaged: {_frames(playback.frames_skipped)} skipped after {where}")
    if playback.frames_unreadable:
        said.append(f"{_frames(playback.frames_unreadable)} of another version left out")
    if not playback.is_whole:
        said.append("cut off: it was not ended in order")
    if playback.dropped:
        said.append(f"{thousands(playback.dropped)} messages dropped by a slow disk")
    return tuple(said)


def _frames(number: int) -> str:
    return "1 frame" if number == 1 else f"{thousands(number)} frames"
