"""A source that never ends by itself, cut off some time after its first figures."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable

from tui_profiler.messages import LoopState, Request, Tick
from tui_profiler.source import Source, Told


class Timed:
    """Says what another source says, until so many seconds after the first figures.

    Args:
        source: is closed with this one.
        seconds: of figures.
        now: gives seconds since the command was started.
    """

    def __init__(self, source: Source, seconds: float, now: Callable[[], float]) -> None:
        self._source = source
        self._seconds = seconds
        self._now = now

    async def messages(self) -> AsyncIterator[Told]:
        """Yield messages; the last one says that it is finished."""
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

    def send(self, request: Request) -> None:
        """Ask the other source."""
        self._source.send(request)

    async def close(self) -> None:
        """Close it."""
        await self._source.close()
