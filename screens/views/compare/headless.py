"""``compare`` without a screen, put together; and what both its forms begin with."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from tui_profiler.formatting.text import safe
from tui_profiler.messages import Failed, LoadSpec, Start
from tui_profiler.queries.compare.comparison import comparison
from tui_profiler.queries.compare.side import Side, side_of
from tui_profiler.recording.errors import RecordingError
from tui_profiler.recording.kind import is_recording
from tui_profiler.reports.json.compare import compare_json
from tui_profiler.reports.json.reader import read_report
from tui_profiler.reports.json.report_file import ReportError, is_report
from tui_profiler.reports.text.compare import compare_table
from tui_profiler.session import EMPTY, Session, apply
from tui_profiler.source import Source, Told
from tui_profiler.source.spawned import Spawned, worker_command
from tui_profiler.verbs.compare import Begin, compare
from tui_profiler.verbs.outcome import BAD_ARGUMENTS, complaint, exit_code, measured
from tui_profiler.verbs.recorded import last_session
from tui_profiler.verbs.report import progress_line, trusted_line

from ...options.side import TypedSide
from ...terminal.standard_output import Results, columns, say

WHICH = ("A", "B")


class CompareOptions(Struct, frozen=True):
    """What was typed after ``compare``, the options of the models apart."""

    a: str
    b: str
    layout: Literal["table", "json"] | None
    output: str
    measure: float | None
    top: int | None


class Opened(Struct, frozen=True):
    """One side, as far as it is known before anything is run."""

    label: str
    session: Session = EMPTY
    side: Side | None = None
    """Of a report; None where the session says it."""
    file: str = ""
    """What it is, in words, where it is no model; empty where it is one."""
    start: Callable[[float], Source] | None = None
    """Starts its worker, given Unix time; None where nothing is started."""
    began: float | None = None
    """Unix time that its stages are counted from; None: that of its start."""

    def at(self, session: Session) -> Side:
        """Give the side as it is with a session."""
        return self.side if self.side is not None else side_of(self.label, session)

    @property
    def begin(self) -> Begin | None:
        """What starts its worker when it is its time."""
        start = self.start
        return None if start is None else lambda: start(time.time())


def opened(typed: TypedSide, say_of: Callable[[str], None], *, spec: LoadSpec) -> Opened:
    """Look at what a side is; what is to be said of a file goes to ``say_of``.

    Args:
        typed: the side.
        say_of: is given lines.
        spec: what to start where it is a model.

    Raises:
        ReportError: it is a report of ours that cannot be read.
        RecordingError: it is a recording that cannot be read.
    """
    if is_recording(typed.model):
        session, said = last_session(typed.model)
        for line in said:
            say_of(line)
        if session.tree is None and session.failure is None:
            session = apply(session, Failed("open", "the recording was cut off before its tree"))
        return Opened(typed.label, session, file="a recording")
    if is_report(typed.model):
        return Opened(typed.label, side=read_report(typed.model, typed.label), file="a report")
    return Opened(typed.label, start=partial(_started, spec))


def _started(spec: LoadSpec, now: float) -> Source:
    return Spawned(worker_command(), first=[Start(replace(spec, started_at=now))])


def opened_sides(
    options: CompareOptions, sides: tuple[TypedSide, TypedSide], *, running: bool, started_at: float
) -> tuple[Opened, Opened] | None:
    """Look at both; None where one cannot be read, which is said then."""
    found: list[Opened] = []
    for which, typed in zip(WHICH, sides, strict=True):
        say_of = partial(say, f"{which} {typed.label}")
        chosen = typed.chosen if running else replace(typed.chosen, run=False)
        spec = chosen.spec(typed.model, started_at=started_at)
        try:
            found.append(opened(typed, say_of, spec=spec))
        except (ReportError, RecordingError) as error:
            say_of(safe(str(error)))
            say_of(f"try {safe(error.remedy)}")
            return None
    return found[0], found[1]


def run_compare(
    options: CompareOptions, sides: tuple[TypedSide, TypedSide], *, started_at: float
) -> int:
    """Compare, and write it; gives the worse of both exit codes.

    Raises:
        UsageError: the file to write cannot be written.
    """
    running = options.measure is not None
    with Results(options.output) as results:
        known = opened_sides(options, sides, running=running, started_at=started_at)
        if known is None:
            return BAD_ARGUMENTS
        sessions = asyncio.run(_compared(known, options.measure))
        worst = 0
        for which, one, session, typed in zip(WHICH, known, sessions, sides, strict=True):
            for line in complaint(session, debug=typed.chosen.debug):
                say(f"{which} {one.label}", line)
            worst = max(worst, exit_code(session))
        trees = (one.side or session.tree for one, session in zip(known, sessions, strict=True))
        if all(tree is not None for tree in trees):
            results.add(_written(known, sessions, options))
    return worst


async def _compared(known: tuple[Opened, Opened], seconds: float | None) -> list[Session]:
    sessions = [one.session for one in known]
    told: list[set[str | None]] = [set(), set()]

    def heard(place: int, message: Told, session: Session) -> None:
        said = progress_line(message)
        lines = (trusted_line(sessions[place], message), None if said in told[place] else said)
        told[place].add(said)  # Each turn begins with the same words.
        sessions[place] = session
        for line in filter(None, lines):
            say(f"{WHICH[place]} {known[place].label}", line)

    begins = (known[0].begin, known[1].begin)
    await compare(begins, measuring=seconds is not None, seconds=seconds, heard=heard)
    if seconds is None:
        return sessions
    return [
        measured(session) if one.start is not None else session
        for one, session in zip(known, sessions, strict=True)
    ]


def _written(known: tuple[Opened, Opened], sessions: list[Session], options: CompareOptions) -> str:
    a, b = (one.at(session) for one, session in zip(known, sessions, strict=True))
    compared = comparison(a, b)
    in_turns = options.measure is not None and all(one.start is not None for one in known)
    if options.layout == "json":
        return compare_json(compared, top=options.top, in_turns=in_turns) + "\n"
    lines = compare_table(
        compared, columns=columns(options.output), top=options.top, in_turns=in_turns
    )
    return "\n".join(lines) + "\n"
