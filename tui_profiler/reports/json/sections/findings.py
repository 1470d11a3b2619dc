"""Advice in the JSON report: evidence, prediction, and which trial tests it."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, field

from tui_profiler.findings import CHECKS, conclusions, withheld
from tui_profiler.findings.evidence.finding import (
    Because,
    Finding,
    Group,
    Per,
    Provenance,
    Saves,
    Unit,
)
from tui_profiler.findings.trial_verdict import advice
from tui_profiler.queries.time.modes import ModeName
from tui_profiler.reports.json_values import Count, Known, Part, Share, entries, fill
from tui_profiler.session import Session, Tree


class Evidence(Part, frozen=True):
    """One figure of the evidence."""

    what: str
    figure: Known[float] = field(name="value")
    unit: Unit
    provenance: Provenance


class Gain(Part, frozen=True):
    """Predicted saving of the change."""

    of: Saves
    share: Known[Share]
    """Likely saving; null if not known."""
    is_bound: bool
    """The share is an upper bound."""
    low: Share | None
    """Lower end of the predicted range; null without a range."""
    high: Share | None
    """Upper end of the predicted range; null without a range."""
    per: Per
    """What a saving of time is a share of; energy is always per forward."""
    provenance: Provenance
    formula: str


class Advice(Part, frozen=True):
    """One finding."""

    kind: str
    holds_in: tuple[ModeName, ...]
    """Modes that this kind applies to."""
    title: str
    why: str
    paths: Annotated[list[str], Meta(min_length=1)]
    """Paths of the nodes concerned; an empty path is the root."""
    evidence: Annotated[list[Evidence], Meta(min_length=1)]
    gains: Annotated[list[Gain], Meta(min_length=1)]
    trial: str | None
    """Kind of the trial that tests it."""
    why_no_trial: str | None
    contended: str | None
    """How long threads waited for a core, if that is much; the finding holds all the same."""
    group: Group
    """What is known of the gain: a trial measured it, it is predicted, an upper bound is (at most),
    nothing is."""


class NotConcluded(Part, frozen=True):
    """A kind that is withheld."""

    kind: str
    because: Because
    """The mode of the program, a figure that is unknown, or wall time that is contended: a thread
    waited for a core for a quarter of it or more."""
    reason: str


class Findings(Part, frozen=True):
    """Advice, only with --findings: what is predicted, upper bounds, what is not known, by gain."""

    checks: Count
    """Kinds of findings that were evaluated."""
    withheld: tuple[str, ...]
    """Kinds that do not apply to the mode of the program, or if the mode is not known."""
    reasons: Annotated[list[NotConcluded], entries("kind={kind}")]
    """Every kind that is withheld, for whichever reason."""
    found: Annotated[list[Advice], entries("kind={kind}")]


def findings_section(session: Session, tree: Tree) -> Findings:
    """Return every finding, by predicted gain, and which kinds do not hold in this mode."""
    concluded = conclusions(session)
    found = concluded.findings
    return Findings(
        checks=len(CHECKS),
        withheld=withheld(session),
        reasons=[fill(NotConcluded, one) for one in concluded.withheld],
        found=[
            _advice(one, tried.group, tree)
            for one, tried in zip(found, advice(session, found), strict=False)
        ],
    )


def _advice(one: Finding, group: Group, tree: Tree) -> Advice:
    holds_in = CHECKS[one.kind].holds_in
    return fill(
        Advice,
        one,
        contended=one.contended or None,
        group=group,
        holds_in=("inference", "training") if holds_in == "both" else (holds_in,),
        paths=[tree.nodes[node].path for node in one.nodes],
    )
