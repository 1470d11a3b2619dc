"""``report`` and ``fit``: follow one model until its figures are complete."""

import asyncio
from collections.abc import Callable

from msgspec.structs import replace

from tui_profiler import messages
from tui_profiler.figures.units import duration, size, thousands
from tui_profiler.formatting.text import safe
from tui_profiler.queries.time.modes import is_program
from tui_profiler.session import EMPTY, Session, apply
from tui_profiler.source import Source, Told

SAY_SECONDS = 2.0
"""Between two lines of progress."""
SILENT_HEARTBEATS = 3
"""Seconds without a forward of a program, about: from then on it is said what is waited for."""
_MOST_NAMES = 12
FIT_BATCHES = (16, 32)
"""The first batch size, of the others. A small batch has its peak elsewhere than a large one."""


async def report(
    source: Source,
    *,
    measuring: bool,
    progress: Callable[[str], None],
    analysis: messages.AnalyseParameters | None = None,
) -> Session:
    """Fold the messages of a source until the tree is complete and, if requested, measured.

    Args:
        source: a probe that was started; it is closed before this returns or raises.
        measuring: wait until the model has run for the requested time.
        progress: called with one line for each completed stage.
        analysis: requested after everything else, and waited for.

    Returns:
        The final session; ``outcome`` has the exit code for it.
    """
    session = EMPTY
    is_asked, said_at, heartbeats = False, 0.0, 0
    try:
        async for message in source.messages():
            session = folded(session, message, progress)
            if isinstance(message, messages.Heartbeat) and session.tree is None:
                heartbeats += 1
                if heartbeats == SILENT_HEARTBEATS and is_program(session):
                    progress("waiting for its next forward")
            if measuring and wants_values(message):
                source.send(messages.ReadValues())
            if (
                isinstance(message, messages.ParametersProgress)
                and message.seconds >= said_at + SAY_SECONDS
            ):
                said_at = message.seconds
                progress(parameters_line(session, message))
            if not is_complete(session, measuring=measuring):
                continue
            if analysis is None or session.is_over or _is_analysed(session):
                break
            if not is_asked:
                source.send(analysis)
                is_asked = True
    finally:
        await source.close()
    if session.tree is None and session.failure is None and (why := _why_left(session)):
        what = "no forward of the program was recorded"
        remedy = messages.Remedy("tui-profiler attach --list", "")
        return apply(session, messages.Failed("trace", what, why=why, remedies=(remedy,)))
    return session


def _why_left(session: Session) -> str:
    """Return why no more comes of a program that was attached to; empty where more may come."""
    if not is_program(session):
        return ""
    if session.loop is not None and session.loop.state == "finished":
        return session.loop.detail
    ended = session.ended
    return "the program ended" if ended is not None and ended.expected else ""


def folded(session: Session, message: Told, progress: Callable[[str], None]) -> Session:
    """Return the session after a message; ``progress`` is given the lines that tell of it."""
    for line in filter(None, (trusted_line(session, message), progress_line(message))):
        progress(line)
    return apply(session, message)


async def followed(
    source: Source,
    is_enough: Callable[[Session], bool],
    *,
    progress: Callable[[str], None] | None = None,
    seconds: float | None = None,
) -> tuple[Session, bool]:
    """Fold the messages of a source until that is enough, then close it.

    Returns:
        The final session, and whether the seconds were over first.
    """
    session, is_late = EMPTY, False
    try:
        async with asyncio.timeout(seconds):
            async for message in source.messages():
                session = apply(session, message)
                if progress is not None and (line := progress_line(message)):
                    progress(line)
                if is_enough(session):
                    break
    except TimeoutError:
        is_late = True
    finally:
        await source.close()
    return session, is_late


def wants_values(message: Told) -> bool:
    """Tell whether a probe has said that it reads values of training steps when it is asked."""
    return isinstance(message, messages.Hello) and "ReadValues" in message.accepts


def is_complete(session: Session, *, measuring: bool) -> bool:
    """Tell whether everything that was requested has arrived."""
    if session.is_over:
        return True
    if not measuring:
        # The duration of the tracing stage comes right after the tree.
        return session.tree is not None and all(r.seconds is not None for r in session.stages)
    return session.loop is not None and session.loop.state in ("finished", "failed")


def _is_analysed(session: Session) -> bool:
    return session.parameters is not None and session.parameters.done is not None


def parameters_line(session: Session, message: messages.ParametersProgress) -> str:
    """Return the progress of reading the parameters."""
    found = session.parameters
    of = found.started.bytes if found is not None else 0
    done = f"{message.bytes / of:.0%}, " if of else ""
    return f"values: {done}{thousands(message.tensors)} tensors, now {safe(message.now)}"


def trusted_line(session: Session, message: Told) -> str | None:
    """Return the warning about what a trusted file runs, once, before it is loaded.

    Args:
        session: before the message.
        message: the next one.
    """
    if not isinstance(message, messages.FileFacts) or not message.is_trusted:
        return None
    if session.file is not None and session.file.untrusted_globals == message.untrusted_globals:
        return None
    dangerous = bool(message.dangerous_globals)
    warning = "; the first can run commands, which no model needs" if dangerous else ""
    return f"file: trusted, loading runs its code: imports {imported(message)}{warning}"


def imported(file: messages.FileFacts) -> str:
    """Return the names that a file imports and torch refuses without --trust, on one line."""
    names = [safe(name) for name in file.untrusted_globals[:_MOST_NAMES]]
    more = len(file.untrusted_globals) - len(names)
    return ", ".join(names) + (f" and {more} more" if more > 0 else "")


def progress_line(message: Told) -> str | None:
    """Return the progress line of a message; None where it has none."""
    match message:
        case messages.StageDone(stage=stage, seconds=seconds, detail=detail):
            said = f", {safe(detail)}" if detail else ""
            if not seconds:  # It took place before this was attached.
                return f"{safe(stage)}: {safe(detail)}"
            return f"{safe(stage)}: {duration(seconds)}{said}"
        case messages.ParametersStarted(tensors=tensors, bytes=of):
            return f"values: {thousands(tensors)} tensors, {size(of)}"
        case messages.ParametersDone(seconds=seconds):
            return f"values: {duration(seconds)}"
        case messages.LoopState(state="running"):
            return "measuring"
        case _:
            return None


async def at_batches(
    spec: messages.LoadSpec,
    begin: Callable[[messages.Request], Source],
    *,
    progress: Callable[[str], None],
    times: tuple[int, ...] = FIT_BATCHES,
) -> tuple[Session, ...]:
    """Return the sessions of a model at its batch size and at larger ones.

    It is built on meta, without values; where that fails, as it was asked for.

    Args:
        spec: of the model; it is not run.
        begin: called for each.
        progress: called with a line for each stage.
        times: the other batch sizes, of the first.

    Returns:
        Only the first where it failed, or where the inputs have no batch axis; without those that
        failed at a larger batch.
    """
    asked = replace(spec, run=False, ceilings=False, device="meta")
    first = await report(begin(messages.Start(asked)), measuring=False, progress=progress)
    if first.tree is None or first.tree.done is None or first.failure is not None:
        asked = replace(asked, device=spec.device)
        first = await report(begin(messages.Start(asked)), measuring=False, progress=progress)
    batch = first.model.batch if first.model is not None else None
    if first.tree is None or first.tree.done is None or batch is None or first.failure is not None:
        return (first,)
    found = [first]
    for each in times:
        larger = replace(asked, batch=each * batch, started_at=0.0)
        session = await report(begin(messages.Start(larger)), measuring=False, progress=progress)
        has_grown = session.model is not None and session.model.batch == larger.batch
        if has_grown and session.tree is not None and session.tree.done is not None:
            found.append(session)
    return tuple(found)
