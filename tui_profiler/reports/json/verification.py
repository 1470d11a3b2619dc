"""Our figures beside those of other counters, as one JSON object on one line.

1. Names and units never change within one ``schema``; ``docs/verify.schema.json`` is made from the
   Structs of this file.
2. Sizes are bytes, times seconds. What is not known is null, and ``unavailable`` says why, by path.
"""

from __future__ import annotations

from typing import Annotated, Literal

from tui_profiler import messages
from tui_profiler.messages.verification import Counter
from tui_profiler.queries.cost.verification import (
    Against,
    Check,
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
    """What this program counts."""

    parameters: json_values.Count
    macs: json_values.Count
    """Multiply-accumulates of one forward."""
    flops: json_values.Count
    """2 for each multiply-accumulate, and the arithmetic of everything else that has a formula."""
    peak_bytes: json_values.Known[json_values.Size]
    """Predicted peak of one forward: parameters, buffers, activations and workspace, as far as each
    is known."""
    uncosted: tuple[str, ...]
    """Operators without a formula: above them, flops is a lower bound."""
    bounded: tuple[str, ...]
    """Operators whose output depends on the data: our figures are then bounds."""
    seconds: json_values.Size | None
    """What tracing took."""


class PublishedFigures(json_values.Closed, frozen=True):
    """What torchvision publishes."""

    gmacs: json_values.Known[json_values.Size]
    """Billions of multiply-accumulates of one item."""
    parameters: json_values.Known[json_values.Count]


class CountedMacs(json_values.Closed, frozen=True):
    """One kind of operator."""

    name: str
    calls: json_values.Count | None
    macs: json_values.Count


class CountedOthers(json_values.Closed, frozen=True):
    """One kind of operator whose count is not of multiply-accumulates."""

    name: str
    calls: json_values.Count | None
    count: json_values.Count


class SkippedOperator(json_values.Closed, frozen=True):
    """One kind of operator that counts 0."""

    name: str
    calls: json_values.Count | None


class CounterResult(json_values.Closed, frozen=True):
    """What another counter says."""

    counter: Counter
    version: str | None
    seconds: json_values.Size
    """What counting took, loading the model apart."""
    error: str | None
    """What it raised, in one line; its figures are then null."""
    parameters: json_values.Known[json_values.Count]
    macs: json_values.Known[json_values.Count]
    """Multiply-accumulates: what it counts, converted."""
    flops: json_values.Known[json_values.Count]
    """As it counts them, 2 for each multiply-accumulate."""
    peak_bytes: json_values.Known[json_values.Count]
    operators: list[CountedMacs]
    """What its multiply-accumulates are made of."""
    not_macs: list[CountedOthers]
    """What it counts although they are not multiply-accumulates; left out of macs."""
    skipped: list[SkippedOperator]
    """Operators that it counts 0 for."""


class LeftOut(json_values.Closed, frozen=True):
    """Operators that are taken from ours before comparing."""

    name: str
    macs: json_values.Count


class CheckResult(json_values.Closed, frozen=True):
    """One figure of ours against one of another's."""

    against: Against
    figure: FigureName
    tolerance: str
    """What must hold, in words."""
    verdict: Verdict
    ours: json_values.Count | None
    theirs: json_values.Size | None
    left_out: list[LeftOut]
    """Operators that it counts 0 for and we do not, with what we count: taken from ours before
    comparing."""
    why: str | None
    """How far they are apart, or why nothing could be compared."""


class VerifyReport(json_values.Closed, frozen=True):
    """One model, as `tui-profiler verify --format json` prints it on one line.

    Our figures beside those of other counters. Times are seconds, sizes bytes. A figure that is not
    known is null and `unavailable` says why, by path.
    """

    schema: Literal["tui-profiler/verify/1"]
    environment: VerifyMachine | None
    model: str | None
    type: str | None
    source: str | None
    device: str | None
    batch: json_values.Count | None
    """Size of the batch axis; null where the inputs have none."""
    inputs: list[Input] | None
    ours: Ours
    published: PublishedFigures
    counters: Annotated[list[CounterResult], json_values.entries("{counter}")]
    checks: list[CheckResult]
    verdict: Verdict
    """fails where one check does, not compared where none could be made; the exit codes are 0, 3
    and 1."""
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
    report = VerifyReport(
        schema=SCHEMA,
        environment=_machine(made.session.environment),
        model=model.name if model is not None else None,
        type=model.type if model is not None else None,
        source=model.source if model is not None else None,
        device=model.device if model is not None else None,
        batch=model.batch if model is not None else None,
        inputs=[json_values.taken(Input, part) for part in model.inputs]
        if model is not None
        else None,
        ours=_ours(tree),
        published=_published(model),
        counters=[_opinion(opinion) for opinion in made.opinions],
        checks=[_check(check) for check in checks(made)],
        verdict=verify_verdict(made),
        unavailable={},
    )
    return json_values.one_line(json_values.plain(report))


def _machine(found: messages.Environment | None) -> VerifyMachine | None:
    if found is None:
        return None
    return json_values.taken(VerifyMachine, found, torchvision=found.torchvision or None)


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

    return CounterResult(
        counter=opinion.counter,
        version=opinion.version or None,
        seconds=opinion.seconds,
        error=opinion.error or None,
        parameters=figure(opinion.parameters),
        macs=figure(opinion.macs),
        flops=figure(opinion.flops),
        peak_bytes=figure(opinion.peak_bytes),
        operators=[
            CountedMacs(name=part.name, calls=part.calls, macs=part.amount)
            for part in opinion.operators
        ],
        not_macs=[
            CountedOthers(name=part.name, calls=part.calls, count=part.amount)
            for part in opinion.others
        ],
        skipped=[SkippedOperator(name=part.name, calls=part.calls) for part in opinion.skipped],
    )


def _check(check: Check) -> CheckResult:
    return json_values.taken(
        CheckResult,
        check,
        left_out=[LeftOut(name=part.name, macs=part.macs) for part in check.left_out],
        why=check.why or None,
    )
