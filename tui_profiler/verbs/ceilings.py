"""``ceilings``: what this machine can do at most, as it is kept or measured anew."""

from __future__ import annotations

from collections.abc import Callable

from tui_profiler.session import EMPTY, Session, apply
from tui_profiler.source import Source
from tui_profiler.verbs.report import progress_line


async def ceilings(source: Source, progress: Callable[[str], None]) -> Session:
    """Fold what a source says until the roofs have come, or the reason why there are none.

    Args:
        source: a probe that was asked for them; it is closed before this returns or raises.
        progress: is given one line for each stage that is done.
    """
    session = EMPTY
    try:
        async for message in source.messages():
            session = apply(session, message)
            if line := progress_line(message):
                progress(line)
            if session.ceilings is not None or session.failure is not None:
                break
    finally:
        await source.close()
    return session
