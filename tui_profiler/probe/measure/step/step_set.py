"""Means over one set of steps, the same for every figure: the last recorded ones."""

from collections import Counter, deque
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tui_profiler.probe.measure.step.backward_calls import ByNode

FigureName: TypeAlias = str | tuple[str, Hashable]
"""Of one thing in a step; or of one of several, such as the time in each other model."""

BLOCKS = 4
BLOCK_STEPS = 16
"""The set is of the last 48 to 64 steps: where a block is full, the oldest one is dropped."""
COLUMNS = ("forward", "backward", "recomputed")
_MOST_ROWS = 60_000
"""Nodes in one message: 28 bytes each make 1.7 MB of the 4 MiB that a frame holds."""


@dataclass
class _Block:
    steps: int = 0
    outliers: int = 0
    figures: Counter[FigureName] = field(default_factory=Counter)
    sums: NDArray[np.float64] = field(default_factory=lambda: np.zeros((len(COLUMNS), 2, 0)))
    """(column, whole and own, rows) seconds."""


class StepSet:
    """Sums over the last recorded steps."""

    def __init__(self) -> None:
        self._blocks: deque[_Block] = deque([_Block()], maxlen=BLOCKS)
        self._row_of: dict[int, int] = {}

    @property
    def steps(self) -> int:
        """How many steps are in the set."""
        return sum(block.steps for block in self._blocks)

    @property
    def outliers(self) -> int:
        """How many were left out of it, since its oldest."""
        return sum(block.outliers for block in self._blocks)

    def leave_out(self) -> None:
        """Count a step that is in no mean."""
        self._blocks[-1].outliers += 1

    def add(
        self, figures: Mapping[FigureName, float], times: Mapping[str, Iterable[ByNode]]
    ) -> None:
        """Add a step.

        Args:
            figures: that are summed, by name.
            times: of each of ``COLUMNS``, seconds by node of each forward or pass.
        """
        if self._blocks[-1].steps >= BLOCK_STEPS:
            self._blocks.append(_Block())
        block = self._blocks[-1]
        block.steps += 1
        block.figures.update(figures)
        for column, name in enumerate(COLUMNS):
            for by_node in times[name]:
                self._add(block, column, by_node)

    def _add(self, block: _Block, column: int, by_node: ByNode) -> None:
        rows = [self._row_of.setdefault(node, len(self._row_of)) for node in by_node]
        missing = len(self._row_of) - block.sums.shape[2]
        if missing > 0:
            block.sums = np.pad(block.sums, ((0, 0), (0, 0), (0, missing)))
        if rows:
            # A node is once in what is added: no row is there twice.
            block.sums[column][:, rows] += np.array(list(by_node.values())).T

    def mean(self, name: FigureName) -> float:
        """Return the mean of a figure per step; 0 where there are no steps."""
        total = sum(block.figures[name] for block in self._blocks)
        return total / self.steps if self.steps else 0.0

    def subjects(self, kind: str) -> list[Hashable]:
        """Return of what the set has a figure of a kind, such as lines or models."""
        names = {name: None for block in self._blocks for name in block.figures}
        return [name[1] for name in names if isinstance(name, tuple) and name[0] == kind]

    def columns(self) -> tuple[NDArray[np.uint32], NDArray[np.float32]]:
        """Return the nodes, and (column, whole and own, nodes) mean seconds per step."""
        rows = len(self._row_of)
        sums = np.zeros((len(COLUMNS), 2, rows))
        for block in self._blocks:
            sums[:, :, : block.sums.shape[2]] += block.sums
        nodes = np.fromiter(self._row_of, np.uint32, rows)
        means = (sums / max(self.steps, 1)).astype(np.float32)
        if rows > _MOST_ROWS:
            most = np.sort(np.argpartition(-sums[:, 0].sum(axis=0), _MOST_ROWS)[:_MOST_ROWS])
            return nodes[most], means[:, :, most]
        return nodes, means
