"""``report``: what models cost on paper, and what was measured, in several formats."""

from __future__ import annotations

import asyncio
import time

import click
import msgspec
from click.core import ParameterSource
from msgspec import Struct
from msgspec.structs import replace

from tui_profiler.messages import AnalyseParameters, Failed, Remedy, Start
from tui_profiler.queries.cost.flat import By
from tui_profiler.recording.kind import RecordingError, is_recording
from tui_profiler.session import EMPTY, Session, apply
from tui_profiler.source.attached import AttachError
from tui_profiler.source.spawned import Spawned, worker_command
from tui_profiler.verbs.outcome import complaint, exit_code, failure, measured
from tui_profiler.verbs.recorded import last_session
from tui_profiler.verbs.report import report

from ..options.model import Chosen, model_options
from ..start.programs import follow, not_attached
from ..terminal.standard_output import Results, say, speaker
from .options import (
    PROGRAM,
    RECORDING,
    FiniteRange,
    ReportLayout,
    attach_to,
    models_and_files,
    output_option,
    refuse_options,
    remote_python,
    require_known,
    require_remote,
)

MOST_JOBS = 256


class ReportOptions(Struct, frozen=True):
    """What was typed after ``report``, the options of the model apart."""

    names: tuple[str, ...]
    attach: str
    remote_python: str
    layout: ReportLayout
    output: str
    measure: float | None
    top: int | None
    checks: tuple[str, ...]
    findings: bool = False
    parameters: bool = False
    by: By | None = None
    depth: int | None = None


@click.command("report")
@click.argument("names", metavar="MODEL...", nargs=-1, shell_complete=models_and_files)
@attach_to
@remote_python
@click.option(
    "--format",
    "layout",
    type=click.Choice(["table", "text", "json", "csv", "markdown", "perfetto"]),
    default="table",
    show_default=True,
    help="text and markdown are the full report, json is one object per model (several are JSON"
    " Lines), csv one line per node, perfetto a trace for ui.perfetto.dev.",
)
@output_option
@click.option(
    "--check",
    "checks",
    multiple=True,
    metavar="LIMIT",
    help="A limit on a figure of the JSON report, such as 'total_macs<=5G': exit code 3 where it"
    " does not hold. May be repeated.",
)
@click.option(
    "--measure",
    type=FiniteRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Run the model for this long and report its times.",
)
@click.option(
    "--top",
    type=click.IntRange(min=1),
    metavar="N",
    help="Only the N most expensive layers, or rows of --by.",
)
@click.option(
    "--depth",
    type=click.IntRange(min=0),
    metavar="N",
    help="Only layers at most N levels below the model; figures include what is inside them.",
)
@click.option(
    "--by",
    type=click.Choice(["module", "class", "operator"]),
    help="Instead of the report a flat table: modules by self time, modules by class, or"
    " operators by name; by FLOPs without --measure.",
)
@click.option(
    "--findings",
    is_flag=True,
    help="Include findings with evidence and predicted gain; best with --measure.",
)
@click.option(
    "--parameters",
    is_flag=True,
    help="Include statistics of every parameter: distribution, quantisation, pruning.",
)
@model_options
@click.option(
    "--all",
    "group",
    type=click.Choice(["demo", "torchvision", "timm", "ultralytics"]),
    help="Instead of MODEL: every model of that source, a JSON file for each in --output.",
)
@click.option(
    "--shard",
    metavar="I/N",
    default="0/1",
    help="With --all: the I-th of N equal parts, counted from 0.",
)
@click.option(
    "--jobs",
    type=click.IntRange(1, MOST_JOBS),
    metavar="N",
    help="With --all: number of models at once.",
)
@click.option("--again", is_flag=True, help="With --all: run models again that have a file.")
@click.option(
    "--timeout",
    type=FiniteRange(min=0, min_open=True),
    default=600.0,
    show_default=True,
    metavar="SECONDS",
    help="With --all: time limit per model.",
)
@click.option(
    "--ray",
    metavar="ADDRESS",
    default="",
    help="With --all: run them on a Ray cluster; local starts one here.",
)
@click.pass_obj
def report_verb(started_at: float, /, chosen: Chosen, **typed: object) -> int:
    """Report parameters, FLOPs and memory of each MODEL; with --measure also latency.

    A MODEL may be a recording: its last figures are reported, measured ones included.
    """
    if typed["group"] is not None:
        from .report_all import report_all  # noqa: PLC0415 # it, or what a single report needs

        return report_all(chosen, typed)
    _refuse_without_all()
    options = msgspec.convert(typed, ReportOptions)
    if bool(options.names) == bool(options.attach):
        raise click.UsageError("A MODEL is needed, or --attach NAME; not both.")
    require_remote(options.attach, options.remote_python)
    if options.measure is not None and not chosen.run:
        raise click.UsageError("--measure and --no-run exclude each other.")
    if options.measure is not None and any(map(is_recording, options.names)):
        raise click.UsageError("A recording cannot be measured again: leave out --measure.")
    if any(map(is_recording, options.names)):
        refuse_options(chosen, RECORDING)
    if options.attach:
        refuse_options(chosen, PROGRAM)
    if len(options.names) == 1:
        require_known(options.names[0])
    if options.parameters:
        _require_parameters(options)
    if options.by is not None:
        _require_table(options)
    return _report(options, chosen, started_at=started_at)


def _refuse_without_all() -> None:
    """Refuse an option of ``--all`` where it is not there."""
    source = click.get_current_context().get_parameter_source
    for name in ("shard", "jobs", "again", "timeout", "ray"):
        if source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{name} needs --all.")


def _require_parameters(options: ReportOptions) -> None:
    """Refuse what has no values to look at, or no place for what they are like."""
    layout = options.layout
    if layout in ("csv", "perfetto"):
        raise click.UsageError(f"{layout} holds no --parameters: leave it out, or --format.")
    if options.attach:
        raise click.UsageError("An attached program has no parameter values: omit --parameters.")
    if any(map(is_recording, options.names)):
        raise click.UsageError("A recording has no parameter values: omit --parameters.")


def _require_table(options: ReportOptions) -> None:
    """Refuse what a flat table has no place for."""
    if options.layout == "perfetto":
        raise click.UsageError("A trace is of a whole forward: leave out --by.")
    given = (
        (options.findings, "--findings"),
        (options.parameters, "--parameters"),
        (options.depth is not None, "--depth"),
    )
    for typed, name in given:
        if typed:
            raise click.UsageError(f"A flat table has no {name}: leave it out, or --by.")


def _report(options: ReportOptions, chosen: Chosen, *, started_at: float) -> int:
    """Report every model in turn and give the worst of their exit codes.

    Raises:
        UsageError: the file to write cannot be written, a check is none, or the format holds no
            advice or only whole forwards.
    """
    if options.findings and options.layout in ("csv", "perfetto"):
        raise click.UsageError(f"{options.layout} holds no advice: leave out --findings.")
    if options.top is not None and options.layout == "perfetto":
        raise click.UsageError("A trace is of a whole forward: leave out --top.")
    if options.depth is not None and options.layout == "perfetto":
        raise click.UsageError("A trace is of a whole forward: leave out --depth.")
    if options.depth is not None and options.top is not None:
        raise click.UsageError("--depth cuts the tree, --top lists layers: give one of them.")
    from .report_files import Written  # noqa: PLC0415 # --help needs no renderer

    worst = 0
    with Results(options.output) as results:
        written = Written(
            *(results, options.layout, options.output, options.top, options.checks),
            advises=options.findings,
            by=options.by,
            depth=options.depth,
        )
        for name in options.names or (options.attach,):
            session = _session(name, options, chosen, started_at)
            started_at = time.time()
            for line in complaint(session, debug=chosen.debug):
                say(name, line)
            worst = max(worst, exit_code(session))
            if session.tree is not None:
                worst = max(worst, written.add(name, session))
            elif (failed := failure(session)) is not None:
                written.add_failed(name, session, failed)
    return worst


def _session(name: str, options: ReportOptions, chosen: Chosen, started_at: float) -> Session:
    if options.attach:
        return asyncio.run(_attached(options, started_at))
    if is_recording(name):
        return _recorded(name)
    return asyncio.run(_one(name, options, chosen, started_at))


def _recorded(file: str) -> Session:
    """Return the last session of a recording; what is to be said of the file goes to stderr."""
    try:
        session, said = last_session(file)
    except RecordingError as error:
        failed = Failed("open", str(error), remedies=(Remedy(error.remedy, ""),), bad_argument=True)
        return apply(EMPTY, failed)
    for line in said:
        say(file, line)
    if session.tree is None and session.failure is None:
        return apply(session, Failed("open", "the recording was cut off before the tree came"))
    return session


async def _one(name: str, options: ReportOptions, chosen: Chosen, started_at: float) -> Session:
    measuring = options.measure is not None
    wanted = chosen if measuring else replace(chosen, run=False)
    spec = wanted.spec(name, started_at=started_at, seconds=options.measure)
    source = Spawned(worker_command(), first=[Start(spec)])
    analysis = AnalyseParameters() if options.parameters else None
    said = speaker(name)
    session = await report(source, measuring=measuring, progress=said, analysis=analysis)
    return measured(session) if measuring else session


async def _attached(options: ReportOptions, started_at: float) -> Session:
    """Follow a program that is not ours."""
    try:
        source = follow(
            options.attach, options.remote_python, seconds=options.measure, started_at=started_at
        )
    except AttachError as error:
        return apply(EMPTY, not_attached(error))
    measuring = options.measure is not None
    return await report(source, measuring=measuring, progress=speaker(options.attach))
