"""A session as one JSON object on one line: the contract that other programs read.

1. Names and units never change within one ``schema``; ``docs/report.schema.json`` describes them.
2. Times are seconds, sizes bytes, shares 0 to 1. Every number is finite.
3. What is not known is null, and ``unavailable`` says why, by path. A path through ``layers[]``
   or ``layers[kind=op]`` speaks of every such layer in which that field is null.
4. The text is ASCII: whatever a model calls its modules is escaped, and read back exactly.
"""

from __future__ import annotations

import json

from tui_profiler.messages import Failed, InputSpec, ModelFacts, TraceDone
from tui_profiler.queries.bound import bound, bytes_moved, intensity
from tui_profiler.queries.breakdown import bound_shares
from tui_profiler.queries.sorts import OTHER_TIMES, other_models, times_fit_costs
from tui_profiler.queries.totals import (
    dearest_modules,
    was_run,
    why_no_times,
)
from tui_profiler.reports.json_energy import layer_energy
from tui_profiler.reports.json_file import (
    file_section,
    layer_without_forward,
    why_no_environment,
    without_forward,
)
from tui_profiler.reports.json_findings import findings_section
from tui_profiler.reports.json_measured import measured, timing
from tui_profiler.reports.json_paper import kinds, peak_memory
from tui_profiler.reports.json_parameters import parameters_section
from tui_profiler.reports.json_values import Json, Unavailable
from tui_profiler.session import Session, Tree

SCHEMA = "tui-profiler/report/1"

_NOTHING_MOVED = "it moves no bytes"
_OF_A_RUN = "it differs from run to run; told with --measure SECONDS"
_MEASURED_ONLY = ("latency", "throughput", "overhead", "hardware", "energy")


def json_report(session: Session, *, top: int | None = None, advises: bool = False) -> str:
    """Give the report of a session whose tree is whole, without a line end.

    Args:
        session: as it was left.
        top: give only the layers that cost most by themselves: by time, else by FLOPs.
        advises: give findings as well.
    """
    report = as_json(session, top=top, advises=advises)
    text = json.dumps(report, allow_nan=False, separators=(",", ":"))
    # The only control character that JSON does not escape by itself.
    return text.replace("\x7f", "\\u007f")


def as_json(session: Session, *, top: int | None = None, advises: bool = False) -> dict[str, Json]:
    """Give the same as plain values.

    Raises:
        ValueError: there is no whole tree yet.
    """
    tree, done = session.tree, session.tree.done if session.tree is not None else None
    if tree is None or done is None or not len(tree):
        raise ValueError("the model was not traced")
    unavailable = Unavailable()
    report: dict[str, Json] = {
        "schema": SCHEMA,
        "environment": _environment(session, tree, unavailable),
        **_model(session.model),
        "other_models": list(other_models(session)),
        "file": file_section(session),
        "tracer": _tracer(session, tree, done, unavailable),
        "stages": _stages(session, unavailable),
        **_totals("", tree, unavailable),
        "peak_memory": peak_memory("peak_memory", tree, done.peak_memory, unavailable),
        "phases": _phases(session, unavailable),
        "coverage": _coverage(tree, done),
        "real_run": _real_run(session, done, unavailable),
        **kinds(tree),
        "bottlenecks": _bottlenecks(session, unavailable),
        "layers": _layers(session, tree, top, unavailable),
    }
    if not tree.has_forward:
        without_forward(report, unavailable)
    if was_run(session):
        report |= measured(session, unavailable)
    else:
        for name in _MEASURED_ONLY:
            report[name] = unavailable.missing(name, why_no_times(session))
    if advises:
        report["findings"] = findings_section(session, tree, unavailable)
    report["parameters"] = parameters_section(session, top, unavailable)
    report["failure"] = _failure(session.failure)
    report["unavailable"] = unavailable.reasons
    return report


def _environment(session: Session, tree: Tree, unavailable: Unavailable) -> Json:
    found = session.environment
    if found is None:
        return unavailable.missing("environment", why_no_environment(tree))
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


def _model(model: ModelFacts | None) -> dict[str, Json]:
    if model is None:
        return dict.fromkeys(("model", "type", "source", "weights", "inputs", "batch"))
    return {
        "model": model.name,
        "type": model.type,
        "source": model.source,
        "weights": model.weights,
        "device": model.device,
        "training": model.training,
        "batch": model.batch,
        "inputs": _inputs(model.inputs),
        "published": {
            "gmacs": model.published_gmacs,
            "parameters": model.published_parameters,
        },
    }


def _inputs(inputs: tuple[InputSpec, ...]) -> Json:
    return [
        {"name": part.name, "shape": part.shape, "dtype": part.dtype, "why": part.why}
        for part in inputs
    ]


def _stages(session: Session, unavailable: Unavailable) -> Json:
    return [
        {
            "stage": record.stage,
            "seconds": _told("stages[].seconds", session, record.seconds, unavailable),
        }
        for record in session.stages
    ]


def _told(at: str, session: Session, seconds: float | None, unavailable: Unavailable) -> Json:
    """Give how long something of ours took; without a measurement reports of two runs are equal."""
    if not was_run(session):
        return unavailable.missing(at, _OF_A_RUN)
    return unavailable.figure(at, seconds, "it was not finished")


def _tracer(session: Session, tree: Tree, done: TraceDone, unavailable: Unavailable) -> Json:
    at = "tracer.attempts[].seconds"
    return {
        "method": tree.method,
        "attempts": [
            {
                "method": attempt.method,
                "seconds": _told(at, session, attempt.seconds, unavailable),
                "error": attempt.error or None,
                "variant": attempt.variant or None,
                "graphs": attempt.graphs,
                "graph_breaks": attempt.graph_breaks,
            }
            for attempt in done.attempts
        ],
    }


def _phases(session: Session, unavailable: Unavailable) -> Json:
    """Give all tokens at once, then the next one; none where the model has one forward only."""
    return [
        {
            "phase": tree.phase,
            "inputs": _inputs(tree.inputs),
            **_totals(f"{at}.", tree, unavailable),
            "peak_memory": peak_memory(
                f"{at}.peak_memory", tree, tree.done.peak_memory, unavailable
            ),
        }
        for at, tree in ((f"phases[phase={tree.phase}]", tree) for tree in session.phases)
        if tree.done is not None
    ]


def _totals(at: str, tree: Tree, unavailable: Unavailable) -> dict[str, Json]:
    cost = tree.costs[0]
    return {
        "total_parameters": cost.parameters,
        "total_parameter_bytes": cost.parameter_bytes,
        "total_macs": cost.macs,
        "total_flops": cost.flops,
        "total_memory": bytes_moved(cost),
        "arithmetic_intensity": unavailable.figure(
            f"{at}arithmetic_intensity", intensity(cost), _NOTHING_MOVED
        ),
    }


def _coverage(tree: Tree, done: TraceDone) -> Json:
    cost = tree.costs[0]
    return {
        "ops": cost.ops,
        "costed": cost.ops - cost.uncosted,
        "uncosted": done.uncosted,
        "bounded": done.bounded,
    }


def _real_run(session: Session, done: TraceDone, unavailable: Unavailable) -> Json:
    """Give what one real forward cost, where the totals depend on the data."""
    if not done.bounded:
        return unavailable.missing("real_run", "the totals are those of every run")
    if session.real is None:
        return unavailable.missing("real_run", why_no_times(session) or "it was not run")
    cost = session.real.cost
    if cost is None:
        return unavailable.missing("real_run", session.real.why)
    return {
        "total_macs": cost.macs,
        "total_flops": cost.flops,
        "total_memory": bytes_moved(cost),
        "ops": cost.ops,
    }


def _bottlenecks(session: Session, unavailable: Unavailable) -> Json:
    shares = bound_shares(session)
    by_time = "only times show overhead, and these are counted on paper"
    fits = times_fit_costs(session)
    not_timed = "needs times and this machine's ceilings" if fits else OTHER_TIMES
    return {
        kind: {
            "ops": unavailable.figure(f"bottlenecks.{kind}.ops", share.ops, by_time),
            "flops_share": unavailable.figure(
                f"bottlenecks.{kind}.flops_share",
                share.flops_share,
                by_time if share.ops is None else "no operator has FLOPs",
            ),
            "time_share": unavailable.figure(
                f"bottlenecks.{kind}.time_share", share.time_share, not_timed
            ),
        }
        for kind, share in shares.items()
    }


def _layers(session: Session, tree: Tree, top: int | None, unavailable: Unavailable) -> Json:
    chosen: tuple[int, ...] | range = range(len(tree))
    if top is not None:
        chosen = dearest_modules(session, top)
    return [_layer(session, tree, index, unavailable) for index in chosen]


def _layer(session: Session, tree: Tree, index: int, unavailable: Unavailable) -> Json:
    node, cost = tree.nodes[index], tree.costs[index]
    found = bound(session, index)
    layer: dict[str, Json] = {
        "name": node.name,
        "path": node.path,
        "kind": node.kind,
        "type": node.type,
        "depth": tree.depths[index],
        "calls": node.calls,
        "parameters": cost.parameters,
        "macs": cost.macs,
        "flops": cost.flops,
        "uncosted": cost.uncosted,
        "bounded": tree.bounded.get(index),
        "memory": bytes_moved(cost),
        "input_bytes": cost.input_bytes,
        "weight_bytes": cost.weight_bytes,
        "output_bytes": cost.output_bytes,
        "output_shape": node.outputs[0].shape if node.outputs else None,
        "arithmetic_intensity": unavailable.figure(
            "layers[].arithmetic_intensity", intensity(cost), _NOTHING_MOVED
        ),
        "bottleneck": None if found is None else found.kind,
        "bottleneck_measured": found is not None and found.measured,
    }
    if found is None:
        unavailable.missing("layers[].bottleneck", _NOTHING_MOVED)
    if not tree.has_forward:
        layer_without_forward(layer, unavailable)
    elif not node.outputs:
        unavailable.missing("layers[].output_shape", "it gave no tensor")
    if was_run(session):
        layer["timing"] = timing(session, index, unavailable)
        layer["energy"] = layer_energy(session, index, unavailable)
    return layer


def _failure(failure: Failed | None) -> Json:
    if failure is None:
        return None
    return {"stage": failure.stage, "what": failure.what, "where": failure.where or None}
