"""``fit``: which hardware a model fits on, by data sheets."""

import asyncio
import time

import click
import msgspec
from msgspec import Struct

from tui_profiler.queries.hardware.data_sheets import DataSheet, data_sheets
from tui_profiler.queries.hardware.fits import fitted
from tui_profiler.reports.json.fit import fit_json
from tui_profiler.reports.text.fit import fit_table
from tui_profiler.source.spawned import worker
from tui_profiler.verbs.outcome import complaint, exit_code
from tui_profiler.verbs.report import at_batches

from ..options import verbs as options
from ..options.model import MEMORY_SIZE, Chosen, model_options_but
from ..terminal.standard_output import Results, say, speaker


class FitOptions(Struct, frozen=True):
    """What was typed after ``fit``, the options of the model apart."""

    names: tuple[str, ...]
    on: tuple[DataSheet, ...] | None
    reserve: int
    layout: str
    output: str


@click.command("fit")
@options.models
@click.option(
    "--on",
    type=options.DEVICES,
    metavar="DEVICE[,...]",
    help="Only these devices, such as H100-SXM,L4; default: all.",
)
@click.option(
    "--reserve",
    type=MEMORY_SIZE,
    default="1GiB",
    show_default=True,
    metavar="SIZE",
    help="Memory to leave free for the driver, torch's kernels and fragmentation, or none.",
)
@options.table_or_json
@options.output
@model_options_but("generate")
@click.pass_obj
def fit_verb(started_at: float, /, chosen: Chosen, **typed: object) -> int:
    """Report which GPUs MODEL fits on, the largest batch, and the minimum time.

    Nothing runs: memory is predicted from traces at three batch sizes, times and energy from data
    sheets. With --train the memory is that of a training step.
    """
    asked = msgspec.convert(typed, FitOptions)
    options.require_models(list(asked.names), "fitted")
    sheets = asked.on or data_sheets()
    worst = 0
    with Results(asked.output) as results:
        for name in asked.names:
            spec = chosen.spec(name, started_at=started_at)
            sessions = asyncio.run(at_batches(spec, worker, progress=speaker(name)))
            started_at = time.time()
            say(name, *complaint(sessions[0], debug=chosen.debug))
            worst = max(worst, exit_code(sessions[0]))
            if sessions[0].tree is None or sessions[0].tree.done is None:
                continue
            found = fitted(sessions, sheets, asked.reserve)
            if asked.layout == "json":
                results.add(fit_json(sessions, found, asked.reserve) + "\n")
            else:
                results.add_lines(fit_table(sessions, found, asked.reserve))
    return worst
