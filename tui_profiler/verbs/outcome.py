"""How a session of a headless verb came out: sentences for stderr, a code for the shell."""

import signal
from collections.abc import Sequence

from msgspec.structs import replace

from tui_profiler.formatting.text import safe
from tui_profiler.messages import Ended, Failed, Remedy
from tui_profiler.queries.cost.totals import why_no_times
from tui_profiler.queries.panel.failure import killed_likely, not_so_already
from tui_profiler.queries.panel.state import killer
from tui_profiler.session import Session, apply

DONE, MODEL_FAILED, BAD_ARGUMENTS, INTERRUPTED = 0, 1, 2, 130


def exit_code(session: Session) -> int:
    """Return the exit code: 0 done, 1 the model failed, 2 the request was wrong."""
    if session.failure is not None:
        return BAD_ARGUMENTS if session.failure.bad_argument else MODEL_FAILED
    return MODEL_FAILED if _died(session) is not None else DONE


def measured(session: Session) -> Session:
    """Return a session that was to be measured, with a failure where it ran and has no times."""
    if session.loop is None or session.loop.detail.startswith("not run: "):
        return session
    why = why_no_times(session) if exit_code(session) == DONE else ""
    if not why:
        return session
    remedy = Remedy("--measure SECONDS", "runs it for longer")
    return apply(session, Failed("measure", why, remedies=(remedy,)))


def complaint(session: Session, *, debug: bool) -> tuple[str, ...]:
    """Return what to say on stderr: what went wrong, then what to try; nothing where all went well.

    Args:
        session: as it was left.
        debug: whether the traceback is wanted too.
    """
    if session.failure is not None:
        failure = session.failure
        remedies = not_so_already(failure.remedies, session)
        return _of_failure(replace(failure, remedies=remedies), debug=debug)
    died = _died(session)
    return _of_death(died, session) if died is not None else ()


def failure(session: Session) -> Failed | None:
    """Return what went wrong: the reported failure, or how the worker ended."""
    died = _died(session)
    if session.failure is not None:
        found = session.failure
        return replace(found, remedies=not_so_already(found.remedies, session))
    if died is None:
        return None
    what, *others = _of_death(died, session)
    stage = next((r.stage for r in reversed(session.stages) if r.seconds is None), "worker")
    return Failed(stage, what, remedies=tuple(Remedy(command, "") for command in commands(others)))


def commands(lines: Sequence[str]) -> list[str]:
    """Return what lines of a complaint say to try."""
    return [line.removeprefix("try ") for line in lines if line.startswith("try ")]


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
        f"{'tried' if remedy.is_tried else 'try'} {safe(remedy.command)}"
        + (f": {safe(remedy.result)}" if remedy.result else "")
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
        return (
            f"the program ended or closed the connection{said}",
            "try tui-profiler attach --list",
        )
    said = f"; last output: {safe(ended.last_line)}" if ended.last_line else ""
    lines = [f"the worker {_how(ended)}{during}{said}"]
    if ended.code == -signal.SIGKILL:
        likely = killed_likely(ended.out_of_memory)
        lines += [f"because {safe(ended.why)}"] if ended.why else []
        lines += [f"likely {likely}"] if likely else []
    return (*lines, f"try {_instead(ended, session)}")


def _instead(ended: Ended, session: Session) -> str:
    if ended.code >= 0:
        return "it without os._exit, or the library that ends the process"
    if ended.code == -signal.SIGKILL and ended.out_of_memory is False:
        return "it again"
    model = session.model
    is_least = model is not None and model.batch in (None, 1)
    smaller = "" if is_least else "with a smaller --batch, or "
    if session.tree is not None:
        return f"it again {smaller}without --measure"
    return f"it again {smaller or 'with '}--device meta: costs only, nothing is run"


def _how(ended: Ended) -> str:
    code = ended.code
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    by = f" ({killer(ended.out_of_memory)})" if code == -signal.SIGKILL else ""
    return f"was ended by {name}{by}"
