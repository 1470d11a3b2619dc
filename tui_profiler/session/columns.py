"""Columns of a tick, of operator times and of live memory, read by node without unpacking them."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from tui_profiler.messages import MemorySteps, OperatorTimes, SlowForward, Tick, known

LEAST_WAITING = 0.05
"""Share of a forward: what its thread waits for a core below it is no reason to think otherwise."""


class Timing(Struct, frozen=True):
    """What was measured of one node; seconds."""

    calls: int
    total: float
    own_total: float
    last: float
    p50: float
    p95: float
    maximum: float
    per_forward: float
    """Time in all calls of one forward: mean over a set of forwards, or median (``is_mean``)."""
    own_per_forward: float
    """The same without modules called inside."""
    p50_per_forward: float
    """Median of the time in all calls of one forward."""
    own_p50_per_forward: float
    """The same without modules called inside."""
    is_mean: bool
    """Whether the times per forward are means, which add up; else medians, which do not."""

    @property
    def mean(self) -> float:
        """Mean of one call."""
        return self.total / self.calls if self.calls else 0.0


class Timings:
    """One tick's columns, with the position of each node in them."""

    def __init__(self, tick: Tick, before: Timings | None = None) -> None:
        self.tick = tick
        self._position: dict[int, int]
        if before is not None and before.tick.nodes == tick.nodes:
            self._position = before._position
        else:
            indexes = memoryview(tick.nodes).cast("I")
            self._position = {node: position for position, node in enumerate(indexes)}
        self._calls = memoryview(tick.calls).cast("Q")
        self._total = memoryview(tick.total).cast("d")
        self._own = memoryview(tick.own).cast("d")
        self._last = memoryview(tick.last).cast("f")
        self._p50 = memoryview(tick.p50).cast("f")
        self._p95 = memoryview(tick.p95).cast("f")
        self._maximum = memoryview(tick.maximum).cast("f")
        self._p50_per_forward = memoryview(tick.per_forward).cast("f")
        self._own_p50_per_forward = memoryview(tick.own_per_forward).cast("f")
        self.is_mean = bool(tick.mean_per_forward)
        """Whether times per forward are means over one set of forwards: they add up. Recordings of
        older versions have medians alone, which do not."""
        self.whole = self._p50_per_forward
        """Seconds per forward, in the order of the tick's nodes."""
        self.own = self._own_p50_per_forward
        """The same without the time of modules called inside."""
        if self.is_mean:
            self.whole = memoryview(tick.mean_per_forward).cast("f")
            self.own = memoryview(tick.own_mean_per_forward).cast("f")

        waiting = known(tick.thread.waiting) if tick.thread is not None else None
        share = waiting / tick.thread.seconds if tick.thread is not None and waiting else 0.0
        self.waiting = min(share, 1.0) if share >= LEAST_WAITING else 0.0
        """Share of a forward that its thread waited for a core; 0 below ``LEAST_WAITING``, and
        where it is not known."""

    def __contains__(self, node: int) -> bool:
        return node in self._position

    def __len__(self) -> int:
        return len(self._position)

    def on_core(self, seconds: float) -> float:
        """Return what is left of a time without waiting for a core, shared out evenly."""
        return seconds * (1.0 - self.waiting)

    def per_forward(self, node: int) -> float | None:
        """Return the seconds a forward spends in a node, None where it has no times.

        The mean over one set of forwards, so that children and self time make a node's exactly.
        """
        position = self._position.get(node)
        return None if position is None else self.whole[position]

    def own_per_forward(self, node: int) -> float | None:
        """Return the same without the time of modules called inside."""
        position = self._position.get(node)
        return None if position is None else self.own[position]

    def last(self, node: int) -> float | None:
        """Return the seconds of the last call."""
        position = self._position.get(node)
        return None if position is None else self._last[position]

    def of(self, node: int) -> Timing | None:
        """Return everything measured of a node, None where it was never called or left out."""
        position = self._position.get(node)
        if position is None:
            return None
        return Timing(
            calls=self._calls[position],
            total=self._total[position],
            own_total=self._own[position],
            last=self._last[position],
            p50=self._p50[position],
            p95=self._p95[position],
            maximum=self._maximum[position],
            per_forward=self.whole[position],
            own_per_forward=self.own[position],
            p50_per_forward=self._p50_per_forward[position],
            own_p50_per_forward=self._own_p50_per_forward[position],
            is_mean=self.is_mean,
        )


def column_lengths_agree(tick: Tick) -> bool:
    """Check a tick from outside: every column must hold one entry for each node."""
    nodes, rest = divmod(len(tick.nodes), 4)
    wide = (tick.calls, tick.total, tick.own)
    narrow = [tick.last, tick.p50, tick.p95, tick.maximum, tick.per_forward, tick.own_per_forward]
    if tick.mean_per_forward or tick.own_mean_per_forward:
        narrow += [tick.mean_per_forward, tick.own_mean_per_forward]
    return (
        rest == 0
        and all(len(column) == 8 * nodes for column in wide)
        and all(len(column) == 4 * nodes for column in narrow)
    )


def slow_columns_agree(slow: SlowForward) -> bool:
    """Check a forward from outside: every column must hold one entry for each node."""
    columns = (slow.nodes, slow.whole, slow.own)
    return len(slow.nodes) % 4 == 0 and all(len(each) == len(slow.nodes) for each in columns)


class Operators:
    """What windows have said of operators so far."""

    def __init__(self, times: OperatorTimes) -> None:
        self.times = times
        indexes = memoryview(times.nodes).cast("I")
        self._position = {node: position for position, node in enumerate(indexes)}
        self._calls = memoryview(times.calls).cast("I")
        self._per_forward = memoryview(times.per_forward).cast("f")
        self._last = memoryview(times.last).cast("f")
        self.has_means = bool(times.mean_per_forward)
        """Recordings of older versions have medians alone, which do not add up."""
        means = times.mean_per_forward if self.has_means else times.per_forward
        self._mean_per_forward = memoryview(means).cast("f")

    def __len__(self) -> int:
        return len(self._position)

    def mean_per_forward(self, node: int) -> float | None:
        """Return mean seconds a forward spends in an operator, for sums; else the median."""
        position = self._position.get(node)
        return None if position is None else self._mean_per_forward[position]

    def per_forward(self, node: int) -> float | None:
        """Return median seconds a forward spends in an operator, None where it was never met."""
        position = self._position.get(node)
        return None if position is None else self._per_forward[position]

    def last(self, node: int) -> float | None:
        """Return the same of the last window that met it."""
        position = self._position.get(node)
        return None if position is None else self._last[position]

    def calls(self, node: int) -> int:
        """Return the calls in the last window."""
        position = self._position.get(node)
        return 0 if position is None else self._calls[position]


def operator_columns_agree(times: OperatorTimes) -> bool:
    """Check times from outside: every column must hold one entry for each node."""
    columns = [times.calls, times.per_forward, times.last]
    if times.mean_per_forward:
        columns.append(times.mean_per_forward)
    return len(times.nodes) % 4 == 0 and all(len(c) == len(times.nodes) for c in columns)


class Memory:
    """Steps in the order in which they ran, and the tensors that lived meanwhile; bytes."""

    def __init__(self, steps: MemorySteps) -> None:
        self.steps = steps
        self.nodes: Sequence[int] = memoryview(steps.nodes).cast("I")
        """Of each step: the operator node."""
        self.ordinals: Sequence[int] = memoryview(steps.ordinals).cast("I")
        """Of each step: which call it is, from 0."""
        self.live: Sequence[int] = memoryview(steps.live).cast("Q")
        """Of each step: in tensors after it."""
        whole: Sequence[int] = memoryview(steps.whole).cast("q")
        self.knows_workspace = bool(len(whole)) and min(whole) >= 0
        """What operators allocate inside is known of every step."""
        self.whole = whole if self.knows_workspace else self.live
        """Of each step: in tensors and, where it is known, in scratch memory inside operators."""
        self.makers: Sequence[int] = memoryview(steps.makers).cast("i")
        """Of each tensor: the operator node that made it, -1 for a cache that was passed in."""
        self.sizes: Sequence[int] = memoryview(steps.sizes).cast("Q")
        """Of each tensor."""
        self.first: Sequence[int] = memoryview(steps.first).cast("I")
        """Of each tensor: the first call after which it is alive."""
        self.last: Sequence[int] = memoryview(steps.last).cast("I")
        """Of each tensor: the last call after which it is alive."""

    def __len__(self) -> int:
        return len(self.nodes)


def memory_columns_agree(steps: MemorySteps, nodes: int) -> bool:
    """Check steps from outside: columns are of one length, and speak of ``nodes`` nodes."""
    count, tensors = len(steps.nodes) // 4, len(steps.makers) // 4
    lengths = (
        *((column, 4 * count) for column in (steps.nodes, steps.ordinals)),
        *((column, 8 * count) for column in (steps.live, steps.whole)),
        *((column, 4 * tensors) for column in (steps.makers, steps.first, steps.last)),
        (steps.sizes, 8 * tensors),
    )
    if any(len(column) != length for column, length in lengths):
        return False
    indexes = memoryview(steps.nodes).cast("I")
    makers = memoryview(steps.makers).cast("i")
    return max(indexes, default=-1) < nodes and -1 <= min(makers, default=0) <= max(
        makers, default=0
    ) < max(nodes, 1)
