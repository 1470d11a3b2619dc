"""``models``: name the models that can be asked for."""

from __future__ import annotations

from tui_profiler.session import EMPTY, Session, apply
from tui_profiler.source import Source


async def models(source: Source) -> Session:
    """Fold what a source says until the names have come; they are in ``listed``.

    Args:
        source: a probe that was asked to list; it is closed before this returns or raises.
    """
    session = EMPTY
    try:
        async for message in source.messages():
            session = apply(session, message)
            if session.listed is not None or session.failure is not None:
                break
    finally:
        await source.close()
    return session
