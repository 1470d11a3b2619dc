"""What is said of a finding in every report for reading; its text is not safe yet."""

from __future__ import annotations

from tui_profiler.findings import Finding
from tui_profiler.findings.evidence.figure_text import figure_text, gain_text
from tui_profiler.findings.evidence.finding import Evidence, Gain
from tui_profiler.messages import Unknown


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
