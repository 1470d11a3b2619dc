"""``verify``: our figures beside those of other counters."""

import asyncio
import time

import click

from tui_profiler.queries.cost.verification import verify_verdict
from tui_profiler.reports.json.verification import verification_json
from tui_profiler.reports.text.verification import verification_table
from tui_profiler.source.spawned import worker
from tui_profiler.verbs.one_request import exit_code, verify
from tui_profiler.verbs.outcome import DONE, complaint

from ..options import verbs as options
from ..options.model import TRAINING, Chosen, model_options_but
from ..terminal.standard_output import Results, columns, say, speaker


@click.command("verify")
@options.models
@options.table_or_json
@options.output
@options.seconds("--timeout", "Time limit per counter.", 300.0)
@model_options_but(*TRAINING)
@click.pass_obj
def verify_verb(
    started_at: float,
    /,
    *,
    names: tuple[str, ...],
    layout: str,
    output: str,
    timeout: float,
    chosen: Chosen,
) -> int:
    """Cross-check parameters, FLOPs and memory of each MODEL with other counters.

    These are torchvision's published figures, torch.utils.flop_counter, fvcore where installed, and
    the memory that a real forward allocates. Each counter is a separate process.
    """
    options.require_models(names, "counted again")
    worst = DONE
    with Results(output) as results:
        for name in names:
            spec = chosen.spec(name, started_at=started_at)
            made = asyncio.run(verify(spec, worker, seconds=timeout, progress=speaker(name)))
            started_at = time.time()
            worst = max(worst, exit_code(made))
            say(name, *complaint(made.session, debug=chosen.debug))
            if made.session.tree is None:
                continue
            if verify_verdict(made) == "not compared":
                say(name, "nothing to compare: this model is not verified")
            if layout == "json":
                results.add(verification_json(made) + "\n")
            else:
                results.add_lines(verification_table(made, columns=columns(output)))
    return worst
