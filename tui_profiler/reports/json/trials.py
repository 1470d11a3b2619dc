"""What was tried on a model, beside what was predicted, as one JSON object on one line.

1. Names and units never change within one ``schema``; ``docs/try.schema.json`` is made from the
   Structs of this file.
2. Sizes are bytes, times seconds. What is not known is null, and ``unavailable`` says why, by path.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from tui_profiler.findings import Finding, findings
from tui_profiler.findings.evidence.finding import Provenance
from tui_profiler.findings.verdict import Word, measured, verdict
from tui_profiler.messages import TrialResult, TrialSide, Unknown
from tui_profiler.messages.model import Phase
from tui_profiler.messages.trials import WHOLE_MODEL, TrialKind, TrialOutcome
from tui_profiler.reports import json_values
from tui_profiler.session import Session

SCHEMA: Literal["tui-profiler/try/1"] = "tui-profiler/try/1"


class TryMachine(json_values.Closed, frozen=True):
    """Versions and machine."""

    python: str
    torch: str
    cpu: str
    cores: json_values.Above0
    threads: json_values.Above0


class Prediction(json_values.Closed, frozen=True):
    """What the findings predict of the change."""

    speedup: json_values.Known[Annotated[float, Meta(gt=0)]]
    """Times as fast."""
    is_bound: bool
    """It is the most that there is to gain."""
    formula: str
    provenance: Provenance
    title: str


class Interval(json_values.Closed, frozen=True):
    """Contains the true median with at least 95 % probability."""

    low: json_values.Known[float]
    high: json_values.Known[float]


class TrialError(json_values.Closed, frozen=True):
    """How far the outputs are apart."""

    largest: json_values.Known[float]
    relative: json_values.Known[float]
    """Euclidean norm of the differences over that of the values."""
    values: json_values.Count
    others_differ: json_values.Count
    """Of values that are not floating numbers."""
    again: json_values.Known[float]
    """Relative difference of the model as it is from itself."""


class TriedSide(json_values.Closed, frozen=True):
    """The model as it is, or changed."""

    seconds: Annotated[float, Meta(gt=0)]
    """Median of one call."""
    items: json_values.Above0
    """In one call: how many times the batch of the model as it is."""
    peak_bytes: json_values.Known[float]
    """The most that one call had allocated at once."""
    weight_bytes: json_values.Known[float]
    """Parameters and buffers."""


class Trial(json_values.Closed, frozen=True):
    """One change that was tried."""

    kind: TrialKind
    node: str | None
    """Path of the module that was tried; null for the whole model."""
    outcome: TrialOutcome
    why: str
    """Why there is no figure, or no interval."""
    detail: str
    """What was changed."""
    seconds: json_values.Size
    """That the trial took, all in all."""
    phase: Phase
    predicted: json_values.Known[Prediction]
    verdict: Word | None
    """What the trial says of the prediction; null where there is none of either."""
    speedup: json_values.Known[float]
    """Time of an item without the change over that with it: the median of the pairs."""
    interval: Interval
    pairs: json_values.Count
    change_s: json_values.Size
    """Seconds once, before it runs at its speed."""
    error: json_values.Known[TrialError]
    baseline: json_values.Known[TriedSide]
    changed: json_values.Known[TriedSide]


class TryReport(json_values.Closed, frozen=True):
    """One model, as `tui-profiler try --format json` prints it on one line.

    What was predicted of changes beside what was measured. Times are seconds, sizes bytes. A figure
    that is not known is null and `unavailable` says why, by path.
    """

    schema: Literal["tui-profiler/try/1"]
    environment: TryMachine | None
    model: str | None
    type: str | None
    weights: str | None
    device: str | None
    batch: json_values.Above0 | None
    trials: list[Trial]
    unavailable: dict[str, str]
    """Path to the reason."""


def trials_json(session: Session) -> str:
    """Return the trials of a session, without a line end."""
    found = {one.trial: one for one in findings(session) if one.trial is not None}
    model = session.model
    report = TryReport(
        schema=SCHEMA,
        environment=_machine(session),
        model=None if model is None else model.name,
        type=None if model is None else model.type,
        weights=None if model is None else model.weights,
        device=None if model is None else model.device,
        batch=None if model is None else model.batch,
        trials=[_trial(one, session, found.get(one.kind)) for one in session.trials],
        unavailable={},
    )
    return json_values.one_line(json_values.plain(report))


def _machine(session: Session) -> TryMachine | None:
    found = session.environment
    if found is None:
        return None
    return json_values.taken(TryMachine, found)


def _trial(result: TrialResult, session: Session, finding: Finding | None) -> Trial:
    node = None
    if result.node != WHOLE_MODEL and session.tree is not None:
        node = session.tree.nodes[result.node].path if result.node < len(session.tree) else None
    saved = measured(result)
    why = result.why or "there is none"
    return Trial(
        kind=result.kind,
        node=node,
        outcome=result.outcome,
        why=result.why,
        detail=result.detail,
        seconds=result.seconds,
        phase=result.phase,
        predicted=Unknown("nothing in the session speaks for this change")
        if finding is None
        else _prediction(finding),
        verdict=None if finding is None or saved is None else verdict(finding.gain, saved),
        speedup=json_values.or_why(result.speedup, why),
        interval=Interval(
            low=json_values.or_why(result.low, why), high=json_values.or_why(result.high, why)
        ),
        pairs=result.pairs,
        change_s=result.change_seconds,
        error=_error(result),
        baseline=_side(result.baseline, result.why),
        changed=_side(result.changed, result.why),
    )


def _prediction(finding: Finding) -> Prediction:
    gain = finding.gain
    share = gain.share
    speedup: float | Unknown = Unknown("it is a gain of memory")
    if isinstance(share, Unknown):
        speedup = share
    elif gain.of == "time":
        speedup = 1 / (1 - share) if share < 1 else Unknown("all of the time would be saved")
    return json_values.taken(Prediction, gain, speedup=speedup, title=finding.title)


def _error(result: TrialResult) -> TrialError | Unknown:
    error = result.error
    if error is None:
        return Unknown(result.why_no_error or result.why or "nothing was measured")
    return json_values.taken(TrialError, error)


def _side(side: TrialSide | None, why: str) -> TriedSide | Unknown:
    if side is None:
        return Unknown(why or "nothing was measured")
    return json_values.taken(TriedSide, side)
