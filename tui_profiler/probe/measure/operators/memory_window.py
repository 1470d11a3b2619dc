"""What one forward on the CPU allocates, by node, from the memory events of torch's profiler.

1. Live is what the forward has allocated and not freed; what was there before it, its inputs and
   the weights, is counted beside it. Frees of what was there before are left out.
2. A node's peak is the most live at once during one of its calls; what it allocates is the sum over
   its calls, modules and operators inside included.
3. Libraries that bypass torch's allocator are not seen.
"""

from array import array
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tui_profiler.messages import MemoryWindow
from tui_profiler.probe.measure.operators.regions import MOST_MODULES, Span
from tui_profiler.probe.torch_compat.kineto import Allocation


class PermanentBytes(NamedTuple):
    """What lives all the time; bytes of storages."""

    weights_bytes: int
    inputs_bytes: int


class _Open:
    """A call that has begun and not ended."""

    def __init__(self, span: Span, live: int) -> None:
        self.span = span
        self.peak = live
        self.allocated = 0


def memory_window(
    at: float, spans: Sequence[Span], events: Iterable[Allocation], held: PermanentBytes
) -> MemoryWindow | None:
    """Return what a forward allocated, None where none of its calls has a node.

    Args:
        at: seconds since the command was started.
        spans: its calls of modules, and the operators that were met, in the order in which they
            began; the root's is the first.
        events: of the allocator, in order of time; times are those of the spans.
        held: what lives all the time.
    """
    if not spans:
        return None
    root = spans[0]
    allocated: dict[int, int] = {}
    peaks: dict[int, int] = {}
    running: list[_Open] = []
    sizes: dict[int, int] = {}
    coming = live = count = 0

    def close(until: float) -> None:
        while running and running[-1].span.end <= until:
            ended = running.pop()
            node = ended.span.node
            peaks[node] = max(peaks.get(node, 0), ended.peak)
            if all(one.span.node != node for one in running):
                allocated[node] = allocated.get(node, 0) + ended.allocated
            if running:
                running[-1].peak = max(running[-1].peak, ended.peak)
                running[-1].allocated += ended.allocated

    for event in events:
        if not root.start <= event.at <= root.end:
            continue
        while coming < len(spans) and spans[coming].start <= event.at:
            close(spans[coming].start)
            running.append(_Open(spans[coming], live))
            coming += 1
        close(event.at)
        if event.size_bytes > 0:
            sizes[event.address] = event.size_bytes
            live += event.size_bytes
            count += 1
            if running:
                running[-1].allocated += event.size_bytes
        else:
            live -= sizes.pop(event.address, 0)
        if running:
            running[-1].peak = max(running[-1].peak, live)
    for span in spans[coming:]:
        close(span.start)
        running.append(_Open(span, live))
    close(float("inf"))
    nodes = sorted(peaks)[:MOST_MODULES]
    return MemoryWindow(
        at=at,
        weights_bytes=held.weights_bytes,
        inputs_bytes=held.inputs_bytes,
        allocated_bytes=peaks[root.node],
        allocations=count,
        nodes=array("I", nodes).tobytes(),
        allocated=array("Q", [allocated.get(node, 0) for node in nodes]).tobytes(),
        peak=array("Q", [peaks[node] for node in nodes]).tobytes(),
    )
