"""The columns of a tick, read by node without unpacking them."""

from __future__ import annotations

from msgspec import Struct

from tui_profiler.messages import Tick


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
    """Median of the time in all calls of one forward."""
    own_per_forward: float
    """The same without modules called inside."""

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
        self._per_forward = memoryview(tick.per_forward).cast("f")
        self._own_per_forward = memoryview(tick.own_per_forward).cast("f")

    def __contains__(self, node: int) -> bool:
        return node in self._position

    def __len__(self) -> int:
        return len(self._position)

    def per_forward(self, node: int) -> float | None:
        """Give the median seconds a forward spends in a node, None where it has no times."""
        position = self._position.get(node)
        return None if position is None else self._per_forward[position]

    def own_per_forward(self, node: int) -> float | None:
        """Give the same without the time of modules called inside."""
        position = self._position.get(node)
        return None if position is None else self._own_per_forward[position]

    def last(self, node: int) -> float | None:
        """Give the seconds of the last call."""
        position = self._position.get(node)
        return None if position is None else self._last[position]

    def of(self, node: int) -> Timing | None:
        """Give everything measured of a node, None where it was never called or left out."""
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
            per_forward=self._per_forward[position],
            own_per_forward=self._own_per_forward[position],
        )


def column_lengths_agree(tick: Tick) -> bool:
    """Check a tick from outside: every column must hold one entry for each node."""
    nodes, rest = divmod(len(tick.nodes), 4)
    wide = (tick.calls, tick.total, tick.own)
    narrow = (tick.last, tick.p50, tick.p95, tick.maximum, tick.per_forward, tick.own_per_forward)
    return (
        rest == 0
        and all(len(column) == 8 * nodes for column in wide)
        and all(len(column) == 4 * nodes for column in narrow)
    )
