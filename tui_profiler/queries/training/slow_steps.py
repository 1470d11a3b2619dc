"""Slow steps of training: which parts took longer than usual, and what the thread did meanwhile.

1. A part is named with what it took more than in the mean, if that is at least ``LEAST_PART`` of
   what the step took longer.
2. What the thread had more of is told beside it, by the rules of slow forwards; it is the same time
   seen another way, so that both do not add up.
3. Where a step was not recorded, its forward and what lies outside of all parts are not known, and
   that is said.
"""

from tui_profiler.figures.units import duration
from tui_profiler.messages import SlowStep, known
from tui_profiler.queries.time.slow_forwards import LEAST_PART, Cause, thread_causes
from tui_profiler.queries.training.source_lines import line_name
from tui_profiler.queries.training.step import PartName, parts_of, step_parts
from tui_profiler.session import Session

_UNRECORDED = "forward and other not recorded"


def usual_step_seconds(session: Session) -> float | None:
    """Return what a step takes in the mean; None before steps were recorded."""
    return known(session.training.step.seconds) if session.training is not None else None


def longer_parts(session: Session, slow: SlowStep) -> tuple[tuple[PartName, float], ...]:
    """Return the parts that took longer in a slow step than in the mean, and seconds more.

    Each at least ``LEAST_PART`` of what the step took longer, most first.
    """
    mean = {part.name: part.seconds for part in step_parts(session)}
    whole = usual_step_seconds(session)
    if whole is None:
        return ()
    found = []
    for part in parts_of(slow.parts, slow.seconds):
        before = mean.get(part.name)
        if part.seconds is not None and before is not None:
            found.append((part.name, part.seconds - before))
    least = LEAST_PART * (slow.seconds - whole)
    return tuple(sorted((one for one in found if one[1] > least > 0), key=lambda one: -one[1]))


def step_causes(session: Session, slow: SlowStep) -> tuple[Cause, ...]:
    """Return what the thread that trains had more of in a slow step, the most first."""
    usual = session.training.step.thread if session.training is not None else None
    if slow.thread is None or usual is None or slow.thread.seconds <= usual.seconds:
        return ()
    return thread_causes(session, slow.thread, usual)


def slow_step_words(session: Session, slow: SlowStep) -> str:
    """Say how slow one was and why: ``1.44 s, 9.3× the mean: data 1.30 s longer; off the core …``.

    Safe to show.
    """
    return slow_step_forms(session, slow)[0]


def slow_step_forms(session: Session, slow: SlowStep) -> tuple[str, ...]:
    """Return the same, the whole first, then with less and less of the end, to how slow it was.

    That something was not recorded is left out before any part or cause.
    """
    usual = usual_step_seconds(session)
    times = f", {slow.seconds / usual:.1f}× the mean" if usual else ""
    parts = longer_parts(session, slow)
    told = [", ".join(_longer(*one, slow) for one in parts)] if parts else []
    if known(slow.parts.other) is None and sum(seconds for _, seconds in parts) < (
        (1 - LEAST_PART) * (slow.seconds - (usual or 0.0))
    ):
        told.append(_UNRECORDED)
    told += [one.words for one in step_causes(session, slow)]
    head = f"{duration(slow.seconds)}{times}"
    forms = [told]
    short = [words for words in told if words != _UNRECORDED]
    forms += [short[:count] for count in range(len(short), 0, -1)]
    said = [f"{head}: {'; '.join(form) or 'cause unknown'}" for form in forms]
    return tuple(dict.fromkeys((*said, head)))


def _longer(name: PartName, seconds: float, slow: SlowStep) -> str:
    where = f" ({line_name(slow.lines[0])})" if name == "other" and slow.lines else ""
    return f"{name} {duration(seconds)} longer{where}"
