"""Findings: what the figures say is worth trying, each with its evidence."""

from __future__ import annotations

from tui_profiler.findings import Finding, checks_words, findings, withheld_words
from tui_profiler.findings.evidence.figure_text import gain_text
from tui_profiler.reports.document import Facts, Note, Part, Section
from tui_profiler.reports.findings_text import evidence_text, gain_line, trial_text
from tui_profiler.session import Session


def findings_section(session: Session) -> Section:
    """Return the section: the most promising first; where nothing applies, that."""
    found = findings(session)
    parts: tuple[Part, ...] = tuple(map(_facts, found))
    if not found:
        parts = (Note(f"nothing to advise: {checks_words(session)} ran, none applies"),)
    if words := withheld_words(session):
        parts = (*parts, Note(words))
    return Section("findings", "by predicted gain; ~ estimated, ≤ at most, – not known", parts)


def _facts(one: Finding) -> Facts:
    return Facts(
        (
            ("finding", f"{one.title} [{one.kind}]"),
            ("", f"{gain_text(one.gain)} of {one.gain.of}: {one.why}"),
            ("evidence", "; ".join(map(evidence_text, one.evidence))),
            *(("predicted", gain_line(gain)) for gain in one.gains),
            ("trial", trial_text(one)),
        )
    )
