"""Counters of a Perfetto trace: what is alive along the forward, and the machine over time."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator

from tui_profiler.messages import Figure, Gpu, Sample, Unknown
from tui_profiler.queries.cost.totals import is_estimated_rate
from tui_profiler.reports.perfetto.forward import Slice
from tui_profiler.reports.perfetto.packets import Unit, Writer
from tui_profiler.session import Session, Tree

_NANOSECONDS = 1e9
_PERCENT = "%"


def _busy(sample: Sample) -> Figure:
    busy = [core.utilisation for core in sample.cores]
    known = [value for value in busy if not isinstance(value, Unknown)]
    return sum(known) if known and len(known) == len(busy) else Unknown("not told of every core")


def _scaled(value: Figure, factor: float) -> Figure:
    return value if isinstance(value, Unknown) else value * factor


_OF_SAMPLE: tuple[tuple[str, Unit, str, Callable[[Sample], Figure]], ...] = (
    ("cores busy", Unit.NONE, "cores", _busy),
    ("process: cores busy", Unit.NONE, "cores", lambda sample: sample.process_cpu),
    ("process: resident", Unit.BYTES, "", lambda sample: sample.process_bytes),
    ("process: threads", Unit.COUNT, "", lambda sample: sample.process_threads),
    ("machine: memory", Unit.BYTES, "", lambda sample: sample.memory_bytes),
    ("frequency", Unit.NONE, "Hz", lambda sample: sample.frequency_hertz),
    ("package power", Unit.NONE, "W", lambda sample: sample.package_watts),
)
_OF_GPU: tuple[tuple[str, Unit, str, Callable[[Gpu], Figure]], ...] = (
    ("utilisation", Unit.NONE, _PERCENT, lambda gpu: _scaled(gpu.utilisation, 100.0)),
    ("memory", Unit.BYTES, "", lambda gpu: gpu.memory_bytes),
    ("power", Unit.NONE, "W", lambda gpu: gpu.power_watts),
    ("temperature", Unit.NONE, "°C", lambda gpu: gpu.temperature_celsius),
    ("clock", Unit.NONE, "Hz", lambda gpu: gpu.clock_hertz),
)


def alive(
    writer: Writer,
    process: int,
    tracks: Iterator[int],
    tree: Tree,
    slices: tuple[Slice, ...],
    starts: int,
) -> None:
    """Draw the bytes in tensors after each operator, where its slice ends.

    Several calls of one operator, or operators without a slice of their own, share out the slice
    that they are in.
    """
    memory = tree.memory
    if memory is None or not len(memory) or not slices:
        return
    track = next(tracks)
    writer.counter(track, process, "alive in tensors (predicted)", Unit.BYTES)
    writer.count(track, starts, memory.steps.start_bytes)
    nodes = [one.node for one in slices]
    holders = [_holder(tree, slices, nodes, node) for node in memory.nodes]
    shares, seen = Counter(holders), Counter[int]()
    at = 0
    for holder, live in zip(holders, memory.live, strict=True):
        one = slices[holder]
        seen[holder] += 1
        # Of merged calls the order is kept, where the places are not certain.
        at = max(at, one.start + (one.stop - one.start) * seen[holder] // shares[holder])
        writer.count(track, starts + at, live)


def machine(writer: Writer, process: int, tracks: Iterator[int], session: Session) -> None:
    """Draw what was sampled of the machine, and the latency tick by tick, on the session's time."""
    samples = session.history.samples
    for name, unit, words, figure in _OF_SAMPLE:
        points = [(sample.at, figure(sample)) for sample in samples]
        _counter(writer, process, tracks, (name, unit, words), points)
    for index, gpu_name in _gpus(samples).items():
        for name, unit, words, of_gpu in _OF_GPU:
            gpus = [(sample.at, _gpu(sample, index)) for sample in samples]
            points = [(at, of_gpu(gpu)) for at, gpu in gpus if gpu is not None]
            label = f"gpu {gpu_name}: {name}"
            _counter(writer, process, tracks, (label, unit, words), points)
    ticks = [timings.tick for timings in session.history.ticks]
    has_items = session.model is not None and session.model.batch is not None
    rate = "throughput (estimated)" if is_estimated_rate(session) else "throughput"
    for name, unit, words, values in (
        ("latency p50", Unit.NONE, "ms", [1e3 * tick.latency_p50 for tick in ticks]),
        (rate, Unit.NONE, "items/s" if has_items else "it/s", [tick.per_second for tick in ticks]),
    ):
        points = [(tick.at, value) for tick, value in zip(ticks, values, strict=True)]
        _counter(writer, process, tracks, (name, unit, words), points)


def _counter(
    writer: Writer,
    process: int,
    tracks: Iterator[int],
    described: tuple[str, Unit, str],
    points: list[tuple[float, Figure]],
) -> None:
    """Draw what is known of a counter; nothing where it was never known."""
    known = [(at, value) for at, value in points if not isinstance(value, Unknown)]
    if not known:
        return
    track, (name, unit, words) = next(tracks), described
    writer.counter(track, process, name, unit, words)
    for at, value in known:
        writer.count(track, round(at * _NANOSECONDS), float(value))


def _holder(tree: Tree, slices: tuple[Slice, ...], nodes: list[int], node: int) -> int:
    """Return the slice that a node is, or that it is in: the innermost."""
    place = bisect_right(nodes, node) - 1
    while place > 0 and node >= tree.ends[slices[place].node]:
        place -= 1
    return max(place, 0)


def _gpus(samples: tuple[Sample, ...]) -> dict[int, str]:
    found: dict[int, str] = {}
    for sample in samples:
        for gpu in () if isinstance(sample.gpus, Unknown) else sample.gpus:
            found[gpu.index] = gpu.name
    return found


def _gpu(sample: Sample, index: int) -> Gpu | None:
    gpus = () if isinstance(sample.gpus, Unknown) else sample.gpus
    return next((gpu for gpu in gpus if gpu.index == index), None)
