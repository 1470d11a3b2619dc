"""Opening a side of a comparison: a model, a recording or a report."""

import time
from collections.abc import Callable
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from tui_profiler.messages import Failed, LoadSpec, Start
from tui_profiler.queries.compare.side import Side, side_of
from tui_profiler.recording.kind import is_recording
from tui_profiler.reports.json.reader import read_report
from tui_profiler.reports.json.report_file import is_report
from tui_profiler.session import EMPTY, Session, apply
from tui_profiler.source import Source
from tui_profiler.source.recorded import RECORD_AGAIN, last_session
from tui_profiler.source.spawned import Spawned, worker_command
from tui_profiler.verbs.compare import Begin

from ...options.side import TypedSide


class Opened(Struct, frozen=True):
    """One side before anything runs."""

    label: str
    session: Session = EMPTY
    side: Side | None = None
    """Of a report; None where it comes from the session."""
    file: str = ""
    """``a recording`` or ``a report``; empty for a model."""
    start: Callable[[float], Source] | None = None
    """Starts its worker, given Unix time; None for a file."""
    spec: LoadSpec | None = None
    """Load request; None for a file."""
    began: float | None = None
    """Unix time from which its stages count; None: its start."""

    def at(self, session: Session) -> Side:
        """Return the side with a session."""
        return self.side if self.side is not None else side_of(self.label, session)

    @property
    def begin(self) -> Begin | None:
        """Starts its worker now; None for a file."""
        start = self.start
        return None if start is None else lambda: start(time.time())


def opened(typed: TypedSide, say_of: Callable[[str], None], *, spec: LoadSpec) -> Opened:
    """Open a side.

    Args:
        typed: the side.
        say_of: called with messages about a file.
        spec: the load request of a model.

    Raises:
        ReportError, RecordingError: the file cannot be read.
    """
    if is_recording(typed.model):
        session, said = last_session(typed.model)
        for line in said:
            say_of(line)
        if session.tree is None and session.failure is None:
            what = "the recording ends before its tree"
            session = apply(session, Failed("open", what, remedies=(RECORD_AGAIN,)))
        return Opened(typed.label, session, file="a recording")
    if is_report(typed.model):
        return Opened(typed.label, side=read_report(typed.model, typed.label), file="a report")
    return Opened(typed.label, start=partial(_started, spec), spec=spec)


def _started(spec: LoadSpec, now: float) -> Source:
    return Spawned(worker_command(), first=[Start(replace(spec, started_at=now))])
