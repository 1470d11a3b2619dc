"""Advice in the JSON report: evidence, prediction, and which trial tests it."""

from __future__ import annotations

from tui_profiler.findings import CHECKS, Finding, findings, withheld
from tui_profiler.findings.evidence.finding import Evidence, Gain
from tui_profiler.reports.json_values import Json, Unavailable
from tui_profiler.session import Session, Tree


def findings_section(session: Session, tree: Tree, unavailable: Unavailable) -> Json:
    """Return every finding, by predicted gain, and which kinds do not hold in this mode."""
    return {
        "checks": len(CHECKS),
        "withheld": list(withheld(session)),
        "found": [
            _finding(f"findings.found[kind={one.kind}]", one, tree, unavailable)
            for one in findings(session)
        ],
    }


def _holds_in(one: Finding) -> Json:
    holds_in = CHECKS[one.kind].holds_in
    return ["inference", "training"] if holds_in == "both" else [holds_in]


def _finding(at: str, one: Finding, tree: Tree, unavailable: Unavailable) -> Json:
    return {
        "kind": one.kind,
        "holds_in": _holds_in(one),
        "title": one.title,
        "why": one.why,
        "paths": [tree.nodes[node].path for node in one.nodes],
        "evidence": [
            _evidence(f"{at}.evidence[{place}]", part, unavailable)
            for place, part in enumerate(one.evidence)
        ],
        "gains": [
            _gain(f"{at}.gains[{place}]", gain, unavailable) for place, gain in enumerate(one.gains)
        ],
        "trial": one.trial,
        "why_no_trial": one.why_no_trial or None,
    }


def _evidence(at: str, part: Evidence, unavailable: Unavailable) -> Json:
    return {
        "what": part.what,
        "value": unavailable.figure(f"{at}.value", part.figure),
        "unit": part.unit,
        "provenance": part.provenance,
    }


def _gain(at: str, gain: Gain, unavailable: Unavailable) -> Json:
    return {
        "of": gain.of,
        "share": unavailable.figure(f"{at}.share", gain.share),
        "is_bound": gain.is_bound,
        "provenance": gain.provenance,
        "formula": gain.formula,
    }
