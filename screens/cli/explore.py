"""``explore``: a model in a worker and what it does on screen; the start screen without a model.

1. The worker is started before the app is imported: both take their time, and so they take it at
   the same time. Until the first frame, for which Textual must be imported, a line stands there.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import time
from collections.abc import Iterator

import click

from tui_profiler.formatting.text import fit, safe, width
from tui_profiler.messages import LoadSpec, Start
from tui_profiler.recording.kind import is_recording
from tui_profiler.session import EMPTY, Session, apply
from tui_profiler.source import Source
from tui_profiler.source.programs import WithPrograms
from tui_profiler.source.spawned import Spawned, worker_command

from ..options.model import Chosen, model_options
from ..settings.appearance_options import AppearanceOptions, look_options
from ..terminal.standard_output import require_terminal
from ..web.driver import is_served
from ..web.launch import to_browsers
from .options import (
    PROGRAM,
    RECORDING,
    models_and_files,
    refuse_options,
    require_known,
    stock_output,
)

RECALL_SECONDS = 0.05
"""What a first frame waits for the tree of last time: a large one comes after it."""


@click.command("explore")
@click.argument("model", default="", shell_complete=models_and_files)
@model_options
@look_options
@stock_output
@click.option(
    "--no-remembered",
    "remembers",
    default=True,
    flag_value=False,
    help="Do not read or write the cached tree.",
)
@click.option(
    "--web", is_flag=True, help="Open in a browser on this machine instead of the terminal."
)
@click.pass_obj
def explore_verb(
    started_at: float,
    /,
    model: str,
    chosen: Chosen,
    wish: AppearanceOptions,
    *,
    remembers: bool,
    web: bool,
) -> int:
    """Run MODEL and explore it on screen. The verb may be omitted.

    Without MODEL, the start screen lists what can be opened.
    """
    if is_recording(model):
        refuse_options(chosen, RECORDING)
    if web and not is_served():
        return to_browsers(model)
    if is_recording(model):
        return _play(model, wish)
    require_terminal()
    if not model:
        return _choose(chosen, wish=wish, remembers=remembers)
    require_known(model)
    spec = chosen.spec(model, started_at=started_at)
    return _run(spec, wish=wish, remembers=remembers)


def _run(spec: LoadSpec, *, wish: AppearanceOptions, remembers: bool) -> int:
    """Explore a model until it is left; gives the exit code.

    Args:
        spec: which, and how.
        wish: what was typed about the look.
        remembers: begin with the tree of last time, and keep this one.
    """
    gc.disable()  # Until the first frame (the explorer turns it on): a tenth of the time to it.

    def restart(spec: LoadSpec) -> Source:
        worker = WithPrograms(Spawned(worker_command(), first=[Start(spec)]))
        if not remembers:
            return worker
        from tui_profiler.source.remembered_tree import CachedTreeSource  # noqa: PLC0415 # rule 1

        return CachedTreeSource(worker, spec)

    with _said_at_once(f"{spec.model}: starting"):
        first = restart(spec)
        from ..app.explorer_app import run_explorer  # noqa: PLC0415 # rule 1

        begun = _begun(first)

    return run_explorer(first, restart, spec, wish=wish, begun=begun)


def _begun(first: Source) -> Session:
    """Return the session with what is remembered, if it was read while the app was imported."""
    from tui_profiler.source.remembered_tree import CachedTreeSource  # noqa: PLC0415 # rule 1

    found = first.known(RECALL_SECONDS) if isinstance(first, CachedTreeSource) else None
    return apply(EMPTY, found) if found is not None else EMPTY


def _choose(chosen: Chosen, *, wish: AppearanceOptions, remembers: bool) -> int:
    """Let something be chosen, and open it; gives the exit code.

    Args:
        chosen: the options for what was not opened before.
        wish: what was typed about the look.
        remembers: as for ``_run``.
    """
    from tui_profiler.queries.start_offers import as_asked_now  # noqa: PLC0415

    from ..settings.preferences import habits_of  # noqa: PLC0415
    from ..start.screen import choose  # noqa: PLC0415

    offer, code = choose(habits_of(wish))
    now = time.time()
    if offer is None:
        return code
    if offer.process is not None:
        from .attach import run_attached  # noqa: PLC0415

        refuse_options(chosen, PROGRAM)
        who = str(offer.process)
        return run_attached(who, remote_python="", wish=wish, started_at=now)
    if is_recording(offer.model):
        refuse_options(chosen, RECORDING)
        return _play(offer.model, wish)
    if offer.spec is not None:
        spec = as_asked_now(offer.spec, now)
    else:
        spec = chosen.spec(offer.model, started_at=now)
    return _run(spec, wish=wish, remembers=remembers)


def _play(file: str, wish: AppearanceOptions) -> int:
    from .open import play  # noqa: PLC0415 # most never need it

    return play(file, wish=wish)


@contextlib.contextmanager
def _said_at_once(text: str) -> Iterator[None]:
    """Show a text where the screens will be, and take it back.

    It stands on the normal screen, without a line end and without escape sequences: whoever is
    killed meanwhile leaves a terminal that needs no restoring.
    """
    terminal = sys.__stderr__
    if terminal is None or not terminal.isatty():  # A browser shows the screens.
        yield
        return
    line, cells = safe(text), os.get_terminal_size(terminal.fileno()).columns - 1
    line = fit(line, max(min(width(line), cells), 0))
    print(line, end="", file=terminal, flush=True)
    try:
        yield
    finally:
        print(f"\r{' ' * width(line)}\r", end="", file=terminal, flush=True)
