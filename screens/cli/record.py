"""The verbs that record a model to a file, and play the file."""

from __future__ import annotations

import click
import msgspec

from ..options.model import Chosen, file_option, model_options, stock_output
from ..options.numbers import Finite
from ..options.refusals import PROGRAM, refuse_options, require_models
from ..settings.appearance_options import Wish, look_options
from ..terminal.standard_output import require_terminal
from .attach import attach_to, remote_python, require_remote
from .first_word import models_and_files


@click.command("record", short_help="Record a running model to a file.")
@click.argument("model", default="", shell_complete=models_and_files)
@attach_to
@remote_python
@file_option("--output", "-o", required=True, help="Where to record to.")
@click.option(
    "--seconds",
    type=Finite(min=0, min_open=True),
    metavar="SECONDS",
    help="Run the model for so long; without it, until ctrl+C.",
)
@click.option("--force", is_flag=True, help="Write over a file that is there.")
@model_options
@click.pass_obj
def record(started_at: float, /, chosen: Chosen, **typed: object) -> int:
    """Run MODEL and record all that the explorer would show, to be opened later and elsewhere.

    The file can be read after a crash of the recorder or with a full disk. It holds names, paths,
    arguments and what the model prints, and no values of tensors.
    """
    from .run_parts.record import RecordOptions, run_record  # noqa: PLC0415

    options = msgspec.convert(typed, RecordOptions)
    if bool(options.model) == bool(options.attach):
        raise click.UsageError("A MODEL is needed, or --attach NAME; not both.")
    require_remote(options.attach, options.remote_python)
    if options.seconds is not None and not chosen.run:
        raise click.UsageError("--seconds runs the model and --no-run forbids it: leave out one.")
    require_models([options.model], "recorded again")
    if options.attach:
        refuse_options(chosen, PROGRAM)
    return run_record(options, chosen, started_at=started_at)


@click.command("open", short_help="Play a recording, on screen.")
@click.argument("file", shell_complete=models_and_files)
@click.option(
    "--speed",
    type=Finite(1 / 64, 1024),
    default=1.0,
    show_default=True,
    metavar="TIMES",
    help="How many times as fast as it was recorded.",
)
@click.option(
    "--at",
    type=Finite(min=0),
    metavar="SECONDS",
    help="Where to begin; without it, at the first figures.",
)
@look_options
@stock_output
def open_verb(file: str, speed: float, at: float | None, wish: Wish) -> int:
    """Play the recording in FILE, as the explorer would have shown it."""
    return played(file, speed=speed, at=at, wish=wish)


def played(file: str, *, speed: float = 1.0, at: float | None = None, wish: Wish) -> int:
    """Play a recording on screen until it is left; gives the exit code.

    Raises:
        UsageError: there is no terminal to play it on.
    """
    require_terminal('try "tui-profiler report FILE"')
    from .run_parts.open import run_recording  # noqa: PLC0415

    return run_recording(file, speed=speed, at=at, wish=wish)
