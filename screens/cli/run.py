"""``run``: a script of the user's, in the explorer or with a report at its end."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from pathlib import Path
from typing import Literal

import click
import msgspec
from msgspec import Struct

from tui_profiler.formatting.text import safe
from tui_profiler.messages import LoadSpec
from tui_profiler.messages.failure import SCRIPT
from tui_profiler.queries.panel.state import running_stage
from tui_profiler.queries.time.forward_kinds import children_words
from tui_profiler.reports.json.report import json_report
from tui_profiler.reports.text.table import table
from tui_profiler.session import EMPTY, Session, apply
from tui_profiler.source.programs import WithPrograms
from tui_profiler.source.script import Script

from ..options.model import BUDGET_HELP, Share, file_option
from ..settings.appearance_options import AppearanceOptions, look_options
from ..terminal.standard_output import columns, put_into, require_terminal, require_writable, say
from .options import models_and_files, stock_output


class RunOptions(Struct, frozen=True):
    """What was typed after ``run``."""

    is_module: bool
    layout: Literal["table", "json"] | None
    output: str
    budget: float
    model: str
    """Pattern of the model to show; empty: whichever model runs."""
    script: str
    arguments: tuple[str, ...]


@click.command(
    "run",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.option("-m", "is_module", is_flag=True, help="SCRIPT is a module, as in python -m.")
@click.option(
    "--format",
    "layout",
    type=click.Choice(["table", "json"]),
    help="Without the explorer: the script keeps the terminal, and a report follows.",
)
@file_option("--output", default="", help="Write the report to FILE.")
@click.option("--budget", type=Share(), default="2%", show_default=True, help=BUDGET_HELP)
@click.option(
    "--model",
    metavar="NAME",
    default="",
    help="Model to show: its class, CLASS#INDEX or variable, such as trainer.model (* and ? match);"
    " default: the outermost that runs.",
)
@look_options
@stock_output
@click.argument("script", shell_complete=models_and_files)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_obj
def run_verb(started_at: float, /, wish: AppearanceOptions, **typed: object) -> int:
    """Run SCRIPT unchanged with its ARGUMENTS, and profile the model that it calls.

    Its output is in the log (L), and tui-profiler exits with its exit code. With --format the
    script keeps the terminal, and a report is written when it ends: to FILE or standard error.
    """
    options = msgspec.convert(typed, RunOptions)
    if options.layout is None:
        require_terminal("add --format table")
    return _run(options, wish, started_at=started_at)


def _run(options: RunOptions, wish: AppearanceOptions, *, started_at: float) -> int:
    """Run a script to its end, and give its exit code.

    Raises:
        UsageError: there is no such script, or the report cannot be written.
    """
    _require_script(options)
    require_writable(options.output)
    named = ("-m", options.script) if options.is_module else (options.script,)
    script = Script(
        (*named, *options.arguments),
        started_at=started_at,
        budget=options.budget,
        model=options.model,
        owns_terminal=options.layout is not None,
    )
    if options.layout is None:
        return _explored(script, options, wish, started_at)
    try:
        session = asyncio.run(_followed(script))
    except BaseException:
        script.wait()  # An error here must not end the script.
        raise
    _report(session, options)
    return script.end()


def _explored(
    script: Script, options: RunOptions, wish: AppearanceOptions, started_at: float
) -> int:
    from ..app.explorer_app import run_explorer  # noqa: PLC0415 # after the script was started: both take a while

    observed: Literal["module", "script"] = "module" if options.is_module else "script"
    spec = LoadSpec(options.script, started_at=started_at, observed=observed)
    code = run_explorer(WithPrograms(script), lambda spec: script, spec, wish=wish, script=script)
    script.follow()
    _say_how_it_ended(script, options.script)
    return code or script.end()


def _say_how_it_ended(script: Script, name: str) -> None:
    """Print how a script ended, and the path of its log."""
    if failed := script.how_it_failed():
        say(name, failed)
    if script.log.path is not None:
        say(name, f"output kept in {safe(str(script.log.path))}")
    elif script.log.why_none:
        say(name, f"output not kept: {safe(script.log.why_none)}")


async def _followed(script: Script) -> Session:
    session = EMPTY
    async for message in script.messages():
        session = apply(session, message)
    return session


def _report(session: Session, options: RunOptions) -> None:
    if session.tree is None:
        say(options.script, f"no figures: {_why_none(session, is_chosen=bool(options.model))}")
        return
    if options.layout == "json":
        text = json_report(session) + "\n"
    else:
        text = "\n".join(table(session, columns=columns(options.output))) + "\n"
    if options.output:
        put_into(options.output, text.encode())
    else:
        sys.stderr.write(text)


def _why_none(session: Session, *, is_chosen: bool) -> str:
    children = "".join(f"; {words}" for words in children_words(session)[:1])
    failure = session.failure
    if failure is None:
        stage = running_stage(session)
        # With --model it may have called others.
        waits = f"; {safe(stage.detail)}" if stage is not None and is_chosen else ""
        return f"it called no model{' that was chosen' if is_chosen else ''}{waits}{children}"
    if failure.stage == SCRIPT:
        return f"it called no model before it failed: {safe(failure.what)}{children}"
    return safe(failure.why or failure.what) + children


def _require_script(options: RunOptions) -> None:
    if options.is_module:
        sys.path.insert(0, "")
        try:
            is_there = importlib.util.find_spec(options.script) is not None
        except (ImportError, ValueError):
            is_there = False
        finally:
            sys.path.pop(0)
        if not is_there:
            raise click.UsageError(f"There is no module called {safe(options.script)!r}.")
    elif not Path(options.script).exists():
        raise click.UsageError(f"There is no file {safe(options.script)!r}.")
    elif Path(options.script).is_dir() and not Path(options.script, "__main__.py").exists():
        raise click.UsageError(f"{safe(options.script)!r} is a folder without a __main__.py.")
