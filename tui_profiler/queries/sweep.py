"""What a sweep found: one model at several settings, each run in several rounds.

1. A point is one setting on each axis; a visit is one worker that ran it once.
2. The figures of a point are medians over its visits; how far those lie apart is its spread.
3. Of a visit only plain figures are kept, never the session: a sweep may hold hundreds.
"""

from itertools import product
from statistics import median
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from tui_profiler.messages import Environment, Figure, InputSpec, ModelFacts, Unknown, known
from tui_profiler.messages.model import Kind
from tui_profiler.queries.cost.bound import bytes_moved
from tui_profiler.queries.cost.energy import forward_energy
from tui_profiler.queries.cost.memory_compared import comparison
from tui_profiler.queries.cost.totals import batch_axis, was_run, why_no_times
from tui_profiler.queries.time.node_seconds import node_seconds
from tui_profiler.queries.training import step_costs
from tui_profiler.queries.training.step import per_second
from tui_profiler.session import Session

AxisName: TypeAlias = Literal["batch", "sequence", "threads", "dtype"]
Value: TypeAlias = int | str
State: TypeAlias = Literal["measured", "on paper", "failed", "not reached"]

LEAST_FOR_P95 = 20
"""Forwards: of fewer, the 95th percentile is between the two longest."""


class Axis(Struct, frozen=True):
    """What is changed, and to what, in the order typed."""

    name: AxisName
    values: tuple[Value, ...]


class Point(Struct, frozen=True):
    """One setting on each axis, in the order of the axes."""

    values: tuple[Value, ...]


class NodeFigures(Struct, frozen=True, gc=False):
    """One node at one point, in one visit."""

    path: str
    kind: Kind
    type: str
    flops: int
    bytes_moved: int
    seconds: float | None
    """Median of one forward; None where it was not timed."""


class Visit(Struct, frozen=True):
    """What one worker found at one point."""

    place: int
    """Which point, counted from 0."""
    round: int
    """Counted from 0."""
    failure: str = ""
    """One sentence; empty where it went well."""
    remedy: str = ""
    bad_argument: bool = False
    took_seconds: float = 0.0
    """From its start to its end, importing and loading included."""
    latency_p50: Figure = Unknown("not measured")
    latency_p95: Figure = Unknown("not measured")
    items_per_second: Figure = Unknown("not measured")
    forwards: int = 0
    paper_bytes: Figure = Unknown("not traced")
    is_least: bool = False
    """A part of the peak on paper is not known: it is at least that."""
    allocator_bytes: Figure = Unknown("not measured")
    process_bytes: Figure = Unknown("not measured")
    joules: Figure = Unknown("not measured")
    """Of one forward."""
    items: int | Unknown = Unknown("not traced")
    """Size of the batch axis that it ran with, or why there is none."""
    inputs: tuple[InputSpec, ...] = ()
    nodes: tuple[NodeFigures, ...] = ()
    is_step: bool = False
    """Latency, items/s and memory are of a training step; nodes are of the forward in it."""


class Result(Struct, frozen=True):
    """What is known of one point, over its rounds."""

    point: Point
    state: State
    visits: tuple[Visit, ...]
    """Those that went well, in the order of the rounds."""
    failure: str
    remedy: str
    latency_p50: Figure
    latency_p95: Figure
    low: Figure
    """Least median of a round."""
    high: Figure
    items_per_second: Figure
    forwards: int
    paper_bytes: Figure
    is_least: bool
    allocator_bytes: Figure
    process_bytes: Figure
    joules: Figure
    joules_per_item: Figure


class Sweep(Struct, frozen=True):
    """A sweep, as far as it came."""

    model: str
    axes: tuple[Axis, ...]
    rounds: int
    seconds: float
    """Of running warmed up, for each point, all rounds together."""
    runs: bool
    """False: on paper only."""
    visits: tuple[Visit, ...] = ()
    facts: ModelFacts | None = None
    environment: Environment | None = None
    interrupted: bool = False

    @property
    def has_steps(self) -> bool:
        """Whether its points are training steps."""
        return any(visit.is_step for visit in self.visits)


def points(axes: tuple[Axis, ...]) -> tuple[Point, ...]:
    """Return every point, the last axis changing fastest."""
    return tuple(Point(values) for values in product(*(axis.values for axis in axes)))


def visit_of(session: Session, *, place: int, turn: int, took_seconds: float) -> Visit:
    """Take the figures out of a session whose tree is whole.

    Args:
        session: as its worker left it.
        place: of the point, counted from 0.
        turn: the round, counted from 0.
        took_seconds: what the worker took altogether.
    """
    tick, compared, model = session.tick, comparison(session), session.model
    why = Unknown(why_no_times(session) if was_run(session) else "not run")
    measured = tick is not None and not why_no_times(session)
    few = Unknown(f"{tick.forwards if tick else 0} forwards, {LEAST_FOR_P95} needed")
    energy = forward_energy(session) if measured else why
    items = batch_axis(model)
    found = Visit(
        place=place,
        round=turn,
        took_seconds=took_seconds,
        latency_p50=tick.latency_p50 if tick and measured else why,
        latency_p95=(tick.latency_p95 if tick.forwards >= LEAST_FOR_P95 else few)
        if tick and measured
        else why,
        items_per_second=(items if isinstance(items, Unknown) else tick.per_second)
        if tick and measured
        else why,
        forwards=tick.forwards if tick and measured else 0,
        paper_bytes=compared.peak.predicted if compared else Unknown("its peak is not predicted"),
        is_least=compared is not None and compared.is_least,
        allocator_bytes=compared.peak.measured if compared and measured else why,
        process_bytes=compared.process.measured if compared and measured else why,
        joules=energy if isinstance(energy, Unknown) else energy.joules,
        items=items,
        inputs=model.inputs if model is not None else (),
        nodes=_nodes(session),
    )
    return found if session.training_cost is None else _in_training(found, session)


def _in_training(visit: Visit, session: Session) -> Visit:
    """Return a visit whose figures are of training steps, in the place of forwards."""
    none = Unknown("its steps are not measured")
    visit = replace(
        visit,
        paper_bytes=step_costs.peak_bytes(session),
        is_least=False,
        is_step=True,
        allocator_bytes=Unknown("the peak of a step is not measured"),
        joules=Unknown("the energy of a step is not counted"),
        latency_p50=none,
        latency_p95=none,
        items_per_second=none,
        forwards=0,
    )
    if session.training is None:
        return visit
    step = session.training.step
    return replace(
        visit,
        latency_p50=step.p50,
        latency_p95=step.p95
        if step.steps >= LEAST_FOR_P95
        else Unknown(f"{step.steps} steps, {LEAST_FOR_P95} needed"),
        items_per_second=per_second(step, step.items),
        forwards=step.steps,
    )


def _nodes(session: Session) -> tuple[NodeFigures, ...]:
    tree = session.tree
    if tree is None:
        return ()
    return tuple(
        NodeFigures(
            node.path, node.kind, node.type, cost.flops, bytes_moved(cost), _known(session, index)
        )
        for index, (node, cost) in enumerate(zip(tree.nodes, tree.costs, strict=True))
    )


def _known(session: Session, node: int) -> float | None:
    return node_seconds(session, node) or None


def results(sweep: Sweep) -> tuple[Result, ...]:
    """Return one result for each point, in the order of the points."""
    by_place: dict[int, list[Visit]] = {}
    for visit in sweep.visits:
        by_place.setdefault(visit.place, []).append(visit)
    return tuple(
        _result(point, by_place.get(place, [])) for place, point in enumerate(points(sweep.axes))
    )


def _result(point: Point, visits: list[Visit]) -> Result:
    good = tuple(visit for visit in visits if not visit.failure)
    bad = next((visit for visit in visits if visit.failure), None)
    medians = [value for visit in good if (value := known(visit.latency_p50)) is not None]
    joules = _middle(good, "joules")
    items = good[0].items if good else Unknown("it was not run")
    each: Figure = items
    if not isinstance(items, Unknown):
        each = joules if isinstance(joules, Unknown) else joules / items
    return Result(
        point=point,
        state=_state(good, bad),
        visits=good,
        failure=bad.failure if bad is not None else "",
        remedy=bad.remedy if bad is not None else "",
        latency_p50=_middle(good, "latency_p50"),
        latency_p95=_middle(good, "latency_p95"),
        low=min(medians) if medians else _middle(good, "latency_p50"),
        high=max(medians) if medians else _middle(good, "latency_p50"),
        items_per_second=_middle(good, "items_per_second"),
        forwards=sum(visit.forwards for visit in good),
        paper_bytes=_middle(good, "paper_bytes"),
        is_least=any(visit.is_least for visit in good),
        allocator_bytes=_middle(good, "allocator_bytes"),
        process_bytes=_middle(good, "process_bytes"),
        joules=joules,
        joules_per_item=each,
    )


def _state(good: tuple[Visit, ...], bad: Visit | None) -> State:
    if bad is not None:
        return "failed"
    if not good:
        return "not reached"
    return "on paper" if isinstance(_middle(good, "latency_p50"), Unknown) else "measured"


def _middle(visits: tuple[Visit, ...], name: str) -> Figure:
    """Return the median of a figure over visits, or why the first of them has none."""
    values: list[Figure] = [getattr(visit, name) for visit in visits]
    numbers = [value for value in values if not isinstance(value, Unknown)]
    if numbers:
        return median(numbers)
    return values[0] if values else Unknown("it was not run")


def with_sequence(
    inputs: tuple[InputSpec, ...], length: int, batch: int | Unknown
) -> tuple[str, ...] | Unknown:
    """Return inputs of another sequence length, as ``--input`` takes them.

    The first input of ids, (batch, tokens), says what the length is now; without one, the first of
    features, (batch, steps, width). Every input that is as long on the same axis changes with it.
    Where the batch is the second axis, the first one is the sequence.

    Args:
        inputs: as the model was traced with.
        length: of the sequence axis.
        batch: size of the batch axis, or why there is none.
    """
    if isinstance(batch, Unknown):
        return Unknown(f"which axis is the sequence is not known: {batch.reason}")
    ids = [part for part in inputs if "int" in part.dtype and len(part.shape) == 2]
    steps = [part for part in inputs if "float" in part.dtype and len(part.shape) == 3]
    leading = next(iter([*ids, *steps]), None)
    if leading is None:
        shapes = ", ".join("×".join(map(str, part.shape)) for part in inputs) or "none"
        return Unknown(f"no input has a sequence axis: their shapes are {shapes}")
    axis = 0 if leading.shape[0] != batch and leading.shape[1] == batch else 1
    now = leading.shape[axis]
    return tuple(_typed(part, axis, now, length) for part in inputs)


def _typed(part: InputSpec, axis: int, now: int, length: int) -> str:
    shape = list(part.shape)
    if len(shape) in (2, 3) and shape[axis] == now:
        shape[axis] = length
    return f"{part.name}={','.join(map(str, shape))}:{part.dtype}"
