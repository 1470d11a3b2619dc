"""``models``: the names of models."""

import asyncio

import click

from tui_profiler.formatting.text import safe
from tui_profiler.messages import ListModels
from tui_profiler.source.spawned import worker
from tui_profiler.verbs.one_request import models
from tui_profiler.verbs.outcome import complaint, exit_code

from ..terminal.standard_output import put, say


@click.command("models")
@click.argument("pattern", default="")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def models_verb(pattern: str, debug: bool) -> int:
    """List models that have a name: all, or those that match PATTERN (part of a name or a glob)."""
    session = asyncio.run(models(worker(ListModels(pattern))))
    say("models", *complaint(session, debug=debug))
    if session.listed is None:
        return exit_code(session) or 1
    put("".join(f"{safe(name)}\n" for _, name in session.listed.names))
    if not session.listed.names:
        none = f'no model has "{safe(pattern)}" in its name'
        say("models", none, "try tui-profiler models: lists all of them")
        return 1
    return 0
