"""What ``report`` writes of each model: its format, to stdout or to a file; and its checks."""

import sys

import click

from tui_profiler.figures.units import UNAVAILABLE
from tui_profiler.formatting.text import safe
from tui_profiler.messages import Failed
from tui_profiler.queries.cost.flat import By, flat_table
from tui_profiler.reports.csv import csv_model, flat_rows_csv
from tui_profiler.reports.document import Grid, Note, Part, Section, figures, names
from tui_profiler.reports.json.checks import CheckError, Outcome, as_typed, evaluate, parse_check
from tui_profiler.reports.json.flat import flat_json, flat_json_failed
from tui_profiler.reports.json.report import as_json, json_failed, json_report
from tui_profiler.reports.perfetto.trace import perfetto_trace
from tui_profiler.reports.text.brief import TOP, brief
from tui_profiler.reports.text.full import full_markdown, full_text
from tui_profiler.reports.text.markdown import as_markdown
from tui_profiler.reports.text.sections.flat import flat_sections
from tui_profiler.reports.text.sections.on_device import on_device_section
from tui_profiler.reports.text.table import as_table, findings_lines, table
from tui_profiler.reports.text.text import as_text, part_lines
from tui_profiler.session import Session
from tui_profiler.verbs.outcome import BAD_ARGUMENTS, DONE

from ..options.verbs import ReportOptions
from ..terminal.standard_output import Results, columns, say

CHECK_FAILED = 3


class Written:
    """The report of one model after the other."""

    def __init__(self, results: Results, asked: ReportOptions) -> None:
        """Begin; ``results`` takes what is made.

        Raises:
            UsageError: a check is none, or binary data would go to a terminal.
        """
        if asked.layout == "perfetto" and not asked.output and sys.stdout.isatty():
            raise click.UsageError("A Perfetto trace is binary: add --output FILE.")
        self._results, self._asked = results, asked
        try:
            self._checks = tuple(map(parse_check, asked.checks))
        except CheckError as error:
            raise click.UsageError(f"--check {safe(str(error))}.") from None

    def add(self, name: str, session: Session) -> int:
        """Write a model's report; give the exit code of its checks."""
        code, outcomes = self._checked(name, session)
        if self._asked.by is not None:
            self._results.add(self._flat(name, session, self._asked.by, outcomes))
        else:
            self._results.add(self._made(session, outcomes))
        return code

    def add_failed(self, name: str, session: Session, failed: Failed) -> None:
        """Write the line of a model without a tree; only JSON has one."""
        if self._asked.layout == "json" and self._asked.by is not None:
            self._results.add(flat_json_failed(name, self._asked.by, failed) + "\n")
        elif self._asked.layout == "json":
            self._results.add(json_failed(name, session, failed) + "\n")

    def _checked(self, name: str, session: Session) -> tuple[int, tuple[Outcome, ...]]:
        if not self._checks:
            return DONE, ()
        report = as_json(session, advises=self._asked.findings, on=self._asked.on)
        try:
            outcomes = tuple(evaluate(check, report) for check in self._checks)
        except CheckError as error:
            say(name, f"--check {safe(str(error))}")
            return BAD_ARGUMENTS, ()
        for line in check_lines(outcomes, columns(self._asked.output)):
            say(name, line)
        return DONE if all(one.holds for one in outcomes) else CHECK_FAILED, outcomes

    def _made(self, session: Session, outcomes: tuple[Outcome, ...]) -> str | bytes:
        more = (checks_section(outcomes),) if outcomes else ()
        is_first = not self._results.count
        blank = "" if is_first else "\n"
        sheet, advises = self._asked.on, self._asked.findings
        cells, top, depth = columns(self._asked.output), self._asked.top, self._asked.depth
        on = () if sheet is None else (on_device_section(session, sheet, top),)
        if self._asked.brief:
            return blank + brief(session, top or TOP)
        match self._asked.layout:
            case "json":
                line = json_report(session, top=top, depth=depth, advises=advises, on=sheet)
                return line + "\n"
            case "csv":
                return csv_model(session, with_titles=is_first, top=top, depth=depth)
            case "text":
                more = (*more, *on)
                return blank + full_text(session, columns=cells, top=top, depth=depth, more=more)
            case "markdown":
                return blank + full_markdown(session, top=top, depth=depth, more=(*more, *on))
            case "perfetto":
                return perfetto_trace(session, self._results.count + 1)
            case "table":
                lines = table(session, columns=cells, top=top, depth=depth)
                lines += as_table(on, cells)
                lines += findings_lines(session, cells) if advises else ()
                return blank + "\n".join(lines) + "\n"

    def _flat(self, name: str, session: Session, by: By, outcomes: tuple[Outcome, ...]) -> str:
        """Return the flat table; of text and Markdown the checks are a section before it."""
        is_first = not self._results.count
        if self._asked.layout == "json":
            return flat_json(session, name, by, top=self._asked.top) + "\n"
        if self._asked.layout == "csv":
            rows = flat_table(session, by).rows[: self._asked.top]
            return flat_rows_csv(session, by, rows, with_titles=is_first)
        is_short = self._asked.layout == "table"
        sections = flat_sections(session, by, top=self._asked.top, is_short=is_short)
        title = session.model.name if session.model is not None else name
        cells = columns(self._asked.output)
        if is_short:
            named = Section("", "", (Note(title),))
            lines = as_table((named, *sections), cells)
        else:
            more = (checks_section(outcomes),) if outcomes else ()
            whole = (*more, *sections)
            is_text = self._asked.layout == "text"
            lines = as_text(title, whole, cells) if is_text else as_markdown(title, whole)
        return ("" if is_first else "\n") + "\n".join(lines) + "\n"


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
