"""``report``: what models cost on paper, and what was measured, in several formats."""

import asyncio
import time

import click
import msgspec
from click.core import ParameterSource
from msgspec.structs import replace

from tui_profiler.messages import AnalyseParameters, Failed, Remedy, Start
from tui_profiler.recording.kind import RecordingError, is_recording
from tui_profiler.session import EMPTY, Session, apply
from tui_profiler.source.attached import AttachError
from tui_profiler.source.recorded import RECORD_AGAIN, last_session
from tui_profiler.source.serving import EVERY_SECONDS, with_serving
from tui_profiler.source.spawned import worker
from tui_profiler.verbs.outcome import complaint, exit_code, failure, measured
from tui_profiler.verbs.report import report

from ..options import verbs as options
from ..options.model import Chosen, model_options
from ..start.programs import follow, not_attached
from ..terminal.standard_output import Results, say, speaker

MOST_JOBS = 256


@click.command("report")
@click.argument("names", metavar="MODEL...", nargs=-1, shell_complete=options.models_and_files)
@options.attach_to
@options.remote_python
@click.option(
    "--format",
    "layout",
    type=click.Choice(["table", "text", "json", "csv", "markdown", "perfetto"]),
    default="table",
    show_default=True,
    help="text and markdown are the full report, json is one object per model (several are JSON"
    " Lines), csv one line per node, perfetto a trace for ui.perfetto.dev.",
)
@options.serving
@options.output
@click.option(
    "--check",
    "checks",
    multiple=True,
    metavar="LIMIT",
    help="A limit on a figure of the JSON report, such as 'total_macs<=5G': exit code 3 where it"
    " does not hold. May be repeated.",
)
@options.seconds("--measure", "Run the model for this long and report its times.")
@options.count("--top", "Only the N most expensive layers, or rows of --by.")
@options.count(
    "--depth",
    "Only layers at most N levels below the model; figures include what is inside them.",
    least=0,
)
@click.option(
    "--by",
    type=click.Choice(["module", "class", "operator"]),
    help="Instead of the report a flat table: modules by self time, modules by class, or"
    " operators by name; by FLOPs without --measure.",
)
@click.option(
    "--on",
    type=options.DEVICE,
    metavar="DEVICE",
    help="Include minimum times on another device, such as H100-SXM, from its data sheet;"
    " fit lists the devices.",
)
@click.option(
    "--brief",
    is_flag=True,
    help="For coding agents: at most 2 KiB of Markdown per model, with the path of each node,"
    " the bottleneck and the first findings. --top N: 10 by default.",
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
@options.count("--jobs", "With --all: number of models at once.", most=MOST_JOBS)
@click.option("--again", is_flag=True, help="With --all: run models again that have a file.")
@options.seconds("--timeout", "With --all: time limit per model.", 600.0)
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
    asked = msgspec.convert(typed, options.ReportOptions)
    _refuse(asked, chosen)
    return _report(asked, chosen, started_at=started_at)


def _refuse_without_all() -> None:
    """Refuse an option of ``--all`` where it is not there."""
    source = click.get_current_context().get_parameter_source
    for name in ("shard", "jobs", "again", "timeout", "ray"):
        if source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{name} needs --all.")


def _refuse(asked: options.ReportOptions, chosen: Chosen) -> None:
    """Refuse options that exclude each other, or what is reported.

    Raises:
        UsageError: there are such options, or there is no such model.
    """
    if bool(asked.names) == bool(asked.attach):
        raise click.UsageError("A MODEL is needed, or --attach NAME; not both.")
    options.require_remote(asked.attach, asked.remote_python)
    is_recorded = any(map(is_recording, asked.names))
    is_trace, is_table = asked.layout == "perfetto", asked.layout in ("csv", "perfetto")
    measures, has_depth = asked.measure is not None, asked.depth is not None
    source = click.get_current_context().get_parameter_source("layout")
    is_markdown = asked.layout == "markdown" or source is ParameterSource.DEFAULT
    refusals = (
        (
            asked.serving is not None and not (asked.attach and measures),
            "--serving needs --attach NAME --measure SECONDS",
        ),
        (measures and not chosen.run, "--measure and --no-run exclude each other"),
        (measures and is_recorded, "A recording cannot be measured again: omit --measure"),
        (is_table and asked.findings, f"{asked.layout} has no findings: omit --findings"),
        (is_table and asked.parameters, f"{asked.layout} has no parameters: omit --parameters"),
        (is_trace and asked.by is not None, "A trace is of a whole forward: omit --by"),
        (is_trace and asked.top is not None, "A trace is of a whole forward: omit --top"),
        (is_trace and has_depth, "A trace is of a whole forward: omit --depth"),
        (
            has_depth and asked.top is not None,
            "--depth cuts the tree, --top lists layers: give one of them",
        ),
        (
            asked.parameters and bool(asked.attach),
            "An attached program has no parameter values: omit --parameters",
        ),
        (
            asked.parameters and is_recorded,
            "A recording has no parameter values: omit --parameters",
        ),
        (asked.by and asked.findings, "A flat table has no findings: omit --findings, or --by"),
        (
            asked.by and asked.parameters,
            "A flat table has no parameters: omit --parameters, or --by",
        ),
        (asked.by and asked.on, "A flat table has no minimum times: omit --on, or --by"),
        (is_table and asked.on, f"{asked.layout} has no minimum times: omit --on"),
        (asked.brief and not is_markdown, "--brief is Markdown: add --format markdown"),
        (asked.brief and asked.by is not None, "--brief and --by exclude each other"),
        (asked.brief and has_depth, "--brief and --depth exclude each other"),
        (asked.brief and asked.on, "--brief and --on exclude each other"),
        (
            asked.brief and asked.parameters,
            "--brief and --parameters exclude each other",
        ),
        (asked.by and has_depth, "A flat table has no depth: omit --depth, or --by"),
    )
    for is_refused, why in refusals:
        if is_refused:
            raise click.UsageError(f"{why}.")
    if is_recorded:
        options.refuse_options(chosen, options.RECORDING)
    if asked.attach:
        options.refuse_options(chosen, options.PROGRAM)
    if len(asked.names) == 1:
        options.require_known(asked.names[0])


def _report(asked: options.ReportOptions, chosen: Chosen, *, started_at: float) -> int:
    """Report every model in turn and return the worst of their exit codes.

    Raises:
        UsageError: the file to write cannot be written, or a check is not one.
    """
    from .report_files import Written  # noqa: PLC0415 # --help needs no renderer

    worst = 0
    with Results(asked.output) as results:
        written = Written(results, asked)
        for name in asked.names or (asked.attach,):
            session = _session(name, asked, chosen, started_at)
            started_at = time.time()
            say(name, *complaint(session, debug=chosen.debug))
            worst = max(worst, exit_code(session))
            failed = failure(session)
            if session.tree is None:
                if failed is not None:
                    written.add_failed(name, session, failed)
                continue
            if failed is not None and session.failure is None:  # The worker died after the tree.
                session = apply(session, failed)
            worst = max(worst, written.add(name, session))
    return worst


def _session(name: str, asked: options.ReportOptions, chosen: Chosen, started_at: float) -> Session:
    if asked.attach:
        return asyncio.run(_attached(asked, started_at))
    if is_recording(name):
        return _recorded(name)
    return asyncio.run(_one(name, asked, chosen, started_at))


def _recorded(file: str) -> Session:
    """Return the last session of a recording; what is to be said of the file goes to stderr."""
    try:
        session, said = last_session(file)
    except RecordingError as error:
        failed = Failed("open", str(error), remedies=(Remedy(error.remedy, ""),), bad_argument=True)
        return apply(EMPTY, failed)
    say(file, *said)
    if session.tree is None and session.failure is None:
        what = "the recording ends before its tree"
        return apply(session, Failed("open", what, remedies=(RECORD_AGAIN,)))
    return session


async def _one(
    name: str, asked: options.ReportOptions, chosen: Chosen, started_at: float
) -> Session:
    measuring = asked.measure is not None
    wanted = chosen if measuring else replace(chosen, run=False)
    spec = wanted.spec(name, started_at=started_at, seconds=asked.measure)
    analysis = AnalyseParameters() if asked.parameters else None
    said = speaker(name)
    source = worker(Start(spec))
    session = await report(source, measuring=measuring, progress=said, analysis=analysis)
    return measured(session) if measuring else session


async def _attached(asked: options.ReportOptions, started_at: float) -> Session:
    """Follow a program that is not ours."""
    try:
        source = follow(
            asked.attach, asked.remote_python, seconds=asked.measure, started_at=started_at
        )
    except AttachError as error:
        return apply(EMPTY, not_attached(error))
    measuring = asked.measure is not None
    # At least two readings, however short.
    every = min(EVERY_SECONDS, (asked.measure or EVERY_SECONDS) / 3)
    shown = with_serving(source, asked.serving, every)
    return await report(shown, measuring=measuring, progress=speaker(asked.attach))
