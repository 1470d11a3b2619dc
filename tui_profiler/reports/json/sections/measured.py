"""The measured half of the JSON report: times, machine, energy."""

from typing import Annotated, Literal, TypedDict

from msgspec import Meta, field

from tui_profiler.messages import SlowForward, Unknown
from tui_profiler.queries.cost.flat import NO_SELF_TIME
from tui_profiler.queries.cost.memory_compared import why_no_window
from tui_profiler.queries.cost.totals import any_rate, is_estimated_rate, why_no_times
from tui_profiler.queries.panel.provenance import operator_time_words
from tui_profiler.queries.time.base import BaseName, base, own_share, share
from tui_profiler.queries.time.gpu_times import host_seconds
from tui_profiler.queries.time.node_seconds import (
    CPU_OF_CALLS,
    node_seconds,
    part_of,
    root_seconds,
    why_no_cpu_time,
)
from tui_profiler.queries.time.operator_seconds import operator_seconds
from tui_profiler.queries.time.slow_forwards import CauseName, causes, is_slow
from tui_profiler.reports.json.sections.step import node_step
from tui_profiler.reports.json_values import Count, Known, OfSome, Part, Size, fill, or_why
from tui_profiler.session import Session

OPS_PER_FORWARD = "operators are timed per forward, all calls together"
NOT_ALL_RECORDED = Unknown("not all forwards were recorded")
NO_WHOLE = "no whole forward was measured"
NO_SELF_SHARE = "self times of operators are shares of operator windows: the flat table has them"
NOT_CALLED = "this module was not called while it was measured"
LEFT_OUT = "not called, or one of the modules with the least time, left out of too many"


class Whole(Part, frozen=True):
    """What base_share and self_base_share of the layers are shares of: what the user waits for."""

    name: BaseName
    """step: a training step, whose backward was timed. request: of a language model, whose phase
    is known. forward: everything else that was measured. MACs or parameters: nothing was."""
    seconds: Known[Size]
    """Mean."""


def whole_section(session: Session) -> Whole:
    """Return the whole that shares are of."""
    whole = base(session)
    return Whole(whole.name, Unknown(NO_WHOLE) if whole.seconds is None else whole.seconds)


class Thread(Part, frozen=True):
    """Counters of the thread that runs forwards: means per forward, as mean_per_forward_s."""

    seconds: float
    """Wall time of the forward."""
    on_core: Known[float] = field(name="on_core_s")
    """On a core: CPU time of the thread."""
    waiting: Known[float] = field(name="waiting_s")
    """Runnable but not on a core: the kernel's schedstat."""
    minor_faults: Known[float]
    """Page faults without a disk read."""
    major_faults: Known[float]
    voluntary_switches: Known[float]
    """Voluntary context switches: it waited for something other than a core."""
    involuntary_switches: Known[float]
    """Involuntary context switches: another thread got its core."""
    collecting: Known[float] = field(name="collecting_s")
    """In Python's garbage collector."""
    compiled: Known[float]
    """Frames that torch.compile compiled."""


class ProgramBeside(Part, frozen=True):
    """Another process of this machine."""

    pid: Count
    name: str
    """Name of the process, from the kernel."""
    cores: Known[Size]
    """CPU seconds per second, over the two seconds in which the forward ended."""


class SlowCause(Part, frozen=True):
    """A counter of a slow forward that is above its mean."""

    cause: CauseName
    """waiting: for a core. blocked: neither on a core nor waiting for one. disk: blocked, with
    major page faults. steal: off the core without a context switch, other virtual machines took
    it. off a core: likewise, cause unknown. collector: Python's garbage collector. compile, page
    faults: on a core, with frames compiled by torch.compile or many page faults. quota: waiting,
    because a control group had used up its CPU quota. clock, gpu clock: cores or GPU at a lower
    clock rate than usual. on a core: longer on a core, cause unknown."""
    seconds: float
    """Above the mean."""
    programs: list[ProgramBeside] = field(default_factory=list)
    """Of waiting: the programs that used most of the cores meanwhile, as read by the viewer; empty
    if there were none, and without a viewer on this machine."""


class Slowest(Part, frozen=True):
    """The slowest forward of the steady state."""

    forward: Count
    """Its number among the recorded forwards, from 1."""
    seconds: float
    thread: Thread | None
    causes: list[SlowCause]
    """Each at least a tenth of the additional time, largest first; empty if none is known."""


class OnGpu(Part, frozen=True):
    """Forwards timed on a GPU with CUDA events."""

    forwards: Count
    dropped: Count
    """Forwards that could not be timed: no events were free, or they ended by an exception."""
    captured: Count
    """Forwards in which a CUDA graph was captured: they have no times."""
    waiting_share: Known[float] = field(name="waits_for_host_share")
    """Share of the forwards at whose end, on the host, the GPU had already come to the last module:
    it waited for the host. From 0.5 on the host limits the GPU."""
    host_mean_s: Known[Size]
    """Mean time in which the host enqueues a forward."""


class OtherKind(Part, frozen=True):
    """Recorded forwards of one kind, unlike the one that the costs are of."""

    name: str
    """What differs: "inputs (3, 8)", "training mode"."""
    forwards: Count
    share: Known[float] = field(name="time_share")
    """Share of the time of all recorded forwards."""


class Latency(Part, frozen=True):
    """Seconds per forward."""

    latency_p50: Known[float] = field(name="p50_s")
    latency_p95: Known[float] = field(name="p95_s")
    mean_s: Known[float]
    """Mean of all forwards so far, those far longer included."""
    forwards: Count
    warmup_forwards: Count
    """Warm-up forwards, which are in no figure."""
    cold: bool
    """Whether all times are of warm-up forwards ("forwards" is their number), because the program
    ended or paused before the steady state. Such times are longer. The forward that was recorded
    for the costs is never one of them."""
    as_traced: bool
    """Whether all times are of forwards with the same kind of inputs and the same mode as the
    recorded one, which the costs are of. If not, such forwards took less than a twentieth of the
    time: all times are of the other forwards, and no figure combines times with costs."""
    others: Count = field(name="other_forwards")
    """Recorded forwards of the other kind: in no time, but in the throughput."""
    others_share: Known[float] = field(name="other_time_share")
    """Their share of the time of all forwards; null if not all were recorded."""
    other_kinds: list[OtherKind]
    """Recorded ones of these by what differs, the most frequent first (new in 0.1)."""
    outliers: Count = field(name="far_longer")
    """Forwards that took far longer than others, in no mean but in p50_s, p95_s and thread."""
    outliers_share: Known[float] = field(name="far_longer_time_share")
    """Their share of the time of the last forwards, which the means and they are of."""
    thread: Thread | None
    """Mean of the last forwards, those far longer included. null for older recordings."""
    slowest: Slowest | None
    """null where none took a tenth longer than the mean, or times are of other forwards. A time of
    the host, on a GPU as well."""
    gpu: OnGpu | None
    """null if times are those of the thread that runs forwards; else all times here and of layers
    are those of the GPU, but for thread and CPU time."""


class Throughput(Part, frozen=True):
    """Items per second, or forwards where `batch` is null."""

    per_s: Known[float]
    """Items (forwards x batch) per second; forwards per second where `batch` is null."""
    provenance: Literal["counted", "estimated"]
    """estimated if only a share of a program's forwards was recorded."""


class Overhead(Part, frozen=True):
    """Profiling overhead: profiled time / plain time - 1."""

    ratio: Known[float]
    interval: Annotated[list[Known[float]], Meta(min_length=2, max_length=2)]
    """95 % confidence interval: low, high."""
    pairs: Count


class MeasuredMemory(Part, frozen=True):
    """Memory of one forward on the CPU, from the memory events of torch's profiler.

    null without such a window.
    """

    peak_bytes: Count
    """Peak: weights, inputs and allocations."""
    weights_bytes: Count
    """Storages of parameters and buffers."""
    inputs_bytes: Count
    """Storages of the inputs."""
    allocated_bytes: Count
    """Peak of the forward's allocations."""
    allocations: Count
    """Number of allocations of the forward."""


class LayerMemory(Part, frozen=True):
    """Of a module that was called in a window with memory events."""

    allocated_bytes: Count
    """Allocated during its calls, child modules included, freed or not."""
    peak_bytes: Count
    """Peak of the forward's allocations during its calls."""


class Timing(Part, frozen=True):
    """Seconds of a measured module, or of an operator.

    Means of operators are derived: what operator windows say of the mean self time of the module
    around them. Medians of operators are of the windows themselves, whose forwards are slower.
    """

    calls: Count
    mean_s: Known[Size]
    """Per call."""
    p50_s: Known[Size]
    """Per call."""
    p95_s: Known[Size]
    """Per call."""
    max_s: Known[Size]
    """Per call, of the last calls."""
    self_s: Known[Size]
    """Median per forward, without child modules."""
    per_forward_s: Known[Size]
    """Median per forward, all calls together."""
    mean_per_forward_s: Known[Size]
    """Mean per forward, all calls together, over one set of forwards that is the same for every
    module: about the last 256, without whole forwards that took far longer. Of a module it is
    self_mean_s plus mean_per_forward_s of the child modules; operators never exceed self_mean_s of
    their module."""
    self_mean_s: Known[float]
    """The same without child modules, or without the operators that an operator calls."""
    total_mean_s: Known[Size]
    """Former name of mean_per_forward_s."""
    share: Known[Size]
    """mean_per_forward_s / that of the root."""
    base_share: Known[Size]
    """Share of what base names: in training of the step, with the backward and recomputation."""
    self_base_share: Known[Size]
    """Without child modules."""
    cpu_mean_s: Known[Size]
    """Mean CPU time of the thread in a forward, all calls together, over other forwards than the
    rest: those now and then in which every call reads it."""
    self_cpu_mean_s: Known[Size]
    """The same without child modules."""
    backward_mean_s: Known[Size]
    """Mean per training step: its backward, all calls together, child modules included, without
    what is recomputed in it. Over the recorded steps, as step.mean_s."""
    recompute_mean_s: Known[Size]
    """Likewise: in which checkpointing ran it, or modules inside of it, again in the backward."""


def latency_section(session: Session) -> Latency | Unknown:
    """Return the seconds of a forward, or why none was measured."""
    tick, reason = session.tick, why_no_times(session)
    if tick is None or reason:
        return Unknown(reason)
    root = session.timings.of(0) if session.timings is not None else None
    used, slow = tick.thread_of_all or tick.thread, session.slow
    return fill(
        Latency,
        tick,
        other_kinds=[fill(OtherKind, kind) for kind in tick.other_kinds],
        mean_s=root.mean if root is not None else None,
        others_share=NOT_ALL_RECORDED if tick.is_sampled and tick.others else tick.others_share,
        thread=None if used is None else fill(Thread, used),
        slowest=_slowest(session, slow[0]) if slow and is_slow(session, slow[0]) else None,
        gpu=_on_gpu(session),
    )


def throughput_section(session: Session) -> Throughput | Unknown:
    """Return the items per second, or why none were measured."""
    reason = why_no_times(session)
    if session.tick is None or reason:
        return Unknown(reason)
    return Throughput(
        per_s=any_rate(session),
        provenance="estimated" if is_estimated_rate(session) else "counted",
    )


def overhead_section(session: Session) -> Overhead | Unknown:
    """Return what measuring cost, or why that is not known."""
    found = session.overhead
    if found is None:
        return Unknown("too short to compare watched and bare forwards; measure for longer")
    return Overhead(ratio=found.ratio, interval=[found.low, found.high], pairs=found.pairs)


def measured_memory(session: Session) -> MeasuredMemory | Unknown:
    """Return what a forward held at its worst moment, where allocations were seen."""
    found = session.memory_window
    if found is None:
        return Unknown(why_no_times(session) or why_no_window(session).reason)
    return fill(MeasuredMemory, found.window, peak_bytes=found.peak_bytes)


def layer_memory(session: Session, node: int) -> LayerMemory | Unknown:
    """Return what one node allocated, or why that was not seen."""
    found = session.memory_window
    if found is None:
        return Unknown(why_no_times(session) or why_no_window(session).reason)
    allocated, peak = found.allocated(node), found.peak(node)
    if allocated is not None and peak is not None:
        return LayerMemory(allocated_bytes=allocated, peak_bytes=peak)
    tree = session.tree
    if tree is not None and tree.nodes[node].kind == "op":
        return OfSome("not seen in the window with memory events", "kind=op")
    return OfSome("not called in the window", "kind=module")


def timing(session: Session, node: int) -> Timing | Unknown:
    """Return what was measured of one layer, or why nothing was."""
    tree = session.tree
    if tree is not None and tree.nodes[node].kind == "op":
        return _operator(session, node)
    found = session.timings.of(node) if session.timings is not None else None
    if found is None and (reason := why_no_times(session)):
        return Unknown(reason)
    if found is None:
        tick = session.tick
        without = LEFT_OUT if tick is not None and tick.left_out else NOT_CALLED
        return OfSome(without, "kind=module")
    of_forward = part_of(found.per_forward, root_seconds(session))
    mean = found.per_forward if found.is_mean else _mean(session, found.total)
    own_mean = found.own_per_forward if found.is_mean else _mean(session, found.own_total)
    return Timing(
        calls=found.calls,
        mean_s=found.mean,
        p50_s=found.p50,
        p95_s=found.p95,
        max_s=found.maximum,
        self_s=found.own_p50_per_forward,
        per_forward_s=found.p50_per_forward,
        mean_per_forward_s=mean,
        self_mean_s=own_mean,
        total_mean_s=mean,
        share=or_why(of_forward, NO_WHOLE),
        cpu_mean_s=or_why(found.cpu_per_forward, why_no_cpu_time(session, node)),
        self_cpu_mean_s=or_why(found.own_cpu_per_forward, why_no_cpu_time(session, node)),
        **_of_base(session, node),
        **_backward(session, node),
    )


class _OfBase(TypedDict):
    """Shares of the base; each is a field of a timing."""

    base_share: Known[Size]
    self_base_share: Known[Size]


def _of_base(session: Session, node: int) -> _OfBase:
    whole, is_op = base(session), session.tree is not None and session.tree.nodes[node].kind == "op"
    if not whole.is_measured:
        return {"base_share": Unknown(NO_WHOLE), "self_base_share": Unknown(NO_WHOLE)}
    not_in_steps = OfSome("not called in recorded steps", "kind=op" if is_op else "kind=module")
    own = own_share(session, node)
    return {
        "base_share": or_none(share(session, node), not_in_steps),
        "self_base_share": OfSome(NO_SELF_SHARE, "kind=op")
        if is_op
        else or_none(own, not_in_steps),
    }


def or_none(value: float | None, why: OfSome) -> Known[Size]:
    """Return a figure, or why some nodes have none."""
    return why if value is None else value


class _Backward(TypedDict):
    """What a training step takes beside the forward; each is a field of a timing."""

    backward_mean_s: Known[Size]
    recompute_mean_s: Known[Size]


def _backward(session: Session, node: int) -> _Backward:
    found = node_step(session, node)
    if isinstance(found, Unknown):
        return {"backward_mean_s": found, "recompute_mean_s": found}
    return {"backward_mean_s": found.backward, "recompute_mean_s": found.recomputed}


def _mean(session: Session, seconds: float) -> float | None:
    """Return the mean per forward over all forwards of the tick: of recordings without another."""
    tick = session.tick
    return seconds / tick.forwards if tick is not None and tick.forwards else None


def _operator(session: Session, node: int) -> Timing | Unknown:
    operators = session.operators
    seconds = node_seconds(session, node)
    if operators is None or seconds is None:
        return OfSome(why_no_times(session) or operator_time_words(session, node), "kind=op")
    of_a_call = OfSome(OPS_PER_FORWARD, "kind=op")
    median = or_why(operators.p50_per_forward(node), NOT_CALLED)
    derived = operator_seconds(session)
    own = or_why(None if derived is None else derived.own(node), NO_SELF_TIME)
    return Timing(
        calls=operators.calls(node),
        mean_s=of_a_call,
        p50_s=of_a_call,
        p95_s=of_a_call,
        max_s=of_a_call,
        self_s=median,
        per_forward_s=median,
        mean_per_forward_s=seconds,
        self_mean_s=own,
        total_mean_s=seconds,
        share=or_why(part_of(seconds, root_seconds(session)), NO_WHOLE),
        cpu_mean_s=OfSome(CPU_OF_CALLS, "kind=op"),
        self_cpu_mean_s=OfSome(CPU_OF_CALLS, "kind=op"),
        **_of_base(session, node),
        **_backward(session, node),
    )


def _on_gpu(session: Session) -> OnGpu | None:
    found = session.gpu_forwards
    if found is None or session.device is None:
        return None
    times = session.device.times
    return OnGpu(
        forwards=found.forwards,
        dropped=times.dropped,
        captured=times.captured,
        waiting_share=Unknown("of too few forwards")
        if found.waits_for_host is None
        else found.waiting_share,
        host_mean_s=host_seconds(session),
    )


def _slowest(session: Session, slow: SlowForward) -> Slowest:
    found = [
        SlowCause(one.name, one.seconds, [fill(ProgramBeside, program) for program in one.programs])
        for one in causes(session, slow)
    ]
    return fill(Slowest, slow, causes=found)
