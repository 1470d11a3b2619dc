"""A session that somebody else reads, as a source: so that its model takes turns with another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from tui_profiler.messages import Pause, Request, Resume
from tui_profiler.session import Jump, Session


class Lent:
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
        """Give the model back running; the probe is the reader's to stop."""
        if self._holds:
            self.send(Resume())
