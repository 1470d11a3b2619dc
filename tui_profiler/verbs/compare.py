"""``compare``: two models loaded one after the other, and measured in turns.

1. One side runs at a time; the other one is held. What changes on the machine meanwhile, such as
   its clock or another program, falls on both, and the spread between the turns shows it.
2. The second worker is started when the first is held: what it measures of the machine once, its
   ceilings, is not disturbed.
3. A side that was known before (a recording, a report) is not started.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TypeAlias

from tui_profiler.messages import Pause, Resume
from tui_profiler.session import EMPTY, Session, apply
from tui_profiler.source import Source, Told
from tui_profiler.verbs.report import is_complete

Begin: TypeAlias = Callable[[], Source]
Heard: TypeAlias = Callable[[int, Told, Session], None]
"""Is given the place of a side, 0 or 1, a message, and the session after it."""

TURN_SECONDS = 1.0
LEAST_TURN_SECONDS = 0.25
TURNS = 6
"""Of each side, where it is known how long both are measured."""
MOST_TURNS_SECONDS = 60.0
"""A side without a figure has turns until so long, however little was asked for: the first figures
wait for the warm-up, and for what ticks may cost."""


async def compare(
    begins: tuple[Begin | None, Begin | None],
    *,
    measuring: bool,
    seconds: float | None,
    heard: Heard,
) -> None:
    """Load the sides and, where asked for, measure them in turns.

    Args:
        begins: start the probe of a side, None where it is known; they were told to run the model
            until they are asked to stop if ``measuring``, and not to run it otherwise.
        measuring: let the models run.
        seconds: for how long each; None: until this is cancelled.
        heard: is told everything.
    """
    sides: list[_Side] = []
    try:
        for place, begin in enumerate(begins):
            if begin is None:
                continue
            side = _Side(begin(), place, heard)
            sides.append(side)
            await side.until(lambda session: _is_ready(session, measuring=measuring))
            if measuring and side.is_running:
                await side.hold()
        if measuring:
            await _measure([side for side in sides if side.is_held], seconds)
    finally:
        await asyncio.gather(*(side.close() for side in sides))


def _is_ready(session: Session, *, measuring: bool) -> bool:
    """Tell whether a side runs, or will say nothing more."""
    state = session.loop.state if session.loop is not None else "starting"
    return is_complete(session, measuring=measuring) or (measuring and state == "running")


async def _measure(sides: list[_Side], seconds: float | None) -> None:
    """Let the sides run in turns."""
    if seconds is None:
        turn = TURN_SECONDS
    else:
        turn = max(min(seconds / TURNS, TURN_SECONDS), min(LEAST_TURN_SECONDS, seconds))
    while sides:
        for side in list(sides):
            await side.run_for(turn)
            if not side.is_held or side.has_enough(seconds):
                sides.remove(side)


class _Side:
    """One side while its worker lives."""

    def __init__(self, source: Source, place: int, heard: Heard) -> None:
        self._source = source
        self._place = place
        self._heard = heard
        self._session = EMPTY
        self._changed = asyncio.Event()
        self._ran_seconds = 0.0
        self._reading = asyncio.create_task(self._read())

    @property
    def is_running(self) -> bool:
        """Whether its model runs."""
        return self._state() == "running" and not self._has_failed()

    @property
    def is_held(self) -> bool:
        """Whether its model waits for its turn."""
        return self._state() == "paused" and not self._has_failed()

    def has_enough(self, seconds: float | None) -> bool:
        """Tell whether it has run for so long, and has figures; or for as long as it may."""
        if seconds is None or self._ran_seconds < seconds:
            return False
        has_figures = self._session.timings is not None
        return has_figures or self._ran_seconds >= MOST_TURNS_SECONDS

    async def until(self, is_so: Callable[[Session], bool]) -> None:
        """Wait until its session is so, or nothing more is said."""
        while not is_so(self._session) and not self._reading.done():
            self._changed.clear()
            waiting = asyncio.ensure_future(self._changed.wait())
            await asyncio.wait({waiting, self._reading}, return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()

    async def hold(self) -> None:
        """Hold its model before the next forward."""
        self._source.send(Pause())
        await self.until(lambda session: not self.is_running)

    async def run_for(self, seconds: float) -> None:
        """Let its model run for a while, and hold it again."""
        self._source.send(Resume())
        await self.until(lambda session: not self.is_held)
        began = time.monotonic()
        await asyncio.wait({self._reading}, timeout=seconds)
        await self.hold()
        self._ran_seconds += time.monotonic() - began

    async def close(self) -> None:
        """Stop its worker.

        Raises:
            WireError: what it said could not be read.
        """
        await self._source.close()
        self._reading.cancel()
        [found] = await asyncio.gather(self._reading, return_exceptions=True)
        if isinstance(found, Exception):
            raise found

    def _has_failed(self) -> bool:
        """Tell whether it runs no more; the state before that stands as it was."""
        failure, ended = self._session.failure, self._session.ended
        return self._reading.done() or ended is not None or (failure is not None and failure.fatal)

    def _state(self) -> str:
        loop = self._session.loop
        return loop.state if loop is not None else "starting"

    async def _read(self) -> None:
        async for message in self._source.messages():
            self._session = apply(self._session, message)
            self._heard(self._place, message, self._session)
            self._changed.set()
