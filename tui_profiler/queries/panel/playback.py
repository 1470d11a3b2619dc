"""A recording in words: where it stands, where it comes from, what is damaged in it."""

import time

from tui_profiler.figures.units import thousands
from tui_profiler.formatting.text import middle, safe
from tui_profiler.messages import Playback, Splice

MOST_HOST_CELLS = 20
MOST_PLACES = 5
_SPLICED: dict[Splice, str] = {
    "another recording": "frames of another recording follow, not shown",
    "repeated": "frames are repeated or out of order, not shown twice",
    "cut out": "frames were cut out",
}


def place(playback: Playback, now: float) -> str:
    """Return where it stands: ``12.3 of 60.0 s``; seconds since its beginning."""
    return f"{now - playback.begins:.1f} of {playback.ends - playback.begins:.1f} s"


def speed(playback: Playback) -> str:
    """Return how fast it is played: ``×2``, ``×1/4``."""
    times = playback.speed
    return f"×{times:g}" if times >= 1 else f"×1/{1 / times:g}"


def origin(playback: Playback) -> str:
    """Return when and where it was recorded: ``recorded 2026-11-21 10:50 on host``."""
    if playback.recorded_at is None:
        return "recorded: when and where is damaged"
    try:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(playback.recorded_at))
    except (ValueError, OverflowError, OSError):  # A header that someone made up.
        when = "at an invalid time"
    return f"recorded {when} on {middle(safe(playback.host), MOST_HOST_CELLS)}"


def damage(playback: Playback) -> tuple[str, ...]:
    """Return what is missing, a phrase each; none where the recording is whole."""
    said = []
    spliced = [skipped for skipped in playback.skipped if skipped.splice]
    if spliced:
        first = spliced[0]
        more = f", and {len(spliced) - 1} more places" if len(spliced) > 1 else ""
        said.append(f"spliced at {_clock(playback, first.at)}: {_SPLICED[first.splice]}{more}")
    damaged = [skipped for skipped in playback.skipped if not skipped.splice]
    missing = playback.frames_skipped - sum(skipped.frames for skipped in spliced)
    if missing:
        places = [f"{skipped.at - playback.begins:.1f} s" for skipped in damaged]
        more = ", …" if len(places) > MOST_PLACES else ""
        where = ", ".join(places[:MOST_PLACES]) + more
        said.append(f"damaged: {_frames(missing)} skipped after {where}")
    if playback.frames_unreadable:
        said.append(f"{_frames(playback.frames_unreadable)} of another version left out")
    if not playback.is_whole:
        said.append("cut off: no end record")
    if playback.dropped:
        said.append(f"{thousands(playback.dropped)} messages dropped by a slow disk")
    return tuple(said)


def _clock(playback: Playback, at: float) -> str:
    """Return a time of day, with the seconds from the beginning; these alone where it is lost."""
    seconds = f"{at - playback.begins:.1f} s"
    try:
        if playback.recorded_at is not None:
            moment = time.localtime(playback.recorded_at + at)
            return f"{time.strftime('%H:%M:%S', moment)} ({seconds})"
    except (ValueError, OverflowError, OSError):  # A header that someone made up.
        pass
    return seconds


def _frames(number: int) -> str:
    return "1 frame" if number == 1 else f"{thousands(number)} frames"
