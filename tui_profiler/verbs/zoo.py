"""``report --all``: many models, one process and one file each, so that a crash costs one.

1. ``make`` is the contract: a job in, the text of one file out. Whoever runs jobs elsewhere (Ray, a
   queue of one's own) calls it there, and ``keep`` where the files are.
2. A file is there whole or not at all. What failed is a file too, and the other kind of file of the
   same model goes.
3. A worker more is begun only where there is room for it; the first is begun always.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from tui_profiler.figures.units import clock, duration
from tui_profiler.formatting.text import safe
from tui_profiler.messages import LoadSpec, Request, Start
from tui_profiler.reports.json.zoo_files import Failure, failure_file, is_good, report_file, stem
from tui_profiler.reports.json_values import Json
from tui_profiler.session import EMPTY, Session
from tui_profiler.source import Source
from tui_profiler.system.files import write_whole
from tui_profiler.verbs import outcome
from tui_profiler.verbs.report import followed, is_complete

Begin: TypeAlias = Callable[[Request], Source]
"""Starts a probe whose first request this is."""

WAIT_FOR_ROOM_SECONDS = 1.0


class Job(Struct, frozen=True):
    """One model to be reported."""

    spec: LoadSpec
    top: int | None
    timeout: float
    """Seconds that its worker may take."""
    origin: dict[str, Json]
    """Versions, and what was asked for: to be found in the file."""

    @property
    def name(self) -> str:
        """The model, as it is asked for."""
        return self.spec.model


class Made(Struct, frozen=True):
    """The file of one model."""

    name: str
    text: str
    seconds: float
    code: int
    """As the exit code of ``report``; above 0 it is the file of a failure."""
    what: str = ""
    """Of a failure, in a sentence."""


async def make(job: Job, begin: Begin) -> Made:
    """Report one model in a separate process, and return its file; never raises for a model."""
    began = time.monotonic()
    spec = replace(job.spec, started_at=time.time())
    session, is_late = await followed(
        begin(Start(spec)),
        lambda found: is_complete(found, measuring=spec.run),
        seconds=job.timeout,
    )
    seconds = time.monotonic() - began
    origin: dict[str, Json] = {**job.origin, "seconds": round(seconds, 3)}
    if spec.run and not is_late:
        session = outcome.measured(session)
    failure = _failure(session, job, is_late=is_late)
    if failure is None:
        return Made(job.name, report_file(session, origin, top=job.top), seconds, outcome.DONE)
    text = failure_file(job.name, failure, session, origin, top=job.top)
    return Made(job.name, text, seconds, failure.code, failure.what)


def lost(job: Job, what: str, code: int) -> Made:
    """Return the file of a model whose job was lost."""
    failure = Failure("worker", safe(what), "", (), code)
    text = failure_file(job.name, failure, EMPTY, {**job.origin, "seconds": None}, top=job.top)
    return Made(job.name, text, 0.0, code, failure.what)


async def zoo(
    jobs: Sequence[Job],
    begin: Begin,
    *,
    at_once: int,
    has_room: Callable[[], bool],
    kept: Callable[[Made], None],
) -> None:
    """Write every file, several at a time.

    Args:
        jobs: which models.
        begin: starts a worker.
        at_once: maximum number of workers.
        has_room: whether there is memory for one more.
        kept: called with each file when it is complete.
    """
    waiting = list(reversed(jobs))
    running: set[asyncio.Task[Made]] = set()
    try:
        while waiting or running:
            while waiting and len(running) < at_once and (not running or has_room()):
                running.add(asyncio.create_task(make(waiting.pop(), begin)))
            done, running = await asyncio.wait(
                running,
                timeout=WAIT_FOR_ROOM_SECONDS if waiting else None,
                return_when=asyncio.FIRST_COMPLETED,
            )
            for task in done:
                kept(task.result())
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def keep(made: Made, folder: Path) -> Path:
    """Write a file, whole or not at all, and give where it lies."""
    good, bad = files(made.name, folder)
    path, other = (bad, good) if made.code else (good, bad)
    write_whole(path, made.text.encode())
    other.unlink(missing_ok=True)
    return path


def files(name: str, folder: Path) -> tuple[Path, Path]:
    """Return where the report of a model lies, and where its failure."""
    begin = stem(name)
    return folder / f"{begin}.json", folder / f"{begin}.failed.json"


def is_there(job: Job, folder: Path) -> bool:
    """Say if a job is done already, by a run before."""
    path, _ = files(job.name, folder)
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return is_good(path.read_text(encoding="utf-8"), job.name, job.origin)
    return False


def progress(made: Made, done: int, total: int, *, took_seconds: float) -> str:
    """Return the progress line.

    Args:
        made: the last file.
        done: how many are made.
        total: how many there are to make.
        took_seconds: since the first was begun.
    """
    said = f"failed: {safe(made.what)}" if made.code else duration(made.seconds)
    left = f"; about {clock(took_seconds / done * (total - done))} left" if done < total else ""
    return f"{done}/{total} {safe(made.name)}: {said}{left}"


def _failure(session: Session, job: Job, *, is_late: bool) -> Failure | None:
    code = outcome.exit_code(session)
    stage = next((record.stage for record in reversed(session.stages)), "worker")
    if is_late:
        what = f"stopped after {duration(job.timeout)}"
        return Failure(stage, what, "", ("--timeout: a longer limit",), outcome.MODEL_FAILED)
    is_traced = session.tree is not None and session.tree.done is not None
    if code == outcome.DONE and is_traced:
        return None
    lines = outcome.complaint(session, debug=False) or ("the worker ended without a message",)
    failed = session.failure
    return Failure(
        stage=failed.stage if failed is not None else stage,
        what=lines[0],
        why=failed.why or failed.likely if failed is not None else "",
        remedies=tuple(outcome.commands(lines)),
        code=code or outcome.MODEL_FAILED,
    )
