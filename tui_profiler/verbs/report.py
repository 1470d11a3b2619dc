"""``report``: follow one model until its figures are whole."""

from __future__ import annotations

from collections.abc import Callable

from tui_profiler import messages
from tui_profiler.figures.units import duration, size, thousands
from tui_profiler.formatting.text import safe
from tui_profiler.session import EMPTY, Session, apply
from tui_profiler.source import Source, Told

SAY_SECONDS = 2.0
"""Between two lines of progress."""
_MOST_NAMES = 12


async def report(
    source: Source,
    *,
    measuring: bool,
    progress: Callable[[str], None],
    analysis: messages.AnalyseParameters | None = None,
) -> Session:
    """Fold what a source says until the tree is whole and, where asked for, measured.

    Args:
        source: a probe that was told to start; it is closed before this returns or raises.
        measuring: wait until the model has run for as long as was asked for.
        progress: is given one line for each stage that is done.
        analysis: is asked for when all else is there, and waited for.

    Returns:
        The session as it was left; ``outcome`` says whether it holds what was wanted.
    """
    session = EMPTY
    is_asked, said_at = False, 0.0
    try:
        async for message in source.messages():
            lines = [trusted_line(session, message), progress_line(message)]
            session = apply(session, message)
            for line in filter(None, lines):
                progress(line)
            if (
                isinstance(message, messages.ParametersProgress)
                and message.seconds >= said_at + SAY_SECONDS
            ):
                said_at = message.seconds
                progress(parameters_line(session, message))
            if not is_complete(session, measuring=measuring):
                continue
            if analysis is None or _has_ended(session) or _is_analysed(session):
                break
            if not is_asked:
                source.send(analysis)
                is_asked = True
    finally:
        await source.close()
    return session


def is_complete(session: Session, *, measuring: bool) -> bool:
    """Tell whether nothing more is to be waited for."""
    if session.ended is not None or (session.failure is not None and session.failure.fatal):
        return True
    if not measuring:
        # The stage that gave the tree says how long it took right after the tree.
        return session.tree is not None and all(r.seconds is not None for r in session.stages)
    return session.loop is not None and session.loop.state in ("finished", "failed")


def _has_ended(session: Session) -> bool:
    return session.ended is not None or (session.failure is not None and session.failure.fatal)


def _is_analysed(session: Session) -> bool:
    return session.parameters is not None and session.parameters.done is not None


def parameters_line(session: Session, message: messages.ParametersProgress) -> str:
    """Return how far the look at the parameters is."""
    found = session.parameters
    of = found.started.bytes if found is not None else 0
    done = f"{message.bytes / of:.0%}, " if of else ""
    return f"values: {done}{thousands(message.tensors)} tensors, now {safe(message.now)}"


def trusted_line(session: Session, message: Told) -> str | None:
    """Return the line that tells what a trusted file runs, once, before it is loaded.

    Args:
        session: before the message.
        message: the next one.
    """
    if not isinstance(message, messages.FileFacts) or not message.is_trusted:
        return None
    if session.file is not None and session.file.untrusted_globals == message.untrusted_globals:
        return None
    dangerous = bool(message.dangerous_globals)
    warning = "; its first can run commands, which no model needs" if dangerous else ""
    return f"file: loading it runs code, as trusted: it imports {imported(message)}{warning}"


def imported(file: messages.FileFacts) -> str:
    """Return the names that a file imports and torch does not load by itself, as one line."""
    names = [safe(name) for name in file.untrusted_globals[:_MOST_NAMES]]
    more = len(file.untrusted_globals) - len(names)
    return ", ".join(names) + (f" and {more} more" if more > 0 else "")


def progress_line(message: Told) -> str | None:
    """Return the line that tells a message's progress; None where it is none."""
    match message:
        case messages.StageDone(stage=stage, seconds=seconds, detail=detail):
            said = f", {safe(detail)}" if detail else ""
            return f"{safe(stage)}: {duration(seconds)}{said}"
        case messages.ParametersStarted(tensors=tensors, bytes=of):
            return f"values: {thousands(tensors)} tensors, {size(of)}"
        case messages.ParametersDone(seconds=seconds):
            return f"values: {duration(seconds)}"
        case messages.LoopState(state="running"):
            return "measuring"
        case _:
            return None
