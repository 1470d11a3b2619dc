"""What a recording holds as a whole, for the headless verbs: its last session, and its state."""

from __future__ import annotations

from pathlib import Path

from tui_profiler.figures.units import duration
from tui_profiler.queries.panel.playback import damage, origin
from tui_profiler.recording.reader import open_recording
from tui_profiler.session import Session
from tui_profiler.source.recorded import SeekIndex, playback_of


def last_session(path: str | Path) -> tuple[Session, tuple[str, ...]]:
    """Return the session as the recording left it, and what is to be said of the file, by lines.

    Raises:
        RecordingError: it cannot be read, or is no recording that this version reads.
    """
    recording = open_recording(path)
    try:
        session = SeekIndex(recording).session(len(recording.entries))
        playback = playback_of(recording)
        length = duration(playback.ends - playback.begins)
        return session, (f"{origin(playback)}, {length}", *damage(playback))
    finally:
        recording.close()
