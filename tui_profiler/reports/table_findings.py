"""The part of the text report that advises: each finding with its evidence and prediction."""

from __future__ import annotations

from tui_profiler.findings import CHECKS, Finding, findings
from tui_profiler.findings.finding import Evidence, Gain
from tui_profiler.findings.words import figure_text, gain_text
from tui_profiler.messages import Unknown
from tui_profiler.reports.text_parts import heading
from tui_profiler.session import Session
from tui_profiler.text import safe, wrap

_INDENT = " " * 6


def findings_lines(session: Session, columns: int) -> tuple[str, ...]:
    """Give the section, with a blank line before it; ``columns`` cells is the widest line."""
    found = findings(session)
    if not found:
        said = f"nothing to advise: {len(CHECKS)} checks ran, none applies"
        return "", heading("findings", ""), f"  {said}"
    lines = ["", heading("findings", "by predicted gain; ~ estimated, ≤ at most, – not known")]
    for one in found:
        lines += _finding(one, columns)
    return tuple(lines)


def _finding(one: Finding, columns: int) -> list[str]:
    trial = f"tui-profiler try --kind {one.trial}" if one.trial else safe(one.why_no_trial)
    said = [
        safe(one.why),
        f"evidence: {'; '.join(map(_evidence, one.evidence))}",
        *(f"predicted: {_gain(gain)}" for gain in one.gains),
        f"trial: {trial}" if one.trial else f"no trial: {trial}",
    ]
    head = f"  {gain_text(one.gain):>8} of {one.gain.of:<7} {safe(one.title)}  [{one.kind}]"
    room = columns - len(_INDENT)
    return [head, *(f"{_INDENT}{part}" for text in said for part in wrap(text, room))]


def _evidence(part: Evidence) -> str:
    reason = f" ({safe(part.figure.reason)})" if isinstance(part.figure, Unknown) else ""
    return f"{safe(part.what)}: {figure_text(part)}{reason} {part.provenance}"


def _gain(gain: Gain) -> str:
    if isinstance(gain.share, Unknown):
        return f"– of {gain.of} ({safe(gain.share.reason)}): {safe(gain.formula)}"
    return f"{gain_text(gain)} of {gain.of}: {safe(gain.formula)}"
