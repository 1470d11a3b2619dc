"""What a gain of time is in energy, where a counter said what a forward takes."""

from __future__ import annotations

from msgspec.structs import replace

from tui_profiler.figures.units import energy
from tui_profiler.findings.evidence.finding import Finding, Gain
from tui_profiler.messages import Unknown
from tui_profiler.queries.cost.energy import forward_energy
from tui_profiler.queries.time.forward_kinds import is_mixed
from tui_profiler.session import Session

_OTHER_POWER = ("threads", "input-idle")
"""More cores draw more power, and an idle machine less: time says nothing of their energy."""


def with_energy(session: Session, found: list[Finding]) -> list[Finding]:
    """Add to each finding that saves time what it saves of a forward's measured energy."""
    measured = forward_energy(session)
    if isinstance(measured, Unknown) or is_mixed(session):
        return found
    formula = (
        f"that share of {energy(measured.joules)} per forward, if {measured.name} draws"
        f" {measured.watts:.0f} W as now"
    )
    return [_with_gain(finding, formula) for finding in found]


def _with_gain(finding: Finding, formula: str) -> Finding:
    time = finding.gain
    is_known = time.of == "time" and not isinstance(time.share, Unknown)
    if not is_known or finding.kind in _OTHER_POWER:
        return finding
    gain = Gain("energy", time.share, formula, "estimated", time.is_bound)
    return replace(finding, gains=(*finding.gains, gain))
