"""``open``: a recording, played in the explorer."""

import click
from msgspec.structs import replace

from tui_profiler.messages import LoadSpec
from tui_profiler.recording.kind import RecordingError
from tui_profiler.recording.reader import open_recording
from tui_profiler.source.recorded import Player
from tui_profiler.verbs.outcome import BAD_ARGUMENTS

from ..options import verbs as options
from ..settings.appearance import AppearanceOptions, look_options
from ..terminal.standard_output import require_terminal, say


@click.command("open")
@click.argument("file", shell_complete=options.models_and_files)
@click.option(
    "--speed",
    type=options.FiniteRange(1 / 64, 1024),
    default=1.0,
    show_default=True,
    metavar="TIMES",
    help="Playback speed, as a factor.",
)
@options.seconds(
    "--at", "Start position; default: the first figures.", allowed=options.FiniteRange(min=0)
)
@look_options
@options.stock_output
def open_verb(file: str, speed: float, at: float | None, appearance: AppearanceOptions) -> int:
    """Play the recording in FILE in the explorer."""
    return play(file, speed=speed, at=at, appearance=appearance)


def play(
    file: str, *, speed: float = 1.0, at: float | None = None, appearance: AppearanceOptions
) -> int:
    """Play a recording in the explorer until it is left; return the exit code.

    Args:
        file: where it lies.
        speed: how many times as fast as it was recorded.
        at: where to begin, in seconds since its beginning; None: at the first figures.
        appearance: theme and glyphs as typed.

    Raises:
        UsageError: there is no terminal to play it on.
    """
    require_terminal('try "tui-profiler report FILE"')
    try:
        recording = open_recording(file)
    except RecordingError as error:
        say(file, str(error), f"try {error.remedy}")
        return BAD_ARGUMENTS
    asked = recording.header.spec if recording.header is not None else None
    start = None if at is None else recording.begins + at
    player = Player(recording, speed=speed, at=start)

    def again(spec: LoadSpec) -> Player:
        return Player(open_recording(file), speed=speed)

    # The recording's own clock: what the screens call now is where it is looked at.
    spec = replace(asked or LoadSpec("a recording"), started_at=0.0)
    from ..app.explorer_app import run_explorer  # noqa: PLC0415 # --help needs no Textual

    return run_explorer(player, again, spec, appearance=appearance, clock=player.now)
