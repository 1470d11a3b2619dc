"""Messages that were kept: a recording that is played, or a session that a test made up."""

from __future__ import annotations

import asyncio
import math
import time
from bisect import bisect_right
from collections.abc import AsyncIterator, Callable, Iterable

from tui_profiler.messages import (
    Halt,
    Message,
    Play,
    Playback,
    Request,
    Seek,
    SetSpeed,
    Skipped,
    Tick,
)
from tui_profiler.recording.frames import Kind
from tui_profiler.recording.reader import Recording
from tui_profiler.session import Jump, apply
from tui_profiler.source.recording_seek import Past

SLOWEST, FASTEST = 1 / 64, 1024.0
MOST_SKIPPED_PLACES = 1000
_MOST_AT_ONCE = 256
"""Frames that are due at once and told one by one; more are passed over by a jump."""
_MOST_TICKS_LOOKED_AT = 200


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


class Player:
    """Plays a recording: tells its messages when they came, at any speed, from any place.

    It begins at the first figures; where there are none, at its end.
    """

    def __init__(
        self,
        recording: Recording,
        *,
        speed: float = 1.0,
        at: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._recording = recording
        self._past = Past(recording)
        self._times = [entry.at for entry in recording.entries]
        self._clock = clock
        self._speed = _within(speed)
        self._is_playing = True
        self._from = self._inside(_first_figures(recording) if at is None else at)
        self._since = clock()
        self._next = 0
        self._lost = 0
        self._is_sought = True
        self._is_told = False
        self._changed = asyncio.Event()
        self._is_closed = False

    def now(self) -> float:
        """Give where it stands, in seconds since the command that recorded it was started."""
        if not self._is_playing:
            return self._from
        passed = (self._clock() - self._since) * self._speed
        return self._inside(self._from + passed)

    async def messages(self) -> AsyncIterator[Message | Jump]:
        """Yield the session where it stands, then what follows when it is due; never ends alone."""
        while not self._is_closed:
            self._changed.clear()
            if self._is_sought:
                self._is_sought, self._is_told = False, True
                yield self._jump(bisect_right(self._times, self.now()))
            for item in self._due():
                yield item
                await asyncio.sleep(0)
            if self._is_playing and self.now() >= self._recording.ends:
                self._stand(self._recording.ends, is_playing=False)
            if not self._is_told:
                self._is_told = True
                yield self._playback()
            await self._wait()

    def send(self, request: Request) -> None:
        """Play, halt, or go to another place; nothing else can be asked of a recording."""
        match request:
            case Play():
                start = self.now()
                if start >= self._recording.ends:
                    start, self._is_sought = self._first(), True
                self._stand(start, is_playing=True)
            case SetSpeed(speed=speed):
                start, self._speed = self.now(), _within(speed)
                self._stand(start, is_playing=self._is_playing)
            case Halt():
                self._stand(self.now(), is_playing=False)
            case Seek(at=at):
                self._is_sought = True
                self._stand(self._inside(at), is_playing=self._is_playing)
            case _:
                return

    def wake(self) -> None:
        """Look at the clock now: it may have been set."""
        self._changed.set()

    async def close(self) -> None:
        """End ``messages`` and let go of the file."""
        self._is_closed = True
        self.wake()
        self._recording.close()

    def _first(self) -> float:
        """Give where to play from again: the first figures, or the beginning where it has none."""
        first = _first_figures(self._recording)
        return first if first < self._recording.ends else self._recording.begins

    def _stand(self, at: float, *, is_playing: bool) -> None:
        self._from, self._since, self._is_playing = at, self._clock(), is_playing
        self._is_told = False
        self._changed.set()

    def _due(self) -> Iterable[Message | Jump]:
        """Yield what is due by now, in order."""
        while not self._is_sought and not self._is_closed:
            stop = bisect_right(self._times, self.now())
            if stop <= self._next:
                return
            if stop - self._next > _MOST_AT_ONCE:
                yield self._jump(stop)
                return
            position = self._next
            message = self._past.message(position, self._past.lost(position + 1))
            if self._past.lost(position + 1) != self._lost:
                yield self._jump(position + 1)
                continue
            self._next += 1
            if message is not None:
                yield message

    def _jump(self, stop: int) -> Jump:
        self._next = stop
        session = self._past.session(stop)
        self._lost = self._past.lost(stop)
        return Jump(apply(session, self._playback()))

    def _playback(self) -> Playback:
        return playback_of(self._recording, speed=self._speed, is_playing=self._is_playing)

    def _inside(self, at: float) -> float:
        if math.isnan(at):
            return self._recording.begins
        return min(max(at, self._recording.begins), self._recording.ends)

    async def _wait(self) -> None:
        """Wait until the next frame is due, or until something is asked."""
        if self._is_closed or self._is_sought:
            return
        timeout = None
        if self._is_playing:
            is_last = self._next >= len(self._times)
            until = self._recording.ends if is_last else self._times[self._next]
            timeout = max((until - self.now()) / self._speed, 0.0)
        try:
            await asyncio.wait_for(self._changed.wait(), timeout)
        except TimeoutError:
            return


def _within(speed: float) -> float:
    return min(max(speed, SLOWEST), FASTEST) if math.isfinite(speed) else 1.0


def _first_figures(recording: Recording) -> float:
    ticks = [i for i, entry in enumerate(recording.entries) if entry.frame.kind == Kind.TICK]
    for position in ticks[:_MOST_TICKS_LOOKED_AT]:
        message = recording.message(position)
        if isinstance(message, Tick) and message.forwards > 0:
            return recording.entries[position].at
    return recording.ends


def playback_of(recording: Recording, *, speed: float = 1.0, is_playing: bool = False) -> Playback:
    """Give what is said of a recording itself."""
    header, end = recording.header, recording.end
    holes = recording.holes[:MOST_SKIPPED_PLACES]
    entries = recording.entries
    befores = [entries[hole.entry - 1].at if hole.entry else recording.begins for hole in holes]
    return Playback(
        speed=speed,
        is_playing=is_playing,
        begins=recording.begins,
        ends=recording.ends,
        recorded_at=header.recorded_at if header is not None else None,
        host=header.host if header is not None else "",
        is_whole=end is not None,
        skipped=tuple(
            Skipped(before, hole.frames, hole.splice)
            for before, hole in zip(befores, holes, strict=True)
        ),
        frames_skipped=recording.skipped,
        frames_unreadable=recording.unreadable,
        dropped=end.dropped if end is not None else 0,
    )
