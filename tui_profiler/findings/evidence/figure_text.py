"""Figures of findings as text, for screens and reports alike."""

from __future__ import annotations

from tui_profiler.figures import units
from tui_profiler.findings.evidence.finding import Evidence, Gain, Unit
from tui_profiler.messages import Unknown


def counted(number: int, noun: str) -> str:
    """Return a number of things: ``1 batch norm``, ``19 batch norms``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def figure_text(evidence: Evidence) -> str:
    """Return a figure with its unit; one that is not measured begins with ``~``."""
    if isinstance(evidence.figure, Unknown):
        return units.UNAVAILABLE
    about = "~" if evidence.provenance == "estimated" else ""
    return about + _with_unit(evidence.figure, evidence.unit)


def gain_text(gain: Gain) -> str:
    """Return a predicted share: ``14 %``, ``~3.0 %``, ``≤ 21 %``, ``–``."""
    if isinstance(gain.share, Unknown):
        return units.UNAVAILABLE
    sign = "≤" if gain.is_bound else "~" if gain.provenance == "estimated" else ""
    return sign + units.share(gain.share)


def _with_unit(value: float, unit: Unit) -> str:
    match unit:
        case "s":
            return units.duration(value)
        case "B":
            return units.size(value)
        case "share":
            return units.share(value)
        case "times":
            return f"{units.three_digits(value)}×" if value < 1000 else f"{value:.0f}×"
        case "FLOP/s" | "B/s":
            return units.rate(value, unit)
        case "FLOP/B":
            return f"{units.intensity(value)} FLOP/B"
        case "count":
            return units.count(value) if value else "0"
