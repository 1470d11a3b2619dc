"""What is alive while a forward runs, step by step: columns of little-endian numbers."""

from __future__ import annotations

from tui_profiler.messages.base import OnWire


class MemorySteps(OnWire, frozen=True):
    """Live bytes of the forward that the tree was made of; sent with the tree, before its end.

    A step is one operator call. Of a forward with more than 20,000, several neighbours are one
    step, which keeps their most.
    """

    calls: int
    """Operator calls of the forward."""
    each: int
    """Neighbouring calls in one step: 1 unless there were too many."""
    input_bytes: int
    """Of the inputs, which live from before to after, all together."""
    start_bytes: int
    """Alive before the first call: the inputs, and a cache that was passed in."""
    nodes: bytes
    """uint32, one for each step: index of the operator node with the most tensors."""
    ordinals: bytes
    """uint32, one for each step: which call that was, from 0."""
    live: bytes
    """uint64, one for each step: bytes in tensors after it, inputs included, weights not."""
    whole: bytes
    """int64, one for each step: the most in tensors and in scratch memory inside operators
    together; -1 where the scratch is not known."""
    makers: bytes
    """int32, one for each tensor: index of the operator node that made it, -1 for a cache that was
    passed in. At most 20,000, the largest."""
    sizes: bytes
    """uint64, one for each tensor: bytes that it is counted with in ``live``."""
    first: bytes
    """uint32, one for each tensor: the first call after which it is alive."""
    last: bytes
    """uint32, one for each tensor: the last call after which it is alive."""
    left_out: int = 0
    """Tensors that are counted in ``live`` and have no entry of their own."""


class MemoryWindow(OnWire, frozen=True):
    """What one forward on the CPU allocated, by the memory events of torch's profiler; bytes.

    The columns are packed native arrays, one entry for each module that was called, in the order of
    ``nodes``.
    """

    at: float
    """Seconds since the command was started."""
    weights_bytes: int
    """Storages of parameters and buffers."""
    inputs_bytes: int
    """Storages of the inputs."""
    allocated_bytes: int
    """The most that the forward had allocated at once: activations and workspace."""
    allocations: int
    nodes: bytes
    """uint32: index of the module's node."""
    allocated: bytes
    """uint64: allocated in its calls, modules inside included, freed or not."""
    peak: bytes
    """uint64: the most that the forward had allocated at once, during a call of it."""
