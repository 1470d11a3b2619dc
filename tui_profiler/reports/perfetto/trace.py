"""A session as a Perfetto trace: one forward as nested slices, and counters where there are any.

It is the protobuf format, ui.perfetto.dev's own, and not Chrome's JSON: its schema is published and
checked, times are whole nanoseconds, counters have units, a name is bytes with a length and so
cannot break out of its place, it is a third of the size, and two traces put together are one trace.

1. Every model is a process of its own; its number tells its tracks from those of others.
2. Measured, the trace has the times of the session, in which the forward drawn is the last tick's,
   made of means. On paper its axis is FLOP, which its process and its thread say.
3. What was not measured is not there: without a measurement a trace is the same every time.

One forward laid out along the axis:

1. What a node holds lies inside it, in the order of the calls, one after the other; its self time
   comes last, because when it was is not known.
2. Measured, lengths are means of a forward, which add up. What does not, medians of operator
   windows, is shortened to fit into its parent, all siblings by the same factor.
3. On paper a nanosecond stands for a FLOP, and an operator without any is one long, so that it is
   there.

One training step, where some were measured, is a thread beside it: its parts one after the other,
and in the backward the modules, last called first, with what checkpointing runs again. It ends with
the last means; when a part was, and how often, is not known.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator

from msgspec import Struct

from tui_profiler.messages import NO_FORWARD, Figure, Gpu, Sample, Unknown, known
from tui_profiler.queries.cost.bound import bound, known_bytes, known_flops, known_macs
from tui_profiler.queries.cost.totals import is_estimated_rate
from tui_profiler.queries.time.node_seconds import node_seconds, root_seconds
from tui_profiler.queries.time.step_seconds import NodeShare, timed_backward
from tui_profiler.queries.training.step import step_parts
from tui_profiler.reports.perfetto.packets import Annotations, Unit, Writer
from tui_profiler.session import Session, Tree

_TRACKS = 1 << 20
"""More than the tracks of one model, so that numbers of one are not those of another."""
_FORWARD, _STAGES, _STEP, _COUNTERS = 1, 2, 3, 16
_NANOSECONDS = 1e9


class Slice(Struct, frozen=True, gc=False):
    """A node's place."""

    node: int
    start: int
    """In nanoseconds, from the beginning of the forward."""
    stop: int


def perfetto_trace(session: Session, number: int) -> bytes:
    """Return the trace of one model; those of several are one after the other.

    Args:
        session: as it was left.
        number: of the model in this trace, from 1.

    Raises:
        ValueError: there is no whole tree yet.
    """
    tree = session.tree
    if tree is None or tree.done is None or not len(tree):
        raise ValueError("the model was not traced")
    name = session.model.name if session.model is not None else "unknown model"
    measured = root_seconds(session) is not None
    writer, process = Writer(number), number * _TRACKS
    says = "measured" if measured else "on paper: 1 ns is 1 FLOP, not time"
    writer.process(process, number, f"{name} ({says})")
    slices = forward(session, tree)
    tick = session.tick
    starts = 0
    if measured and tick is not None and slices:
        starts = max(round(tick.at * _NANOSECONDS) - slices[0].stop, 0)
    _forward(writer, process, session, tree, (slices, starts, number))
    tracks = iter(range(process + _COUNTERS, process + _TRACKS))
    alive(writer, process, tracks, tree, slices, starts)
    if measured:
        _stages(writer, process, session, number)
        _step(writer, process, session, tree, number)
        machine(writer, process, tracks, session)
    return writer.trace()


def forward(session: Session, tree: Tree) -> tuple[Slice, ...]:
    """Return a place to every node that is called, in preorder; none where nothing is."""
    if not tree.has_forward:
        return ()
    measured = root_seconds(session) is not None
    lengths = _in_time(session, tree) if measured else _in_flops(tree)
    return tuple(_placed(tree, lengths.__getitem__))


def _in_time(session: Session, tree: Tree) -> list[float]:
    return [(node_seconds(session, node) or 0.0) * _NANOSECONDS for node in range(len(tree))]


def _in_flops(tree: Tree) -> list[float]:
    lengths = [0.0] * len(tree)
    for node in range(len(tree) - 1, -1, -1):
        if tree.nodes[node].kind == "op":
            lengths[node] = max(float(tree.costs[node].flops), 1.0)
        if node:
            lengths[tree.nodes[node].parent] += lengths[node]
    return lengths


def _placed(tree: Tree, length: Callable[[int], float]) -> Iterator[Slice]:
    """Lay out the tree, parents first; what is shorter than a nanosecond is left out."""
    # By node: where its next child begins, and by what all its children are shortened.
    at, factor = [0.0] * len(tree), [0.0] * len(tree)
    # By node: the nanosecond at which it ends, so that rounding lets no child end after it.
    ends = [0] * len(tree)
    for node in range(len(tree)):
        parent = tree.nodes[node].parent
        wanted = length(node) * (factor[parent] if node else 1.0)
        start = at[parent] if node else 0.0
        stop = start + wanted
        if node:
            at[parent] = stop
        inside = sum(map(length, tree.children(node)))
        own = length(node)
        at[node] = start
        factor[node] = min(1.0, own / inside) * (wanted / own) if own and inside else 0.0
        ends[node] = min(round(stop), ends[parent]) if node else round(stop)
        if ends[node] > round(start):
            yield Slice(node, round(start), ends[node])


def _forward(
    writer: Writer,
    process: int,
    session: Session,
    tree: Tree,
    placed: tuple[tuple[Slice, ...], int, int],
) -> None:
    slices, starts, number = placed
    track = process + _FORWARD
    measured = root_seconds(session) is not None
    threads = session.environment.threads if session.environment is not None else None
    with_threads = f", {threads} threads inside operators" if threads and measured else ""
    says = f"main thread: one forward{with_threads}" if measured else "one forward, in FLOP"
    writer.thread(track, process, (number, number), says)
    if not slices:
        writer.instant(track, 0, NO_FORWARD if not tree.has_forward else "no operator was seen")
        return
    open_: list[Slice] = []
    for one in slices:
        while open_ and one.node >= tree.ends[open_[-1].node]:
            writer.end(track, starts + open_.pop().stop)
        node = tree.nodes[one.node]
        writer.begin(track, starts + one.start, node.name, _annotations(session, tree, one.node))
        open_.append(one)
    while open_:
        writer.end(track, starts + open_.pop().stop)


def _annotations(session: Session, tree: Tree, at: int) -> Annotations:
    node, cost = tree.nodes[at], tree.costs[at]
    found: dict[str, bool | int | float | str] = {
        "path": node.path,
        "type": node.type,
        "calls": node.calls,
        "parameters": cost.parameters,
    }
    work = {"macs": known_macs(cost), "flops": known_flops(cost), "bytes": known_bytes(cost)}
    found |= {name: figure for name, figure in work.items() if figure is not None}
    if cost.uncosted:
        found["uncosted"] = cost.uncosted
    held, seconds = bound(session, at), node_seconds(session, at)
    if held is not None:
        found["bottleneck"] = held.kind
        found["bottleneck_measured"] = held.measured
    if seconds is not None:
        found["seconds"] = float(seconds)
    if node.kind == "module" and (timed := timed_backward(session, at)) is not None:
        found["backward_seconds"] = timed.backward
        found |= _recomputed(timed)
    return found


def _step(writer: Writer, process: int, session: Session, tree: Tree, number: int) -> None:
    """Draw the mean training step; nothing where none was measured."""
    parts = [part for part in step_parts(session) if part.seconds]
    if session.training is None or not parts:
        return
    step, track = session.training.step, process + _STEP
    whole = round(sum(part.seconds or 0.0 for part in parts) * _NANOSECONDS)
    at = max(round(step.at * _NANOSECONDS) - whole, 0)
    says = f"training step: mean of {step.recorded} recorded"
    writer.thread(track, process, (number, number + 2 * _TRACKS), says)
    writer.begin(track, at, "step", {"steps": step.steps})
    end = at + whole
    for part in parts:
        seconds = part.seconds or 0.0
        stop = min(at + round(seconds * _NANOSECONDS), end)
        writer.begin(track, at, part.name, {"seconds": seconds, "share": part.share or 0.0})
        if part.name == "backward" and not step.on_device:
            for one, begins in _in_backward(session, tree, at, stop):
                if begins:
                    noted = _backward_annotations(session, tree, one.node)
                    writer.begin(track, one.start, tree.nodes[one.node].name, noted)
                else:
                    writer.end(track, one.stop)
        writer.end(track, stop)
        at = stop
    writer.end(track, end)


def _backward_annotations(session: Session, tree: Tree, at: int) -> Annotations:
    node, timed = tree.nodes[at], timed_backward(session, at)
    assert timed is not None
    return {
        "path": node.path,
        "type": node.type,
        "seconds": timed.backward,
        **_recomputed(timed),
    }


def _recomputed(timed: NodeShare) -> dict[str, float]:
    """Return the annotation of what was run again; none where that is unknown."""
    seconds = known(timed.recomputed)
    return {} if seconds is None else {"recompute_seconds": seconds}


def _in_backward(
    session: Session, tree: Tree, begins: int, ends: int
) -> Iterator[tuple[Slice, bool]]:
    """Yield the modules of a backward that ends at ``ends``, and whether each begins or ends.

    The forward's layout from its end: the loss, which is no module, comes before them.
    """
    lengths = [0.0] * len(tree)
    for node in range(len(tree)):
        is_module = tree.nodes[node].kind == "module"
        if is_module and (timed := timed_backward(session, node)) is not None:
            lengths[node] = (timed.backward + (known(timed.recomputed) or 0.0)) * _NANOSECONDS
    factor = min(1.0, (ends - begins) / lengths[0]) if lengths[0] else 0.0
    placed = _placed(tree, lambda node: lengths[node] * factor)
    mirrored = [Slice(one.node, ends - one.stop, ends - one.start) for one in placed]
    open_: list[Slice] = []
    for one in sorted(mirrored, key=lambda one: (one.start, -one.stop, one.node)):
        while open_ and one.start >= open_[-1].stop:
            yield open_.pop(), False
        yield one, True
        open_.append(one)
    while open_:
        yield open_.pop(), False


def _stages(writer: Writer, process: int, session: Session, number: int) -> None:
    """Draw the way from the command to the first figures, on the session's own time."""
    track = process + _STAGES
    writer.thread(track, process, (number, number + _TRACKS), "stages")
    done = [record for record in session.stages if record.seconds is not None]
    until = 0
    for record in sorted(done, key=lambda record: record.started_at):
        # Stages come one after the other; their clocks differ by microseconds.
        start = max(round(record.started_at * _NANOSECONDS), until)
        until = max(start + round((record.seconds or 0.0) * _NANOSECONDS), start)
        writer.begin(track, start, record.stage, {"detail": record.detail})
        writer.end(track, until)


_PERCENT = "%"


def _busy(sample: Sample) -> Figure:
    busy = [core.utilisation for core in sample.cores]
    known = [value for value in busy if not isinstance(value, Unknown)]
    return sum(known) if known and len(known) == len(busy) else Unknown("unknown for some cores")


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
