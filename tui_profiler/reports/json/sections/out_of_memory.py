"""The state of a program when memory ran out, in the JSON report."""

from msgspec import UNSET, UnsetType, field

from tui_profiler.messages import Unknown
from tui_profiler.messages.failure import MemoryPart
from tui_profiler.queries.panel import out_of_memory as queries
from tui_profiler.reports.json_values import Closed, Count, Known, Number, Part, fill
from tui_profiler.session import Session


class AliveUse(Closed, frozen=True):
    """Bytes of one use that were alive."""

    use: str
    bytes: Known[Number]
    source: queries.Source
    """measured: read from the tensors; derived: what was allocated less the measured ones;
    estimated: what was alive there in the recorded forward."""


class OutOfMemory(Part, frozen=True):
    """The last allocation that failed, and what the program was doing then."""

    device: str
    wanted: Known[Number] = field(name="wanted_bytes")
    """Bytes that could not be allocated."""
    part: MemoryPart
    """Of the step; other: outside of those, the loss for example."""
    path: Known[str]
    """Of the innermost module under way; empty for the model itself."""
    steps: Count
    """Training steps that were seen to end before."""
    line: str | None
    """file:line."""
    alive: list[AliveUse]
    allocated: Known[Number] = field(name="allocated_bytes")
    """Bytes allocated by torch's allocator on the device."""
    resident: Known[Number] = field(name="resident_bytes")
    """Of the process, in the machine's memory."""
    caught: bool
    """Whether the program continued after it."""


def out_of_memory_section(session: Session) -> OutOfMemory | UnsetType:
    """Return the state when memory ran out; no key where it did not."""
    found = session.out_of_memory
    if found is None:
        return UNSET
    return fill(
        OutOfMemory,
        found,
        path=Unknown(found.why_no_node) if found.node is None else found.node,
        alive=[
            AliveUse(one.name, one.bytes, one.source) for one in queries.alive_uses(session, found)
        ],
        caught=not found.is_uncaught,
    )
