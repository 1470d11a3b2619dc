"""A session as a Perfetto trace: one forward as nested slices, and counters where there are any.

It is the protobuf format, ui.perfetto.dev's own, and not Chrome's JSON: its schema is published and
checked, times are whole nanoseconds, counters have units, a name is bytes with a length and so
cannot break out of its place, it is a third of the size, and two traces put together are one trace.

1. Every model is a process of its own; its number tells its tracks from those of others.
2. Measured, the trace has the times of the session, in which the forward drawn is the last tick's,
   made of medians. On paper its axis is FLOP, which its process and its thread say.
3. What was not measured is not there: without a measurement a trace is the same every time.
"""

from __future__ import annotations

from tui_profiler.messages import NO_FORWARD
from tui_profiler.queries.cost.bound import bound, bytes_moved
from tui_profiler.queries.time.node_seconds import node_seconds, root_seconds
from tui_profiler.reports.perfetto.counters import alive, machine
from tui_profiler.reports.perfetto.forward import Slice, forward
from tui_profiler.reports.perfetto.packets import Annotations, Writer
from tui_profiler.session import Session, Tree

_TRACKS = 1 << 20
"""More than the tracks of one model, so that numbers of one are not those of another."""
_FORWARD, _STAGES, _COUNTERS = 1, 2, 16
_NANOSECONDS = 1e9


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
        machine(writer, process, tracks, session)
    return writer.trace()


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
        "macs": cost.macs,
        "flops": cost.flops,
        "bytes": bytes_moved(cost),
    }
    if cost.uncosted:
        found["uncosted"] = cost.uncosted
    held, seconds = bound(session, at), node_seconds(session, at)
    if held is not None:
        found["bottleneck"] = held.kind
        found["bottleneck_measured"] = held.measured
    if seconds is not None:
        found["seconds"] = float(seconds)
    return found


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
