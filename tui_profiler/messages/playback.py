"""Playback of a recording: sent by the source of a recording, not by a probe."""

from typing import Literal, TypeAlias

from tui_profiler.messages.base import Moment, OnWire, Part

Splice: TypeAlias = Literal["", "another recording", "repeated", "cut out"]


class Skipped(Part, frozen=True):
    """A damaged place of a recording."""

    at: Moment
    """Of the last whole frame before it, in seconds since the command was started."""
    frames: int
    """How many frames are missing."""
    splice: Splice = ""
    """How it differs from damage: frames of another recording lie there, frames that were repeated
    or moved, or frames were cut out; empty for damage."""


class Playback(OnWire, frozen=True):
    """Origin of a recording, and its playback state."""

    speed: float
    """1 is as fast as it was recorded."""
    is_playing: bool
    begins: float
    """When its first message came, in seconds since the command that recorded it was started."""
    ends: float
    """When its last one came."""
    recorded_at: float | None = None
    """Unix time; None where the header is damaged."""
    host: str = ""
    """Name of the machine it was recorded on; empty where the header is damaged."""
    is_whole: bool = True
    """False: it was cut off."""
    skipped: tuple[Skipped, ...] = ()
    """Damage, in order; at most the first 1,000 places."""
    frames_skipped: int = 0
    """Frames that are missing in all places."""
    frames_unreadable: int = 0
    """Whole frames met so far that hold nothing this version knows."""
    dropped: int = 0
    """Messages that were never written, because the disk was slower than they came."""
