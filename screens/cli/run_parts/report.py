"""The headless verbs, put together: worker, verb, report, output. Nothing here draws."""

from __future__ import annotations

import asyncio
import time

from click import UsageError
from msgspec import Struct
from msgspec.structs import replace

from tui_profiler.formatting.text import safe
from tui_profiler.messages import AnalyseParameters, Failed, ListModels, Remedy, Start
from tui_profiler.recording.errors import RecordingError
from tui_profiler.recording.kind import is_recording
from tui_profiler.session import EMPTY, Session, apply
from tui_profiler.source.attached import AttachError
from tui_profiler.source.spawned import Spawned, worker_command
from tui_profiler.verbs.models import models
from tui_profiler.verbs.outcome import complaint, exit_code, failure, measured
from tui_profiler.verbs.recorded import last_session
from tui_profiler.verbs.report import report

from ...options.model import Chosen
from ...start.programs import follow, not_attached
from ...terminal.standard_output import Results, put, say, speaker
from .report_files import Layout, Written


class ReportOptions(Struct, frozen=True):
    """What was typed after ``report``, the options of the model apart."""

    names: tuple[str, ...]
    attach: str
    remote_python: str
    layout: Layout
    output: str
    measure: float | None
    top: int | None
    checks: tuple[str, ...]
    findings: bool = False
    parameters: bool = False


def run_report(options: ReportOptions, chosen: Chosen, *, started_at: float) -> int:
    """Report every model in turn and give the worst of their exit codes.

    Raises:
        UsageError: the file to write cannot be written, a check is none, or the format holds no
            advice or only whole forwards.
    """
    if options.findings and options.layout in ("csv", "perfetto"):
        raise UsageError(f"{options.layout} holds no advice: leave out --findings.")
    if options.top is not None and options.layout == "perfetto":
        raise UsageError("A trace is of a whole forward: leave out --top.")
    worst = 0
    with Results(options.output) as results:
        written = Written(
            *(results, options.layout, options.output, options.top, options.checks),
            advises=options.findings,
        )
        for name in options.names or (options.attach,):
            session = _session(name, options, chosen, started_at)
            started_at = time.time()
            for line in complaint(session, debug=chosen.debug):
                say(name, line)
            worst = max(worst, exit_code(session))
            if session.tree is not None:
                worst = max(worst, written.add(name, session))
            elif (failed := failure(session)) is not None:
                written.add_failed(name, session, failed)
    return worst


def _session(name: str, options: ReportOptions, chosen: Chosen, started_at: float) -> Session:
    if options.attach:
        return asyncio.run(_attached(options, started_at))
    if is_recording(name):
        return _recorded(name)
    return asyncio.run(_one(name, options, chosen, started_at))


def _recorded(file: str) -> Session:
    """Give the last session of a recording; what is to be said of the file goes to stderr."""
    try:
        session, said = last_session(file)
    except RecordingError as error:
        failed = Failed("open", str(error), remedies=(Remedy(error.remedy, ""),), bad_argument=True)
        return apply(EMPTY, failed)
    for line in said:
        say(file, line)
    if session.tree is None and session.failure is None:
        return apply(session, Failed("open", "the recording was cut off before the tree came"))
    return session


async def _one(name: str, options: ReportOptions, chosen: Chosen, started_at: float) -> Session:
    measuring = options.measure is not None
    wanted = chosen if measuring else replace(chosen, run=False)
    spec = wanted.spec(name, started_at=started_at, seconds=options.measure)
    source = Spawned(worker_command(), first=[Start(spec)])
    analysis = AnalyseParameters() if options.parameters else None
    said = speaker(name)
    session = await report(source, measuring=measuring, progress=said, analysis=analysis)
    return measured(session) if measuring else session


async def _attached(options: ReportOptions, started_at: float) -> Session:
    """Follow a program that is not ours."""
    try:
        source = follow(
            options.attach, options.remote_python, seconds=options.measure, started_at=started_at
        )
    except AttachError as error:
        return apply(EMPTY, not_attached(error))
    measuring = options.measure is not None
    return await report(source, measuring=measuring, progress=speaker(options.attach))


def run_models(request: ListModels, *, debug: bool) -> int:
    """Print the names that a worker gives, one a line; exit code 1 where there are none."""
    session = asyncio.run(models(Spawned(worker_command(), first=[request])))
    for line in complaint(session, debug=debug):
        say("models", line)
    if session.listed is None:
        return exit_code(session) or 1
    put("".join(f"{safe(name)}\n" for _, name in session.listed.names))
    if not session.listed.names:
        say("models", f'no model has "{safe(request.pattern)}" in its name')
        say("models", "try tui-profiler models: lists all of them")
        return 1
    return 0
