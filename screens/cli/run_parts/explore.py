"""``explore``, put together: a worker, what is remembered of last time, the app; the start screen.

1. The worker is started before the app is imported: both take their time, and so they take it at
   the same time.
"""

from __future__ import annotations

import gc
import time

from tui_profiler.messages import LoadSpec, Start
from tui_profiler.recording.kind import is_recording
from tui_profiler.session import EMPTY, Session, apply
from tui_profiler.source import Source
from tui_profiler.source.spawned import Spawned, worker_command

from ...options.model import Chosen
from ...options.refusals import PROGRAM, RECORDING, refuse_options
from ...settings.appearance_options import NO_WISH, Wish
from ...terminal.first_line import said_at_once

RECALL_SECONDS = 0.05
"""What a first frame waits for the tree of last time: a large one comes after it."""


def run_model(spec: LoadSpec, *, wish: Wish = NO_WISH, remembers: bool = True) -> int:
    """Explore a model until it is left; gives the exit code.

    Args:
        spec: which, and how.
        wish: what was typed about the look.
        remembers: begin with the tree of last time, and keep this one.
    """
    gc.disable()  # Until the first frame (the explorer turns it on): a tenth of the time to it.

    def restart(spec: LoadSpec) -> Source:
        worker = Spawned(worker_command(), first=[Start(spec)])
        if not remembers:
            return worker
        from tui_profiler.source.remembered_tree import Remembering  # noqa: PLC0415 # rule 1

        return Remembering(worker, spec)

    with said_at_once(f"{spec.model}: starting"):
        first = restart(spec)
        from ...app.explorer_app import run_explorer  # noqa: PLC0415 # rule 1

        begun = _begun(first)

    return run_explorer(first, restart, spec, wish=wish, begun=begun)


def _begun(first: Source) -> Session:
    """Give the session with what is remembered, if it was read while the app was imported."""
    from tui_profiler.source.remembered_tree import Remembering  # noqa: PLC0415 # rule 1

    found = first.known(RECALL_SECONDS) if isinstance(first, Remembering) else None
    return apply(EMPTY, found) if found is not None else EMPTY


def run_start(chosen: Chosen, *, wish: Wish = NO_WISH, remembers: bool = True) -> int:
    """Let something be chosen, and open it; gives the exit code.

    Args:
        chosen: the options for what was not opened before.
        wish: what was typed about the look.
        remembers: as for ``run_model``.
    """
    from tui_profiler.queries.start_offers import as_asked_now  # noqa: PLC0415

    from ...settings.preferences import habits_of  # noqa: PLC0415
    from ...start.screen import choose  # noqa: PLC0415

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
        from .open import run_recording  # noqa: PLC0415

        refuse_options(chosen, RECORDING)
        return run_recording(offer.model, speed=1.0, at=None, wish=wish)
    if offer.spec is not None:
        spec = as_asked_now(offer.spec, now)
    else:
        spec = chosen.spec(offer.model, started_at=now)
    return run_model(spec, wish=wish, remembers=remembers)
