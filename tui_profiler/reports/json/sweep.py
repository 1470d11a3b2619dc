"""A sweep as one JSON object on one line, and as CSV: the contracts that other programs read.

1. Names and units never change within one ``schema``; ``docs/sweep.schema.json`` is made from the
   Structs of this file.
2. Times are seconds, sizes bytes. What is not known is null, and ``unavailable`` says why, by path.
3. Both are safe to read back: JSON is ASCII, and no cell of the CSV is a formula.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, field

from tui_profiler.messages import Figure, Kind, Unknown, known
from tui_profiler.queries.scaling import KNEE_RULE, Growth, Scaling, Slope, knees, scalings
from tui_profiler.queries.sweep import AxisName, Result, State, Sweep, Value, Visit, results
from tui_profiler.reports import json_values

SCHEMA: Literal["tui-profiler/sweep/1"] = "tui-profiler/sweep/1"


class SweepMachine(json_values.Closed, frozen=True):
    """Versions and machine."""

    python: str
    torch: str
    torchvision: str | None
    cuda: str | None
    cpu: str
    cores: json_values.Above0
    threads: json_values.Above0
    """Of the first worker; if threads are an axis, each point has its own."""
    memory_bytes: json_values.Above0


class SweptAxis(json_values.Closed, frozen=True):
    """One axis."""

    name: AxisName
    values: Annotated[tuple[Value, ...], Meta(min_length=1)]


class PointFailure(json_values.Closed, frozen=True, rename={"try_": "try"}):
    """Why there is no figure."""

    what: str
    try_: str | None


class PointLatency(json_values.Closed, frozen=True):
    """Seconds per forward, or per training step."""

    p50_s: json_values.Known[json_values.Size]
    """Median of the rounds' medians."""
    p95_s: json_values.Known[json_values.Size]
    """Median of the rounds' 95th percentiles; null below 20 forwards."""
    low_s: json_values.Known[json_values.Size]
    """Smallest median of a round."""
    high_s: json_values.Known[json_values.Size]
    """Largest median of a round."""
    forwards: json_values.Count


class PointThroughput(json_values.Closed, frozen=True):
    """Items per second."""

    per_s: json_values.Known[json_values.Size]
    """Forwards x batch."""


class PointMemory(json_values.Closed, frozen=True):
    """Bytes."""

    paper_bytes: json_values.Known[json_values.Size]
    """Predicted peak of one forward."""
    paper_is_least: bool
    """A part of the peak is not known: the figure is a lower bound."""
    allocator_bytes: json_values.Known[json_values.Size]
    """Peak of torch's allocator on a GPU; on a CPU that of one forward under torch's profiler."""
    process_bytes: json_values.Known[json_values.Size]
    """Peak RSS of the worker, torch included."""


class PointEnergy(json_values.Closed, frozen=True):
    """Energy per forward."""

    joules: json_values.Known[json_values.Size]
    """Per forward."""
    joules_per_item: json_values.Known[json_values.Size]


class PointVisit(json_values.Closed, frozen=True):
    """One run of a point."""

    round: json_values.Count
    latency_p50: json_values.Size | None = field(name="p50_s")
    latency_p95: json_values.Size | None = field(name="p95_s")
    items_per_second: json_values.Size | None = field(name="per_s")
    forwards: json_values.Count
    took_seconds: json_values.Size = field(name="took_s")
    """Including start, import and load."""


class SweepPoint(json_values.Closed, frozen=True):
    """The model at one setting of every axis."""

    settings: dict[AxisName, Value]
    """Axis to value."""
    state: State
    failure: PointFailure | None
    latency: PointLatency
    throughput: PointThroughput
    memory: PointMemory
    energy: PointEnergy
    visits: list[PointVisit]


class GrowthSlope(json_values.Closed, frozen=True):
    """Scaling of one figure."""

    exponent: float
    """Slope of the line through (ln setting, ln figure): 0 flat, 1 linear, 2 quadratic, -1
    inverse."""
    spread: json_values.Size | None
    """Half of the 95 % interval; null if exact, as on paper."""
    word: str
    first: float
    """Slope between the two lowest settings."""
    last: float
    """Slope between the two highest settings."""
    points: Annotated[int, Meta(ge=2)]


class NodeGrowth(json_values.Closed, frozen=True):
    """Scaling of a node."""

    path: str
    kind: Kind
    type: str
    seconds: json_values.Size | None
    """Per forward at the highest setting."""
    time: GrowthSlope | None
    flops: GrowthSlope | None
    bytes: GrowthSlope | None
    why_not: dict[Literal["time", "flops", "bytes"], str]
    """Why there is no slope: time, flops or bytes to a reason."""


class AxisScaling(json_values.Closed, frozen=True):
    """Scaling of every node along one axis."""

    axis: Annotated[str, json_values.one_of("batch", "sequence", "threads")]
    at: dict[AxisName, Value]
    """The other axes, axis to value."""
    highest: json_values.Above0
    nodes: list[NodeGrowth]


class SweepKnee(json_values.Closed, frozen=True):
    """Saturation point: the batch size beyond which larger batches no longer pay."""

    at: dict[AxisName, Value]
    """The other axes, axis to value."""
    batch: json_values.Above0
    gain: json_values.Size
    """Items/s / those of the smallest batch."""
    cost: json_values.Size
    """Latency / that of the smallest batch."""
    is_first: bool
    is_last: bool
    least_batch: json_values.Above0
    """Smallest batch that the rounds cannot distinguish from it."""
    most_batch: json_values.Above0
    """Largest batch that the rounds cannot distinguish from it."""
    is_distinct: bool
    """False if those are the smallest and the largest of the sweep: the rounds vary too much."""


class SweepReport(json_values.Closed, frozen=True):
    """One model at many settings, as `tui-profiler sweep --format json` prints it on one line.

    Times are seconds, sizes bytes. A figure that is not known is null, and `unavailable` has the
    reason, by path.
    """

    schema: Literal["tui-profiler/sweep/1"]
    environment: json_values.Known[SweepMachine]
    model: str
    type: str | None
    source: str | None
    weights: str | None
    device: str | None
    axes: Annotated[list[SweptAxis], Meta(min_length=1)]
    rounds: json_values.Above0
    is_step: bool
    """Latency, items/s and memory are of a training step, scaling of the forward in it."""
    seconds: json_values.Size
    """Measured seconds per point after the warm-up, all rounds together; 0 if on paper only."""
    interrupted: bool
    points: list[SweepPoint]
    """The product of the axes; the last axis changes fastest."""
    scaling: list[AxisScaling]
    """Scaling of every node along one axis, the others fixed."""
    knee_rule: str
    knees: list[SweepKnee]
    unavailable: dict[str, str]
    """Path to the reason."""


def sweep_json(sweep: Sweep) -> str:
    """Return the sweep, without a line end."""
    facts, found = sweep.facts, results(sweep)
    report = json_values.fill(
        SweepReport,
        facts,
        schema=SCHEMA,
        environment=sweep.environment or Unknown("no worker reached this"),
        model=sweep.model,
        axes=sweep.axes,
        rounds=sweep.rounds,
        is_step=sweep.has_steps,
        seconds=sweep.seconds if sweep.runs else 0.0,
        interrupted=sweep.interrupted,
        points=[_point(sweep, one) for one in found],
        scaling=[_scaling(one) for one in scalings(sweep)],
        knee_rule=KNEE_RULE,
        knees=[json_values.fill(SweepKnee, one, at=dict(one.at)) for one in knees(sweep)],
        unavailable={
            f"points[{place}]": one.failure or "not reached by the sweep"
            for place, one in enumerate(found)
            if one.state in ("failed", "not reached")
        },
    )
    return json_values.one_line(json_values.plain(report))


def _point(sweep: Sweep, one: Result) -> SweepPoint:
    has_figures = one.state in ("measured", "on paper")

    def figure(value: Figure) -> Figure:
        return value if has_figures else json_values.TOLD_ABOVE

    return SweepPoint(
        settings={
            axis.name: value for axis, value in zip(sweep.axes, one.point.values, strict=True)
        },
        state=one.state,
        failure=PointFailure(what=one.failure, try_=one.remedy or None) if one.failure else None,
        latency=PointLatency(
            p50_s=figure(one.latency_p50),
            p95_s=figure(one.latency_p95),
            low_s=figure(one.low),
            high_s=figure(one.high),
            forwards=one.forwards,
        ),
        throughput=PointThroughput(per_s=figure(one.items_per_second)),
        memory=PointMemory(
            paper_bytes=figure(one.paper_bytes),
            paper_is_least=one.is_least,
            allocator_bytes=figure(one.allocator_bytes),
            process_bytes=figure(one.process_bytes),
        ),
        energy=PointEnergy(joules=figure(one.joules), joules_per_item=figure(one.joules_per_item)),
        visits=[_visit(visit) for visit in one.visits],
    )


def _visit(visit: Visit) -> PointVisit:
    return json_values.fill(
        PointVisit,
        visit,
        latency_p50=known(visit.latency_p50),
        latency_p95=known(visit.latency_p95),
        items_per_second=known(visit.items_per_second),
    )


def _scaling(one: Scaling) -> AxisScaling:
    return AxisScaling(
        axis=one.axis,
        at=dict(one.at),
        highest=one.highest,
        nodes=[_growth(node) for node in one.nodes],
    )


def _growth(node: Growth) -> NodeGrowth:
    slopes: dict[Literal["time", "flops", "bytes"], Slope | Unknown] = {
        "time": node.time,
        "flops": node.flops,
        "bytes": node.bytes_moved,
    }
    return json_values.fill(
        NodeGrowth,
        node,
        **{name: None if isinstance(slope, Unknown) else slope for name, slope in slopes.items()},
        why_not={
            name: slope.reason for name, slope in slopes.items() if isinstance(slope, Unknown)
        },
    )
