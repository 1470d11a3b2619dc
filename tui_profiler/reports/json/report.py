"""A session as one JSON object on one line: the contract that other programs read.

1. Names and units never change within one ``schema``; ``docs/report.schema.json`` describes them.
2. Times are seconds, sizes bytes, shares 0 to 1. Every number is finite.
3. What is not known is null, and ``unavailable`` says why, by path. A path through ``layers[]``
   or ``layers[kind=op]`` speaks of every such layer in which that field is null.
4. The text is ASCII: whatever a model calls its modules is escaped, and read back exactly.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

from tui_profiler.messages import Environment, Failed, InputSpec, ModelFacts, RunModel, TraceDone
from tui_profiler.queries.cost.bound import (
    bound,
    bytes_moved,
    intensity,
    is_counted,
    known_bytes,
    known_flops,
    known_macs,
    why_not_counted,
    why_not_decided,
)
from tui_profiler.queries.cost.breakdown import bound_shares
from tui_profiler.queries.cost.totals import (
    dearest_modules,
    was_run,
    why_no_times,
)
from tui_profiler.queries.panel.provenance import no_class
from tui_profiler.queries.time.forward_kinds import other_models, run_models, why_times_do_not_fit
from tui_profiler.queries.time.modes import mode, shown_settings
from tui_profiler.reports.json.energy import layer_energy
from tui_profiler.reports.json.file import (
    file_section,
    layer_without_forward,
    why_no_environment,
    without_forward,
)
from tui_profiler.reports.json.findings import findings_section
from tui_profiler.reports.json.measured import layer_memory, measured, measured_memory, timing
from tui_profiler.reports.json.paper import kinds, peak_memory
from tui_profiler.reports.json.parameters import parameters_section
from tui_profiler.reports.json_values import Json, Unavailable
from tui_profiler.session import Session, Tree

SCHEMA = "tui-profiler/report/1"

_NOTHING_MOVED = "it moves no bytes"
_OF_A_RUN = "differs from run to run; --measure SECONDS reports it"
_ALWAYS = (
    *("schema", "environment", "sandbox", "model", "type", "source", "weights", "device"),
    *("training", "mode", "batch", "inputs", "published", "file", "tracer", "stages"),
    *("total_parameters", "total_parameter_bytes", "total_macs", "total_flops", "total_memory"),
    *("arithmetic_intensity", "peak_memory", "measured_memory", "phases", "coverage", "real_run"),
    *(
        "architecture",
        "breakdown",
        "layer_types",
        "intensity_bands",
        "bottlenecks",
        "layers",
        "latency",
    ),
    *("throughput", "overhead", "hardware", "energy", "parameters", "failure", "unavailable"),
)
"""Keys of every line, null where a model failed."""
_MEASURED_ONLY = ("latency", "throughput", "overhead", "hardware", "energy")


def json_report(session: Session, *, top: int | None = None, advises: bool = False) -> str:
    """Give the report of a session whose tree is whole, without a line end.

    Args:
        session: as it was left.
        top: give only the layers that cost most by themselves: by time, else by FLOPs.
        advises: give findings as well.
    """
    return _line(as_json(session, top=top, advises=advises))


def _line(report: Mapping[str, Json]) -> str:
    try:
        text = json.dumps(report, allow_nan=False, separators=(",", ":"))
    except ValueError:
        # Values of the model's, and whatever a worker sends that opened a hostile file.
        reasons: dict[str, Json] = {}
        report = {name: _finite(value, name, reasons) for name, value in report.items()}
        unavailable = report["unavailable"]
        assert isinstance(unavailable, dict)
        report["unavailable"] = {**unavailable, **reasons}
        text = json.dumps(report, allow_nan=False, separators=(",", ":"))
    # The only control character that JSON does not escape by itself.
    return text.replace("\x7f", "\\u007f")


def json_failed(name: str, session: Session, failed: Failed) -> str:
    """Return the line of a model without a tree, without a line end.

    Args:
        name: As typed; the model may not have been loaded.
        session: As it was left.
        failed: Why there is no tree.
    """
    unavailable = Unavailable()
    why = f"{failed.stage} failed"
    known: dict[str, Json] = {
        "schema": SCHEMA,
        "sandbox": _sandbox(session, unavailable),
        "model": name,
        **(_model(session.model) if session.model is not None else {}),
        "file": file_section(session),
        "stages": _stages(session, unavailable),
        "failure": _failure(failed),
        "unavailable": unavailable.reasons,
    }
    if session.environment is not None:
        known["environment"] = _environment(session.environment)
    return _line(
        {key: known[key] if key in known else unavailable.missing(key, why) for key in _ALWAYS}
    )


def _finite(value: Json, path: str, reasons: dict[str, Json]) -> Json:
    """Return a value with null for each number that JSON does not have, and note why."""
    match value:
        case float() if not math.isfinite(value):
            reasons[path] = f"it is {value}"
            return None
        case dict():
            return {key: _finite(part, f"{path}.{key}", reasons) for key, part in value.items()}
        case list() | tuple():
            return [_finite(part, f"{path}[{n}]", reasons) for n, part in enumerate(value)]
    return value


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
        "environment": (
            unavailable.missing("environment", why_no_environment(tree))
            if session.environment is None
            else _environment(session.environment)
        ),
        "sandbox": _sandbox(session, unavailable),
        **_model(session.model),
        "mode": _mode(session, unavailable),
        "other_models": list(other_models(session)),
        "torch_child_processes": list(session.children.pids) if session.children else [],
        "models": _models(session, unavailable),
        "file": file_section(session),
        "tracer": _tracer(session, tree, done, unavailable),
        "stages": _stages(session, unavailable),
        **_totals("", tree, unavailable),
        "peak_memory": peak_memory("peak_memory", tree, done.peak_memory, unavailable),
        "measured_memory": measured_memory(session, unavailable),
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


def _environment(found: Environment) -> Json:
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


def _sandbox(session: Session, unavailable: Unavailable) -> Json:
    hello = session.hello
    if hello is None or hello.sandbox is None:
        why = hello.why_no_sandbox if hello is not None else ""
        return unavailable.missing("sandbox", why or "no file was opened without --trust")
    found = hello.sandbox
    return {
        "kind": found.kind,
        "landlock_abi": found.landlock_abi,
        "denied": list(found.denied),
        "lacks": list(found.lacks),
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


def _mode(session: Session, unavailable: Unavailable) -> Json:
    """Return whether the program trains the model, and what that was concluded from."""
    found, seen = mode(session), session.mode
    passes = seen.passes if seen is not None else None
    unseen = why_no_times(session) or "no forward was observed"
    return {
        "name": found.name or unavailable.missing("mode.name", found.why),
        "why": found.why,
        "autograd": sorted({one.autograd for one in shown_settings(session)}),
        "backward_passes": unavailable.figure("mode.backward_passes", passes, unseen),
        "backward_passes_reached": seen.reached if seen is not None else 0,
        "backward_pass_s": unavailable.figure(
            "mode.backward_pass_s",
            seen.pass_seconds if seen is not None else None,
            unseen,
        ),
    }


def _models(session: Session, unavailable: Unavailable) -> Json:
    """Return every model that the program ran, this one first, with its share of their time."""
    tree, own = session.tree, session.model
    parameters = tree.costs[0].parameters if tree is not None and len(tree) else 0
    alone = RunModel(own.type if own is not None else "", 1, "", parameters, 1.0)
    return [
        {
            "type": one.type or None,
            "index": one.index,
            "path": one.path or None,
            "parameters": one.parameters,
            "share": unavailable.figure("models[].share", one.share, "no complete step was timed"),
            "shown": at == 0,
        }
        for at, one in enumerate(run_models(session) or (alone,))
    ]


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
    if session.no_decode is not None:
        unavailable.missing("phases[phase=decode]", session.no_decode.why)
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
    cost, why = tree.costs[0], why_not_counted(tree)
    figure = unavailable.figure
    return {
        "total_parameters": cost.parameters,
        "total_parameter_bytes": cost.parameter_bytes,
        "total_macs": figure(f"{at}total_macs", known_macs(cost), why),
        "total_flops": figure(f"{at}total_flops", known_flops(cost), why),
        "total_memory": figure(f"{at}total_memory", known_bytes(cost), why),
        "arithmetic_intensity": figure(
            f"{at}arithmetic_intensity",
            intensity(cost),
            _NOTHING_MOVED if is_counted(cost) else why,
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
        return unavailable.missing("real_run", "not needed: the totals are the same in every run")
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
    by_time = "operators are assigned to this class by their times only: see time_share"
    tree = session.tree
    is_known = tree is None or not len(tree) or is_counted(tree.costs[0])
    unseen = "" if tree is None or is_known else why_not_counted(tree)
    not_timed = (
        why_times_do_not_fit(session) or why_no_times(session) or "the roofline is not calibrated"
    )
    return {
        kind: {
            "ops": unavailable.figure(
                f"bottlenecks.{kind}.ops", None if unseen else share.ops, unseen or by_time
            ),
            "flops_share": unavailable.figure(
                f"bottlenecks.{kind}.flops_share",
                share.flops_share,
                unseen or (by_time if share.ops is None else "no operator has FLOPs"),
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
    why, figure = why_not_counted(tree), unavailable.figure
    layer: dict[str, Json] = {
        "name": node.name,
        "path": node.path,
        "kind": node.kind,
        "type": node.type,
        "depth": tree.depths[index],
        "calls": node.calls,
        "parameters": cost.parameters,
        "macs": figure("layers[].macs", known_macs(cost), why),
        "flops": figure("layers[].flops", known_flops(cost), why),
        "uncosted": cost.uncosted,
        "bounded": tree.bounded.get(index),
        "memory": figure("layers[].memory", known_bytes(cost), why),
        "input_bytes": cost.input_bytes,
        "weight_bytes": cost.weight_bytes,
        "output_bytes": cost.output_bytes,
        "output_shape": node.outputs[0].shape if node.outputs else None,
        "arithmetic_intensity": figure(
            "layers[].arithmetic_intensity",
            intensity(cost),
            _NOTHING_MOVED if is_counted(cost) else why,
        ),
        "bottleneck": None if found is None else found.kind,
        "bottleneck_measured": found is not None and found.measured,
        "bottleneck_on_paper": why_not_decided(session, index) or None,
    }
    if found is None:
        unavailable.missing("layers[].bottleneck", no_class(session, index))
    if not tree.has_forward:
        layer_without_forward(layer, unavailable)
    elif not node.outputs:
        unavailable.missing("layers[].output_shape", "it returned no tensor")
    if was_run(session):
        layer["timing"] = timing(session, index, unavailable)
        layer["energy"] = layer_energy(session, index, unavailable)
        layer["measured_memory"] = layer_memory(session, index, unavailable)
    return layer


def _failure(failure: Failed | None) -> Json:
    if failure is None:
        return None
    return {
        "stage": failure.stage,
        "what": failure.what,
        "where": failure.where or None,
        "at": failure.at or None,
        "why": failure.why or None,
        "likely": failure.likely or None,
        "remedies": [{"command": one.command, "result": one.result} for one in failure.remedies],
        "bad_argument": failure.bad_argument,
    }
