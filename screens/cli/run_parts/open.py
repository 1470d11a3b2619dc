"""``open``, put together: a recording, its player, the app."""

from __future__ import annotations

from msgspec.structs import replace

from tui_profiler.messages import LoadSpec
from tui_profiler.recording.errors import RecordingError
from tui_profiler.recording.reader import open_recording
from tui_profiler.source.recorded import Player
from tui_profiler.verbs.outcome import BAD_ARGUMENTS

from ...app.explorer_app import run_explorer
from ...settings.appearance_options import Wish
from ...terminal.standard_output import say


def run_recording(file: str, *, speed: float, at: float | None, wish: Wish) -> int:
    """Play a recording in the explorer until it is left; gives the exit code.

    Args:
        file: where it lies.
        speed: how many times as fast as it was recorded.
        at: where to begin, in seconds since its beginning; None: at the first figures.
        wish: what was typed of the look.
    """
    try:
        recording = open_recording(file)
    except RecordingError as error:
        for line in (str(error), f"try {error.remedy}"):
            say(file, line)
        return BAD_ARGUMENTS
    asked = recording.header.spec if recording.header is not None else None
    start = None if at is None else recording.begins + at
    player = Player(recording, speed=speed, at=start)

    def again(spec: LoadSpec) -> Player:
        return Player(open_recording(file), speed=speed)

    # The recording's own clock: what the screens call now is where it is looked at.
    spec = replace(asked or LoadSpec("a recording"), started_at=0.0)
    return run_explorer(player, again, spec, wish=wish, clock=player.now)
