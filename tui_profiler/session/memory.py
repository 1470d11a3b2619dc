"""What was alive after each operator of a forward, read without unpacking it."""

from __future__ import annotations

from collections.abc import Sequence

from tui_profiler.messages import MemorySteps


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
