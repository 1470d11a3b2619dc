"""``ceilings``: the calibrated roofline of this machine."""

import asyncio
import time

import click

from tui_profiler.messages import LoadSpec, MeasureCeilings
from tui_profiler.reports.ceilings import ceilings_report_json, ceilings_table
from tui_profiler.source.spawned import worker
from tui_profiler.verbs.one_request import ceilings
from tui_profiler.verbs.outcome import complaint, exit_code

from ..options import verbs as options
from ..options.model import MOST_THREADS
from ..terminal.standard_output import Results, say, speaker


@click.command("ceilings")
@click.option("--again", is_flag=True, help="Calibrate all roofs again.")
@click.option("--device", default="cpu", show_default=True, metavar="cpu|cuda[:N]")
@click.option("--threads", type=click.IntRange(1, MOST_THREADS), help="Intra-op threads.")
@options.layout("table", "json", help="json is one object on one line.")
@options.output
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
    """Show the calibrated roofline of this machine, with the age and quality of each roof.

    Roofs: matmul and convolution per dtype, memory and cache bandwidth, and the overhead of one
    operator. Roofs that are missing, or were measured on a busy machine, are calibrated first;
    --again calibrates all. A good roof is never replaced by one that is not good enough.
    """
    spec = LoadSpec("", device=device, threads=threads, started_at=started_at)
    with Results(output) as results:
        source = worker(MeasureCeilings(spec, again))
        session = asyncio.run(ceilings(source, speaker("ceilings")))
        say("ceilings", *complaint(session, debug=debug))
        found = session.ceilings
        if found is None:
            return exit_code(session) or 1
        if layout == "json":
            results.add(ceilings_report_json(found, session.environment) + "\n")
        else:
            results.add_lines(ceilings_table(found, session.environment, time.time()))
    return 0
