"""``try``: changes that could make models faster, measured."""

from __future__ import annotations

import asyncio
import time
from typing import Literal

import click
import msgspec
from msgspec import Struct

from tui_profiler.messages import TRIAL_KINDS, LoadSpec, Start, TrialKind, Wish
from tui_profiler.reports.json.trials import trials_json
from tui_profiler.reports.text.trials import trials_table
from tui_profiler.session import EMPTY, Session
from tui_profiler.source.spawned import Spawned, worker_command
from tui_profiler.verbs.outcome import DONE, complaint, exit_code
from tui_profiler.verbs.trials import try_out

from ..options.model import Chosen, model_options
from ..terminal.standard_output import Results, columns, say, speaker
from .options import FiniteRange, models_and_files, output_option, require_models, table_or_json

MOST_GIB = 1 << 20
_GIB = 1 << 30
_EPILOG = "\b\nKinds:\n" + "\n".join(f"  {kind}" for kind in TRIAL_KINDS)


class TryOptions(Struct, frozen=True):
    """What was typed after ``try``, the options of the model apart."""

    names: tuple[str, ...]
    kinds: tuple[TrialKind, ...]
    seconds: float
    most_seconds: float
    most_memory: float | None
    measure: float
    layout: Literal["table", "json"]
    output: str

    def wishes(self) -> tuple[Wish, ...]:
        """Return what to try, each kind once."""
        most = None if self.most_memory is None else int(self.most_memory * _GIB)
        kinds = tuple(dict.fromkeys(self.kinds)) or TRIAL_KINDS
        return tuple(
            Wish(
                kind,
                seconds=self.seconds,
                most_seconds=max(self.most_seconds, self.seconds),
                most_bytes=most,
            )
            for kind in kinds
        )


@click.command("try", epilog=_EPILOG)
@click.argument(
    "names", metavar="MODEL...", nargs=-1, required=True, shell_complete=models_and_files
)
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    type=click.Choice(TRIAL_KINDS),
    metavar="KIND",
    help="Kind of change to try; may be repeated. Default: all.",
)
@click.option(
    "--seconds",
    type=FiniteRange(0.1, 3600),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="Maximum measured time per trial.",
)
@click.option(
    "--most-seconds",
    type=FiniteRange(1, 24 * 3600),
    default=120.0,
    show_default=True,
    metavar="SECONDS",
    help="Time limit per trial, loading and compiling included.",
)
@click.option(
    "--most-memory",
    type=FiniteRange(0.1, MOST_GIB),
    metavar="GIB",
    help="Maximum memory per trial. Default: 80 % of the free memory.",
)
@click.option(
    "--measure",
    type=FiniteRange(min=0, min_open=True),
    default=3.0,
    show_default=True,
    metavar="SECONDS",
    help="Measured time before the trials, for the predictions.",
)
@table_or_json
@output_option
@model_options
@click.pass_obj
def try_verb(started_at: float, /, chosen: Chosen, **typed: object) -> int:
    """Try changes on each MODEL, and print predicted beside measured speed-ups.

    Each trial runs in a separate process, the changed model and the original in turn: the speed-up
    has a 95 % interval, and outputs are compared. The running model is not changed.
    """
    if not chosen.run:
        raise click.UsageError("try runs the model: omit --no-run.")
    options = msgspec.convert(typed, TryOptions)
    require_models(options.names, "changed")
    return _try(options, chosen, started_at=started_at)


def _try(options: TryOptions, chosen: Chosen, *, started_at: float) -> int:
    """Try every model in turn and give the worst of their exit codes.

    Raises:
        UsageError: the file to write cannot be written.
    """
    worst = DONE
    with Results(options.output) as results:
        for name in options.names:
            spec = chosen.spec(name, started_at=started_at, seconds=options.measure)
            session = _tried(spec, options, results)
            started_at = time.time()
            for line in complaint(session, debug=chosen.debug):
                say(name, line)
            worst = max(worst, exit_code(session))
            if session.trials:
                results.add(_written(session, options, is_first=not results.count))
    return worst


def _tried(spec: LoadSpec, options: TryOptions, results: Results) -> Session:
    """Try everything on one model; where that is interrupted, the trials until then are kept."""
    source = Spawned(worker_command(), first=[Start(spec)])
    wishes, kept = options.wishes(), [EMPTY]
    progress = speaker(spec.model)
    try:
        return asyncio.run(try_out(source, wishes, progress=progress, kept=kept.append))
    except KeyboardInterrupt:
        done = len(kept) - 1
        if done:
            progress(f"interrupted after {done} of {len(wishes)} trials; their results follow")
            results.add(_written(kept[-1], options, is_first=not results.count))
        raise


def _written(session: Session, options: TryOptions, *, is_first: bool) -> str:
    if options.layout == "json":
        return trials_json(session) + "\n"
    lines = trials_table(session, columns=columns(options.output))
    return ("" if is_first else "\n") + "\n".join(lines) + "\n"
