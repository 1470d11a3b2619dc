"""The last durations of every node, in one matrix."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.intp]
Floats = NDArray[np.floating]


ROWS_AT_ONCE = 256
"""Of float32 durations: 256 KB in one call of numpy's at the usual window, sorted in 1 ms."""


class Rings:
    """For each row, its last ``window`` values."""

    def __init__(self, window: int) -> None:
        self.window = window
        # Infinity is what was never written: it sorts to the end.
        self._values = np.full((0, window), np.inf, np.float32)
        self._written = np.zeros(0, np.intp)

    def grow(self, rows: int) -> None:
        """Make room for this many rows at least."""
        have = len(self._values)
        if rows > have:
            more = max(rows - have, have)
            values = np.empty((have + more, self.window), np.float32)
            for block in _blocks(0, have):
                values[block] = self._values[block]
            for block in _blocks(have, have + more):
                values[block] = np.inf
            self._values = values
            self._written = np.concatenate([self._written, np.zeros(more, np.intp)])

    def push(self, rows: Integers, values: Floats) -> None:
        """Add values to rows.

        Args:
            rows: (rows,) at least one, each at most once.
            values: (rows, new) oldest first.
        """
        for block in _blocks(0, len(rows)):
            self._push(rows[block], values[block])

    def _push(self, rows: Integers, values: Floats) -> None:
        new = values.shape[1]
        kept = values[:, -self.window :]
        written = self._written[rows]
        first = written + new - kept.shape[1]
        if (written == written[0]).all():
            self._push_level(rows, int(first[0]) % self.window, kept)
        else:
            places = (first[:, None] + np.arange(kept.shape[1])) % self.window
            self._values[rows[:, None], places] = kept
        self._written[rows] += new

    def copy(self, rows: Integers, other: Rings) -> None:
        """Begin rows with what ``other`` holds in them."""
        self._values[rows] = other._values[rows]
        self._written[rows] = other._written[rows]

    def _push_level(self, rows: Integers, place: int, values: Floats) -> None:
        # Rows that were written equally often, as in most models all are: whole runs are copied,
        # in half the time.
        before_end = self.window - place
        self._values[rows, place : place + values.shape[1]] = values[:, :before_end]
        if values.shape[1] > before_end:
            self._values[rows, : values.shape[1] - before_end] = values[:, before_end:]

    def quantiles(self, rows: Integers, shares: tuple[float, ...]) -> NDArray[np.float32]:
        """Return quantiles, with linear interpolation between the two nearest values.

        Args:
            rows: (rows,) each written at least once.
            shares: 0.5 is the median, 1.0 the maximum.

        Returns:
            (shares, rows).
        """
        result = np.empty((len(shares), len(rows)), np.float32)
        for block in _blocks(0, len(rows)):
            result[:, block] = self._quantiles(rows[block], shares)
        return result

    def _quantiles(self, rows: Integers, shares: tuple[float, ...]) -> NDArray[np.float32]:
        # A full sort: numpy sorts rows of float32 eight times faster than it partitions them.
        values = np.sort(self._values[rows], axis=1)
        last = np.minimum(self._written[rows], self.window) - 1
        row = np.arange(len(rows))
        result = np.empty((len(shares), len(rows)), np.float32)
        for place, share in enumerate(shares):
            at = share * last
            below = np.floor(at).astype(np.intp)
            low, high = values[row, below], values[row, np.minimum(below + 1, last)]
            result[place] = low + (high - low) * (at - below)
        return result


def _blocks(first: int, last: int) -> Iterator[slice]:
    # One numpy call on all rows of a large model would keep the GIL too long.
    for begin in range(first, last, ROWS_AT_ONCE):
        yield slice(begin, min(begin + ROWS_AT_ONCE, last))
