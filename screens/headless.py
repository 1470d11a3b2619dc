"""The headless verbs, put together: worker, verb, report, output. Nothing here draws."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import click
from msgspec import Struct
from msgspec.structs import replace

from tui_profiler.messages import ListModels, Start
from tui_profiler.reports.json_report import json_report
from tui_profiler.reports.table import table
from tui_profiler.session import Session
from tui_profiler.source.spawned import Spawned, worker_command
from tui_profiler.text import safe
from tui_profiler.verbs.models import models
from tui_profiler.verbs.outcome import complaint, exit_code
from tui_profiler.verbs.report import report

from .options import Chosen

PIPE_COLUMNS = 100


class ReportOptions(Struct, frozen=True):
    """What was typed after ``report``, the options of the model apart."""

    names: tuple[str, ...]
    layout: Literal["table", "json"]
    output: str
    measure: float | None
    top: int | None


def run_report(options: ReportOptions, chosen: Chosen, *, started_at: float) -> int:
    """Report every model in turn and give the worst of their exit codes.

    Raises:
        UsageError: the file to write cannot be written.
    """
    _require_writable(options.output)
    worst = 0
    kept: list[str] = []
    for name in options.names:
        session = asyncio.run(_one(name, options, chosen, started_at))
        started_at = time.time()
        for line in complaint(session, debug=chosen.debug):
            _say(name, line)
        worst = max(worst, exit_code(session))
        if session.tree is None:
            continue
        text = _written(session, options, is_first=not kept)
        kept.append(text)
        if not options.output:
            _put(text)
    if options.output and kept:
        Path(options.output).write_text("".join(kept), encoding="utf-8")
    return worst


async def _one(name: str, options: ReportOptions, chosen: Chosen, started_at: float) -> Session:
    measuring = options.measure is not None
    wanted = chosen if measuring else replace(chosen, run=False)
    spec = wanted.spec(name, started_at=started_at, seconds=options.measure)
    source = Spawned(worker_command(), first=[Start(spec)])
    return await report(source, measuring=measuring, progress=_speaker(name))


def _written(session: Session, options: ReportOptions, *, is_first: bool) -> str:
    if options.layout == "json":
        return json_report(session, top=options.top) + "\n"
    to_terminal = not options.output and sys.stdout.isatty()
    columns = shutil.get_terminal_size((PIPE_COLUMNS, 24)).columns if to_terminal else PIPE_COLUMNS
    lines = table(session, columns=columns, top=options.top)
    return ("" if is_first else "\n") + "\n".join(lines) + "\n"


def run_models(request: ListModels, *, debug: bool) -> int:
    """Print the names that a worker gives, one a line; exit code 1 where there are none."""
    session = asyncio.run(models(Spawned(worker_command(), first=[request])))
    for line in complaint(session, debug=debug):
        _say("models", line)
    if session.listed is None:
        return exit_code(session) or 1
    _put("".join(f"{safe(name)}\n" for _, name in session.listed.names))
    if not session.listed.names:
        _say("models", f'no model has "{safe(request.pattern)}" in its name')
        return 1
    return 0


def _require_writable(output: str) -> None:
    if not output:
        return
    path = Path(output)
    allowed = os.access(path if path.exists() else path.parent, os.W_OK)
    if path.is_dir() or not allowed:
        raise click.UsageError(f"--output {safe(output)} cannot be written.")


def _put(text: str) -> None:
    """Write to stdout.

    Raises:
        Exit: its reader went away, as ``head`` does: nothing more is wanted, and that is no error.
    """
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes once more at its end, and would complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise click.exceptions.Exit(0) from None


def _speaker(name: str) -> Callable[[str], None]:
    return lambda line: _say(name, line)


def _say(name: str, line: str) -> None:
    click.echo(f"{safe(name)}: {line}", err=True)
