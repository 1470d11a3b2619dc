"""CPU time of every node: means over forwards now and then in which each call reads its thread.

1. Those forwards are slower by what the readings take: they are in no other column, but counted.
2. The readings may take ``PART`` of the budget; what they took says when the next forward is due.
   Most forwards are timed as they are: at least ``LEAST_BETWEEN`` come between two that read.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tui_profiler.probe.measure.clock.call_readings import FIGURES
from tui_profiler.probe.measure.clock.forward import Forward
from tui_profiler.probe.measure.clock.forward_pattern import Pattern
from tui_profiler.probe.measure.clock.totals_columns import ForwardSets, by_node
from tui_profiler.system.real_time import perf_counter

WINDOW = 64
"""About so many of the last forwards that read are in the means."""
PART = 0.05
"""Of the budget, that readings may take."""
LEAST_BETWEEN = 8
"""Forwards that are timed without readings, between two that read."""
MOST_SECONDS = 60.0
"""From one to the next at most, where the budget allows any."""
COLUMNS = ("cpu", "unwaited", "asleep", "faults")
"""Figures of ``Tick``, each also without that of modules called inside."""


class CpuTimes:
    """Means of CPU time, wall time without waiting for a core, time asleep and page faults.

    Args:
        nodes: of the tree.
    """

    def __init__(self, nodes: int) -> None:
        self._row_of_node = np.full(nodes, -1, np.intp)
        self._rows = 0
        self._sets = {name: ForwardSets(WINDOW) for name in COLUMNS}

    @property
    def forwards(self) -> int:
        """How many forwards the means are over."""
        return self._sets["cpu"].forwards

    def add(self, pattern: Pattern, forward: Forward) -> None:
        """Add a forward in which calls read.

        Args:
            pattern: its shape.
            forward: the forward.
        """
        used = np.frombuffer(forward.used).reshape(-1, FIGURES)
        on_core, waiting, asleep, faults, wall = (figure[pattern.calls, None] for figure in used.T)
        rows = self._row_of_node[pattern.nodes]
        new = pattern.nodes[rows < 0]
        self._row_of_node[new] = np.arange(self._rows, self._rows + len(new))
        self._rows += len(new)
        rows = self._row_of_node[pattern.nodes]
        columns = (on_core, wall - waiting, asleep, faults)
        for name, calls in zip(COLUMNS, columns, strict=True):
            sets = self._sets[name]
            sets.grow(self._rows)
            sets.add(rows, *by_node(pattern, calls), None)

    def columns(self, nodes: NDArray[np.uint32]) -> dict[str, bytes]:
        """Return the columns of ``Tick`` for these nodes; none before there is a forward."""
        if not self.forwards:
            return {}
        rows = self._row_of_node[nodes]
        found: dict[str, bytes] = {}
        for name, sets in self._sets.items():
            whole, own = means = sets.means(rows)
            means[:, rows < 0] = np.nan
            found[f"{name}_per_forward"] = whole.tobytes()
            found[f"own_{name}_per_forward"] = own.tobytes()
        return found


class CpuReadings:
    """Decides which forwards read, and tells what that costs.

    Args:
        budget: what watching may cost, as a share of the time without it.
        now: seconds of a clock.
    """

    def __init__(self, budget: float, now: Callable[[], float] = perf_counter) -> None:
        self._budget = PART * budget
        self._now = now
        self._read_at: float | None = None
        self._next = 0.0
        self._between = 0
        self.share = 0.0
        """What readings cost, as a share of the time: the last one's, until the next is due."""

    def count(self, forwards: int) -> None:
        """Count forwards that were timed without readings."""
        self._between += forwards

    def note(self, spent: float) -> None:
        """Take note of a forward in which readings took so many seconds."""
        pause = min(spent / self._budget, MOST_SECONDS)
        self.share = spent / pause if pause else 0.0
        self._next, self._between = self._now() + pause, 0

    @property
    def is_due(self) -> bool:
        """Whether the next forward is to read."""
        is_allowed = self._budget > 0 and self._now() >= self._next
        return is_allowed and self._between >= LEAST_BETWEEN
