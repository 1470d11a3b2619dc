"""Findings: what the figures say is worth trying, each with its evidence."""

from __future__ import annotations

from tui_profiler.findings import Finding, checks_words, findings, withheld_words
from tui_profiler.findings.evidence.figure_text import figure_text, gain_text
from tui_profiler.findings.evidence.finding import Evidence, Gain
from tui_profiler.formatting.text import safe, width, wrap
from tui_profiler.messages import Unknown
from tui_profiler.reports.document import Facts, Note, Part, Section
from tui_profiler.reports.text_parts import heading
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


_INDENT = " " * 6


def findings_lines(session: Session, columns: int) -> tuple[str, ...]:
    """Return the section, with a blank line before it; ``columns`` cells is the widest line."""
    found = findings(session)
    held = withheld_words(session)
    left = [f"  {part}" for part in wrap(held, columns - 2)] if held else []
    if not found:
        said = f"nothing to advise: {checks_words(session)} ran, none applies"
        return "", heading("findings", ""), f"  {said}", *left
    lines = ["", heading("findings", "by predicted gain; ~ estimated, ≤ at most, – not known")]
    for one in found:
        lines += _finding(one, columns)
    return (*lines, *left)


def _finding(one: Finding, columns: int) -> list[str]:
    said = [
        one.why,
        f"evidence: {'; '.join(map(evidence_text, one.evidence))}",
        *(f"predicted: {gain_line(gain)}" for gain in one.gains),
        f"trial: {trial_text(one)}",
    ]
    head, kind = (
        f"  {gain_text(one.gain):>8} of {one.gain.of:<7} {safe(one.title)}",
        f"[{one.kind}]",
    )
    fits = width(head) + 2 + width(kind) <= columns
    room = columns - len(_INDENT)
    heads = [f"{head}  {kind}"] if fits else [head, f"{_INDENT}{kind}"]
    return [*heads, *(f"{_INDENT}{part}" for text in said for part in wrap(safe(text), room))]


def evidence_text(part: Evidence) -> str:
    """Return one figure with where it is from."""
    reason = f" ({part.figure.reason})" if isinstance(part.figure, Unknown) else ""
    return f"{part.what}: {figure_text(part)}{reason} {part.provenance}"


def gain_line(gain: Gain) -> str:
    """Return a gain with how it was computed."""
    if isinstance(gain.share, Unknown):
        return f"– of {gain.of} ({gain.share.reason}): {gain.formula}"
    return f"{gain_text(gain)} of {gain.of}: {gain.formula}"


def trial_text(one: Finding) -> str:
    """Return what tries it, or why nothing does."""
    return f"tui-profiler try --kind {one.trial}" if one.trial else f"none: {one.why_no_trial}"
