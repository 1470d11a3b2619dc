"""``record``: fold the messages of a source, and write each one when it arrives."""

import asyncio
from collections.abc import AsyncIterator, Callable

from tui_profiler.messages import ReadValues
from tui_profiler.recording.writer import Writer
from tui_profiler.session import EMPTY, Jump, Remembered, Session
from tui_profiler.source import Source, Told
from tui_profiler.verbs.report import folded, is_complete, wants_values

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
        now: returns seconds since the command was started.
        progress: is given one line for each stage that is done.

    Returns:
        The session as it was left, and why the recording ended, in a few words.
    """
    session = EMPTY
    messages = RecordingSource(source, writer, now).messages()
    stopping = asyncio.create_task(stop.wait())
    try:
        while (message := await _next(messages, stopping)) is not None:
            session = folded(session, message, progress)
            if wants_values(message):
                source.send(ReadValues())
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
    if session.failure is not None and session.has_failed:
        return f"{session.failure.stage} failed"
    if session.ended is not None:
        return "the worker ended"
    return (session.loop.detail if session.loop is not None else "") or "finished"


class RecordingSource:
    """Says what a source says, and writes it to a file.

    Args:
        source: is closed with this one.
        writer: stays open: whoever made it closes it.
        now: returns seconds since the command was started.
    """

    def __init__(self, source: Source, writer: Writer, now: Callable[[], float]) -> None:
        self._source = source
        self._writer = writer
        self._now = now
        self.send = source.send

    async def messages(self) -> AsyncIterator[Told]:
        """Yield the messages."""
        async for message in self._source.messages():
            if not isinstance(message, Jump | Remembered):  # No probe sends these.
                self._writer.put(message, self._now())
            yield message

    async def close(self) -> None:
        """Close the source."""
        await self._source.close()
