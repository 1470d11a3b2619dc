"""The part of the text report that advises: each finding with its evidence and prediction."""

from __future__ import annotations

from tui_profiler.findings import Finding, checks_words, findings, withheld_words
from tui_profiler.findings.evidence.figure_text import gain_text
from tui_profiler.formatting.text import safe, wrap
from tui_profiler.reports.findings_text import evidence_text, gain_line, trial_text
from tui_profiler.reports.text_parts import heading
from tui_profiler.session import Session

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
    head = f"  {gain_text(one.gain):>8} of {one.gain.of:<7} {safe(one.title)}  [{one.kind}]"
    room = columns - len(_INDENT)
    return [head, *(f"{_INDENT}{part}" for text in said for part in wrap(safe(text), room))]
