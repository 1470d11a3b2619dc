"""Sources over others: a session that somebody else reads, and a source that is cut off."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable

from tui_profiler.messages import LoopState, Pause, Request, Resume, Tick
from tui_profiler.session import Jump, Session
from tui_profiler.source import Source, Told


class SharedSession:
    """Tells the newest session whenever there is one; requests go where the reader's go.

    Args:
        session: what is known at first.
        send: asks the probe.
    """

    def __init__(self, session: Session, send: Callable[[Request], None]) -> None:
        self._newest = session
        self._send = send
        self._has_news = asyncio.Event()
        self._has_news.set()
        self._holds = False

    def learn(self, session: Session) -> None:
        """Take what the reader knows by now."""
        self._newest = session
        self._has_news.set()

    async def messages(self) -> AsyncIterator[Jump]:
        """Yield whole sessions, without an end: of the last one ``ended`` is set."""
        while True:
            await self._has_news.wait()
            self._has_news.clear()
            yield Jump(self._newest)

    def send(self, request: Request) -> None:
        """Ask the probe for something."""
        self._holds = isinstance(request, Pause)
        self._send(request)

    async def close(self) -> None:
        """Let the model run on; the probe is the reader's to stop."""
        if self._holds:
            self.send(Resume())


class TimeLimited:
    """Yields the messages of another source, until so many seconds after the first figures.

    Args:
        source: is closed with this one.
        seconds: of figures.
        now: returns seconds since the command was started.
    """

    def __init__(self, source: Source, seconds: float, now: Callable[[], float]) -> None:
        self._source = source
        self.send = source.send
        self._seconds = seconds
        self._now = now

    async def messages(self) -> AsyncIterator[Told]:
        """Yield messages; the last one marks the loop as finished."""
        messages = self._source.messages()
        ends_at: float | None = None
        while True:
            left = None if ends_at is None else max(ends_at - time.monotonic(), 0.0)
            try:
                message = await asyncio.wait_for(anext(messages), left)
            except StopAsyncIteration:
                return
            except TimeoutError:
                yield LoopState("finished", self._now(), detail=f"{self._seconds:g} s")
                return
            if ends_at is None and isinstance(message, Tick) and message.forwards > 0:
                ends_at = time.monotonic() + self._seconds
            yield message

    async def close(self) -> None:
        """Close it."""
        await self._source.close()
