"""The session as it was at any place of a recording.

1. What is given is what folding every whole frame up to that place would give: messages whose
   figures later ones repeat are passed over, and what was folded once is begun from again.
2. A tree of which a part is missing is never shown, nor is any tree from before it: the times
   that follow may speak of nodes that it had.
"""

from __future__ import annotations

import math
from collections import deque

from msgspec.structs import replace

from tui_profiler.figures.units import thousands
from tui_profiler.messages import Failed, Hello, Message
from tui_profiler.recording.frames import Kind
from tui_profiler.recording.reader import Recording
from tui_profiler.recording.scan import Entry
from tui_profiler.session import EMPTY, Session, apply
from tui_profiler.session.apply import MAX_SAMPLES, MAX_TICKS
from tui_profiler.session.history import MAX_SECONDS

ACCEPTS = ("Play", "Halt", "SetSpeed", "Seek")
REFUSAL = "this is a recording: no model runs here"
MOST_TICK_BYTES = 8 * 1024 * 1024
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
}
"""How many of the last ones a session can show."""
_FURTHER = (Kind.TICK, Kind.SAMPLE)
"""Of these the last of each second, further back."""
_MOST_CHECKPOINTS = 64


class Past:
    """Sessions of one recording."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self._broken = set(recording.broken)
        # (position, number of the newest lost tree, the session there)
        self._checkpoints: deque[tuple[int, int, Session]] = deque(maxlen=_MOST_CHECKPOINTS)

    def session(self, stop: int) -> Session:
        """Give the session as it was after the first ``stop`` frames."""
        while (found := self._folded(stop, lost := self.lost(stop))) is None:
            pass  # A tree turned out not to be readable: once more without it.
        failure = found.failure
        if lost and found.tree is None and not (failure is not None and failure.fatal):
            return apply(found, self._tree_is_lost())
        return found

    def lost(self, stop: int) -> int:
        """Give the number of the newest tree before ``stop`` that is not whole; 0 where all are."""
        newest = self.recording.entries[stop - 1].frame.trace if stop else 0
        return max((number for number in self._broken if number <= newest), default=0)

    def message(self, position: int, lost: int) -> Message | None:
        """Give the message of a frame, as this recording tells it.

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
            "a part of the model's tree is missing in this recording, and nothing can be shown"
            " of it",
            why=f"the file is damaged: {frames} of its frames are missing",
        )


def needed(recording: Recording, start: int, stop: int) -> list[int]:
    """Give the positions from ``start`` up to ``stop`` that a session is folded from, in order."""
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
            if self._tick_bytes > MOST_TICK_BYTES:
                return False
        if kind in _FURTHER:
            self._seconds[kind].add(math.floor(entry.at))
        self._left[kind] -= is_near
        return True

    def _ends_a_second(self, kind: Kind, entry: Entry) -> bool:
        seen = self._seconds[kind]
        # One more than is kept: it tells whether a forward was finished in the oldest.
        return len(seen) <= MAX_SECONDS and math.floor(entry.at) not in seen
