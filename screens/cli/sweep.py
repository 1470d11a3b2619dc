"""``sweep``: a model at many settings."""

import asyncio
import math
import os
import time
from typing import Literal

import click
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tui_profiler.figures.units import clock
from tui_profiler.formatting.canvas import ASCII, Glyphs
from tui_profiler.formatting.text import safe
from tui_profiler.queries.sweep import Axis, Sweep, points
from tui_profiler.reports.csv import sweep_csv
from tui_profiler.reports.json.sweep import sweep_json
from tui_profiler.reports.text.sweep import rounds as in_rounds
from tui_profiler.reports.text.sweep import sweep_table
from tui_profiler.source.spawned import worker
from tui_profiler.verbs.sweep import estimated_seconds, exit_code, sweep

from ..options import verbs as options
from ..options.model import MOST_BATCH, MOST_THREADS, Chosen, model_options_but
from ..settings.appearance import glyphs_for
from ..terminal.standard_output import Results, columns, say, speaker

MOST_POINTS = 200
MOST_ROUNDS = 20
_AXES = ("batch", "sequence", "threads", "dtype")


class _Several(click.ParamType[tuple[int | str, ...]]):
    """Values between commas, each once, in the order typed."""

    name = "values"

    def __init__(self, one: click.ParamType[int] | click.ParamType[str]) -> None:
        self._one = one

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int | str, ...]:
        """Return the values."""
        if isinstance(value, tuple):
            return value
        parts = [part.strip() for part in str(value).split(",")]
        if not all(parts):
            self.fail(f'"{safe(str(value))}" is not a list such as 1,2,4', param, ctx)
        return tuple(dict.fromkeys(self._one.convert(part, param, ctx) for part in parts))


class SweepOptions(Struct, frozen=True):
    """What was typed after ``sweep``, the options of the model apart."""

    model: str
    axes: dict[Literal["batch", "sequence", "threads", "dtype"], tuple[int | str, ...] | None]
    seconds: float
    rounds: int
    timeout: float
    layout: Literal["table", "json", "csv"]
    output: str
    top: int
    is_ascii: bool

    @property
    def points(self) -> int:
        """How many points the axes make."""
        return math.prod(len(values) for values in self.axes.values() if values)


@click.command("sweep")
@options.model
@click.option(
    "--batch",
    type=_Several(click.IntRange(1, MOST_BATCH)),
    metavar="1,2,4",
    help="Sizes of the batch axis.",
)
@click.option(
    "--sequence",
    type=_Several(click.IntRange(1, MOST_BATCH)),
    metavar="16,64,256",
    help="Sequence lengths, of token ids (batch, tokens) or of features.",
)
@click.option(
    "--threads",
    type=_Several(click.IntRange(1, MOST_THREADS)),
    metavar="1,2",
    help="Intra-op threads.",
)
@click.option(
    "--dtype", type=_Several(click.STRING), metavar="float32,bfloat16", help="Cast the model."
)
@options.seconds(
    "--seconds", "Measured time per point, after the warm-up, all rounds together.", 4.0
)
@options.count(
    "--rounds", "Rounds over all points; every second round runs in reverse.", 2, most=MOST_ROUNDS
)
@options.seconds("--timeout", "Time limit per point and round.", 300.0)
@options.layout("table", "json", "csv", help="json is one object; csv is one line per point.")
@options.output
@options.count("--top", "Number of nodes in the table, by scaling.", 12)
@click.option("--ascii", "is_ascii", is_flag=True, help="Draw with ASCII only.")
@model_options_but("batch", "threads", "dtype", "generate")
@click.pass_obj
def sweep_verb(started_at: float, /, chosen: Chosen, **typed: object) -> int:
    """Measure how MODEL scales: latency, throughput, memory and energy at every point.

    Several axes are combined as a product. Each point runs in its own worker, in rounds. Reports
    how each node scales along an axis, and the saturation point of the batch size. With --no-run
    everything is predicted from the trace.
    """
    axes = {name: typed.pop(name) for name in _AXES}
    asked = msgspec.convert({**typed, "axes": axes}, SweepOptions)
    if not any(axes.values()):
        raise click.UsageError(
            "An axis is needed: --batch 1,2,4, --sequence, --threads or --dtype."
        )
    options.require_models([asked.model], "run at other settings")
    if asked.points > MOST_POINTS:
        raise click.UsageError(
            f"These are {asked.points:,} points and {MOST_POINTS} are the most: omit some."
        )
    return _run(asked, chosen)


def _run(asked: SweepOptions, chosen: Chosen) -> int:
    """Visit every point, write what was found, and return the exit code.

    Raises:
        UsageError: the file to write cannot be written.
    """
    with Results(asked.output) as results:
        found = _swept(asked, chosen)
        results.add(_written(found, asked))
    _complain(found)
    return exit_code(found)


def _swept(asked: SweepOptions, chosen: Chosen) -> Sweep:
    """Visit every point; where that is interrupted, give what there is until then."""
    axes = tuple(Axis(name, values) for name, values in asked.axes.items() if values)
    rounds = asked.rounds if chosen.run else 1  # On paper every round says the same.
    wanted = Sweep(asked.model, axes, rounds, asked.seconds, chosen.run)
    say(asked.model, _stated(wanted))
    kept = [wanted]
    try:
        return asyncio.run(
            sweep(
                wanted,
                chosen.spec(asked.model, started_at=0.0),
                worker,
                seconds=asked.timeout,
                now=time.monotonic,
                progress=speaker(asked.model),
                kept=kept.append,
            )
        )
    except KeyboardInterrupt:
        found = replace(kept[-1], interrupted=True)
        visits = "1 visit" if len(found.visits) == 1 else f"{len(found.visits)} visits"
        say(asked.model, f"interrupted after {visits}; results so far follow")
        return found


def _stated(wanted: Sweep) -> str:
    axes = [f"{len(axis.values)} of {axis.name}" for axis in wanted.axes]
    count = len(points(wanted.axes))
    number = "1 point" if count == 1 else f"{count} points"
    product = wanted.axes[0].name if len(axes) == 1 else " × ".join(axes)
    about = clock(estimated_seconds(wanted))
    if not wanted.runs:
        return f"{number} ({product}) on paper; about {about}"
    return (
        f"{number} ({product}) in {in_rounds(wanted.rounds)}, {wanted.seconds:g} s of"
        f" running a point; about {about}"
    )


def _complain(found: Sweep) -> None:
    failed = {visit.place: visit.failure for visit in found.visits if visit.failure}
    if failed:
        number = len(points(found.axes))
        say(found.model, f"{len(failed)} of {number} points failed: {next(iter(failed.values()))}")


def _written(found: Sweep, asked: SweepOptions) -> str:
    if asked.layout == "json":
        return sweep_json(found) + "\n"
    if asked.layout == "csv":
        return sweep_csv(found)
    glyphs: Glyphs = ASCII if asked.is_ascii else glyphs_for("auto", os.environ)
    lines = sweep_table(found, columns=columns(asked.output), glyphs=glyphs, top=asked.top)
    return "\n".join(lines) + "\n"
