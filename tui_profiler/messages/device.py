"""What modules take on a GPU, beside what they take on the host."""

from __future__ import annotations

from tui_profiler.messages.base import Moment, OnWire


class DeviceTimes(OnWire, frozen=True):
    """Running totals between events on the GPU's stream, around every module call of a forward.

    The columns are packed native arrays, one entry for each node that was ever timed, in the order
    of ``nodes``. Between the two events of a module lies what its kernels took and what the stream
    waited for the host meanwhile.
    """

    at: Moment
    """Seconds since the command was started."""
    forwards: int
    """Forwards read so far."""
    dropped: int
    """Forwards that could not be timed: too few events were free, or the module's end was lost."""
    captured: int
    """Forwards during the capture of a CUDA graph, in which no event is recorded."""
    why_none: str
    """Why no more forwards are timed; empty while they are."""
    nodes: bytes
    """uint32: index of the node."""
    calls: bytes
    """uint64: calls so far."""
    total: bytes
    """float64: seconds in all calls so far, inclusive."""
    per_forward: bytes
    """float32: median seconds a forward spends in the node, all its calls together."""
    own_per_forward: bytes
    """float32: the same without what modules called inside take."""
