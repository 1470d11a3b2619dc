"""A source that yields a session that a test made up."""

import asyncio
from collections.abc import AsyncIterator, Iterable

from tui_profiler.messages import Message, Request


class Recorded:
    """Yields what it was given, then waits until it is closed."""

    def __init__(self, messages: Iterable[Message], *, ends: bool = False) -> None:
        self._messages = list(messages)
        self.left = len(self._messages)
        """How many were not yielded yet."""
        self._ends = ends
        self._closed = asyncio.Event()
        self.requests: list[Request] = []
        """What was asked of it; nothing is carried out."""

    async def messages(self) -> AsyncIterator[Message]:
        """Yield every message, one a turn of the loop."""
        for message in self._messages:
            yield message
            self.left -= 1
            await asyncio.sleep(0)
        if not self._ends:
            await self._closed.wait()

    def send(self, request: Request) -> None:
        """Keep the request."""
        self.requests.append(request)

    async def close(self) -> None:
        """Let ``messages`` end."""
        self._closed.set()
