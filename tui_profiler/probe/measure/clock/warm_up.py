"""When a model has warmed up, and how much it gets done after that."""

from collections import deque
from statistics import median

ALIKE = 0.2
"""Three forwards in turn that differ from their median by this share at most are steady."""
WARMUP_FORWARDS = 10
"""After so many the model counts as warm, however unsteady it is."""
WARMUP_SECONDS = 5.0
"""After so long as well: nobody waits half a minute for a first figure."""
LEAST_FORWARDS = 3
"""Forwards after which it also counts as warm, if ``WARMUP_SECONDS`` lie between the ends of the
first and the last: in a training of slow steps forwards are rare."""
THROUGHPUT_SECONDS = 5.0
"""Over how much of the latest running time a throughput is taken."""

_BUCKET_SECONDS = 0.05


class WarmUp:
    """Tells which forwards come before the steady state.

    The first always does. Those after it do up to the third of three in turn that are alike, or
    until one of the limits above is reached.
    """

    def __init__(self) -> None:
        self.forwards = 0
        """Forwards before the steady state, so far."""
        self.is_over = False
        self._seconds = 0.0
        self._ended: float | None = None
        """Second at which the first one ended."""
        self._last: deque[float] = deque(maxlen=3)

    def takes(self, seconds: float, ended: float | None = None) -> bool:
        """Return whether the next forward belongs to the warm-up.

        Args:
            seconds: that it took.
            ended: second at which it ended; None where that does not matter.
        """
        if self.is_over:
            return False
        self.forwards += 1
        if ended is not None and self._ended is None:
            self._ended = ended
        elapsed = 0.0 if ended is None or self._ended is None else ended - self._ended
        self._seconds += seconds
        if self.forwards > 1:
            self._last.append(seconds)
        self.is_over = (
            self._are_alike()
            or self.forwards >= WARMUP_FORWARDS
            or self._seconds >= WARMUP_SECONDS
            or (self.forwards >= LEAST_FORWARDS and elapsed >= WARMUP_SECONDS)
        )
        return True

    def _are_alike(self) -> bool:
        middle = median(self._last) if len(self._last) == 3 else 0.0
        return middle > 0 and all(abs(one - middle) <= ALIKE * middle for one in self._last)


class Throughput:
    """Items per second over the last seconds of running: each forward with the time before it.

    A forward after a gap is no part of it, because the time before it is not known: counted without
    it, what a program does between forwards would be lost; with it, the gap would count.
    """

    def __init__(self) -> None:
        self._buckets: deque[tuple[float, int, int]] = deque()
        self._seconds = 0.0
        self._items = 0
        self.gaps = 0
        """How many times in those seconds forwards may have run unseen; 0: each is counted."""

    def add(self, since: float | None, end: float, items: int) -> None:
        """Take in a forward.

        Args:
            since: second at which the one before it ended, None after a gap.
            end: second at which it ended.
            items: that it worked on.
        """
        seconds, gaps = 0.0, 0
        if since is None:
            items, gaps = 0, 1
        else:
            # Of forwards that overlap, the one that ends later adds only what it took longer.
            seconds = max(end - since, 0.0)
        self._seconds += seconds
        self._items += items
        self.gaps += gaps
        if self._buckets and self._buckets[-1][0] < _BUCKET_SECONDS:
            before, items_before, gaps_before = self._buckets.pop()
            seconds, items, gaps = seconds + before, items + items_before, gaps + gaps_before
        self._buckets.append((seconds, items, gaps))
        while self._seconds - self._buckets[0][0] >= THROUGHPUT_SECONDS:
            seconds, items, gaps = self._buckets.popleft()
            self._seconds -= seconds
            self._items -= items
            self.gaps -= gaps

    def per_second(self) -> float:
        """Return items per second; not a number before two forwards in a row."""
        return self._items / self._seconds if self._seconds > 0 else float("nan")
