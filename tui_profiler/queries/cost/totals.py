"""What a whole model costs, and its most expensive nodes."""

from heapq import nlargest
from math import isnan
from typing import Literal, TypeAlias

from tui_profiler.figures.units import UNAVAILABLE, duration, rate
from tui_profiler.messages import NO_FORWARD, Cost, ModelFacts, PeakMemory, Unknown, known
from tui_profiler.messages.base import Figure
from tui_profiler.queries.cost.bound import bytes_moved
from tui_profiler.queries.time.base import own_ranked_seconds
from tui_profiler.queries.time.forward_kinds import COLD_TIMES, MIXED, is_mixed
from tui_profiler.queries.time.node_seconds import root_seconds
from tui_profiler.queries.time.standard_error import why_doubtful
from tui_profiler.session import Session, Tree

Column: TypeAlias = Literal["parameters", "macs", "flops", "memory", "seconds"]

NONE_IN_A_ROW = "no two consecutive forwards"
NOT_TOLD = Unknown("neither files nor recordings of earlier versions have requires_grad")
LEAST_IDLE_SECONDS = 5.0
"""Longer than two messages of a program are apart (``MOST_TICK_SECONDS`` is 1)."""
MOST_MISSED = 3.0
"""Forwards or steps that there would have been at the rate before."""
ESTIMATED_RATE = "an estimate: a share of the forwards was recorded"


def throughput(session: Session) -> str:
    """Return items/s, or iterations per second where the batch is unknown, with the unit."""
    per_second = known(any_rate(session))
    if per_second is None:
        return UNAVAILABLE
    has_batch = session.model is not None and session.model.batch is not None
    figure = rate(per_second, "items/s" if has_batch else "it/s")
    return f"~{figure}" if is_estimated_rate(session) else figure


def batch_axis(model: ModelFacts | None) -> int | Unknown:
    """Return the size of the batch axis of a model's inputs, or why there is none."""
    if model is not None and model.batch is not None:
        return model.batch
    why = model.why_no_batch if model is not None else ""
    return Unknown(f"no batch axis was found: {why}" if why else "its inputs have no batch axis")


def is_estimated_rate(session: Session) -> bool:
    """Return whether a throughput is an estimate: not all forwards of a program were recorded."""
    found, tick = session.overhead, session.tick
    if tick is not None and tick.gaps > 0:
        return True
    return found is not None and found.pairs == 0 and found.share < 1.0


def any_rate(session: Session) -> Figure:
    """Return items per second, counted or estimated; forwards per second if the batch is unknown.

    In training the estimate is the rate of the last steps, which are all counted; also where what
    lies between steps was recorded as they were.
    """
    if session.tick is None:
        return Unknown(why_no_times(session))
    if session.tick.cold:
        return Unknown(COLD_TIMES)
    is_estimate = is_estimated_rate(session) or _has_between(session)
    if is_estimate and (of_steps := _rate_of_steps(session)) is not None:
        return of_steps
    per_second = session.tick.per_second
    return Unknown(NONE_IN_A_ROW) if isnan(per_second) else per_second


def _rate_of_steps(session: Session) -> float | None:
    """Return items per second by the rate of training steps; None if there are none now."""
    if session.training is None:
        return None
    step = session.training.step
    rate = known(step.per_second)
    if not rate or not step.forwards or seconds_without_step(session):
        return None
    # The batch of the traced forward, as in ``Tick.per_second``.
    batch = session.model.batch if session.model is not None else None
    calls = known(step.calls_per_second)
    if not batch and calls is not None:
        return calls  # All of the model's, those between steps as well.
    if batch and (items := known(step.items)):
        return rate * items
    return rate * step.forwards * (batch or 1)


def _has_between(session: Session) -> bool:
    return session.training is not None and bool(session.training.step.between)


def has_stopped(idle_seconds: float, per_second: float) -> bool:
    """Tell whether nothing ran for so long that what ran so often before has stopped."""
    return idle_seconds > LEAST_IDLE_SECONDS and idle_seconds * per_second > MOST_MISSED


def seconds_without_step(session: Session) -> float:
    """Return for how long no step has ended, where steps have stopped; else 0.

    A validation has forwards, and no steps. What has ended has stopped by itself: 0.
    """
    loop, training = session.loop, session.training
    is_over = session.is_over or (loop is not None and loop.state == "finished")
    if training is None or is_over:
        return 0.0
    idle, rate = session.heard_at - training.step.at, known(training.step.per_second)
    return idle if rate is not None and has_stopped(idle, rate) else 0.0


def counted_rate(session: Session) -> Figure:
    """Return items/s if they were counted: for comparison with another run, or a bound."""
    found = any_rate(session)
    if isinstance(found, Unknown):
        return found
    if is_mixed(session):
        return Unknown(MIXED)
    return Unknown(ESTIMATED_RATE) if is_estimated_rate(session) else found


def why_no_times(session: Session, nothing: str = "") -> str:
    """Return the reason why a session has no measured times, empty where it has some.

    Args:
        session: of a model.
        nothing: says that what is asked for was not measured; empty: that no forward was.
    """
    if session.timings is not None:
        return ""
    if session.tree is not None and not session.tree.has_forward:
        return NO_FORWARD
    if session.loop is not None and session.loop.detail.startswith("not run"):
        return session.loop.detail  # ``not run, as asked``, or a colon and why.
    failure = session.failure
    if failure is not None and failure.fatal:
        return f"{failure.what}: {failure.why}" if failure.why else failure.what
    if was_run(session):
        return "no forward after the warm-up was finished; measure for longer"
    if session.loop is not None and session.loop.state == "finished":
        return f"{nothing or _only_recorded(session)}: {session.loop.detail}"
    return "not measured; --measure SECONDS does"


def _only_recorded(session: Session) -> str:
    """Say that no forward was timed, and what the recorded one took with the recording."""
    took = next((one.seconds for one in session.stages if one.stage == "trace"), None)
    if session.tree is None or took is None:
        return "no forward has times"
    return f"no forward has times; the recorded one took {duration(took)} with the recording"


def has_ended(session: Session) -> bool:
    """Say if a program that ran the model itself has ended."""
    loop = session.loop
    is_over = loop is not None and loop.state == "finished"
    return is_over and session.hello is not None and session.hello.program is not None


def was_run(session: Session) -> bool:
    """Say if the model was run, whether or not that gave times."""
    has_begun = any(record.stage == "first run" for record in session.stages)
    return has_begun or session.timings is not None


def peak_bytes(peak: PeakMemory) -> Figure:
    """Return the sum of all parts, unknown where one of them is."""
    unknown = next((part for part in _parts(peak) if isinstance(part, Unknown)), None)
    return known_peak_bytes(peak) if unknown is None else unknown


def known_peak_bytes(peak: PeakMemory) -> float:
    """Return the sum of the parts that are known: the peak is at least that."""
    return sum(known(part) or 0.0 for part in _parts(peak))


def _parts(peak: PeakMemory) -> tuple[Figure, ...]:
    kept = () if peak.kv_cache is None else (peak.kv_cache,)
    return (peak.parameters, peak.buffers, peak.activations, peak.workspace, *kept)


def top_modules(session: Session, column: Column, count: int, start: int = 0) -> tuple[int, ...]:
    """Return the modules with the most self time or own cost, most first.

    Self time is that of the base, of a step in training, else of a forward; on a contended host
    without waiting for a core. A module counts without the modules inside it, so that a block does
    not hide its layers; its parameters are those that it owns. Modules at 0 are left out.

    Args:
        session: whose tree is looked at.
        column: what is compared.
        count: how many at most.
        start: the node that they lie in, itself among them.
    """
    tree = session.tree
    if tree is None or not len(tree):
        return ()
    inside = range(start, tree.ends[start])
    own = [0.0] * len(inside)
    for index in inside:
        node = tree.nodes[index]
        if node.kind == "module":
            figure = _figure(session, tree, index, column)
            own[index - start] += figure
            # Self time is measured; of a cost it is what is not in the modules inside.
            if column != "seconds" and index > start:
                own[node.parent - start] -= figure
    modules = (i for i in inside if tree.nodes[i].kind == "module" and own[i - start] > 0)
    return tuple(nlargest(count, modules, key=lambda index: own[index - start]))


def hottest(session: Session, start: int = 0) -> int:
    """Return the module with the most self time in a node, by MACs before the first times.

    Args:
        session: whose tree is looked at.
        start: the node; itself where no module in it has a figure.
    """
    tree = session.tree
    column: Column = "macs" if tree is None or tree.has_forward else "parameters"
    if root_seconds(session) is not None:
        column = "seconds"
    return next(iter(top_modules(session, column, 1, start)), start)


def slowest_modules(session: Session, count: int) -> tuple[int, ...]:
    """Return the modules with the most self time, most first; those that are not ranked last.

    What does not add up or varies too much keeps its place in the list, not its rank.
    """
    found = top_modules(session, "seconds", count)
    return tuple(sorted(found, key=lambda node: bool(why_doubtful(session, node))))


def costliest_modules(session: Session, count: int) -> tuple[int, ...]:
    """Return the same by time, else by FLOPs; of parameters alone, by what each holds."""
    tree = session.tree
    paper: Column = "flops" if tree is None or tree.has_forward else "parameters"
    return top_modules(session, "seconds" if session.timings else paper, count)


def _figure(session: Session, tree: Tree, index: int, column: Column) -> float:
    cost = tree.costs[index]
    match column:
        case "parameters":
            return cost.parameters
        case "seconds":
            return own_ranked_seconds(session, index) or 0.0
        case "macs":
            return cost.macs
        case "flops":
            return cost.flops
        case "memory":
            return bytes_moved(cost)


def trainable(cost: Cost) -> int | Unknown:
    """Return the scalars with ``requires_grad``; one that is shared inside counts once."""
    return NOT_TOLD if cost.trainable is None else cost.trainable


def frozen(cost: Cost) -> int | Unknown:
    """Return the scalars without ``requires_grad``, counted likewise."""
    return NOT_TOLD if cost.trainable is None else cost.parameters - cost.trainable
