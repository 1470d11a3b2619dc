"""Our figures beside those of other counters, as one JSON object on one line.

1. Names and units never change within one ``schema``; ``docs/verify.schema.json`` describes them.
2. Sizes are bytes, times seconds. What is not known is null, and ``unavailable`` says why, by path.
3. The text is ASCII: whatever a model calls its operators is escaped, and read back exactly.
"""

from __future__ import annotations

import json

from tui_profiler.messages import Counted, Environment, ModelFacts, SecondOpinion, Unknown
from tui_profiler.messages.verification import Count
from tui_profiler.queries.cost.verification import (
    Check,
    Verification,
    checks,
    peak_bytes_of,
    verify_verdict,
)
from tui_profiler.reports.json_values import Json, Unavailable
from tui_profiler.session import Tree

SCHEMA = "tui-profiler/verify/1"

_NONE_PUBLISHED = "torchvision publishes none for this model and input"


def verification_json(made: Verification) -> str:
    """Give the comparison, without a line end.

    Raises:
        ValueError: the model was not traced.
    """
    tree = made.session.tree
    if tree is None or not len(tree):
        raise ValueError("the model was not traced")
    unavailable = Unavailable()
    report: dict[str, Json] = {
        "schema": SCHEMA,
        "environment": _environment(made.session.environment),
        **_model(made.session.model),
        "ours": _ours(tree, unavailable),
        "published": _published(made.session.model, unavailable),
        "counters": [_opinion(opinion, unavailable) for opinion in made.opinions],
        "checks": [_check(check) for check in checks(made)],
        "verdict": verify_verdict(made),
        "unavailable": unavailable.reasons,
    }
    text = json.dumps(report, allow_nan=False, separators=(",", ":"))
    # The only control character that JSON does not escape by itself.
    return text.replace("\x7f", "\\u007f")


def _environment(found: Environment | None) -> Json:
    if found is None:
        return None
    return {
        "python": found.python,
        "torch": found.torch,
        "torchvision": found.torchvision or None,
        "cpu": found.cpu,
        "threads": found.threads,
    }


def _model(model: ModelFacts | None) -> dict[str, Json]:
    if model is None:
        return dict.fromkeys(("model", "type", "source", "device", "batch", "inputs"))
    return {
        "model": model.name,
        "type": model.type,
        "source": model.source,
        "device": model.device,
        "batch": model.batch,
        "inputs": [
            {"name": part.name, "shape": part.shape, "dtype": part.dtype, "why": part.why}
            for part in model.inputs
        ],
    }


def _ours(tree: Tree, unavailable: Unavailable) -> Json:
    cost, done = tree.costs[0], tree.done
    peak = peak_bytes_of(tree)
    return {
        "parameters": cost.parameters,
        "macs": cost.macs,
        "flops": cost.flops,
        "peak_bytes": unavailable.figure("ours.peak_bytes", peak, "nothing was predicted"),
        "uncosted": done.uncosted if done is not None else (),
        "bounded": done.bounded if done is not None else (),
        "seconds": sum(attempt.seconds for attempt in done.attempts) if done is not None else None,
    }


def _published(model: ModelFacts | None, unavailable: Unavailable) -> Json:
    gmacs = None if model is None else model.published_gmacs
    parameters = None if model is None else model.published_parameters
    return {
        "gmacs": unavailable.figure("published.gmacs", gmacs, _NONE_PUBLISHED),
        "parameters": unavailable.figure("published.parameters", parameters, _NONE_PUBLISHED),
    }


def _opinion(opinion: SecondOpinion, unavailable: Unavailable) -> Json:
    def figure(name: str, value: Count) -> Json:
        if isinstance(value, Unknown):
            reason = opinion.error or value.reason
            return unavailable.missing(f"counters[{opinion.counter}].{name}", reason)
        return value

    return {
        "counter": opinion.counter,
        "version": opinion.version or None,
        "seconds": opinion.seconds,
        "error": opinion.error or None,
        "parameters": figure("parameters", opinion.parameters),
        "macs": figure("macs", opinion.macs),
        "flops": figure("flops", opinion.flops),
        "peak_bytes": figure("peak_bytes", opinion.peak_bytes),
        "operators": [_counted(part, "macs") for part in opinion.operators],
        "not_macs": [_counted(part, "count") for part in opinion.others],
        "skipped": [{"name": part.name, "calls": part.calls} for part in opinion.skipped],
    }


def _counted(part: Counted, amount: str) -> Json:
    return {"name": part.name, "calls": part.calls, amount: part.amount}


def _check(check: Check) -> Json:
    return {
        "against": check.against,
        "figure": check.figure,
        "tolerance": check.tolerance,
        "verdict": check.verdict,
        "ours": check.ours,
        "theirs": check.theirs,
        "left_out": [{"name": part.name, "macs": part.macs} for part in check.left_out],
        "why": check.why or None,
    }
