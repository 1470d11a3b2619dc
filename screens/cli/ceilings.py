"""``ceilings``: what this machine can do at most, shown or measured."""

from __future__ import annotations

import asyncio
import time

import click

from tui_profiler.messages import LoadSpec, MeasureCeilings
from tui_profiler.reports.ceilings import ceilings_report_json, ceilings_table
from tui_profiler.source.spawned import Spawned, worker_command
from tui_profiler.verbs.one_request import ceilings
from tui_profiler.verbs.outcome import complaint, exit_code

from ..options.model import MOST_THREADS
from ..terminal.standard_output import Results, say, speaker
from .options import output_option


@click.command("ceilings")
@click.option("--again", is_flag=True, help="Measure all roofs again.")
@click.option("--device", default="cpu", show_default=True, metavar="cpu|cuda[:N]")
@click.option("--threads", type=click.IntRange(1, MOST_THREADS), help="Intra-op threads.")
@click.option(
    "--format",
    "layout",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="json is one object on one line.",
)
@output_option
@click.option("--debug", is_flag=True, help="Show tracebacks.")
@click.pass_obj
def ceilings_verb(
    started_at: float,
    /,
    again: bool,
    device: str,
    threads: int | None,
    layout: str,
    output: str,
    debug: bool,
) -> int:
    """Show the calibrated roofline of this machine, with the age and quality of each peak.

    Peaks: matmul and convolution per dtype, memory and cache bandwidth, and the overhead of one
    operator. Peaks that are missing, or were measured on a busy machine, are calibrated first;
    --again calibrates all. A good peak is never replaced by one that is not good enough.
    """
    spec = LoadSpec("", device=device, threads=threads, started_at=started_at)
    with Results(output) as results:
        source = Spawned(worker_command(), first=[MeasureCeilings(spec, again)])
        session = asyncio.run(ceilings(source, speaker("ceilings")))
        for line in complaint(session, debug=debug):
            say("ceilings", line)
        found = session.ceilings
        if found is None:
            return exit_code(session) or 1
        if layout == "json":
            lines = [ceilings_report_json(found, session.environment)]
        else:
            lines = [*ceilings_table(found, session.environment, time.time())]
        results.add("".join(f"{line}\n" for line in lines))
    return 0
