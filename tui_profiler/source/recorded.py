"""A recording that is played, and the session at any place of it.

Of the session at a place:

1. What is given is what folding every whole frame up to that place would give: messages whose
   figures later ones repeat are passed over, and what was folded once is begun from again.
2. A tree of which a part is missing is never shown, nor is any tree from before it: the times
   that follow may speak of nodes that it had.
"""

import asyncio
import math
import time
from bisect import bisect_right
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path

from msgspec.structs import replace

from tui_profiler.figures.units import duration, thousands
from tui_profiler.messages import (
    Failed,
    Halt,
    Hello,
    Message,
    Play,
    Playback,
    Remedy,
    Request,
    Seek,
    SetSpeed,
    Skipped,
    Tick,
)
from tui_profiler.queries.panel.playback import damage, origin
from tui_profiler.recording.frames import Kind
from tui_profiler.recording.reader import Recording, open_recording
from tui_profiler.recording.scan import Entry
from tui_profiler.session import EMPTY, Jump, Session, apply
from tui_profiler.session.apply import MAX_SAMPLES, MAX_TICKS
from tui_profiler.session.history import MAX_SECONDS

RECORD_AGAIN = Remedy("tui-profiler record MODEL -o FILE", "records it again")
"""Where there is nothing to be seen in a recording."""
ACCEPTS = ("Play", "Halt", "SetSpeed", "Seek")
REFUSAL = "this is a recording: no model runs here"
_MOST_TICK_BYTES = 8 * 1024 * 1024
"""Compressed, of the ticks that a place far from the one before is folded from."""
_TRACE = (Kind.TRACE_STARTED, Kind.TRACE_PART, Kind.TRACE_DONE)
_KEPT = {
    Kind.TICK: MAX_TICKS,
    Kind.SAMPLE: MAX_SAMPLES,
    Kind.HEARTBEAT: 1,
    Kind.OVERHEAD: 1,
    Kind.OPERATOR_TIMES: 1,
    Kind.WINDOW_TIMES: 1,
    Kind.DEVICE_TIMES: 1,
    Kind.STEP_TIMES: 1,
    Kind.MODE_SEEN: 1,
    Kind.TRAINING_STEP: 1,
    Kind.BACKWARD_OPERATORS: 1,
    Kind.MODEL_VALUES: 1,
    Kind.GENERATION: 1,
}
"""How many of the last ones a session can show."""
_FURTHER = (Kind.TICK, Kind.SAMPLE)
"""Of these the last of each second, further back."""
_MOST_CHECKPOINTS = 64


class SeekIndex:
    """Sessions of one recording."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self._broken = set(recording.broken)
        # (position, number of the newest lost tree, the session there)
        self._checkpoints: deque[tuple[int, int, Session]] = deque(maxlen=_MOST_CHECKPOINTS)

    def session(self, stop: int) -> Session:
        """Return the session as it was after the first ``stop`` frames."""
        while (found := self._folded(stop, lost := self.lost(stop))) is None:
            pass  # A tree turned out not to be readable: once more without it.
        failure = found.failure
        if lost and found.tree is None and not (failure is not None and failure.fatal):
            return apply(found, self._tree_is_lost())
        return found

    def lost(self, stop: int) -> int:
        """Return number of the newest tree before ``stop`` that is not whole; 0 where all are."""
        newest = self.recording.entries[stop - 1].frame.trace if stop else 0
        return max((number for number in self._broken if number <= newest), default=0)

    def message(self, position: int, lost: int) -> Message | None:
        """Return the message of a frame, as this recording has it.

        Args:
            position: of the frame.
            lost: what ``lost`` gives there.

        Returns:
            None where there is nothing to tell; then ``lost`` may give another number.
        """
        found = self.recording.entries[position].frame
        if found.kind in _TRACE and found.trace <= lost:
            return None
        message = self.recording.message(position)
        if message is None and found.kind in _TRACE:
            self._broken.add(found.trace)
        if isinstance(message, Hello):
            return replace(message, accepts=ACCEPTS, refusal=REFUSAL, program=None)
        return message

    def _folded(self, stop: int, lost: int) -> Session | None:
        """Fold from the nearest place that is known; None where a tree turned out unreadable."""
        start, session = 0, apply(EMPTY, Hello(0, 0, ACCEPTS, REFUSAL))
        for position, its_lost, kept in self._checkpoints:
            if start < position <= stop and its_lost == lost:
                start, session = position, kept
        # In steps, because what is passed over on the way to one place is needed for another.
        for step in (*self._trees_between(start, stop), stop):
            for position in needed(self.recording, start, step):
                message = self.message(position, lost)
                if message is None and self.lost(stop) != lost:
                    return None
                if message is not None:
                    session = apply(session, message)
            start = step
            if step < stop:
                self._checkpoints.append((step, lost, session))
        return session

    def _trees_between(self, start: int, stop: int) -> list[int]:
        entries = self.recording.entries
        done = (i + 1 for i in range(start, stop) if entries[i].frame.kind == Kind.TRACE_DONE)
        return [position for position in done if position < stop]

    def _tree_is_lost(self) -> Failed:
        frames = thousands(self.recording.skipped)
        return Failed(
            "trace",
            "a part of the model's tree is missing in this recording: it cannot be shown",
            why=f"the file is damaged: frames that are missing: {frames}",
            remedies=(RECORD_AGAIN,),
        )


def needed(recording: Recording, start: int, stop: int) -> list[int]:
    """Return positions from ``start`` up to ``stop`` that a session is folded from, in order."""
    going_back = _GoingBack()
    positions: list[int] = []
    for position in range(stop - 1, start - 1, -1):
        entry = recording.entries[position]
        if entry.frame.kind not in _KEPT or going_back.needs(Kind(entry.frame.kind), entry):
            positions.append(position)
    positions.reverse()
    return positions


class _GoingBack:
    """Of the messages that later ones repeat, those that are still needed, the newest first."""

    def __init__(self) -> None:
        self._left = dict(_KEPT)
        self._seconds: dict[Kind, set[int]] = {kind: set() for kind in _FURTHER}
        self._tick_bytes = 0

    def needs(self, kind: Kind, entry: Entry) -> bool:
        is_near = self._left[kind] > 0
        if not is_near and not (kind in _FURTHER and self._ends_a_second(kind, entry)):
            return False
        if kind == Kind.TICK:
            self._tick_bytes += entry.frame.length
            if self._tick_bytes > _MOST_TICK_BYTES:
                return False
        if kind in _FURTHER:
            self._seconds[kind].add(math.floor(entry.at))
        self._left[kind] -= is_near
        return True

    def _ends_a_second(self, kind: Kind, entry: Entry) -> bool:
        seen = self._seconds[kind]
        # One more than is kept: it shows whether a forward was finished in the oldest.
        return len(seen) <= MAX_SECONDS and math.floor(entry.at) not in seen


SLOWEST, FASTEST = 1 / 64, 1024.0
MOST_SKIPPED_PLACES = 1000
_MOST_AT_ONCE = 256
"""Frames that are due at once and sent one by one; more are skipped by a jump."""
_MOST_TICKS_LOOKED_AT = 200


class Player:
    """Plays a recording: its messages at their times, at any speed, from any position.

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
        self._past = SeekIndex(recording)
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
        """Return the position, in seconds since the recording command started."""
        if not self._is_playing:
            return self._from
        passed = (self._clock() - self._since) * self._speed
        return self._inside(self._from + passed)

    async def messages(self) -> AsyncIterator[Message | Jump]:
        """Yield the session at the position, then each message when it is due; never ends."""
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
        """Return where to play from again: the first figures, or the beginning if it has none."""
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
    """Return what is said of a recording itself."""
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


def last_session(path: str | Path) -> tuple[Session, tuple[str, ...]]:
    """Return the session as the recording left it, and what is to be said of the file, by lines.

    Raises:
        RecordingError: it cannot be read, or is no recording that this version reads.
    """
    recording = open_recording(path)
    try:
        session = SeekIndex(recording).session(len(recording.entries))
        playback = playback_of(recording)
        length = duration(playback.ends - playback.begins)
        return session, (f"{origin(playback)}, {length}", *damage(playback))
    finally:
        recording.close()
