"""Budget of slices between forwards, such as for reading weights.

1. A slice costs its own time, and the extra time of the next forward, which finds other caches.
2. A slice is due when the forwards since the last one have earned it. A longer one is paid for by
   the following forwards, so that the share holds in the long run.
"""

from collections import deque
from statistics import fmean, median

SLICE_SECONDS = 0.02
"""Too short to notice, long against the cost of cold caches."""
LEAST_PART = 0.25
"""Least share of the budget for slices, even if profiling takes all of it."""
_USUAL, _AFTER = 64, 32
"""Latest forwards that count."""


class SliceBudget:
    """The cost of slices while a model runs, and when the next one is due."""

    def __init__(self) -> None:
        self._earned = 0.0
        self._usual: deque[float] = deque(maxlen=_USUAL)
        self._longer: deque[float] = deque(maxlen=_AFTER)
        self._is_after_slice = False
        self._spent = self._ran = 0.0

    def forward(self, seconds: float, share: float) -> None:
        """Add a forward; slices may take this share of its time."""
        self._ran += seconds
        self._earned += share * seconds
        if self._is_after_slice:
            self._is_after_slice = False
            if self._usual:
                self._longer.append(seconds - median(self._usual))
                self._spent += self._after_seconds
        else:
            self._usual.append(seconds)

    @property
    def is_due(self) -> bool:
        """Whether the next slice is earned."""
        return self._earned >= SLICE_SECONDS + self._after_seconds

    def slice(self, seconds: float) -> None:
        """Add a slice."""
        self._earned -= seconds + self._after_seconds
        self._spent += seconds
        self._is_after_slice = True

    @property
    def cost(self) -> float:
        """Share of the forwards' time that slices took, and added to forwards."""
        return self._spent / self._ran if self._ran else 0.0

    @property
    def _after_seconds(self) -> float:
        return max(fmean(self._longer), 0.0) if self._longer else 0.0


def share_left(budget: float, watching: float | None) -> float:
    """Return the share of the forwards' time that slices may take.

    Args:
        budget: of all profiling.
        watching: overhead of the other profiling; None: not known yet.
    """
    left = budget / 2 if watching is None else budget - max(watching, 0.0)
    return max(left, LEAST_PART * budget)
