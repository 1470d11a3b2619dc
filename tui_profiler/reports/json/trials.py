"""What was tried on a model, beside what was predicted, as one JSON object on one line.

1. Names and units never change within one ``schema``; ``docs/try.schema.json`` describes them.
2. Sizes are bytes, times seconds. What is not known is null, and ``unavailable`` says why, by path.
3. The text is ASCII: whatever a model is called is escaped, and read back exactly.
"""

from __future__ import annotations

import json

from tui_profiler.findings import Finding, findings
from tui_profiler.findings.verdict import measured, verdict
from tui_profiler.messages import TrialResult, TrialSide, Unknown
from tui_profiler.messages.trials import WHOLE_MODEL
from tui_profiler.reports.json_values import Json, Unavailable
from tui_profiler.session import Session

SCHEMA = "tui-profiler/try/1"


def trials_json(session: Session) -> str:
    """Give the trials of a session, without a line end."""
    unavailable = Unavailable()
    found = {one.trial: one for one in findings(session) if one.trial is not None}
    model = session.model
    report: dict[str, Json] = {
        "schema": SCHEMA,
        "environment": _environment(session),
        "model": None if model is None else model.name,
        "type": None if model is None else model.type,
        "weights": None if model is None else model.weights,
        "device": None if model is None else model.device,
        "batch": None if model is None else model.batch,
        "trials": [
            _trial(place, one, session, found.get(one.kind), unavailable)
            for place, one in enumerate(session.trials)
        ],
        "unavailable": unavailable.reasons,
    }
    text = json.dumps(report, allow_nan=False, separators=(",", ":"))
    # The only control character that JSON does not escape by itself.
    return text.replace("\x7f", "\\u007f")


def _environment(session: Session) -> Json:
    found = session.environment
    if found is None:
        return None
    return {
        "python": found.python,
        "torch": found.torch,
        "cpu": found.cpu,
        "cores": found.cores,
        "threads": found.threads,
    }


def _trial(
    place: int,
    result: TrialResult,
    session: Session,
    finding: Finding | None,
    unavailable: Unavailable,
) -> Json:
    at = f"trials[{place}]"
    node = None
    if result.node != WHOLE_MODEL and session.tree is not None:
        node = session.tree.nodes[result.node].path if result.node < len(session.tree) else None

    saved = measured(result)

    def figure(name: str, value: float | None) -> Json:
        return unavailable.figure(f"{at}.{name}", value, result.why or "there is none")

    return {
        "kind": result.kind,
        "node": node,
        "outcome": result.outcome,
        "why": result.why,
        "detail": result.detail,
        "seconds": result.seconds,
        "phase": result.phase,
        "predicted": _prediction(f"{at}.predicted", finding, unavailable),
        "verdict": None if finding is None or saved is None else verdict(finding.gain, saved),
        "speedup": figure("speedup", result.speedup),
        "interval": {
            "low": figure("interval.low", result.low),
            "high": figure("interval.high", result.high),
        },
        "pairs": result.pairs,
        "change_s": result.change_seconds,
        "error": _error(f"{at}.error", result, unavailable),
        "baseline": _side(f"{at}.baseline", result.baseline, result.why, unavailable),
        "changed": _side(f"{at}.changed", result.changed, result.why, unavailable),
    }


def _prediction(at: str, finding: Finding | None, unavailable: Unavailable) -> Json:
    if finding is None:
        return unavailable.missing(at, "nothing in the session speaks for this change")
    gain = finding.gain
    share = gain.share
    speedup: float | Unknown = Unknown("it is a gain of memory")
    if isinstance(share, Unknown):
        speedup = share
    elif gain.of == "time":
        speedup = 1 / (1 - share) if share < 1 else Unknown("all of the time would be saved")
    return {
        "speedup": unavailable.figure(f"{at}.speedup", speedup),
        "is_bound": gain.is_bound,
        "formula": gain.formula,
        "provenance": gain.provenance,
        "title": finding.title,
    }


def _error(at: str, result: TrialResult, unavailable: Unavailable) -> Json:
    error = result.error
    if error is None:
        return unavailable.missing(at, result.why_no_error or result.why or "nothing was measured")
    return {
        "largest": unavailable.figure(f"{at}.largest", error.largest),
        "relative": unavailable.figure(f"{at}.relative", error.relative),
        "values": error.values,
        "others_differ": error.others_differ,
        "again": unavailable.figure(f"{at}.again", error.again),
    }


def _side(at: str, side: TrialSide | None, why: str, unavailable: Unavailable) -> Json:
    if side is None:
        return unavailable.missing(at, why or "nothing was measured")
    return {
        "seconds": side.seconds,
        "items": side.items,
        "peak_bytes": unavailable.figure(f"{at}.peak_bytes", side.peak_bytes),
        "weight_bytes": unavailable.figure(f"{at}.weight_bytes", side.weight_bytes),
    }
