"""What a model does while it runs, and the machine under it."""

from typing import Literal, TypeAlias

from tui_profiler.messages.base import Figure, Moment, OnWire, Part, Unknown
from tui_profiler.messages.model import Phase

Stage: TypeAlias = Literal[
    "worker",
    "import torch",
    "load model",
    "trace",
    "initialise",
    "idle",
    "first run",
    "ceilings",
    "export",
]
State: TypeAlias = Literal["starting", "running", "paused", "waiting", "finished", "failed"]
"""``waiting``: of a program that is not ours, which runs no forward."""

WIRE_VERSION = 1


class Program(Part, frozen=True):
    """A program with a watched model, which a viewer did not start."""

    name: str
    """Of the watched model, as its program gave it, or its class."""
    pid: int
    command: str
    """Its command line, shortened."""
    started_at: float
    """Unix time, on its own host, from which its messages count."""
    at: Moment
    """Seconds since then, when this was said: a viewer elsewhere has another clock."""
    rank: int | None = None
    """Of several processes that run as one (``torchrun``); None where there is one."""
    ranks: int | None = None
    """How many there are."""
    run: str = ""
    """What the ranks of one run have in common."""
    role: str = ""
    """What else this process is: ``DataLoader worker``."""
    model: str = ""
    """Class of the model that it was seen to run last, where ``name`` is not the model's."""
    device: str = ""
    """Of the model's first parameter; empty: no model was seen yet."""
    per_second: Figure = Unknown("no viewer is attached")
    """Training steps, else forwards, per second, over the last of them."""


class Sandbox(Part, frozen=True):
    """What the kernel denies to a worker that opens a file without ``--trust``."""

    kind: str
    """``landlock+seccomp``, or the one of them that this kernel has."""
    landlock_abi: int
    """Version of Landlock; 0 where there is none."""
    denied: tuple[str, ...]
    """What fails in the worker."""
    lacks: tuple[str, ...] = ()
    """What this kernel cannot deny, and why."""


class Hello(OnWire, frozen=True):
    """First message of every probe."""

    version: int
    pid: int
    accepts: tuple[str, ...]
    """Names of the requests that this probe accepts; keys for others are dimmed."""
    refusal: str = ""
    """Why the others are not accepted; empty where all are."""
    program: Program | None = None
    """Who it is, where the viewer did not start it."""
    sandbox: Sandbox | None = None
    """How the worker is confined; None where it is not."""
    why_no_sandbox: str = ""
    """Why a worker that opens a file without ``--trust`` is not confined; else empty."""


class TorchChildren(OnWire, frozen=True):
    """Child processes of a script that have loaded torch; made by the source, not by the probe."""

    pids: tuple[int, ...]
    """The first of them."""
    count: int
    """How many there have been so far; workers of data loaders are not counted."""


WAITS = "waits: "
"""Begins the detail of a stage in which no forward was recorded so far: why follows."""


class StageStarted(OnWire, frozen=True):
    """The probe began a stage."""

    stage: Stage
    at: Moment
    detail: str = ""


class StageDone(OnWire, frozen=True):
    """The probe finished a stage."""

    stage: Stage
    at: Moment
    seconds: Moment
    detail: str = ""


class RoofQuality(Part, frozen=True):
    """How one roof was measured, and whether anything may be concluded from it."""

    measured_at: float
    """Unix time."""
    busy: float
    """Share of the time of the pieces in which threads waited for a core, 0 to 1."""
    why_not_good: str = ""
    """Why the roof is not good enough to conclude from; empty where it is good."""
    raised_by: str = ""
    """What reached more than was measured: the roof is the rate that it reached; else empty."""
    pieces: int = 0
    """Pieces that were timed."""
    undisturbed: int = 0
    """Those in which no thread waited for a core; the roof is of these alone."""
    scaled: str = ""
    """How the roof follows from one thread's, because all threads together were never undisturbed:
    ``one thread's rate times 2``; empty where all were timed."""


class Ceiling(Part, frozen=True):
    """What this machine can do at most with one dtype, measured."""

    dtype: str
    flops_per_second: Figure
    """Of large matrix products, on a processor of convolutions where those are faster. A
    multiply-add is two."""
    quality: RoofQuality | None = None
    """None in recordings that are older than it."""


class CacheCeiling(Part, frozen=True):
    """What one level of the caches moves at most, measured."""

    level: int
    """2 or 3; 1 is the nearest to a core."""
    bytes: int
    """Working set that fits: all caches of this level that the threads use, together."""
    bytes_per_second: Figure
    """Read plus written, of a copy that fits in this level and not in the one before it."""
    quality: RoofQuality | None = None
    """None where it was not measured."""


class KernelCosts(Part, frozen=True):
    """What kernels that advice speaks of cost on a processor: CPU time of one thread, measured."""

    page_bytes: int
    """Size of a page."""
    autograd_seconds: Figure
    """What a small operator takes longer where autograd records it than in inference mode."""
    no_grad_seconds: Figure
    """What a small operator takes longer under ``no_grad`` than in inference mode."""
    int8_call_seconds: Figure
    """What a linear operator with dynamic quantisation takes longer, on next to no data."""
    int8_speedup: Figure
    """Time of a large product in float32 / that of one with dynamic quantisation."""
    depthwise_speedup: Figure
    """Time of a depthwise convolution in NCHW / that in channels-last, in the caches."""
    convolution_speedup: Figure
    """Time of a dense convolution in NCHW / that in channels-last, in the caches."""


class Ceilings(OnWire, frozen=True):
    """This machine's own roofs."""

    device: str
    threads: int
    compute: tuple[Ceiling, ...]
    bytes_per_second: Figure
    """Read plus written, of a copy from memory to memory, past the caches."""
    op_seconds: Figure
    """Least time of one operator on one element: dispatch and call, no work."""
    measured_at: float
    """Unix time; they are kept per host."""
    seconds: Moment
    """What measuring took; 0 where they were kept from before."""
    busy: float = 0.0
    """Cores that other programs kept busy meanwhile. Where a roof has no quality, above 0.1 of a
    core it may be too low."""
    memory_quality: RoofQuality | None = None
    """Of ``bytes_per_second``."""
    op_quality: RoofQuality | None = None
    """Of ``op_seconds``."""
    caches: tuple[CacheCeiling, ...] = ()
    """Nearest to a core first."""
    why_no_caches: str = ""
    """Why a cache has no roof; empty where all have one."""
    waits_from: str = ""
    """Where waiting for a core was read: ``schedstat``, or ``wall time less CPU time`` where the
    kernel has no such file; empty where nothing waits for a core, as on a GPU."""
    kernels: KernelCosts | None = None
    """None on a GPU, and in recordings of older versions."""
    fault_seconds: Figure = Unknown("not measured")
    """CPU time of one minor page fault, while memory as large as that of big tensors is written
    for the first time; unknown on a GPU, and in files of older versions."""


class RunModel(OnWire, frozen=True):
    """One of the models that a program runs."""

    type: str
    """Its class."""
    index: int
    """Among those of its class, from 1, in the order in which they were called first."""
    path: str = ""
    """The variable through which the script reaches it; empty where none was found."""
    parameters: int = 0
    share: float | None = None
    """Of the time in calls of all models; None until it is measured."""
    deleted: bool = False
    """Whether the program has deleted it."""


class LoopState(OnWire, frozen=True):
    """State of the inference loop: the answer to a request, or a change by the loop."""

    state: State
    at: Moment
    batch: int | None = None
    detail: str = ""
    phase: Phase = ""
    """Which forward is run, of a model that has two."""
    others: tuple[str, ...] = ()
    """Classes of the other models that the program ran."""
    others_shares: tuple[float, ...] = ()
    """Shares of the time in all models' calls, from the end of one forward of the shown model to
    the end of the next, in the order of ``others``; empty until measured."""
    models: tuple[RunModel, ...] = ()
    """Every model that the program ran, the shown one first; empty if there is only one."""


class Heartbeat(OnWire, frozen=True):
    """The probe is alive; sent every second from a separate thread."""

    at: Moment
    forward_seconds: float
    """How long the forward that is running now has taken; 0 between forwards."""


class ThreadTime(Part, frozen=True):
    """What the thread that runs forwards used in one: means over a set of forwards."""

    seconds: float
    """Wall time of the forward."""
    on_core: Figure
    """Seconds of it on a core: the thread's CPU clock."""
    waiting: Figure
    """Seconds of it runnable and on no core: ``schedstat``."""
    minor_faults: Figure
    """Page faults without a disk read."""
    major_faults: Figure
    voluntary_switches: Figure
    """Times that it gave the core away, because it waited for something else."""
    involuntary_switches: Figure
    """Times that another was given its core."""
    collecting: Figure = 0.0
    """Seconds of it in which Python's garbage collector ran."""
    compiled: Figure = 0.0
    """Frames that ``torch.compile`` compiled meanwhile, on any thread."""


class OtherForwards(Part, frozen=True):
    """Recorded forwards of one kind, unlike the one that the tree is made of."""

    name: str
    """What differs: ``inputs (3, 8)``, ``training mode``."""
    forwards: int
    """Number of these since the tree was recorded."""
    share: float
    """Share of the time of all recorded forwards, 0 to 1."""


class Tick(OnWire, frozen=True):
    """Running totals of everything measured so far; at most one a tick.

    The columns are packed native arrays, one entry for each node that was ever called (but see
    ``left_out``), in the order of ``nodes``. A viewer that missed ticks has lost nothing but
    history.
    """

    at: Moment
    forwards: int
    """Forwards in the steady state, finished so far."""
    warmup_forwards: int
    """Forwards before it, not in any figure below."""
    dropped: int
    """Events and messages that were dropped so far, because a bounded queue was full."""
    latency_p50: float
    """Seconds of one forward, over the last ``window`` forwards."""
    latency_p95: float
    per_second: float
    """Items (forwards x batch) a second over the last 5 s of running, pauses not counted; not a
    number where no forward was seen to follow another."""
    window: int
    """Maximum number of a node's last calls in ``p50``, ``p95`` and ``maximum``."""
    nodes: bytes
    """uint32: index of the node."""
    calls: bytes
    """uint64: calls so far."""
    total: bytes
    """float64: seconds in all calls so far, inclusive."""
    own: bytes
    """float64: seconds in all calls so far without the time of modules called inside."""
    last: bytes
    """float32: seconds of the last call."""
    p50: bytes
    """float32: median seconds of a call."""
    p95: bytes
    """float32."""
    maximum: bytes
    """float32: longest call in the window."""
    per_forward: bytes
    """float32: median seconds a forward spends in the node, all its calls together."""
    own_per_forward: bytes
    """float32: the same without the time of modules called inside."""
    left_out: int = 0
    """Nodes that were called and are in no column: those with the least total time, where more
    were called than one message holds."""
    gaps: int = 0
    """How many times in those 5 s forwards may have run unseen; above 0, ``per_second`` is an
    estimate from the others."""
    as_traced: bool = True
    """Whether the times are of forwards with the same kind of inputs and the same mode as the
    traced one; if not, of all others, because those as traced take almost none of the time.
    ``per_second`` is of both."""
    others: int = 0
    """Forwards in the steady state of the other sort, in no figure but ``per_second``."""
    others_share: float = 0.0
    """Share of the time of the recorded forwards that those took, 0 to 1."""
    other_kinds: tuple[OtherForwards, ...] = ()
    """Recorded forwards unlike the one that the tree is made of, by what differs."""
    is_sampled: bool = False
    """Whether forwards ran that were not recorded: ``forwards`` and ``others`` are of the recorded
    ones, and ``others_share`` is not that of all."""
    cold: bool = False
    """Whether the times are of warm-up forwards, because the program ended or paused before the
    steady state. Later ticks may be of the steady state; they count from 0 again."""
    mean_per_forward: bytes = b""
    """float32: mean seconds a forward spends in the node, over one set of forwards that is the same
    for every node; 0 where the node was not called in them. A node's own mean and its children's
    add up to it. Empty where there is none, as in recordings of older versions."""
    own_mean_per_forward: bytes = b""
    """float32: the same without the time of modules called inside."""
    mean_forwards: int = 0
    """Forwards in that set: about the last ``window``."""
    outliers: int = 0
    """Whole forwards among those that were left out of the set, because they took far longer."""
    outliers_share: Figure = Unknown("recordings of earlier versions do not have it")
    """Share of the time of the forwards of the set and of those left out, that the latter took."""
    thread: ThreadTime | None = None
    """Over the same set; None where there is none, as in recordings of older versions."""
    thread_of_all: ThreadTime | None = None
    """Over the set and the forwards that were left out of it; None where there is none."""
    cpu_forwards: int = 0
    """Forwards that the columns below are means over: about the last 64 of those now and then in
    which every call read what its thread used. No other column has them."""
    cpu_per_forward: bytes = b""
    """float32: mean CPU time of the thread that a forward spends in the node; not a number where
    the node was not called in them. Empty before there is one."""
    own_cpu_per_forward: bytes = b""
    """float32: the same without that of modules called inside."""
    unwaited_per_forward: bytes = b""
    """float32: mean wall time in the same forwards, without what the thread waited for a core."""
    own_unwaited_per_forward: bytes = b""
    """float32: the same without the time of modules called inside."""
    asleep_per_forward: bytes = b""
    """float32: mean seconds in the same forwards in which the thread was neither on a core nor
    waiting for one, of calls in which it gave its core away. This and the three columns below are
    empty in recordings of older versions."""
    own_asleep_per_forward: bytes = b""
    """float32: the same without that of modules called inside."""
    faults_per_forward: bytes = b""
    """float32: mean number of minor page faults of the thread in the same forwards."""
    own_faults_per_forward: bytes = b""
    """float32: the same without those of modules called inside."""


class SlowForward(OnWire, frozen=True):
    """One forward of the steady state, whole: slower than 99 of 100, or than all before it.

    The columns are packed native arrays, one entry for each node that it called, in the order of
    ``nodes``. A node's own seconds and its children's make its seconds.
    """

    at: Moment
    """Seconds since the command started, when it was sent."""
    forward: int
    """Which, counted from the first of the steady state that was recorded."""
    seconds: float
    thread: ThreadTime | None
    """What its thread used in it; None where that is not known."""
    nodes: bytes
    """uint32: index of the node."""
    whole: bytes
    """float32: seconds in the node, all its calls together."""
    own: bytes
    """float32: the same without the time of modules called inside."""
    began: Moment | None = None
    """Seconds since the command was started, when it began; None in older recordings."""


OPERATOR_WINDOWS = 32
"""Number of operator windows in the median of an operator."""


class CalledOperators(OnWire, frozen=True):
    """Operators that no node stands for: called by one of the tree, or around one.

    The columns are packed native arrays, one entry for each pair of a node and a name.
    """

    names: tuple[str, ...]
    """``aten::_convolution``, each once."""
    nodes: bytes
    """uint32: index of the operator that called it; of the module where none of the tree did."""
    name_of: bytes
    """uint32: place in ``names``."""
    calls: bytes
    """uint32: calls in the last window."""
    per_forward: bytes
    """float32: mean seconds of a forward in it and in what it calls, those of its own name
    excepted: what is inside one of that name already counts with that."""
    own_per_forward: bytes
    """float32: mean seconds of a forward in it, without the operators that it calls."""


class OperatorTimes(OnWire, frozen=True):
    """Times of operators, from windows of one forward now and then in which all were seen.

    The columns are packed native arrays, one entry for each operator that was ever met, in the
    order of ``nodes``. A forward in a window is a little slower; no other figure has it.
    """

    at: Moment
    windows: int
    """Windows so far; ``per_forward`` is of the last ``OPERATOR_WINDOWS`` of them."""
    forward_seconds: float
    """Of the forward in the last window."""
    unmatched: int
    """Operators of the last window without a node."""
    why_none: str
    """Why there are no more windows; empty while there are."""
    nodes: bytes
    """uint32: index of the operator's node."""
    calls: bytes
    """uint32: calls in the last window."""
    per_forward: bytes
    """float32: median seconds a forward spends in it and in what it calls, all calls together."""
    last: bytes
    """float32: the same of the last window that met it."""
    mean_per_forward: bytes = b""
    """float32: mean of the same windows without those that took far longer: unlike medians, means
    of several operators add up. Empty in recordings of older versions."""
    own_per_forward: bytes = b""
    """float32: mean over those windows of its time without the operators that it calls. Empty in
    recordings of older versions."""
    called: CalledOperators | None = None
    """None in recordings of older versions."""


class Overhead(OnWire, frozen=True):
    """What watching costs, measured by running watched and bare batches of forwards in turn."""

    ratio: float
    """Time watched over time bare, less one: 0.008 is 0.8 %."""
    low: float
    """Lower end of the 95 % interval of ``ratio``."""
    high: float
    """Upper end."""
    pairs: int
    """Pairs of batches compared; 0 where it is an estimate from the number of recorded calls and
    what one costs, because a program that is not ours runs no batches for us."""
    share: float = 1.0
    """Of the forwards that are recorded."""
