"""``run``, put together: a script of the user's, in the explorer or with a report at its end."""

from __future__ import annotations

import asyncio
import importlib.util
import signal
import sys
from pathlib import Path
from typing import Literal

import click
from msgspec import Struct

from tui_profiler.messages import LoadSpec
from tui_profiler.reports.json_report import json_report
from tui_profiler.reports.table import table
from tui_profiler.session import EMPTY, Session, apply
from tui_profiler.source.script import Script
from tui_profiler.text import safe

from .look_options import Wish
from .output import columns, put_into, require_writable, say


class RunOptions(Struct, frozen=True):
    """What was typed after ``run``."""

    is_module: bool
    layout: Literal["table", "json"] | None
    output: str
    budget: float
    script: str
    arguments: tuple[str, ...]


def run_script(options: RunOptions, wish: Wish, *, started_at: float) -> int:
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
        owns_terminal=options.layout is not None,
    )
    if options.layout is None:
        return _explored(script, options, wish, started_at)
    # The terminal is the script's, and so is what ends it: it may save what it has done so far.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    session = asyncio.run(_followed(script))
    _report(session, options)
    return script.exit_code


def _explored(script: Script, options: RunOptions, wish: Wish, started_at: float) -> int:
    from .app import run_explorer  # noqa: PLC0415 # after the script was started: both take a while

    spec = LoadSpec(options.script, started_at=started_at)
    code = run_explorer(script, lambda spec: script, spec, wish=wish, script=script)
    return script.follow() if script.is_let_go else code or script.exit_code


async def _followed(script: Script) -> Session:
    session = EMPTY
    async for message in script.messages():
        session = apply(session, message)
    return session


def _report(session: Session, options: RunOptions) -> None:
    if session.tree is None:
        why = session.failure.why if session.failure is not None else "it called no model"
        say(options.script, f"no figures: {safe(why)}")
        return
    if options.layout == "json":
        text = json_report(session) + "\n"
    else:
        text = "\n".join(table(session, columns=columns(options.output))) + "\n"
    if options.output:
        put_into(options.output, text.encode())
    else:
        sys.stderr.write(text)


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
