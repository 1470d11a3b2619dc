"""``verify``: our figures beside those of other counters."""

from __future__ import annotations

import asyncio
import time
from typing import Literal

import click
import msgspec
from msgspec import Struct

from tui_profiler.messages import Request
from tui_profiler.queries.cost.verification import Verification, verify_verdict
from tui_profiler.reports.json.verification import verification_json
from tui_profiler.reports.text.verification import verification_table
from tui_profiler.source.spawned import Spawned, worker_command
from tui_profiler.verbs.one_request import exit_code, verify
from tui_profiler.verbs.outcome import DONE, complaint

from ..options.model import Chosen, model_options
from ..terminal.standard_output import Results, columns, say, speaker
from .options import FiniteRange, models_and_files, output_option, require_models, table_or_json


class VerifyOptions(Struct, frozen=True):
    """What was typed after ``verify``, the options of the model apart."""

    names: tuple[str, ...]
    layout: Literal["table", "json"]
    output: str
    timeout: float


@click.command("verify")
@click.argument(
    "names", metavar="MODEL...", nargs=-1, required=True, shell_complete=models_and_files
)
@table_or_json
@output_option
@click.option(
    "--timeout",
    type=FiniteRange(min=0, min_open=True),
    default=300.0,
    show_default=True,
    metavar="SECONDS",
    help="Time limit per counter.",
)
@model_options
@click.pass_obj
def verify_verb(started_at: float, /, chosen: Chosen, **typed: object) -> int:
    """Cross-check parameters, FLOPs and memory of each MODEL with other counters.

    These are torchvision's published figures, torch.utils.flop_counter, fvcore where installed, and
    the memory that a real forward allocates. Each counter is a separate process.
    """
    options = msgspec.convert(typed, VerifyOptions)
    require_models(options.names, "counted again")
    return _verify(options, chosen, started_at=started_at)


def _verify(options: VerifyOptions, chosen: Chosen, *, started_at: float) -> int:
    """Verify every model in turn and give the worst of their exit codes.

    Raises:
        UsageError: the file to write cannot be written.
    """
    worst = DONE
    with Results(options.output) as results:
        for name in options.names:
            spec = chosen.spec(name, started_at=started_at)
            made = asyncio.run(
                verify(spec, _begin, seconds=options.timeout, progress=speaker(name))
            )
            started_at = time.time()
            worst = max(worst, exit_code(made))
            for line in (*complaint(made.session, debug=chosen.debug), *_nothing(made)):
                say(name, line)
            if made.session.tree is not None:
                results.add(_written(made, options, is_first=not results.count))
    return worst


def _begin(request: Request) -> Spawned:
    return Spawned(worker_command(), first=[request])


def _nothing(made: Verification) -> tuple[str, ...]:
    if made.session.tree is None or verify_verdict(made) != "not compared":
        return ()
    return ("nothing to compare: this model is not verified",)


def _written(made: Verification, options: VerifyOptions, *, is_first: bool) -> str:
    if options.layout == "json":
        return verification_json(made) + "\n"
    lines = verification_table(made, columns=columns(options.output))
    return ("" if is_first else "\n") + "\n".join(lines) + "\n"
