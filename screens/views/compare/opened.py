"""What a side of a comparison is, looked at before anything is run."""

from __future__ import annotations

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
from tui_profiler.source.spawned import Spawned, worker_command
from tui_profiler.verbs.compare import Begin
from tui_profiler.verbs.recorded import last_session

from ...options.side import TypedSide


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
        """Return the side as it is with a session."""
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
