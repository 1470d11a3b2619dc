"""``record``: fold what a source says, and have every message written as it comes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from tui_profiler.recording.writer import Writer
from tui_profiler.session import EMPTY, Jump, Remembered, Session, apply
from tui_profiler.source import Source, Told
from tui_profiler.verbs.report import is_complete, progress_line, trusted_line

STOPPED = "stopped"


async def record(
    source: Source,
    writer: Writer,
    stop: asyncio.Event,
    *,
    now: Callable[[], float],
    progress: Callable[[str], None],
) -> tuple[Session, str]:
    """Record until the model has run for as long as was asked, fails, or is stopped.

    Args:
        source: a probe that was told to start; it is closed before this returns or raises.
        writer: is given every message as it comes; when it fails the recording ends. It stays open.
        stop: ends the recording when it is set.
        now: gives seconds since the command was started.
        progress: is given one line for each stage that is done.

    Returns:
        The session as it was left, and why the recording ended, in a few words.
    """
    session = EMPTY
    messages = source.messages()
    stopping = asyncio.create_task(stop.wait())
    try:
        while (message := await _next(messages, stopping)) is not None:
            if not isinstance(message, Jump | Remembered):  # No probe says these.
                writer.put(message, now())
            lines = [trusted_line(session, message), progress_line(message)]
            session = apply(session, message)
            for line in filter(None, lines):
                progress(line)
            if writer.failure:
                return session, writer.failure
            if is_complete(session, measuring=True):
                return session, _why(session)
        return session, STOPPED
    finally:
        stopping.cancel()
        await source.close()


async def _next(messages: AsyncIterator[Told], stopping: asyncio.Task[bool]) -> Told | None:
    """Return the next message; None when it is stopped before one comes, or none comes any more."""
    heard = asyncio.ensure_future(anext(messages, None))
    try:
        await asyncio.wait({heard, stopping}, return_when=asyncio.FIRST_COMPLETED)
        return heard.result() if heard.done() else None
    finally:
        if not heard.done():
            heard.cancel()
            await asyncio.gather(heard, return_exceptions=True)


def _why(session: Session) -> str:
    if session.failure is not None and session.failure.fatal:
        return f"{session.failure.stage} failed"
    if session.ended is not None:
        return "the worker ended"
    return (session.loop.detail if session.loop is not None else "") or "finished"
