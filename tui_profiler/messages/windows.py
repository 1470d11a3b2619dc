"""Figures of modules from windows and events: operators, opaque modules, GPU, live memory."""

from tui_profiler.messages.base import Moment, OnWire, Part

COMPILED_CODE = "compiled code"
"""Stands for what a compiled region runs itself, without operators: its fused kernels."""


class RegionPart(Part, frozen=True):
    """One kind of operator that an opaque module called, in the last window."""

    name: str
    """``aten::addmm``, or ``COMPILED_CODE``."""
    calls: int
    seconds: float


class Region(Part, frozen=True):
    """A module whose parts are not called on their own, opened by an operator window."""

    node: int
    why: str
    """Why it is opaque."""
    parts: tuple[RegionPart, ...]
    """With the most time first, at most 20; what they call is in them."""


class WindowTimes(OnWire, frozen=True):
    """Where the time of modules goes, in the last forward in an operator window.

    The columns are packed native arrays, one entry for each module that was called, in the order of
    ``nodes``. A module's ``seconds`` are the times of its operators and of those of all modules
    below it, ``other`` and ``host``.
    """

    at: Moment
    nodes: bytes
    """uint32: index of the module's node."""
    seconds: bytes
    """float32: in the module, all its calls together."""
    host: bytes
    """float32: of them, in which no operator ran: Python, and waiting."""
    other: bytes
    """float32: of them, in compiled code, in operators that no node stands for, and in calling
    those that one does: an operator may choose another, which is what was traced."""
    regions: tuple[Region, ...] = ()
    host_shares: tuple[float, ...] | None = None
    """Share of the root's time in which no operator ran, of the last windows in which the thread
    hardly waited for a core, oldest first. None in recordings of older versions."""


class DeviceTimes(OnWire, frozen=True):
    """Running totals between events on the GPU's stream, around every module call of a forward.

    The columns are packed native arrays, one entry for each node that was ever timed, in the order
    of ``nodes``. Between the two events of a module lies what its kernels took and what the stream
    waited for the host meanwhile.
    """

    at: Moment
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
    own: bytes = b""
    """float64: seconds in all calls so far without modules called inside. This and all below is
    empty, or 0, in recordings of older versions."""
    last: bytes = b""
    """float32: seconds of the last call."""
    p50: bytes = b""
    """float32: median seconds of a call."""
    p95: bytes = b""
    """float32."""
    maximum: bytes = b""
    """float32: longest call in the window."""
    mean_per_forward: bytes = b""
    """float32: mean seconds a forward spends in the node, over one set of forwards that is the same
    for every node: a node's own mean and its children's add up to it."""
    own_mean_per_forward: bytes = b""
    """float32: the same without modules called inside."""
    mean_forwards: int = 0
    """Forwards in that set."""
    window: int = 0
    """Maximum number of a node's last calls in ``p50``, ``p95`` and ``maximum``."""
    asked: int = 0
    """Forwards of which the next is known."""
    caught_up: int = 0
    """Of them: when the host left the model, the GPU had already come to the last call inside it.
    It had nothing else to do: it waited for the host."""
    latency_p50: float = 0.0
    """Seconds of one forward, over the last ones; not a number before there are some."""
    latency_p95: float = 0.0


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

    The columns are packed native arrays, one entry for each module that was called and each
    operator that was met, in the order of ``nodes``. Recordings of older versions have modules
    alone.
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
    """uint32: index of the node."""
    allocated: bytes
    """uint64: allocated in its calls with all that is inside, freed or not."""
    peak: bytes
    """uint64: the most that the forward had allocated at once, during a call of it."""
