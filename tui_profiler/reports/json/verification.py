"""Our figures beside those of other counters, as one JSON object on one line.

1. Names and units never change within one ``schema``; ``docs/verify.schema.json`` is made from the
   Structs of this file.
2. Sizes are bytes, times seconds. What is not known is null, and ``unavailable`` says why, by path.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import field

from tui_profiler import messages
from tui_profiler.messages import Counter
from tui_profiler.queries.cost.verification import (
    Against,
    FigureName,
    Verdict,
    Verification,
    checks,
    peak_bytes_of,
    verify_verdict,
)
from tui_profiler.reports import json_values
from tui_profiler.reports.json.report import Input
from tui_profiler.session import Tree

SCHEMA: Literal["tui-profiler/verify/1"] = "tui-profiler/verify/1"

_NONE_PUBLISHED = "torchvision publishes none for this model and input"


class VerifyMachine(json_values.Closed, frozen=True):
    """Versions and machine."""

    python: str
    torch: str
    torchvision: str | None
    cpu: str
    threads: json_values.Count


class Ours(json_values.Closed, frozen=True):
    """Figures of tui-profiler."""

    parameters: json_values.Count
    macs: json_values.Count
    """Multiply-accumulates per forward."""
    flops: json_values.Count
    """2 per multiply-accumulate, plus the arithmetic of other operators with a formula."""
    peak_bytes: json_values.Known[json_values.Size]
    """Predicted peak of one forward: the known parts of parameters, buffers, activations and
    workspace."""
    uncosted: tuple[str, ...]
    """Operators without a formula: if above 0, flops is a lower bound."""
    bounded: tuple[str, ...]
    """Operators whose output depends on the data: if above 0, the figures are bounds."""
    seconds: json_values.Size | None
    """Duration of tracing."""


class PublishedFigures(json_values.Closed, frozen=True):
    """Figures published by torchvision."""

    gmacs: json_values.Known[json_values.Size]
    """Billions of multiply-accumulates per item."""
    parameters: json_values.Known[json_values.Count]


class CountedMacs(json_values.Closed, frozen=True):
    """One kind of operator."""

    name: str
    calls: json_values.Count | None
    amount: json_values.Count = field(name="macs")


class CountedOthers(json_values.Closed, frozen=True):
    """One kind of operator whose count is not of multiply-accumulates."""

    name: str
    calls: json_values.Count | None
    amount: json_values.Count = field(name="count")


class SkippedOperator(json_values.Closed, frozen=True):
    """One kind of operator that is counted as 0."""

    name: str
    calls: json_values.Count | None


class CounterResult(json_values.Closed, frozen=True):
    """Figures of another counter."""

    counter: Counter
    version: str | None
    seconds: json_values.Size
    """Duration of counting, without loading the model."""
    error: str | None
    """Its exception, on one line; its figures are then null."""
    parameters: json_values.Known[json_values.Count]
    macs: json_values.Known[json_values.Count]
    """Multiply-accumulates, converted from what it counts."""
    flops: json_values.Known[json_values.Count]
    """As it counts them, 2 per multiply-accumulate."""
    peak_bytes: json_values.Known[json_values.Count]
    operators: list[CountedMacs]
    """Composition of its multiply-accumulates."""
    others: list[CountedOthers] = field(name="not_macs")
    """Operations that it counts although they are not multiply-accumulates; excluded from macs."""
    skipped: list[SkippedOperator]
    """Operators that it counts as 0."""


class LeftOut(json_values.Closed, frozen=True):
    """Operators that are subtracted before comparing."""

    name: str
    macs: json_values.Count


class CheckResult(json_values.Closed, frozen=True):
    """One figure of tui-profiler compared with that of another counter."""

    against: Against
    figure: FigureName
    tolerance: str
    """The condition."""
    verdict: Verdict
    ours: json_values.Count | None
    theirs: json_values.Size | None
    left_out: list[LeftOut]
    """Operators that it counts as 0 and tui-profiler does not, with tui-profiler's count:
    subtracted before comparing."""
    why: str | None
    """The difference, or why nothing could be compared."""


class VerifyReport(json_values.Closed, frozen=True):
    """One model, as `tui-profiler verify --format json` prints it on one line.

    Figures of tui-profiler and of other counters. Times are seconds, sizes bytes. A figure that is
    not known is null, and `unavailable` has the reason, by path.
    """

    schema: Literal["tui-profiler/verify/1"]
    environment: VerifyMachine | None
    model: str | None
    type: str | None
    source: str | None
    device: str | None
    batch: json_values.Count | None
    """Size of the batch axis; null if the inputs have none."""
    inputs: list[Input] | None
    ours: Ours
    published: PublishedFigures
    counters: Annotated[list[CounterResult], json_values.entries("{counter}")]
    checks: list[CheckResult]
    verdict: Verdict
    """fails if one check fails, not compared if no check was possible; the exit codes are 0, 3 and
    1."""
    unavailable: dict[str, str]
    """Path to the reason."""


def verification_json(made: Verification) -> str:
    """Return the comparison, without a line end.

    Raises:
        ValueError: The model was not traced.
    """
    tree, model = made.session.tree, made.session.model
    if tree is None or not len(tree):
        raise ValueError("the model was not traced")
    environment = made.session.environment
    report = json_values.fill(
        VerifyReport,
        model,
        schema=SCHEMA,
        environment=environment and json_values.fill(VerifyMachine, environment),
        model=model and model.name,
        ours=_ours(tree),
        published=_published(model),
        counters=[_opinion(opinion) for opinion in made.opinions],
        checks=[json_values.fill(CheckResult, check) for check in checks(made)],
        verdict=verify_verdict(made),
        unavailable={},
    )
    return json_values.one_line(json_values.plain(report))


def _ours(tree: Tree) -> Ours:
    cost, done = tree.costs[0], tree.done
    return Ours(
        parameters=cost.parameters,
        macs=cost.macs,
        flops=cost.flops,
        peak_bytes=json_values.or_why(peak_bytes_of(tree), "nothing was predicted"),
        uncosted=done.uncosted if done is not None else (),
        bounded=done.bounded if done is not None else (),
        seconds=sum(attempt.seconds for attempt in done.attempts) if done is not None else None,
    )


def _published(model: messages.ModelFacts | None) -> PublishedFigures:
    gmacs = None if model is None else model.published_gmacs
    parameters = None if model is None else model.published_parameters
    return PublishedFigures(
        gmacs=json_values.or_why(gmacs, _NONE_PUBLISHED),
        parameters=json_values.or_why(parameters, _NONE_PUBLISHED),
    )


def _opinion(opinion: messages.SecondOpinion) -> CounterResult:
    def figure(value: messages.verification.Count) -> messages.verification.Count:
        return (
            messages.Unknown(opinion.error or value.reason)
            if isinstance(value, messages.Unknown)
            else value
        )

    return json_values.fill(
        CounterResult,
        opinion,
        parameters=figure(opinion.parameters),
        macs=figure(opinion.macs),
        flops=figure(opinion.flops),
        peak_bytes=figure(opinion.peak_bytes),
    )
