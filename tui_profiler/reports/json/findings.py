"""Advice in the JSON report: evidence, prediction, and which trial tests it."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from tui_profiler.findings import CHECKS, Finding, findings, withheld
from tui_profiler.findings.evidence.finding import Provenance, Saves, Unit
from tui_profiler.queries.time.modes import ModeName
from tui_profiler.reports.json_values import Count, Known, Part, Share, entries, taken
from tui_profiler.session import Session, Tree


class Evidence(Part, frozen=True):
    """One figure that a finding stands on."""

    what: str
    value: Known[float]
    unit: Unit
    provenance: Provenance


class Gain(Part, frozen=True):
    """What the change is predicted to save."""

    of: Saves
    share: Known[Share]
    """Predicted to be saved; null where it is not known."""
    is_bound: bool
    """The share is the most that there is to gain."""
    provenance: Provenance
    formula: str


class Advice(Part, frozen=True):
    """One finding."""

    kind: str
    holds_in: tuple[ModeName, ...]
    """Modes of a program that this kind of advice is made for."""
    title: str
    why: str
    paths: Annotated[list[str], Meta(min_length=1)]
    """Of the nodes that it speaks of; an empty path is the root."""
    evidence: Annotated[list[Evidence], Meta(min_length=1)]
    gains: Annotated[list[Gain], Meta(min_length=1)]
    trial: str | None
    """Kind of the trial that tests it."""
    why_no_trial: str | None


class Findings(Part, frozen=True):
    """Advice, only with --findings; by predicted gain."""

    checks: Count
    """Questions that were asked of the session."""
    withheld: tuple[str, ...]
    """Kinds that do not hold in the mode that the program runs the model in, or where that is not
    known."""
    found: Annotated[list[Advice], entries("kind={kind}")]


def findings_section(session: Session, tree: Tree) -> Findings:
    """Return every finding, by predicted gain, and which kinds do not hold in this mode."""
    return Findings(
        checks=len(CHECKS),
        withheld=withheld(session),
        found=[_advice(one, tree) for one in findings(session)],
    )


def _advice(one: Finding, tree: Tree) -> Advice:
    holds_in = CHECKS[one.kind].holds_in
    return Advice(
        kind=one.kind,
        holds_in=("inference", "training") if holds_in == "both" else (holds_in,),
        title=one.title,
        why=one.why,
        paths=[tree.nodes[node].path for node in one.nodes],
        evidence=[taken(Evidence, part, value=part.figure) for part in one.evidence],
        gains=[taken(Gain, gain) for gain in one.gains],
        trial=one.trial,
        why_no_trial=one.why_no_trial or None,
    )
