"""A sweep as one JSON object on one line, and as CSV: the contracts that other programs read.

1. Names and units never change within one ``schema``; ``docs/sweep.schema.json`` describes them.
2. Times are seconds, sizes bytes. What is not known is null, and ``unavailable`` says why, by path.
3. The text is ASCII: whatever a model calls its modules is escaped, and read back exactly.
"""

from __future__ import annotations

import csv
import io
import json

from tui_profiler.messages import Environment, Figure, ModelFacts, Unknown
from tui_profiler.queries.scaling import (
    KNEE_RULE,
    Growth,
    Knee,
    Scaling,
    Slope,
    knees,
    scalings,
)
from tui_profiler.queries.sweep import Result, Sweep, Value, Visit, results
from tui_profiler.reports.csv.nodes import as_text
from tui_profiler.reports.json_values import Json, Unavailable

SCHEMA = "tui-profiler/sweep/1"

_CSV_COLUMNS = (
    *("state", "p50_s", "p95_s", "low_s", "high_s", "forwards", "items_per_s"),
    *("paper_bytes", "allocator_bytes", "process_bytes", "joules", "joules_per_item", "reason"),
)


def sweep_json(sweep: Sweep) -> str:
    """Give the sweep, without a line end."""
    unavailable = Unavailable()
    report: dict[str, Json] = {
        "schema": SCHEMA,
        "environment": _environment(sweep.environment, unavailable),
        **_model(sweep, sweep.facts),
        "axes": [{"name": axis.name, "values": axis.values} for axis in sweep.axes],
        "rounds": sweep.rounds,
        "seconds": sweep.seconds if sweep.runs else 0.0,
        "interrupted": sweep.interrupted,
        "points": [
            _point(sweep, result, f"points[{place}]", unavailable)
            for place, result in enumerate(results(sweep))
        ],
        "scaling": [_scaling(one) for one in scalings(sweep)],
        "knee_rule": KNEE_RULE,
        "knees": [_knee(one) for one in knees(sweep)],
        "unavailable": unavailable.reasons,
    }
    text = json.dumps(report, allow_nan=False, separators=(",", ":"))
    # The only control character that JSON does not escape by itself.
    return text.replace("\x7f", "\\u007f")


def sweep_csv(sweep: Sweep) -> str:
    """Give one line a point: the settings, then plain numbers; empty for what is not known."""
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


def _environment(found: Environment | None, unavailable: Unavailable) -> Json:
    if found is None:
        return unavailable.missing("environment", "no worker came so far")
    return {
        "python": found.python,
        "torch": found.torch,
        "torchvision": found.torchvision or None,
        "cuda": found.cuda or None,
        "cpu": found.cpu,
        "cores": found.cores,
        "threads": found.threads,
        "memory_bytes": found.memory_bytes,
    }


def _model(sweep: Sweep, facts: ModelFacts | None) -> dict[str, Json]:
    return {
        "model": sweep.model,
        "type": facts.type if facts is not None else None,
        "source": facts.source if facts is not None else None,
        "weights": facts.weights if facts is not None else None,
        "device": facts.device if facts is not None else None,
    }


def _at(pairs: tuple[tuple[str, Value], ...]) -> dict[str, Json]:
    return dict(pairs)


def _point(sweep: Sweep, one: Result, at: str, unavailable: Unavailable) -> Json:
    if one.state in ("failed", "not reached"):
        unavailable.missing(at, one.failure or "the sweep did not come to it")
    names = (axis.name for axis in sweep.axes)
    has_figures = one.state in ("measured", "on paper")

    def figure(name: str, value: Figure) -> Json:
        if not has_figures:
            return None
        return unavailable.figure(f"{at}.{name}", value)

    return {
        "settings": dict(zip(names, one.point.values, strict=True)),
        "state": one.state,
        "failure": {"what": one.failure, "try": one.remedy or None} if one.failure else None,
        "latency": {
            "p50_s": figure("latency.p50_s", one.latency_p50),
            "p95_s": figure("latency.p95_s", one.latency_p95),
            "low_s": figure("latency.low_s", one.low),
            "high_s": figure("latency.high_s", one.high),
            "forwards": one.forwards,
        },
        "throughput": {"per_s": figure("throughput.per_s", one.items_per_second)},
        "memory": {
            "paper_bytes": figure("memory.paper_bytes", one.paper_bytes),
            "paper_is_least": one.is_least,
            "allocator_bytes": figure("memory.allocator_bytes", one.allocator_bytes),
            "process_bytes": figure("memory.process_bytes", one.process_bytes),
        },
        "energy": {
            "joules": figure("energy.joules", one.joules),
            "joules_per_item": figure("energy.joules_per_item", one.joules_per_item),
        },
        "visits": [_visit(visit) for visit in one.visits],
    }


def _visit(visit: Visit) -> Json:
    return {
        "round": visit.round,
        "p50_s": _number(visit.latency_p50),
        "p95_s": _number(visit.latency_p95),
        "per_s": _number(visit.items_per_second),
        "forwards": visit.forwards,
        "took_s": visit.took_seconds,
    }


def _number(value: Figure) -> Json:
    return None if isinstance(value, Unknown) else value


def _scaling(one: Scaling) -> Json:
    return {
        "axis": one.axis,
        "at": _at(one.at),
        "highest": one.highest,
        "nodes": [_growth(node) for node in one.nodes],
    }


def _growth(node: Growth) -> Json:
    slopes = {"time": node.time, "flops": node.flops, "bytes": node.bytes_moved}
    return {
        "path": node.path,
        "kind": node.kind,
        "type": node.type,
        "seconds": node.seconds,
        **{name: _slope(slope) for name, slope in slopes.items()},
        "why_not": {
            name: slope.reason for name, slope in slopes.items() if isinstance(slope, Unknown)
        },
    }


def _slope(slope: Slope | Unknown) -> Json:
    if isinstance(slope, Unknown):
        return None
    return {
        "exponent": slope.exponent,
        "spread": slope.spread,
        "word": slope.word,
        "first": slope.first,
        "last": slope.last,
        "points": slope.points,
    }


def _knee(knee: Knee) -> Json:
    return {
        "at": _at(knee.at),
        "batch": knee.batch,
        "gain": knee.gain,
        "cost": knee.cost,
        "is_first": knee.is_first,
        "is_last": knee.is_last,
    }
