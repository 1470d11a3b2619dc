"""``compare``: two models loaded one after the other, and measured in turns.

1. One side runs at a time, the other is paused. Changes of the machine, such as its clock or other
   programs, affect both, and show in the spread between the turns.
2. The second worker starts when the first is paused, so that its calibration of the roofline is not
   disturbed.
3. A side that is a recording or a report is not started.
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
"""Called with the index of a side, 0 or 1, a message, and the session after it."""

TURN_SECONDS = 1.0
LEAST_TURN_SECONDS = 0.25
TURNS = 6
"""Per side, where the time is limited."""
MOST_TURNS_SECONDS = 60.0
"""Turns of a side without figures, however little was asked for: the first figures come after the
warm-up, and within the overhead budget of ticks."""


async def compare(
    begins: tuple[Begin | None, Begin | None],
    *,
    measuring: bool,
    seconds: float | None,
    heard: Heard,
) -> None:
    """Load the sides and, where asked for, measure them in turns.

    Args:
        begins: start the probe of a side, None for a recording or report; their requests run the
            model without a limit if ``measuring``, and do not run it otherwise.
        measuring: run the models.
        seconds: per side; None: until cancelled.
        heard: called with every message.
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
    """Return whether a side runs, or is complete."""
    state = session.loop.state if session.loop is not None else "starting"
    return is_complete(session, measuring=measuring) or (measuring and state == "running")


async def _measure(sides: list[_Side], seconds: float | None) -> None:
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
    """A worker that is measured in turns."""

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
        return self._state() == "running" and not self._has_failed()

    @property
    def is_held(self) -> bool:
        """Whether its model is paused for its turn."""
        return self._state() == "paused" and not self._has_failed()

    def has_enough(self, seconds: float | None) -> bool:
        """Return whether it ran for so long and has figures, or reached the limit."""
        if seconds is None or self._ran_seconds < seconds:
            return False
        has_figures = self._session.timings is not None
        return has_figures or self._ran_seconds >= MOST_TURNS_SECONDS

    async def until(self, is_so: Callable[[Session], bool]) -> None:
        """Wait for a state of its session, or the end of its messages."""
        while not is_so(self._session) and not self._reading.done():
            self._changed.clear()
            waiting = asyncio.ensure_future(self._changed.wait())
            await asyncio.wait({waiting, self._reading}, return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()

    async def hold(self) -> None:
        """Pause its model before the next forward."""
        self._source.send(Pause())
        await self.until(lambda session: not self.is_running)

    async def run_for(self, seconds: float) -> None:
        """Run its model for a while, and pause it again."""
        self._source.send(Resume())
        await self.until(lambda session: not self.is_held)
        began = time.monotonic()
        await asyncio.wait({self._reading}, timeout=seconds)
        await self.hold()
        self._ran_seconds += time.monotonic() - began

    async def close(self) -> None:
        """Stop its worker.

        Raises:
            WireError: its messages could not be decoded.
        """
        await self._source.close()
        self._reading.cancel()
        [found] = await asyncio.gather(self._reading, return_exceptions=True)
        if isinstance(found, Exception):
            raise found

    def _has_failed(self) -> bool:
        """Return whether it ended; its last state remains in the session."""
        return self._reading.done() or self._session.is_over

    def _state(self) -> str:
        loop = self._session.loop
        return loop.state if loop is not None else "starting"

    async def _read(self) -> None:
        async for message in self._source.messages():
            self._session = apply(self._session, message)
            self._heard(self._place, message, self._session)
            self._changed.set()
