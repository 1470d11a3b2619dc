"""Findings: what the figures say is worth trying, each with its evidence."""

from __future__ import annotations

from tui_profiler.reports.document import Part, Section
from tui_profiler.session import Session


def findings_section(session: Session) -> Section | None:
    """Give the section; None where nothing was found."""
    parts = findings(session)
    return Section("findings", "evidence with its figures", parts) if parts else None


def findings(session: Session) -> tuple[Part, ...]:
    """Give what was found in a session, the most promising first."""
    return ()
