"""Live bytes after each operator call, and how long each tensor lives; bounded however long it is.

1. Steps are merged by neighbours when there are too many, and keep their most: the most of all is
   the peak, whatever was merged.
2. Of the tensors that are gone the largest are kept. What is left out is counted.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from heapq import nlargest
from typing import NamedTuple, TypeAlias

from tui_profiler.messages import MemorySteps
from tui_profiler.probe.process.yielding import free
from tui_profiler.probe.trace.tree.growing_tree import Place

MOST = 20_000
"""Steps, and tensors, that are told; an even number."""
_UNKNOWN = -1

Made: TypeAlias = tuple[Place | None, int, int]
"""What made a tensor, its bytes, and the first call after which it is alive."""


class Peak(NamedTuple):
    """The step with the most alive in tensors."""

    place: Place | None
    ordinal: int
    live: int
    whole: int
    """The most of any step, with what operators allocate inside."""


class MemoryLog:
    """The steps of one forward so far."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self.calls = 0
        """Operator calls so far: the ordinal of the next one."""
        self._each = 1
        self._places: list[Place] = []
        self._ordinals = array("I")
        self._live = array("Q")
        self._whole = array("q")
        self._gone: list[tuple[Made, int]] = []
        self._left_out = 0

    def add(self, place: Place, live_bytes: int, workspace: int | None) -> None:
        """Enter one call: what is alive after it, and what it allocated inside."""
        whole = _UNKNOWN if workspace is None else live_bytes + workspace
        if self.calls % self._each:
            self._merge(len(self._places) - 1, place, self.calls, live_bytes, whole)
        else:
            if len(self._places) == self._most:
                self._halve()
            self._append(place, self.calls, live_bytes, whole)
        self.calls += 1

    def end(self, made: Made) -> None:
        """Enter that a tensor is gone: the call before the next one was its last."""
        if made[2] < self.calls:
            self._gone.append((made, self.calls - 1))
            if len(self._gone) >= 2 * self._most:
                self._gone = self._largest(self._gone)

    def raise_before(self, first: int, size: int) -> None:
        """Count a tensor as alive from the start that was made by call number ``first``."""
        for at, ordinal in enumerate(self._ordinals):
            if ordinal >= first:
                break
            self._live[at] += size
            if self._whole[at] != _UNKNOWN:
                self._whole[at] += size

    def lower_after(self, first: int, size: int) -> None:
        """Count something as gone after call number ``first``, which was alive until the end."""
        for at, ordinal in enumerate(self._ordinals):
            if ordinal > first:
                self._live[at] -= size
                if self._whole[at] != _UNKNOWN:
                    self._whole[at] -= size

    def peak(self) -> Peak:
        """Return where the most is alive, the first of equals."""
        if not self._places:
            return Peak(None, 0, 0, 0)
        at = max(range(len(self._live)), key=self._live.__getitem__)
        return Peak(self._places[at], self._ordinals[at], self._live[at], max(self._whole))

    def alive_at(self, ordinal: int, living: Iterable[Made]) -> list[tuple[Place | None, int]]:
        """Return what is alive after a call: what made it, and its bytes."""
        gone = (made for made, last in self._gone if made[2] <= ordinal <= last)
        still = (made for made in living if made[2] <= ordinal)
        return [(place, size) for place, size, _ in (*gone, *still)]

    def message(
        self,
        index_of: Callable[[Place | None], int],
        living: Iterable[Made],
        input_bytes: int,
        start_bytes: int,
    ) -> MemorySteps:
        """Put it together after the forward; ``living`` are the tensors that are not gone."""
        lives = [*self._gone, *((made, self.calls - 1) for made in living if made[2] < self.calls)]
        lives = self._largest(lives)
        lives.sort(key=lambda life: life[0][2])
        return MemorySteps(
            calls=self.calls,
            each=self._each,
            input_bytes=input_bytes,
            start_bytes=start_bytes,
            nodes=array("I", map(index_of, self._places)).tobytes(),
            ordinals=self._ordinals.tobytes(),
            live=self._live.tobytes(),
            whole=self._whole.tobytes(),
            makers=array("i", (index_of(place) for (place, _, _), _ in lives)).tobytes(),
            sizes=array("Q", (size for (_, size, _), _ in lives)).tobytes(),
            first=array("I", (first for (_, _, first), _ in lives)).tobytes(),
            last=array("I", (last for _, last in lives)).tobytes(),
            left_out=self._left_out,
        )

    def free(self) -> None:
        """Drop everything, a few places at a time."""
        free(self._places, self._gone)

    def _append(self, place: Place, ordinal: int, live: int, whole: int) -> None:
        self._places.append(place)
        self._ordinals.append(ordinal)
        self._live.append(live)
        self._whole.append(whole)

    def _merge(self, at: int, place: Place, ordinal: int, live: int, whole: int) -> None:
        if live > self._live[at]:
            self._places[at], self._ordinals[at], self._live[at] = place, ordinal, live
        known = whole != _UNKNOWN and self._whole[at] != _UNKNOWN
        self._whole[at] = max(whole, self._whole[at]) if known else _UNKNOWN

    def _halve(self) -> None:
        """Make one step of each two."""
        before = list(zip(self._places, self._ordinals, self._live, self._whole, strict=True))
        self._places = []
        self._ordinals, self._live, self._whole = array("I"), array("Q"), array("q")
        for position, step in enumerate(before):
            if position % 2:
                self._merge(position // 2, *step)
            else:
                self._append(*step)
        self._each *= 2

    def _largest(self, lives: list[tuple[Made, int]]) -> list[tuple[Made, int]]:
        self._left_out += max(len(lives) - self._most, 0)
        return nlargest(self._most, lives, key=lambda life: life[0][1])
