"""``run``: a script of the user's, in the explorer or with a report at its end."""

import asyncio
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Literal

import click
import msgspec
from msgspec import Struct

from tui_profiler import __version__
from tui_profiler.formatting.text import safe
from tui_profiler.messages import LoadSpec
from tui_profiler.messages.failure import SCRIPT
from tui_profiler.messages.live import WAITS
from tui_profiler.queries.panel import out_of_memory
from tui_profiler.queries.panel.state import running_stage
from tui_profiler.queries.time.forward_kinds import children_words
from tui_profiler.recording.frames import Header
from tui_profiler.recording.kind import RecordingError
from tui_profiler.recording.writer import Writer, create, overwrite
from tui_profiler.reports.json.report import json_report
from tui_profiler.reports.text.table import table
from tui_profiler.serving.address import Address
from tui_profiler.session import EMPTY, Session, apply
from tui_profiler.source import Source
from tui_profiler.source.optimizer_trials import WithOptimizerTrials
from tui_profiler.source.other_programs import WithPrograms
from tui_profiler.source.script import Script
from tui_profiler.source.serving import with_serving
from tui_profiler.verbs.record import RecordingSource

from ..options import verbs as options
from ..options.model import BUDGET_HELP, SHARE, file_option
from ..settings.appearance import AppearanceOptions, look_options
from ..terminal.standard_output import (
    begin_line,
    columns,
    put,
    put_into,
    require_terminal,
    require_writable,
    say,
)


class RunOptions(Struct, frozen=True):
    """What was typed after ``run``."""

    is_module: bool
    is_code: bool
    layout: Literal["table", "json"] | None
    output: str
    record: str
    force: bool
    every: float | None
    budget: float
    model: str
    """Pattern of the model to show; empty: whichever model runs."""
    serving: Address | None
    script: str
    arguments: tuple[str, ...]

    @property
    def name(self) -> str:
        """The script as it is named on screen and in errors."""
        return "-c" if self.is_code else self.script

    @property
    def command(self) -> tuple[str, ...]:
        """What would follow ``python``."""
        option = ("-m",) if self.is_module else ("-c",) if self.is_code else ()
        return (*option, self.script, *self.arguments)


@click.command(
    "run",
    context_settings={"allow_interspersed_args": False},
)
@click.option("-m", "is_module", is_flag=True, help="SCRIPT is a module, as in python -m.")
@click.option("-c", "is_code", is_flag=True, help="SCRIPT is Python code, as in python -c.")
@options.layout(
    "table",
    "json",
    help="Without the explorer: the script keeps the terminal, and a report follows.",
    default=None,
)
@file_option("--output", default="", help="Write the report to FILE.")
@options.seconds(
    "--every",
    "With --format: also write a report at this interval; FILE has the newest.",
)
@file_option(
    "--record",
    default="",
    help="Record to FILE, which tui-profiler opens later.",
)
@options.force
@click.option("--budget", type=SHARE, default="2%", show_default=True, help=BUDGET_HELP)
@click.option(
    "--model",
    metavar="NAME",
    default="",
    help="Model to show: its class, CLASS#INDEX or variable, such as trainer.model (* and ? match);"
    " default: the outermost that runs.",
)
@options.serving
@look_options
@options.stock_output
@click.argument("script", shell_complete=options.models_and_files)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_obj
def run_verb(started_at: float, /, appearance: AppearanceOptions, **typed: object) -> int:
    """Run SCRIPT unchanged with its ARGUMENTS, and profile the model that it calls.

    Its output is in the log (L), and tui-profiler exits with its exit code. With --format the
    script keeps the terminal, and a report is written when it ends, and at SIGUSR2 if the script
    does not handle that signal: to FILE or standard error. With --format, - as SCRIPT reads it from
    standard input.
    """
    asked = msgspec.convert(typed, RunOptions)
    if asked.is_module and asked.is_code:
        raise click.UsageError("-m and -c exclude each other.")
    if asked.layout is None and asked.every is not None:
        raise click.UsageError("--every needs --format.")
    if asked.record and asked.output and _is_same_file(asked.record, asked.output):
        raise click.UsageError("--record and --output need a file each.")
    if asked.layout is None:
        require_terminal("add --format table")
        if asked.script == "-":
            raise click.UsageError("A script on standard input needs --format.")
    return _run(asked, appearance, started_at=started_at)


def _run(asked: RunOptions, appearance: AppearanceOptions, *, started_at: float) -> int:
    """Run a script to its end, and give its exit code.

    Raises:
        UsageError: there is no such script, or the report cannot be written.
    """
    if asked.is_module:
        options.require_module(asked.script)
    elif not asked.is_code and asked.script != "-":
        options.require_script(asked.script)
    require_writable(asked.output)
    recording = _recording(asked, started_at) if asked.record else None
    script = Script(
        asked.command,
        started_at=started_at,
        budget=asked.budget,
        model=asked.model,
        owns_terminal=asked.layout is not None,
        reads_values=asked.layout is not None,  # In the explorer its health screen asks.
    )
    now = options.steady_clock(started_at)
    source = with_serving(script, asked.serving)
    writer = None if recording is None else Writer(*recording)
    try:
        if writer is not None:
            source = RecordingSource(source, writer, now)
        if asked.layout is None:
            code = _explored(source, script, asked, appearance, started_at)
        else:
            code = 0
            try:
                session = asyncio.run(_followed(source, script, asked))
            except BaseException:
                script.wait()  # An error here must not end the script.
                raise
            _report(session, asked)
    finally:
        if writer is not None:
            writer.close("the script ended", now())
            if writer.failure:
                say(asked.record, f"recording ended: {safe(writer.failure)}", *writer.remedies)
    return code or script.end()  # Last: a signal that ended the script ends this process too.


def _is_same_file(one: str, other: str) -> bool:
    return Path(one).resolve() == Path(other).resolve()


def _recording(asked: RunOptions, started_at: float) -> tuple[int, Header]:
    """Make the file of a recording, before the script starts.

    Raises:
        UsageError: it cannot be made.
    """
    spec = LoadSpec(asked.name, started_at=started_at, observed=_observed(asked))
    header = Header(started_at, socket.gethostname(), __version__, spec)
    try:
        return (overwrite if asked.force else create)(asked.record), header
    except RecordingError as error:
        said = f"{safe(asked.record)}: {error}; try {error.remedy}"
        raise click.UsageError(f"--record {said}.") from None


def _observed(asked: RunOptions) -> Literal["module", "script"]:
    return "module" if asked.is_module else "script"


def _explored(
    source: Source,
    script: Script,
    asked: RunOptions,
    appearance: AppearanceOptions,
    started_at: float,
) -> int:
    from ..app.run_app import run_script  # noqa: PLC0415 # after the script was started: both take a while

    spec = LoadSpec(asked.name, started_at=started_at, observed=_observed(asked))
    shown = WithPrograms(WithOptimizerTrials(source))
    code = run_script(shown, spec, script, appearance=appearance)
    script.follow()
    _say_how_it_ended(script, asked.name)
    return code


def _say_how_it_ended(script: Script, name: str) -> None:
    """Print how a script ended, and the path of its log, on lines of their own."""
    if script.is_line_begun:
        put("\n")
    if failed := script.how_it_failed():
        say(name, failed)
    if script.log.path is not None:
        say(name, f"output kept in {safe(str(script.log.path))}")
    elif script.log.why_none:
        say(name, f"output not kept: {safe(script.log.why_none)}")


async def _followed(source: Source, script: Script, asked: RunOptions) -> Session:
    """Follow the script to its end; report meanwhile where that was asked for, or at SIGUSR2."""
    session, loop = EMPTY, asyncio.get_running_loop()
    is_due = asyncio.Event()

    def ask() -> None:
        with suppress(RuntimeError):  # The loop is closed: the last report is under way.
            loop.call_soon_threadsafe(is_due.set)

    script.on_report(ask)

    async def report_when_due() -> None:
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(is_due.wait(), asked.every)
            is_due.clear()
            try:
                _report(session, asked)
            except click.ClickException as error:  # A full disk, which may have room at the end.
                error.show()

    reporting = asyncio.create_task(report_when_due())
    try:
        async for message in source.messages():
            session = apply(session, message)
    finally:
        reporting.cancel()
        (ended,) = await asyncio.gather(reporting, return_exceptions=True)
    if isinstance(ended, Exception):
        raise ended  # A mistake of ours, which must be told.
    return session


def _report(session: Session, asked: RunOptions) -> None:
    if session.tree is None:
        begin_line()
        say(asked.name, f"no figures: {_why_none(session, is_chosen=bool(asked.model))}")
        return
    if asked.layout == "json":
        text = json_report(session) + "\n"
    else:
        text = "\n".join(table(session, columns=columns(asked.output))) + "\n"
    if asked.output:
        put_into(asked.output, text.encode())
    else:
        begin_line()
        sys.stderr.write(text)


def _why_none(session: Session, *, is_chosen: bool) -> str:
    children = "".join(f"; {words}" for words in children_words(session)[:1])
    failure = session.failure
    if failure is None:
        stage = running_stage(session)
        detail = safe(stage.detail) if stage is not None else ""
        if not is_chosen and detail.startswith(WAITS):
            return f"no forward of a model was recorded: {detail.removeprefix(WAITS)}{children}"
        # With --model it may have called others.
        waits = f"; {detail}" if detail and is_chosen else ""
        return f"it called no model{' that was chosen' if is_chosen else ''}{waits}{children}"
    if (found := out_of_memory.uncaught(session)) is not None:
        alive = out_of_memory.alive_words(session, found)
        return f"{out_of_memory.what(session, found)}; {alive}{children}"
    if failure.stage == SCRIPT:
        return f"it called no model before it failed: {safe(failure.what)}{children}"
    return safe(failure.why or failure.what) + children
