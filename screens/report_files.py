"""What ``report`` writes of each model: its format, to stdout or to a file; and its checks."""

from __future__ import annotations

import sys
from typing import Literal, TypeAlias

import click

from tui_profiler.reports.check_limit import CheckError
from tui_profiler.reports.checks import Outcome, evaluate, parse_check
from tui_profiler.reports.checks_section import check_lines, checks_section
from tui_profiler.reports.csv_nodes import csv_model
from tui_profiler.reports.full import full_markdown, full_text
from tui_profiler.reports.json_report import as_json, json_report
from tui_profiler.reports.perfetto import perfetto_trace
from tui_profiler.reports.table import table
from tui_profiler.reports.table_findings import findings_lines
from tui_profiler.session import Session
from tui_profiler.text import safe
from tui_profiler.verbs.outcome import BAD_ARGUMENTS, DONE

from .output import columns, put, put_bytes, put_into, say

Layout: TypeAlias = Literal["table", "text", "json", "csv", "markdown", "perfetto"]
CHECK_FAILED = 3


class Written:
    """The report of one model after the other."""

    def __init__(
        self,
        layout: Layout,
        output: str,
        top: int | None,
        checks: tuple[str, ...],
        advises: bool = False,
    ) -> None:
        """Begin.

        Raises:
            UsageError: a check is none, or binary data would go to a terminal.
        """
        if layout == "perfetto" and not output and sys.stdout.isatty():
            raise click.UsageError("A Perfetto trace is no text: add --output FILE.")
        self._layout, self._output, self._top = layout, output, top
        self._advises = advises
        self._count = 0
        self._kept: list[bytes] = []
        try:
            self._checks = tuple(map(parse_check, checks))
        except CheckError as error:
            raise click.UsageError(f"--check {safe(str(error))}.") from None

    def add(self, name: str, session: Session) -> int:
        """Write a model's report, or keep it for the file; give the exit code of its checks."""
        code, outcomes = self._checked(name, session)
        text = self._made(session, outcomes)
        self._count += 1
        if self._output:
            self._kept.append(text)
        elif self._layout == "perfetto":
            put_bytes(text)
        else:
            put(text.decode("utf-8"))
        return code

    def close(self) -> None:
        """Write the file, where there is one and something to write."""
        if self._output and self._kept:
            put_into(self._output, b"".join(self._kept))

    def _checked(self, name: str, session: Session) -> tuple[int, tuple[Outcome, ...]]:
        if not self._checks:
            return DONE, ()
        report = as_json(session, advises=self._advises)
        try:
            outcomes = tuple(evaluate(check, report) for check in self._checks)
        except CheckError as error:
            say(name, f"--check {safe(str(error))}")
            return BAD_ARGUMENTS, ()
        for line in check_lines(outcomes, columns(self._output)):
            say(name, line)
        return DONE if all(one.holds for one in outcomes) else CHECK_FAILED, outcomes

    def _made(self, session: Session, outcomes: tuple[Outcome, ...]) -> bytes:
        more = (checks_section(outcomes),) if outcomes else ()
        is_first = not self._count
        blank = "" if is_first else "\n"
        match self._layout:
            case "json":
                text = json_report(session, top=self._top, advises=self._advises) + "\n"
            case "csv":
                text = csv_model(session, with_titles=is_first, top=self._top)
            case "text":
                cells = columns(self._output)
                text = blank + full_text(session, columns=cells, top=self._top, more=more)
            case "markdown":
                text = blank + full_markdown(session, top=self._top, more=more)
            case "perfetto":
                return perfetto_trace(session, self._count + 1)
            case "table":
                cells = columns(self._output)
                lines = table(session, columns=cells, top=self._top)
                lines += findings_lines(session, cells) if self._advises else ()
                text = blank + "\n".join(lines) + "\n"
        return text.encode("utf-8")
