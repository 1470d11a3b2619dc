"""What page faults take of a forward: memory that the kernel hands out anew each time.

The allocator returns large tensors to the kernel when they are freed, and the first write to each
page of the next one is a page fault. The kernel counts them; what one costs was measured beside the
roofs.
"""

from functools import lru_cache

from msgspec import Struct

from tui_profiler.messages import known
from tui_profiler.queries.time.node_seconds import unwaited_seconds
from tui_profiler.session import Session, Tree

DOUBT = 0.25
"""Of the cost of a fault: clearing a page depends on what else uses caches and memory."""
LEAST_FRESH_BYTES = 128 * 1024
"""Smaller tensors come from memory that glibc keeps (``M_MMAP_THRESHOLD``, mallopt(3))."""


class PageFaults(Struct, frozen=True):
    """Page faults of one forward."""

    count: float
    """Minor faults of the thread that runs forwards."""
    seconds_each: float
    page_bytes: int

    @property
    def seconds(self) -> float:
        """Seconds of all of them."""
        return self.count * self.seconds_each

    def seconds_of(self, tree: Tree, more_bytes: float) -> float:
        """Return the seconds of the faults of buffers that no node stands for.

        The faults of a forward are shared by all large buffers, by their bytes.

        Args:
            tree: of the model.
            more_bytes: of those buffers.
        """
        every = sum(fresh_bytes(tree).values()) + more_bytes
        faults = self.count * more_bytes / every if every else 0.0
        return min(faults, more_bytes / self.page_bytes) * self.seconds_each


def page_faults(session: Session) -> PageFaults | None:
    """Return the page faults of a forward; None where number or cost is not known."""
    thread = session.tick.thread if session.tick is not None else None
    kernels = session.ceilings.kernels if session.ceilings is not None else None
    whole = unwaited_seconds(session, 0) if session.tree is not None else None
    if session.ceilings is None or thread is None or kernels is None or whole is None:
        return None
    count, each = known(thread.minor_faults), known(session.ceilings.fault_seconds)
    if count is None or each is None:
        return None
    # All of them take no more than the forward does.
    return PageFaults(count, min(each, whole / count) if count else each, kernels.page_bytes)


@lru_cache(maxsize=2)
def fresh_bytes(tree: Tree) -> dict[int, float]:
    """Return the bytes that operators with large outputs write to new memory, by node."""
    found = {}
    for index, node in enumerate(tree.nodes):
        if node.kind != "op" or not tree.costs[index].output_bytes:
            continue
        if all(one.bytes < LEAST_FRESH_BYTES for one in node.outputs):
            continue
        found[index] = float(tree.costs[index].output_bytes)
    return found
