"""``explore``: a model in a worker and what it does on screen; the start screen without a model.

1. First a frame is drawn; then the worker is started; then the app is imported, while the worker
   starts. What each step needs is imported in it.
"""

import contextlib
import gc
import sys
import time
from collections.abc import Iterator

import click

from tui_profiler.formatting.text import fit, safe, width
from tui_profiler.messages import LoadSpec, Start
from tui_profiler.recording.kind import is_recording
from tui_profiler.session import EMPTY, apply
from tui_profiler.source import Source

from ..app.first_frame import first_frame
from ..options import verbs as options
from ..options.model import Chosen, model_options
from ..settings.appearance import AppearanceOptions, look_options
from ..settings.preferences import read_preferences
from ..terminal.early_frame import EarlyFrame, terminal_size
from ..terminal.standard_output import require_terminal, say
from ..web.driver import is_served
from ..web.launch import to_browsers

RECALL_SECONDS = 0.05
"""What a first frame waits for the cached tree: a large one comes after it."""
MOST_RECALL_SECONDS = 5.0
"""The same where that tree is on screen already."""


@click.command("explore")
@options.model_or_none
@model_options
@look_options
@options.stock_output
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
    appearance: AppearanceOptions,
    *,
    remembers: bool,
    web: bool,
) -> int:
    """Run MODEL and explore it on screen. The verb may be omitted.

    Without MODEL, the start screen lists what can be opened.
    """
    if is_recording(model):
        options.refuse_options(chosen, options.RECORDING)
    if web and not is_served():
        options.require_known(model)  # Else the page would end before it says why.
        return to_browsers(model)
    if is_recording(model):
        return _play(model, appearance)
    require_terminal()
    if not model:
        return _choose(chosen, appearance=appearance, remembers=remembers)
    options.require_known(model)
    spec = chosen.spec(model, started_at=started_at)
    return _run(spec, appearance=appearance, remembers=remembers)


def _run(spec: LoadSpec, *, appearance: AppearanceOptions, remembers: bool) -> int:
    """Explore a model until it is left; return the exit code."""
    gc.disable()  # Until the first frame (the explorer turns it on): a tenth of the time to it.
    preferences = read_preferences(appearance, spec.model)
    now = time.time() - spec.started_at
    frame = first_frame(spec, preferences, now=now, remembers=remembers)
    with contextlib.ExitStack() as before:
        if frame is None:
            early = None
            before.enter_context(_said_at_once(f"{spec.model}: starting"))
        else:
            early = before.enter_context(EarlyFrame(frame.cells))
        from tui_profiler.source.cached_tree import CachedTreeSource  # noqa: PLC0415
        from tui_profiler.source.other_programs import WithPrograms  # noqa: PLC0415 # rule 1
        from tui_profiler.source.spawned import worker  # noqa: PLC0415

        def restart(spec: LoadSpec) -> Source:
            source = WithPrograms(worker(Start(spec)))
            return CachedTreeSource(source, spec) if remembers else source

        first, begun = restart(spec), EMPTY
        from ..app.explorer_app import run_explorer  # noqa: PLC0415 # the worker starts meanwhile

        if isinstance(first, CachedTreeSource):
            is_shown = frame is not None and frame.has_tree
            found = first.known(MOST_RECALL_SECONDS if is_shown else RECALL_SECONDS)
            begun = apply(EMPTY, found) if found is not None else EMPTY
        if early is None:
            before.close()
        code = run_explorer(
            *(first, restart, spec), appearance=appearance, begun=begun, early=early
        )
    if code == 0 and remembers and frame is not None:
        _paint(spec, appearance, {frame.size, terminal_size()})
    return code


def _paint(spec: LoadSpec, appearance: AppearanceOptions, sizes: set[tuple[int, int]]) -> None:
    """Keep the frame with which the next start begins."""
    from ..app.cached_frame import paint_for_next_time  # noqa: PLC0415 # rule 1

    try:
        paint_for_next_time(spec, read_preferences(appearance, spec.model), sizes)
    except Exception as error:
        say(spec.model, f"its first frame is not cached: {safe(str(error) or repr(error))}")


def _choose(chosen: Chosen, *, appearance: AppearanceOptions, remembers: bool) -> int:
    """Let something be chosen, and open it; return the exit code.

    Args:
        chosen: the options for what was not opened before.
        appearance: theme and glyphs as typed.
        remembers: whether the cached tree is read and written.
    """
    from tui_profiler.queries.start_offers import as_asked_now  # noqa: PLC0415 # rule 1

    from ..start.screen import choose  # noqa: PLC0415

    offer, code = choose(read_preferences(appearance))
    now = time.time()
    if offer is None:
        return code
    if offer.process is not None:
        from .attach import run_attached  # noqa: PLC0415

        options.refuse_options(chosen, options.PROGRAM)
        who = str(offer.process)
        return run_attached(who, remote_python="", appearance=appearance, started_at=now)
    if is_recording(offer.model):
        options.refuse_options(chosen, options.RECORDING)
        return _play(offer.model, appearance)
    if offer.spec is not None:
        spec = as_asked_now(offer.spec, now)
    else:
        spec = chosen.spec(offer.model, started_at=now)
    return _run(spec, appearance=appearance, remembers=remembers)


def _play(file: str, appearance: AppearanceOptions) -> int:
    from .open import play  # noqa: PLC0415 # most never need it

    return play(file, appearance=appearance)


@contextlib.contextmanager
def _said_at_once(text: str) -> Iterator[None]:
    """Show a text where no frame can be drawn, and take it back.

    It stands on the normal screen, without a line end and without escape sequences: whoever is
    killed meanwhile leaves a terminal that needs no restoring.
    """
    if is_served():
        yield
        return
    line = safe(text)
    line = fit(line, min(width(line), terminal_size()[0] - 1))
    print(line, end="", file=sys.__stderr__, flush=True)
    try:
        yield
    finally:
        print(f"\r{' ' * width(line)}\r", end="", file=sys.__stderr__, flush=True)
