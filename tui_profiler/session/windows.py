"""What operator windows and events on a GPU have said of modules so far."""

from __future__ import annotations

from typing import NamedTuple

from tui_profiler.messages.windows import DeviceTimes, MemoryWindow, Region, WindowTimes


class Shares(NamedTuple):
    """Where a module's time went in the last operator window; seconds of one forward."""

    seconds: float
    host: float
    other: float

    @property
    def operators(self) -> float:
        """Seconds of operators that nodes stand for, in the module and below it."""
        return max(self.seconds - self.host - self.other, 0.0)


class Windows:
    """The last operator window, by module."""

    def __init__(self, times: WindowTimes) -> None:
        self.times = times
        indexes = memoryview(times.nodes).cast("I")
        self._position = {node: position for position, node in enumerate(indexes)}
        self._columns = [
            memoryview(column).cast("f") for column in (times.seconds, times.host, times.other)
        ]
        self._regions = {region.node: region for region in times.regions}

    def shares(self, node: int) -> Shares | None:
        """Return where a module's time went, None where it was not called."""
        position = self._position.get(node)
        if position is None:
            return None
        return Shares(*(column[position] for column in self._columns))

    def region(self, node: int) -> Region | None:
        """Return what an opaque module ran inside, None for any other."""
        return self._regions.get(node)


class MeasuredMemory:
    """What a forward on the CPU allocated."""

    def __init__(self, window: MemoryWindow) -> None:
        self.window = window
        indexes = memoryview(window.nodes).cast("I")
        self._position = {node: position for position, node in enumerate(indexes)}
        self._allocated = memoryview(window.allocated).cast("Q")
        self._peak = memoryview(window.peak).cast("Q")

    @property
    def peak_bytes(self) -> int:
        """The most that was held at once: weights, inputs, and what the forward allocated."""
        held = self.window.weights_bytes + self.window.inputs_bytes
        return held + self.window.allocated_bytes

    def allocated(self, node: int) -> int | None:
        """Return the bytes allocated in a module's calls, None where it was not called."""
        position = self._position.get(node)
        return None if position is None else self._allocated[position]

    def peak(self, node: int) -> int | None:
        """Return the most the forward had allocated during a call, None where it was not called."""
        position = self._position.get(node)
        return None if position is None else self._peak[position]


class DeviceTimings:
    """What modules take on the GPU."""

    def __init__(self, times: DeviceTimes) -> None:
        self.times = times
        indexes = memoryview(times.nodes).cast("I")
        self._position = {node: position for position, node in enumerate(indexes)}
        self._per_forward = memoryview(times.per_forward).cast("f")

    def per_forward(self, node: int) -> float | None:
        """Return the median seconds of a forward, None where the node was never timed."""
        position = self._position.get(node)
        return None if position is None else self._per_forward[position]


def window_columns_agree(times: WindowTimes) -> bool:
    """Check times from outside: every column must hold one entry for each node."""
    columns = (times.seconds, times.host, times.other)
    return len(times.nodes) % 4 == 0 and all(len(c) == len(times.nodes) for c in columns)


def memory_columns_agree(window: MemoryWindow) -> bool:
    """Check sizes from outside: every column must hold one entry for each node."""
    nodes, rest = divmod(len(window.nodes), 4)
    return not rest and all(len(one) == 8 * nodes for one in (window.allocated, window.peak))


def device_columns_agree(times: DeviceTimes) -> bool:
    """Check times from outside: every column must hold one entry for each node."""
    nodes, rest = divmod(len(times.nodes), 4)
    narrow = (times.per_forward, times.own_per_forward)
    wide = (times.calls, times.total)
    return (
        not rest
        and all(len(column) == 4 * nodes for column in narrow)
        and all(len(column) == 8 * nodes for column in wide)
    )
