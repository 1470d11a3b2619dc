"""A source with the metrics of an inference server, which the viewer reads.

Nothing of it runs in the program, and no message of the program waits for the server.
"""

import asyncio
import time
from collections.abc import AsyncIterator

from msgspec.structs import replace

from tui_profiler.messages import ServingSeen
from tui_profiler.serving.address import Address
from tui_profiler.serving.fetch import Fetcher, FetchError
from tui_profiler.serving.scrape import Scrape, ScrapeError, scrape
from tui_profiler.serving.window import Window
from tui_profiler.session import Jump
from tui_profiler.source import Source, Told

EVERY_SECONDS = 2.0
"""Between the end of one scrape and the next."""
NOT_READ = "not read yet"


def with_serving(source: Source, where: Address | None, seconds: float = EVERY_SECONDS) -> Source:
    """Return the source with a server beside it, where the address of one was given."""
    return source if where is None else WithServing(source, where, seconds)


class WithServing:
    """A source with the metrics of a server, read every 2 s.

    Args:
        source: is closed with this one.
        where: of the metrics.
        seconds: between two scrapes.
    """

    def __init__(self, source: Source, where: Address, seconds: float = EVERY_SECONDS) -> None:
        self._source = source
        self.send = source.send
        self._where = where
        self._seconds = seconds
        self._fetcher = Fetcher(where)
        self._window = Window()
        self._last: ServingSeen | None = None

    async def messages(self) -> AsyncIterator[Told]:
        """Yield both, until the other source ends."""
        self._last = ServingSeen(self._where.typed, None, NOT_READ)
        yield self._last
        messages = self._source.messages()
        told = asyncio.ensure_future(anext(messages))
        seen = asyncio.ensure_future(self._look(after=0.0))
        try:
            while True:
                await asyncio.wait({told, seen}, return_when=asyncio.FIRST_COMPLETED)
                if told.done():
                    try:
                        message = told.result()
                    except StopAsyncIteration:
                        return
                    yield self._with_last(message)
                    told = asyncio.ensure_future(anext(messages))
                if seen.done():
                    self._last = seen.result()
                    yield self._last
                    seen = asyncio.ensure_future(self._look(after=self._seconds))
        finally:
            told.cancel()
            seen.cancel()

    def _with_last(self, message: Told) -> Told:
        """Return the message; a whole session gets the last scrape of the server."""
        if isinstance(message, Jump) and self._last is not None:
            return Jump(replace(message.session, serving=self._last))
        return message

    async def _look(self, after: float) -> ServingSeen:
        await asyncio.sleep(after)
        try:
            at, read = await self._fetcher.fetch(_scraped)
        except (FetchError, ScrapeError) as error:
            return ServingSeen(self._where.typed, None, str(error))
        return ServingSeen(self._where.typed, self._window.figures(at, read), "")

    async def close(self) -> None:
        """Close it."""
        await self._source.close()


def _scraped(text: str) -> tuple[float, Scrape]:
    """Return when a response came, in seconds, and what is in it."""
    at = time.monotonic()
    return at, scrape(text)
