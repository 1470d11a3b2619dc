"""Which kinds of forwards run of late, beside those like the one that the tree is made of.

A tree is made of one forward. A server may be given another batch from now on, and a decode loop
runs one token after a prompt: then most forwards are unlike it, and the tree is recorded again from
one of the kind that runs now.

1. A kind is followed where it ran at least ``TIMES_AS_OFTEN`` as often as the recorded one, and
   took at least as long, among the last forwards. Alternating batches are in neither way so uneven:
   the recorded one stays.
2. What the last forwards are is bounded by their number and, where they are seldom, by time.
3. Where only a share of the forwards is recorded, a few more are wanted as soon as one of another
   kind is seen: else a change would show after minutes.
4. Kinds are counted by name, at most ``MOST_NAMES`` of them; the rest are one.
"""

from collections import Counter, deque
from collections.abc import Iterable
from typing import NamedTuple

from tui_profiler.messages import OtherForwards
from tui_profiler.probe.measure.clock.forward import Forward
from tui_profiler.probe.torch_compat.forward_kind import Kind, difference

LAST_FORWARDS = 64
LAST_SECONDS = 10.0
"""Age of a forward after which it is no recent one, where enough newer ones are known."""
LEAST_FORWARDS = 8
"""Forwards of a kind before it is followed."""
TIMES_AS_OFTEN = 4
MOST_NAMES = 16
MOST_WANTED = LEAST_FORWARDS
"""Forwards that may be recorded one after another to decide whether a kind is followed."""
WANTED_EVERY_SECONDS = 2.0
"""Time after which there may be one more of these."""
_REST = "other inputs or modes"


class _Recent(NamedTuple):
    ended: float
    kind: Kind | None
    """None: that of the tree."""
    seconds: float


class RecentKinds:
    """Counts forwards by kind.

    Args:
        traced: kind of the forward that the tree is made of; None: it is not known.
    """

    def __init__(self, traced: Kind | None) -> None:
        self._traced = traced
        self._last: deque[_Recent] = deque(maxlen=LAST_FORWARDS)
        self._forwards: Counter[str] = Counter()
        self._seconds: dict[str, float] = {}
        self._all_seconds = 0.0
        self._wanted, self._wanted_at = float(MOST_WANTED), 0.0

    def add(self, forwards: Iterable[Forward]) -> None:
        """Count forwards, in the order in which they ended."""
        if self._traced is None:
            return
        for forward in forwards:
            kind = None if forward.as_traced else forward.kind
            self._last.append(_Recent(forward.ended, kind, forward.seconds))
            self._all_seconds += forward.seconds
            if not forward.as_traced:
                name = self._name(kind)
                self._forwards[name] += 1
                self._seconds[name] = self._seconds.get(name, 0.0) + forward.seconds
        while (
            len(self._last) > LEAST_FORWARDS
            and self._last[-1].ended - self._last[0].ended > LAST_SECONDS
        ):
            self._last.popleft()

    def to_follow(self) -> Kind | None:
        """Return the kind that runs in place of the recorded one; None where that still runs."""
        counts = Counter(one.kind for one in self._last)
        kind, count = next(
            ((kind, count) for kind, count in counts.most_common(2) if kind is not None), (None, 0)
        )
        if kind is None or count < max(LEAST_FORWARDS, TIMES_AS_OFTEN * counts[None]):
            return None
        seconds = sum(one.seconds for one in self._last if one.kind == kind)
        recorded = sum(one.seconds for one in self._last if one.kind is None)
        return kind if seconds >= recorded else None

    def wants_one(self, now: float) -> bool:
        """Return whether the next forward is to be recorded: the last one was of another kind.

        Args:
            now: second of any clock that does not stand still.
        """
        refilled = self._wanted + max(now - self._wanted_at, 0.0) / WANTED_EVERY_SECONDS
        self._wanted, self._wanted_at = min(refilled, float(MOST_WANTED)), now
        is_other = bool(self._last) and self._last[-1].kind is not None
        if not is_other or self._wanted < 1.0 or self.to_follow() is not None:
            return False
        self._wanted -= 1.0
        return True

    def others(self) -> tuple[OtherForwards, ...]:
        """Return the kinds of forwards unlike the recorded one, the most frequent first."""
        return tuple(
            OtherForwards(name, count, self._seconds[name] / self._all_seconds)
            for name, count in self._forwards.most_common()
        )

    def _name(self, kind: Kind | None) -> str:
        if kind is None or self._traced is None:
            return _REST
        name = difference(kind, self._traced)
        return name if name in self._forwards or len(self._forwards) < MOST_NAMES else _REST
