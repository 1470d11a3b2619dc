"""How a session of a headless verb came out: sentences for stderr, a code for the shell."""

from __future__ import annotations

import signal

from tui_profiler.messages import Ended, Failed
from tui_profiler.session import Session
from tui_profiler.text import safe

DONE, MODEL_FAILED, BAD_ARGUMENTS, INTERRUPTED = 0, 1, 2, 130


def exit_code(session: Session) -> int:
    """Give the exit code: 0 done, 1 the model failed, 2 the request was wrong."""
    if session.failure is not None:
        return BAD_ARGUMENTS if session.failure.bad_argument else MODEL_FAILED
    return MODEL_FAILED if _died(session) is not None else DONE


def complaint(session: Session, *, debug: bool) -> tuple[str, ...]:
    """Give what to say on stderr: what went wrong, then what to try; nothing where all went well.

    Args:
        session: as it was left.
        debug: whether the traceback is wanted too.
    """
    if session.failure is not None:
        return _of_failure(session.failure, debug=debug)
    died = _died(session)
    return _of_death(died, session) if died is not None else ()


def _died(session: Session) -> Ended | None:
    ended = session.ended
    return ended if ended is not None and not ended.expected else None


def _of_failure(failure: Failed, *, debug: bool) -> tuple[str, ...]:
    place = " in ".join(safe(part) for part in (failure.where, failure.at) if part)
    what = f"{safe(failure.stage)}: {safe(failure.what)}" + (f" ({place})" if place else "")
    lines = [what]
    if failure.why:
        lines.append(f"because {safe(failure.why)}")
    if failure.likely:
        lines.append(f"likely {safe(failure.likely)}")
    lines += [
        f"try {safe(remedy.command)}" + (f": {safe(remedy.result)}" if remedy.result else "")
        for remedy in failure.remedies
    ]
    if not failure.remedies and failure.traceback and not debug:
        lines.append("try --debug: it shows where this happened")
    elif not failure.remedies and failure.at:
        lines.append(f"try a change at {safe(failure.at)}")
    elif not failure.remedies:
        lines.append("try tui-profiler --help: lists what there is")
    if debug:
        lines += [safe(line) for line in failure.traceback.splitlines()]
    return tuple(lines)


def _of_death(ended: Ended, session: Session) -> tuple[str, ...]:
    stage = next((r.stage for r in reversed(session.stages) if r.seconds is None), None)
    during = f" during {stage}" if stage is not None else ""
    if ended.attached:
        said = f": {safe(ended.last_line)}" if ended.last_line else ""
        return (f"the program ended, or hung up{said}", "try tui-profiler attach --list")
    said = f"; its last words: {safe(ended.last_line)}" if ended.last_line else ""
    return (f"the worker {_how(ended.code)}{during}{said}", f"try {_instead(ended, session)}")


def _instead(ended: Ended, session: Session) -> str:
    if ended.code >= 0:
        return "it without what ends the process: os._exit, or a library that does so"
    if session.tree is not None:
        return "it again with a smaller --batch, or without --measure"
    return "it again with a smaller --batch, or --device meta: costs only, nothing is run"


def _how(code: int) -> str:
    if code >= 0:
        return f"ended by itself with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"
