"""A sweep as one JSON object on one line, and as CSV: the contracts that other programs read.

1. Names and units never change within one ``schema``; ``docs/sweep.schema.json`` is made from the
   Structs of this file.
2. Times are seconds, sizes bytes. What is not known is null, and ``unavailable`` says why, by path.
3. Both are safe to read back: JSON is ASCII, and no cell of the CSV is a formula.
"""

from __future__ import annotations

import csv
import io
from typing import Annotated, Literal

from msgspec import Meta

from tui_profiler.messages import Environment, Figure, Unknown, known
from tui_profiler.messages.model import Kind
from tui_profiler.queries.scaling import (
    KNEE_RULE,
    Growth,
    Knee,
    Scaling,
    Slope,
    knees,
    scalings,
)
from tui_profiler.queries.sweep import AxisName, Result, State, Sweep, Value, Visit, results
from tui_profiler.reports import json_values
from tui_profiler.reports.csv.nodes import as_text

SCHEMA: Literal["tui-profiler/sweep/1"] = "tui-profiler/sweep/1"

_CSV_COLUMNS = (
    *("state", "p50_s", "p95_s", "low_s", "high_s", "forwards", "items_per_s"),
    *("paper_bytes", "allocator_bytes", "process_bytes", "joules", "joules_per_item", "reason"),
)


class SweepMachine(json_values.Closed, frozen=True):
    """Versions and machine."""

    python: str
    torch: str
    torchvision: str | None
    cuda: str | None
    cpu: str
    cores: json_values.Above0
    threads: json_values.Above0
    """Of the first worker; where threads are an axis, the points say theirs."""
    memory_bytes: json_values.Above0


class SweptAxis(json_values.Closed, frozen=True):
    """What is varied."""

    name: AxisName
    values: Annotated[tuple[Value, ...], Meta(min_length=1)]


class PointFailure(json_values.Closed, frozen=True, rename={"try_": "try"}):
    """Why there is no figure."""

    what: str
    try_: str | None


class PointLatency(json_values.Closed, frozen=True):
    """Seconds of a forward."""

    p50_s: json_values.Known[json_values.Size]
    """Median of its rounds' medians of a forward."""
    p95_s: json_values.Known[json_values.Size]
    """Median of its rounds' 95th percentiles; null of fewer than 20 forwards."""
    low_s: json_values.Known[json_values.Size]
    """Least median of a round."""
    high_s: json_values.Known[json_values.Size]
    """Largest median of a round."""
    forwards: json_values.Count


class PointThroughput(json_values.Closed, frozen=True):
    """Items per second."""

    per_s: json_values.Known[json_values.Size]
    """Forwards times batch."""


class PointMemory(json_values.Closed, frozen=True):
    """Bytes."""

    paper_bytes: json_values.Known[json_values.Size]
    """Predicted peak of one forward."""
    paper_is_least: bool
    """A part of the peak is not known: it is at least that."""
    allocator_bytes: json_values.Known[json_values.Size]
    """Peak of torch's allocator on the model's device; the CPU's counts nothing."""
    process_bytes: json_values.Known[json_values.Size]
    """Most resident memory of the worker, torch included."""


class PointEnergy(json_values.Closed, frozen=True):
    """Energy of one forward."""

    joules: json_values.Known[json_values.Size]
    """Of one forward."""
    joules_per_item: json_values.Known[json_values.Size]


class PointVisit(json_values.Closed, frozen=True):
    """One run of a point."""

    round: json_values.Count
    p50_s: json_values.Size | None
    p95_s: json_values.Size | None
    per_s: json_values.Size | None
    forwards: json_values.Count
    took_s: json_values.Size
    """Start, import and load included."""


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
    """How a figure grows with a setting."""

    exponent: float
    """Slope of the line through (ln setting, ln figure): 0 flat, 1 linear, 2 quadratic, -1
    inverse."""
    spread: json_values.Size | None
    """Half of the 95 % interval; null where it is exact, as on paper."""
    word: str
    first: float
    """Slope between the two lowest settings."""
    last: float
    """Slope between the two highest."""
    points: Annotated[int, Meta(ge=2)]


class NodeGrowth(json_values.Closed, frozen=True):
    """How a node grows."""

    path: str
    kind: Kind
    type: str
    seconds: json_values.Size | None
    """Of one forward at the highest setting."""
    time: GrowthSlope | None
    flops: GrowthSlope | None
    bytes: GrowthSlope | None
    why_not: dict[Literal["time", "flops", "bytes"], str]
    """Why there is no slope: time, flops or bytes to a reason."""


class AxisScaling(json_values.Closed, frozen=True):
    """How every node grows along one axis."""

    axis: Annotated[str, json_values.one_of("batch", "sequence", "threads")]
    at: dict[AxisName, Value]
    """Axis to value, of the others."""
    highest: json_values.Above0
    nodes: list[NodeGrowth]


class SweepKnee(json_values.Closed, frozen=True):
    """The batch beyond which throughput grows little."""

    at: dict[AxisName, Value]
    """Axis to value, of the others."""
    batch: json_values.Above0
    gain: json_values.Size
    """Items/s over those of the smallest batch."""
    cost: json_values.Size
    """Latency over that of the smallest batch."""
    is_first: bool
    is_last: bool


class SweepReport(json_values.Closed, frozen=True):
    """One model at many settings, as `tui-profiler sweep --format json` prints it on one line.

    Times are seconds, sizes bytes. A figure that is not known is null and `unavailable` says why,
    by path.
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
    seconds: json_values.Size
    """Of running warmed up for each point, all rounds together; 0 where it is on paper only."""
    interrupted: bool
    points: list[SweepPoint]
    """The product of the axes, the last one changing fastest."""
    scaling: list[AxisScaling]
    """How every node grows along one axis, the others fixed."""
    knee_rule: str
    knees: list[SweepKnee]
    unavailable: dict[str, str]
    """Path to the reason."""


def sweep_json(sweep: Sweep) -> str:
    """Return the sweep, without a line end."""
    facts, found = sweep.facts, results(sweep)
    report = SweepReport(
        schema=SCHEMA,
        environment=Unknown("no worker reached this")
        if sweep.environment is None
        else _machine(sweep.environment),
        model=sweep.model,
        type=facts.type if facts is not None else None,
        source=facts.source if facts is not None else None,
        weights=facts.weights if facts is not None else None,
        device=facts.device if facts is not None else None,
        axes=[SweptAxis(name=axis.name, values=axis.values) for axis in sweep.axes],
        rounds=sweep.rounds,
        seconds=sweep.seconds if sweep.runs else 0.0,
        interrupted=sweep.interrupted,
        points=[_point(sweep, one) for one in found],
        scaling=[_scaling(one) for one in scalings(sweep)],
        knee_rule=KNEE_RULE,
        knees=[_knee(one) for one in knees(sweep)],
        unavailable={
            f"points[{place}]": one.failure or "not reached by the sweep"
            for place, one in enumerate(found)
            if one.state in ("failed", "not reached")
        },
    )
    return json_values.one_line(json_values.plain(report))


def sweep_csv(sweep: Sweep) -> str:
    """Return one line a point: the settings, then plain numbers; empty for what is not known."""
    out = io.StringIO()
    lines = csv.writer(out, lineterminator="\n")
    lines.writerow((*(axis.name for axis in sweep.axes), *_CSV_COLUMNS))
    for one in results(sweep):
        figures = (one.latency_p50, one.latency_p95, one.low, one.high)
        more = (one.paper_bytes, one.allocator_bytes, one.process_bytes)
        lines.writerow(
            (
                *(
                    as_text(value) if isinstance(value, str) else value
                    for value in one.point.values
                ),
                one.state,
                *map(_digits, figures),
                one.forwards,
                _digits(one.items_per_second),
                *map(_digits, more),
                *map(_digits, (one.joules, one.joules_per_item)),
                as_text(one.failure),
            )
        )
    return out.getvalue()


def _digits(value: Figure) -> str:
    return "" if isinstance(value, Unknown) else f"{value:.9g}"


def _machine(found: Environment) -> SweepMachine:
    return json_values.taken(
        SweepMachine, found, torchvision=found.torchvision or None, cuda=found.cuda or None
    )


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
    return PointVisit(
        round=visit.round,
        p50_s=known(visit.latency_p50),
        p95_s=known(visit.latency_p95),
        per_s=known(visit.items_per_second),
        forwards=visit.forwards,
        took_s=visit.took_seconds,
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
    return NodeGrowth(
        path=node.path,
        kind=node.kind,
        type=node.type,
        seconds=node.seconds,
        time=_slope(node.time),
        flops=_slope(node.flops),
        bytes=_slope(node.bytes_moved),
        why_not={
            name: slope.reason for name, slope in slopes.items() if isinstance(slope, Unknown)
        },
    )


def _slope(slope: Slope | Unknown) -> GrowthSlope | None:
    if isinstance(slope, Unknown):
        return None
    return json_values.taken(GrowthSlope, slope)


def _knee(knee: Knee) -> SweepKnee:
    return json_values.taken(SweepKnee, knee, at=dict(knee.at))
