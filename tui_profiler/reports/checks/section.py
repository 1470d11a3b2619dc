"""Checks as a table: for standard error, and as a section of a report for reading."""

from __future__ import annotations

from tui_profiler.figures.units import UNAVAILABLE
from tui_profiler.reports.checks.checks import Outcome
from tui_profiler.reports.checks.limit import as_typed
from tui_profiler.reports.document import Grid, Note, Part, Section, figures, names
from tui_profiler.reports.text.text import part_lines


def checks_section(outcomes: tuple[Outcome, ...]) -> Section:
    """Return the section, the checks in the order in which they were asked for."""
    failed = sum(not one.holds for one in outcomes)
    says = f"{failed} of {len(outcomes)} failed" if failed else "all hold"
    return Section("checks", says, _parts(outcomes))


def check_lines(outcomes: tuple[Outcome, ...], columns: int) -> tuple[str, ...]:
    """Return the same as lines: one where all hold, else a table."""
    if all(one.holds for one in outcomes):
        return (f"{len(outcomes)} checks passed" if len(outcomes) > 1 else "the check passed",)
    return tuple(line for part in _parts(outcomes) for line in part_lines(part, columns))


def _parts(outcomes: tuple[Outcome, ...]) -> tuple[Part, ...]:
    columns = (names("check"), *figures("value", "limit"), names("holds"))
    grid = Grid(columns, tuple(_row(one) for one in outcomes))
    return (grid, *(Note(f"{one.check.path}: {one.why}") for one in outcomes if one.why))


def _row(one: Outcome) -> tuple[str, ...]:
    limit = one.check.limit
    value = as_typed(one.value, limit) if one.value is not None else UNAVAILABLE
    is_one_of_several = "=" in one.check.path and not one.holds
    return (
        one.check.path + (f" at {one.at}" if is_one_of_several and one.at else ""),
        value,
        f"{limit.operator} {limit.text}",
        "yes" if one.holds else "no",
    )
