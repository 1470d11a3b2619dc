"""The measured half of the JSON report: times, machine, energy."""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

from msgspec import Meta

from tui_profiler.messages import SlowForward, ThreadTime, Tick, Unknown
from tui_profiler.queries.cost.memory_compared import why_no_window
from tui_profiler.queries.cost.totals import any_rate, is_estimated_rate, why_no_times
from tui_profiler.queries.panel.provenance import operator_time_words
from tui_profiler.queries.time.node_seconds import node_seconds, part_of, root_seconds
from tui_profiler.queries.time.slow_forwards import CauseName, causes
from tui_profiler.reports.json.energy import Energy, energy
from tui_profiler.reports.json.hardware import Hardware, hardware
from tui_profiler.reports.json_values import Count, Known, OfSome, Part, Size, or_why
from tui_profiler.session import Session

OPS_PER_FORWARD = "operators are timed per forward, all calls together"
NO_WHOLE = "no whole forward was measured"
NOT_CALLED = "this module was not called while it was measured"
LEFT_OUT = "not called, or one of the modules with the least time, left out of too many"


class Thread(Part, frozen=True):
    """What the thread that runs forwards used in one: means over the set of mean_per_forward_s."""

    seconds: float
    """Of the forward, wall time."""
    on_core_s: Known[float]
    """On a core: the thread's CPU clock."""
    waiting_s: Known[float]
    """Runnable and on no core: the kernel's schedstat."""
    minor_faults: Known[float]
    """Page faults that no disk was read for."""
    major_faults: Known[float]
    voluntary_switches: Known[float]
    """Context switches because it waited for something other than a core."""
    involuntary_switches: Known[float]
    """Because another thread was given its core."""
    collecting_s: Known[float]
    """In which Python's garbage collector ran."""
    compiled: Known[float]
    """Frames that torch.compile compiled meanwhile."""


class SlowCause(Part, frozen=True):
    """What a slow forward had more of than forwards have in the mean."""

    cause: CauseName
    """waiting: for a core. blocked: neither on a core nor waiting for one. disk: so, with major
    page faults. collector: Python's garbage collector. compile, page faults: on a core, with frames
    compiled by torch.compile or many page faults. on a core: longer there, cause unknown."""
    seconds: float
    """More than in the mean."""


class Slowest(Part, frozen=True):
    """The slowest forward of the steady state."""

    forward: Count
    """Which, from 1, of those that were recorded."""
    seconds: float
    thread: Thread | None
    causes: list[SlowCause]
    """Each at least a tenth of what it took longer, the most first; empty where none is known."""


class Latency(Part, frozen=True):
    """Seconds of one forward."""

    p50_s: Known[float]
    p95_s: Known[float]
    mean_s: Known[float]
    forwards: Count
    warmup_forwards: Count
    """Not in any figure."""
    cold: bool
    """Whether all times are of warm-up forwards, as many as "forwards" says, because the program
    ran no others before it ended or paused. Such times are longer than those of the steady state.
    The forward that the costs were recorded from is never one of them."""
    as_traced: bool
    """Whether all times are of forwards with inputs and in a mode as of the one that costs are of.
    Else those took next to no time, all times are of the other forwards, and nothing is derived
    from times and costs together."""
    other_forwards: Count
    """Forwards of the other sort: in no time, but in the throughput."""
    other_time_share: Known[float]
    """Their share of the time of all forwards."""
    thread: Thread | None
    """null in reports of recordings that are older than it."""
    slowest: Slowest | None
    """null in reports of recordings that are older than it."""


class Throughput(Part, frozen=True):
    """Items per second."""

    per_s: Known[float]
    """Items (forwards x batch) per second."""
    provenance: Literal["counted", "estimated"]
    """estimated where only a share of a program's own forwards was recorded."""


class Overhead(Part, frozen=True):
    """What watching cost: time watched over time bare, less one."""

    ratio: Known[float]
    interval: Annotated[list[Known[float]], Meta(min_length=2, max_length=2)]
    """95 %: low, high."""
    pairs: Count


class Measured(TypedDict):
    """What was measured of the whole; each is a field of the report."""

    latency: Latency | Unknown
    throughput: Throughput | Unknown
    overhead: Overhead | Unknown
    hardware: Hardware | Unknown
    energy: Energy | Unknown


class MeasuredMemory(Part, frozen=True):
    """Memory of one forward on the CPU, from the memory events of torch's profiler.

    null where no such window was opened.
    """

    peak_bytes: Count
    """At its worst moment: weights, inputs, and what it had allocated."""
    weights_bytes: Count
    """Storages of parameters and buffers."""
    inputs_bytes: Count
    """Storages of the inputs."""
    allocated_bytes: Count
    """The most that the forward had allocated at once."""
    allocations: Count
    """Allocations of the forward."""


class LayerMemory(Part, frozen=True):
    """Of a module that was called in a window with memory events."""

    allocated_bytes: Count
    """Allocated in its calls, modules inside included, freed or not."""
    peak_bytes: Count
    """The most that the forward had allocated at once, during a call of it."""


class Timing(Part, frozen=True):
    """Of a module that was measured; seconds."""

    calls: Count
    mean_s: Known[Size]
    """Of a call."""
    p50_s: Known[Size]
    """Of a call."""
    p95_s: Known[Size]
    """Of a call."""
    max_s: Known[Size]
    """Of a call, lately."""
    self_s: Known[Size]
    """Median of a forward, without modules inside."""
    per_forward_s: Known[Size]
    """Median of a forward, all calls together."""
    mean_per_forward_s: Known[Size]
    """Mean of a forward, all calls together, over one set of forwards that is the same for every
    module: about the last ones, without whole forwards that took far longer. What a module has is
    its self_mean_s and the mean_per_forward_s of the modules directly inside."""
    self_mean_s: Known[float]
    """The same without modules inside."""
    total_mean_s: Known[Size]
    """mean_per_forward_s, by its former name."""
    share: Known[Size]
    """mean_per_forward_s over that of the root."""


def measured(session: Session) -> Measured:
    """Return latency, throughput, overhead, hardware and energy of a session that was measured."""
    tick, reason = session.tick, why_no_times(session)
    is_known = tick is not None and not reason
    return {
        "latency": _latency(session, tick) if tick is not None and is_known else Unknown(reason),
        "throughput": Throughput(
            per_s=any_rate(session),
            provenance="estimated" if is_estimated_rate(session) else "counted",
        )
        if is_known
        else Unknown(reason),
        "overhead": _overhead(session),
        "hardware": hardware(session),
        "energy": energy(session),
    }


def measured_memory(session: Session) -> MeasuredMemory | Unknown:
    """Return what a forward held at its worst moment, where allocations were seen."""
    found = session.memory_window
    if found is None:
        return Unknown(why_no_times(session) or why_no_window(session).reason)
    return MeasuredMemory(
        peak_bytes=found.peak_bytes,
        weights_bytes=found.window.weights_bytes,
        inputs_bytes=found.window.inputs_bytes,
        allocated_bytes=found.window.allocated_bytes,
        allocations=found.window.allocations,
    )


def layer_memory(session: Session, node: int) -> LayerMemory | Unknown:
    """Return what one module allocated, or why that was not seen."""
    found = session.memory_window
    if found is None:
        return Unknown(why_no_times(session) or why_no_window(session).reason)
    allocated, peak = found.allocated(node), found.peak(node)
    if allocated is not None and peak is not None:
        return LayerMemory(allocated_bytes=allocated, peak_bytes=peak)
    tree = session.tree
    if tree is not None and tree.nodes[node].kind == "op":
        return OfSome("measured by module", "kind=op")
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
    share = part_of(found.per_forward, root_seconds(session))
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
        share=or_why(share, NO_WHOLE),
    )


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
    return Timing(
        calls=operators.calls(node),
        mean_s=of_a_call,
        p50_s=of_a_call,
        p95_s=of_a_call,
        max_s=of_a_call,
        self_s=seconds,
        per_forward_s=seconds,
        mean_per_forward_s=of_a_call,
        self_mean_s=of_a_call,
        total_mean_s=of_a_call,
        share=or_why(part_of(seconds, root_seconds(session)), NO_WHOLE),
    )


def _latency(session: Session, tick: Tick) -> Latency:
    root = session.timings.of(0) if session.timings is not None else None
    return Latency(
        p50_s=tick.latency_p50,
        p95_s=tick.latency_p95,
        mean_s=root.mean if root is not None else None,
        forwards=tick.forwards,
        warmup_forwards=tick.warmup_forwards,
        cold=tick.cold,
        as_traced=tick.as_traced,
        other_forwards=tick.others,
        other_time_share=tick.others_share,
        thread=_thread(tick.thread) if tick.thread is not None else None,
        slowest=_slowest(session, session.slow[0]) if session.slow else None,
    )


def _slowest(session: Session, slow: SlowForward) -> Slowest:
    return Slowest(
        forward=slow.forward,
        seconds=slow.seconds,
        thread=_thread(slow.thread) if slow.thread is not None else None,
        causes=[SlowCause(one.name, one.seconds) for one in causes(session, slow)],
    )


def _thread(used: ThreadTime) -> Thread:
    return Thread(
        seconds=used.seconds,
        on_core_s=used.on_core,
        waiting_s=used.waiting,
        minor_faults=used.minor_faults,
        major_faults=used.major_faults,
        voluntary_switches=used.voluntary_switches,
        involuntary_switches=used.involuntary_switches,
        collecting_s=used.collecting,
        compiled=used.compiled,
    )


def _overhead(session: Session) -> Overhead | Unknown:
    found = session.overhead
    if found is None:
        return Unknown("too short to compare watched and bare forwards; measure for longer")
    return Overhead(ratio=found.ratio, interval=[found.low, found.high], pairs=found.pairs)
