"""Advice: pure questions of a session, one file for each kind of finding."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from tui_profiler.findings.finding import Evidence, Finding, Gain, Kind, TrialKind
from tui_profiler.findings.fold_conv_bn import fold_conv_bn
from tui_profiler.session import Session

Check: TypeAlias = Callable[[Session], Finding | None]
CHECKS: dict[Kind, Check] = {
    "fold-conv-bn": fold_conv_bn,
}


def findings(session: Session) -> tuple[Finding, ...]:
    """Give every finding that applies, the one with the largest predicted share first."""
    found = [finding for check in CHECKS.values() if (finding := check(session)) is not None]
    return tuple(sorted(found, key=lambda finding: -finding.share))


__all__ = ["CHECKS", "Evidence", "Finding", "Gain", "Kind", "TrialKind", "findings"]
