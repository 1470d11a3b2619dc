"""The columns of the last operator times, read by node without unpacking them."""

from __future__ import annotations

from tui_profiler.messages import OperatorTimes


class Operators:
    """What windows have said of operators so far."""

    def __init__(self, times: OperatorTimes) -> None:
        self.times = times
        indexes = memoryview(times.nodes).cast("I")
        self._position = {node: position for position, node in enumerate(indexes)}
        self._calls = memoryview(times.calls).cast("I")
        self._per_forward = memoryview(times.per_forward).cast("f")
        self._last = memoryview(times.last).cast("f")

    def __len__(self) -> int:
        return len(self._position)

    def per_forward(self, node: int) -> float | None:
        """Give the median seconds a forward spends in an operator, None where it was never met."""
        position = self._position.get(node)
        return None if position is None else self._per_forward[position]

    def last(self, node: int) -> float | None:
        """Give the same of the last window that met it."""
        position = self._position.get(node)
        return None if position is None else self._last[position]

    def calls(self, node: int) -> int:
        """Give the calls in the last window."""
        position = self._position.get(node)
        return 0 if position is None else self._calls[position]


def operator_columns_agree(times: OperatorTimes) -> bool:
    """Check times from outside: every column must hold one entry for each node."""
    columns = (times.calls, times.per_forward, times.last)
    return len(times.nodes) % 4 == 0 and all(len(c) == len(times.nodes) for c in columns)
