"""What was tried on a model, beside what was predicted, as one JSON object on one line.

1. Names and units never change within one ``schema``; ``docs/try.schema.json`` is made from the
   Structs of this file.
2. Sizes are bytes, times seconds. What is not known is null, and ``unavailable`` says why, by path.
"""

from typing import Annotated, Literal

from msgspec import Meta, field

from tui_profiler.findings import findings
from tui_profiler.findings.evidence.finding import Finding, Provenance
from tui_profiler.findings.trial_verdict import Word, measured, of_result, verdict
from tui_profiler.messages import WHOLE_MODEL, Phase, TrialKind, TrialOutcome, TrialResult, Unknown
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
    """Prediction of the findings."""

    speedup: json_values.Known[Annotated[float, Meta(gt=0)]]
    """Speed-up per item."""
    is_bound: bool
    """The speed-up is an upper bound."""
    low: Annotated[float, Meta(gt=0)] | None
    """Lower end of the predicted range of the speed-up; null without a range."""
    high: Annotated[float, Meta(gt=0)] | None
    """Upper end of the predicted range of the speed-up; null without a range."""
    formula: str
    provenance: Provenance
    title: str


class Interval(json_values.Closed, frozen=True):
    """Contains the true median with at least 95 % probability."""

    low: json_values.Known[float]
    high: json_values.Known[float]


class TrialError(json_values.Closed, frozen=True):
    """Differences of the outputs, or of the gradients of a training step."""

    largest: json_values.Known[float]
    relative: json_values.Known[float]
    """L2 norm of the differences / that of the values."""
    values: json_values.Count
    others_differ: json_values.Count
    """Differences of values that are not floating-point."""
    again: json_values.Known[float]
    """Relative difference between two calls of the unchanged model."""


class TriedSide(json_values.Closed, frozen=True):
    """The unchanged or the changed model."""

    seconds: Annotated[float, Meta(gt=0)]
    """Median of one call."""
    items: json_values.Above0
    """Items per call, as a multiple of the unchanged model's batch."""
    peak_bytes: json_values.Known[float]
    """Peak allocation of one call."""
    weight_bytes: json_values.Known[float]
    """Parameters and buffers."""
    kept_bytes: json_values.Known[float]
    """Other memory that stays allocated: inputs, and the optimizer state of a training step."""


class Trial(json_values.Closed, frozen=True):
    """One trial."""

    kind: TrialKind
    node: str | None
    """Path of the module; null for the whole model."""
    outcome: TrialOutcome
    why: str
    """Why there is no figure, or no interval."""
    detail: str
    """The change."""
    seconds: json_values.Size
    """Duration of the whole trial."""
    phase: Phase
    predicted: json_values.Known[Prediction]
    verdict: Word | None
    """Verdict on the prediction, without one on the gain; null without a measurement."""
    speedup: json_values.Known[float]
    """Time per item without the change / with it: median of the pairs."""
    interval: Interval
    pairs: json_values.Count
    change_seconds: json_values.Size = field(name="change_s")
    """One-time cost in seconds."""
    error: json_values.Known[TrialError]
    baseline: json_values.Known[TriedSide]
    changed: json_values.Known[TriedSide]
    is_step: bool
    """A call is a training step: its gradients are compared (of optimizer-loop its updates)."""


class TryReport(json_values.Closed, frozen=True):
    """One model, as `tui-profiler try --format json` prints it on one line.

    Predicted and measured gains of changes. Times are seconds, sizes bytes. A figure that is not
    known is null, and `unavailable` has the reason, by path.
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
    environment = session.environment
    report = json_values.fill(
        TryReport,
        model,
        schema=SCHEMA,
        environment=environment and json_values.fill(TryMachine, environment),
        model=model and model.name,
        trials=[_trial(one, session, found.get(one.kind)) for one in session.trials],
        unavailable={},
    )
    return json_values.one_line(json_values.plain(report))


def _trial(result: TrialResult, session: Session, finding: Finding | None) -> Trial:
    node = None
    if result.node != WHOLE_MODEL and session.tree is not None:
        node = session.tree.nodes[result.node].path if result.node < len(session.tree) else None
    saved = measured(result)
    why = result.why or "there is none"
    unmeasured = Unknown(result.why or "nothing was measured")
    return json_values.fill(
        Trial,
        result,
        node=node,
        predicted=Unknown("no finding of this session suggests this change")
        if finding is None
        else _prediction(finding),
        verdict=None if saved is None else verdict((finding or of_result(result)).gain, saved),
        speedup=json_values.or_why(result.speedup, why),
        interval=Interval(
            low=json_values.or_why(result.low, why), high=json_values.or_why(result.high, why)
        ),
        error=result.error or Unknown(result.why_no_error or result.why or "nothing was measured"),
        baseline=result.baseline or unmeasured,
        changed=result.changed or unmeasured,
    )


def _prediction(finding: Finding) -> Prediction:
    gain = finding.gain
    share = gain.share
    speedup: float | Unknown = Unknown("it is a gain of memory")
    if isinstance(share, Unknown):
        speedup = share
    elif gain.of == "time":
        speedup = 1 / (1 - share) if share < 1 else Unknown("all of the time would be saved")
    low, high = (_speedup(one) if gain.of == "time" else None for one in (gain.low, gain.high))
    return json_values.fill(
        Prediction, gain, speedup=speedup, low=low, high=high, title=finding.title
    )


def _speedup(share: float | None) -> float | None:
    return None if share is None or share >= 1 else 1 / (1 - share)
