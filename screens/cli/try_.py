"""The verb that tries changes on a model, and its options."""

from __future__ import annotations

import click
import msgspec

from tui_profiler.messages import TRIAL_KINDS

from ..options.model import Chosen, model_options, output_option, table_or_json
from ..options.numbers import Finite
from ..options.refusals import require_models
from .first_word import models_and_files

MOST_GIB = 1 << 20
_EPILOG = "\b\nKinds:\n" + "\n".join(f"  {kind}" for kind in TRIAL_KINDS)


@click.command("try", short_help="Try changes that could make models faster.", epilog=_EPILOG)
@click.argument(
    "names", metavar="MODEL...", nargs=-1, required=True, shell_complete=models_and_files
)
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    type=click.Choice(TRIAL_KINDS),
    metavar="KIND",
    help="What to try; may be repeated. Without it: everything.",
)
@click.option(
    "--seconds",
    type=Finite(0.1, 3600),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="How long each is measured, at most.",
)
@click.option(
    "--most-seconds",
    type=Finite(1, 24 * 3600),
    default=120.0,
    show_default=True,
    metavar="SECONDS",
    help="How long each may take with loading and compiling.",
)
@click.option(
    "--most-memory",
    type=Finite(0.1, MOST_GIB),
    metavar="GIB",
    help="What each may hold; without it four fifths of what is free.",
)
@click.option(
    "--measure",
    type=Finite(min=0, min_open=True),
    default=3.0,
    show_default=True,
    metavar="SECONDS",
    help="How long the model runs first, for the predictions.",
)
@table_or_json
@output_option
@model_options
@click.pass_obj
def try_verb(started_at: float, /, chosen: Chosen, **typed: object) -> int:
    """Try changes on each MODEL, and print what was predicted beside what was measured.

    Each is tried in a process of its own, in turn with the model as it is: the speed-up has an
    interval, and the outputs are compared. Nothing of the model that runs is changed.
    """
    from .run_parts.try_ import TryOptions, run_try  # noqa: PLC0415

    if not chosen.run:
        raise click.UsageError("Trials run the model and --no-run forbids it: leave it out.")
    options = msgspec.convert(typed, TryOptions)
    require_models(options.names, "changed")
    return run_try(options, chosen, started_at=started_at)
