"""Running totals and recent durations of every node that was ever called, as columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from tui_profiler.probe.measure.clock.forward_pattern import Pattern
from tui_profiler.probe.measure.clock.thread_usage import ThreadUsage

MOST_NODES = 54_000
"""In one tick: 76 bytes each make 4.1 MB, of the 4 MiB that ``wire.MAX_FRAME_BYTES`` allows."""
USAGE_FIGURES = 1 + len(ThreadUsage._fields)
BLOCKS = 8
"""Of a set of forwards: the oldest is dropped when a new one begins."""
LESS_THAN_LEFT_OUT = 2.0
"""A node left out may have taken this many times what one that is sent has, before it is noticed.
Were it 1, the choice would change at every tick, and with it all that a viewer keeps by node."""

Floats = NDArray[np.float64]
Integers = NDArray[np.intp]

_P50, _P95, _MAXIMUM, _PER_FORWARD, _OWN_PER_FORWARD = range(5)


class ForwardColumns(NamedTuple):
    """One forward by node."""

    nodes: NDArray[np.uint32]
    whole: NDArray[np.float32]
    """Seconds in the node."""
    own: NDArray[np.float32]
    """The same without what was called inside."""


class Columns:
    """One row for each node, in the order in which they were first called."""

    def __init__(self, nodes: int, window: int) -> None:
        self._row_of_node = np.full(nodes, -1, np.intp)
        self._nodes = np.zeros(0, np.uint32)
        self._calls = np.zeros(0, np.uint64)
        self._total = np.zeros(0, np.float64)
        self._own = np.zeros(0, np.float64)
        self._last = np.zeros(0, np.float32)
        self._recent = np.zeros((5, 0), np.float32)
        self._is_changed = np.zeros(0, bool)
        self._is_repeated = np.zeros(0, bool)
        """Whether the node was ever called twice in one forward; else ``_per_forward`` is not
        kept, because ``_durations`` says it."""
        self._is_caller = np.zeros(0, bool)
        """Whether it ever called another, or is repeated; else ``_own_per_forward`` is not kept."""
        self._sent = np.zeros(0, np.intp)
        """Rows that fit into a tick; none while all do."""
        self._known: WeakKeyDictionary[Pattern, Integers] = WeakKeyDictionary()
        """Rows of the shapes met so far; what they ask for is set up."""
        self._durations = Rings(window)
        self._per_forward = Rings(window)
        self._own_per_forward = Rings(window)
        self._sets = ForwardSets(window)

    def add(
        self,
        pattern: Pattern,
        durations: Floats,
        is_usual: NDArray[np.bool_] | None = None,
        usage: Floats | None = None,
        kept: int | None = None,
    ) -> ForwardColumns | None:
        """Add forwards of one shape.

        Args:
            pattern: their shape.
            durations: (forwards, events) seconds, of every event of the pattern.
            is_usual: (forwards,) whether a forward is in the means; None: all are.
            usage: (forwards, 9) as of ``ForwardSets.add``.
            kept: place of the one that is wanted whole.

        Returns:
            The columns of the one that is kept; None where none is.
        """
        if not len(pattern.calls):
            return None
        rows = self._known.get(pattern)
        if rows is None:
            rows = self._known[pattern] = self._rows(pattern.nodes)
            self._part(rows, pattern)
        # (calls, forwards), so that what is summed lies together.
        calls = np.ascontiguousarray(durations.T[pattern.calls])
        per_forward, own_per_forward = by_node(pattern, calls)
        self._calls[rows] += (pattern.counts * len(durations)).astype(np.uint64)
        self._total[rows] += per_forward.sum(axis=1)
        self._own[rows] += own_per_forward.sum(axis=1)
        self._sets.add(rows, per_forward, own_per_forward, is_usual, usage)
        self._last[rows] = calls[pattern.first + pattern.counts - 1, -1]
        self._is_changed[rows] = True
        for members, places in pattern.groups:
            # Oldest first: forward by forward, call by call.
            values = calls[places].transpose(0, 2, 1).reshape(len(members), -1)
            self._durations.push(rows[members], values)
        for is_apart, rings, seconds in (
            (self._is_repeated[rows], self._per_forward, per_forward),
            (self._is_caller[rows], self._own_per_forward, own_per_forward),
        ):
            if is_apart.any():
                rings.push(rows[is_apart], seconds[is_apart])
        if kept is None:
            return None
        return ForwardColumns(
            pattern.nodes.astype(np.uint32),
            per_forward[:, kept].astype(np.float32),
            own_per_forward[:, kept].astype(np.float32),
        )

    def _part(self, rows: Integers, pattern: Pattern) -> None:
        # Of most nodes the three rings would be equal: a leaf has all its time for itself, and what
        # is called once per forward takes a call's time. The others part when that first shows.
        is_caller = np.zeros(len(rows), bool)
        is_caller[np.searchsorted(pattern.first, pattern.callers, side="right") - 1] = True
        repeated = rows[(pattern.counts > 1) & ~self._is_repeated[rows]]
        if len(repeated):
            self._per_forward.copy(repeated, self._durations)
            self._is_repeated[repeated] = True
        parted = rows[(is_caller | self._is_repeated[rows]) & ~self._is_caller[rows]]
        if len(parted):
            self._own_per_forward.copy(parted, self._durations)
            self._is_caller[parted] = True

    @property
    def mean_forwards(self) -> int:
        """How many forwards the means are over."""
        return self._sets.forwards

    @property
    def outliers(self) -> int:
        """How many forwards among those were left out of the means."""
        return self._sets.outliers

    @property
    def usage(self) -> Floats:
        """(9,) means per forward, as of ``ForwardSets.add``."""
        return self._sets.usage

    @property
    def usage_of_all(self) -> Floats:
        """(9,) means per forward with those left out, as of ``ForwardSets.add``."""
        return self._sets.usage_of_all

    @property
    def outliers_share(self) -> float:
        """Share of the time of all that the forwards left out took; not a number if unknown."""
        return self._sets.outliers_share

    @property
    def left_out(self) -> int:
        """How many nodes do not fit into a tick."""
        return max(len(self._nodes) - MOST_NODES, 0)

    def packed(self) -> dict[str, bytes]:
        """Return every column of ``Tick`` but those of CPU time, as bytes of native arrays."""
        self._refresh()
        rows: Integers | slice = slice(len(self._nodes))
        if self.left_out:
            rows = self._sent = most_time(self._total, MOST_NODES, self._sent)
        recent = {
            name: self._recent[place][rows].tobytes()
            for place, name in enumerate(
                ("p50", "p95", "maximum", "per_forward", "own_per_forward")
            )
        }
        mean, own_mean = self._sets.means(rows)
        return {
            "mean_per_forward": mean.tobytes(),
            "own_mean_per_forward": own_mean.tobytes(),
            "nodes": self._nodes[rows].tobytes(),
            "calls": self._calls[rows].tobytes(),
            "total": self._total[rows].tobytes(),
            "own": self._own[rows].tobytes(),
            "last": self._last[rows].tobytes(),
            **recent,
        }

    def _refresh(self) -> None:
        rows = np.flatnonzero(self._is_changed)
        if not len(rows):
            return
        self._is_changed[:] = False
        p50, p95, maximum = self._durations.quantiles(rows, (0.5, 0.95, 1.0))
        self._recent[_P50, rows] = p50
        self._recent[_P95, rows] = p95
        self._recent[_MAXIMUM, rows] = maximum
        self._recent[_PER_FORWARD, rows] = p50
        self._recent[_OWN_PER_FORWARD, rows] = p50
        repeated = rows[self._is_repeated[rows]]
        if len(repeated):
            self._recent[_PER_FORWARD, repeated] = self._per_forward.quantiles(repeated, (0.5,))[0]
        callers = rows[self._is_caller[rows]]
        if len(callers):
            self._recent[_OWN_PER_FORWARD, callers] = self._own_per_forward.quantiles(
                callers, (0.5,)
            )[0]

    def _rows(self, nodes: Integers) -> Integers:
        rows = self._row_of_node[nodes]
        new = nodes[rows < 0]
        if len(new):
            have = len(self._nodes)
            self._row_of_node[new] = np.arange(have, have + len(new))
            self._grow(new)
            rows = self._row_of_node[nodes]
        return rows

    def _grow(self, new: Integers) -> None:
        count = len(new)
        self._nodes = np.concatenate([self._nodes, new.astype(np.uint32)])
        self._calls = np.concatenate([self._calls, np.zeros(count, np.uint64)])
        self._total = np.concatenate([self._total, np.zeros(count)])
        self._own = np.concatenate([self._own, np.zeros(count)])
        self._last = np.concatenate([self._last, np.zeros(count, np.float32)])
        self._recent = np.concatenate([self._recent, np.zeros((5, count), np.float32)], axis=1)
        self._is_changed = np.concatenate([self._is_changed, np.zeros(count, bool)])
        self._is_repeated = np.concatenate([self._is_repeated, np.zeros(count, bool)])
        self._is_caller = np.concatenate([self._is_caller, np.zeros(count, bool)])
        for rings in (self._durations, self._per_forward, self._own_per_forward):
            rings.grow(len(self._nodes))
        self._sets.grow(len(self._nodes))


def by_node(pattern: Pattern, calls: Floats) -> tuple[Floats, Floats]:
    """Return (nodes, forwards) in each node of a pattern, inclusive and own.

    Args:
        pattern: whose calls they are.
        calls: (calls, forwards) of any figure that a call has inclusive of those inside it.
    """
    own = own_of_calls(pattern, calls)
    outermost = calls
    if len(pattern.inner):
        outermost = calls.copy()
        outermost[pattern.inner] = 0.0
    if len(pattern.nodes) == len(pattern.calls):
        return outermost, own
    return (
        np.add.reduceat(outermost, pattern.first, axis=0),
        np.add.reduceat(own, pattern.first, axis=0),
    )


def own_of_calls(pattern: Pattern, calls: Floats) -> Floats:
    """Return what of a figure of each call is in no call inside of it; of the shape of ``calls``.

    Args:
        pattern: whose calls they are.
        calls: (calls, ...) of any figure that a call has inclusive of those inside it.
    """
    own = calls.copy()
    if len(pattern.callers):
        inside = calls[pattern.nested]
        own[pattern.callers] -= np.add.reduceat(inside, pattern.nested_first, axis=0)
    return own


def most_time(total: Floats, most: int, before: Integers) -> Integers:
    """Return the rows with the most time, ascending; those of before while they still do.

    What is around a node has taken at least its time, so whole paths to the root are kept.

    Args:
        total: (rows,) seconds in all calls so far, inclusive; more rows than ``most``.
        most: rows to give.
        before: (most,) rows that were given last; none at first.
    """
    if len(before) == most:
        is_left_out = np.ones(len(total), bool)
        is_left_out[before] = False
        if total[is_left_out].max() <= LESS_THAN_LEFT_OUT * total[before].min():
            return before
    return np.sort(np.argpartition(total, -most)[-most:])


class ForwardSets:
    """Means over one set of forwards, the same for every row: about the last ``window``.

    A forward is in the set with all its nodes or with none. So what is true of each forward, that
    a node's own time and its children's make its time, is true of the means.
    """

    def __init__(self, window: int) -> None:
        self._least = max(window // BLOCKS, 1)
        self._sums = np.zeros((2, 0, BLOCKS))
        """(inclusive and own, rows, blocks) seconds."""
        self._usage = np.zeros((USAGE_FIGURES, BLOCKS))
        self._left_out = np.zeros((USAGE_FIGURES, BLOCKS))
        """Of the forwards that are left out."""
        self._forwards = np.zeros(BLOCKS, np.intp)
        self._outliers = np.zeros(BLOCKS, np.intp)
        self._block = 0

    @property
    def forwards(self) -> int:
        """How many forwards are in the set."""
        return int(self._forwards.sum())

    @property
    def outliers(self) -> int:
        """How many forwards were left out of it, since its oldest."""
        return int(self._outliers.sum())

    def grow(self, rows: int) -> None:
        """Make room for this many rows at least."""
        have = self._sums.shape[1]
        if rows > have:
            more = np.zeros((2, max(rows - have, have), BLOCKS))
            self._sums = np.concatenate([self._sums, more], axis=1)

    def add(
        self,
        rows: Integers,
        whole: Floats,
        own: Floats,
        is_usual: NDArray[np.bool_] | None,
        usage: Floats | None = None,
    ) -> None:
        """Add forwards.

        Args:
            rows: (rows,) that they called, each once.
            whole: (rows, forwards) seconds, inclusive.
            own: (rows, forwards) seconds without what was called inside.
            is_usual: (forwards,) which of them are in the set; None: all.
            usage: (forwards, 9) what their threads used: wall seconds, then as ``ThreadUsage``; not
                a number where it is not known. None: none is.
        """
        if self._forwards[self._block] >= self._least:
            self._block = (self._block + 1) % BLOCKS
            self._sums[:, :, self._block] = 0.0
            self._usage[:, self._block] = self._left_out[:, self._block] = 0.0
            self._forwards[self._block] = self._outliers[self._block] = 0
        if is_usual is not None and not is_usual.all():
            self._outliers[self._block] += np.count_nonzero(~is_usual)
            left_out = np.nan if usage is None else usage[~is_usual].sum(axis=0)
            self._left_out[:, self._block] += left_out
            whole, own = whole[:, is_usual], own[:, is_usual]
            usage = None if usage is None else usage[is_usual]
        self._forwards[self._block] += whole.shape[1]
        self._sums[0, rows, self._block] += whole.sum(axis=1)
        self._sums[1, rows, self._block] += own.sum(axis=1)
        self._usage[:, self._block] += np.nan if usage is None else usage.sum(axis=0)

    @property
    def usage(self) -> Floats:
        """(9,) means per forward, as of ``add``; not a number where one is not known."""
        if not self.forwards:
            return np.full(USAGE_FIGURES, np.nan)
        means: Floats = self._usage.sum(axis=1) / self.forwards
        return means

    @property
    def usage_of_all(self) -> Floats:
        """(9,) means per forward of the set and of those left out, as of ``add``."""
        count = self.forwards + self.outliers
        if not count:
            return np.full(USAGE_FIGURES, np.nan)
        means: Floats = (self._usage + self._left_out).sum(axis=1) / count
        return means

    @property
    def outliers_share(self) -> float:
        """Share of the wall time of all those forwards that the ones left out took, 0 to 1.

        Not a number where times are not known.
        """
        usual, left_out = self._usage[0].sum(), self._left_out[0].sum()
        return float(left_out / (usual + left_out)) if usual + left_out != 0.0 else 0.0

    def means(self, rows: Integers | slice) -> NDArray[np.float32]:
        """Return (2, rows) seconds per forward, inclusive and own; no rows before a forward."""
        if not self.forwards:
            return np.zeros((2, 0), np.float32)
        means: NDArray[np.float32] = self._sums[:, rows].sum(axis=2) / self.forwards
        return means.astype(np.float32)


Rational = NDArray[np.floating]


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

    def push(self, rows: Integers, values: Rational) -> None:
        """Add values to rows.

        Args:
            rows: (rows,) at least one, each at most once.
            values: (rows, new) oldest first.
        """
        for block in _blocks(0, len(rows)):
            self._push(rows[block], values[block])

    def _push(self, rows: Integers, values: Rational) -> None:
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

    def _push_level(self, rows: Integers, place: int, values: Rational) -> None:
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
