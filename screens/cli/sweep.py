"""The verb ``sweep`` and its axes."""

from __future__ import annotations

import click
import msgspec

from tui_profiler.formatting.text import safe

from ..options.model import MOST_BATCH, MOST_THREADS, Chosen, model_options_but, output_option
from ..options.numbers import Finite
from ..options.refusals import require_models
from .first_word import models_and_files

MOST_POINTS = 200
MOST_ROUNDS = 20


class Several(click.ParamType[tuple[int | str, ...]]):
    """Values between commas, each once, in the order typed."""

    name = "values"

    def __init__(self, one: click.ParamType[int] | click.ParamType[str]) -> None:
        self._one = one

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int | str, ...]:
        """Give the values."""
        if isinstance(value, tuple):
            return value
        parts = [part.strip() for part in str(value).split(",")]
        if not all(parts):
            self.fail(f'"{safe(str(value))}" is not a list such as 1,2,4', param, ctx)
        return tuple(dict.fromkeys(self._one.convert(part, param, ctx) for part in parts))


_AXES = ("batch", "sequence", "threads", "dtype")


@click.command("sweep", short_help="Run a model at many settings, and see how it grows.")
@click.argument("model", shell_complete=models_and_files)
@click.option(
    "--batch",
    type=Several(click.IntRange(1, MOST_BATCH)),
    metavar="1,2,4",
    help="Sizes of the batch axis.",
)
@click.option(
    "--sequence",
    type=Several(click.IntRange(1, MOST_BATCH)),
    metavar="16,64,256",
    help="Lengths of the sequence axis: of token ids (batch, tokens), else of features.",
)
@click.option(
    "--threads",
    type=Several(click.IntRange(1, MOST_THREADS)),
    metavar="1,2",
    help="Threads inside an operator.",
)
@click.option(
    "--dtype", type=Several(click.STRING), metavar="float32,bfloat16", help="Cast the model."
)
@click.option(
    "--seconds",
    type=Finite(min=0, min_open=True),
    default=4.0,
    show_default=True,
    help="How long each point runs warmed up, all its rounds together.",
)
@click.option(
    "--rounds",
    type=click.IntRange(1, MOST_ROUNDS),
    default=2,
    show_default=True,
    help="How often each point is visited; every second round goes backwards.",
)
@click.option(
    "--timeout",
    type=Finite(min=0, min_open=True),
    default=300.0,
    show_default=True,
    metavar="SECONDS",
    help="How long one visit may take.",
)
@click.option(
    "--format",
    "layout",
    type=click.Choice(["table", "json", "csv"]),
    default="table",
    show_default=True,
    help="json is one object; csv is one line per point.",
)
@output_option
@click.option(
    "--top",
    type=click.IntRange(min=1),
    default=12,
    show_default=True,
    metavar="N",
    help="How many nodes the table lists by how they grow.",
)
@click.option("--ascii", "is_ascii", is_flag=True, help="Draw with ASCII alone.")
@model_options_but("batch", "threads", "dtype")
@click.pass_obj
def sweep(started_at: float, /, chosen: Chosen, **typed: object) -> int:
    """Run MODEL at many settings: latency, throughput, memory and energy of each.

    Several axes at once are their product. Each point is run by a worker of its own, in rounds; it
    also tells how each node grows along an axis, and where a larger batch stops to pay. With
    --no-run all of it is on paper.
    """
    from .run_parts.sweep import SweepOptions, run_sweep  # noqa: PLC0415

    axes = {name: typed.pop(name) for name in _AXES}
    options = msgspec.convert({**typed, "axes": axes}, SweepOptions)
    if not any(axes.values()):
        raise click.UsageError(
            "An axis is needed: --batch 1,2,4, --sequence, --threads or --dtype."
        )
    require_models([options.model], "run at other settings")
    if options.points > MOST_POINTS:
        raise click.UsageError(
            f"These are {options.points:,} points and {MOST_POINTS} are the most: leave out some."
        )
    return run_sweep(options, chosen)
