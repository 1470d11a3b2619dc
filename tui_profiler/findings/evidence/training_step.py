"""The training step that findings speak of, and shares of it."""

from tui_profiler.figures.units import duration
from tui_profiler.figures.units import share as share_text
from tui_profiler.findings.evidence.finding import Evidence, Gain
from tui_profiler.findings.evidence.time_share import share_of
from tui_profiler.messages import TrainingStep, known
from tui_profiler.queries.training.step import (
    LEAST_SET,
    LEAST_WAITING,
    PartName,
    why_not_representative,
)
from tui_profiler.session import Session


def recorded_step(session: Session) -> TrainingStep | None:
    """Return the training step, None where its means are not good enough for advice."""
    if session.training is None or why_no_advice(session):
        return None
    return session.training.step


def why_no_advice(session: Session) -> str:
    """Return why the means of the training step are not good enough for advice, empty if they are.

    They are not where fewer than ``LEAST_SET`` steps were recorded, where those are far from all of
    the last ones, or where the thread waited for a core ``LEAST_WAITING`` of the step: every part
    is longer then. Of a program that was not seen to train nothing is said.
    """
    if session.training is None:
        return ""
    step = session.training.step
    seconds = known(step.seconds)
    if not seconds or step.recorded < LEAST_SET:
        return f"{step.recorded} of {LEAST_SET} steps recorded"
    if why := why_not_representative(step):
        return why
    waiting = (known(step.thread.waiting) if step.thread is not None else None) or 0.0
    share = share_of_step(step, waiting)
    return f"waiting for a core {share_text(share)} of the step" if share >= LEAST_WAITING else ""


def seconds_of(step: TrainingStep, *parts: PartName) -> float:
    """Return the mean seconds of parts; those that were not seen add nothing."""
    return sum(known(getattr(step.parts, name)) or 0.0 for name in parts)


def share_of_step(step: TrainingStep, seconds: float) -> float:
    """Return the share that seconds are of the mean step, 0 to 1."""
    return share_of(seconds, known(step.seconds) or 0.0)


def of_step(step: TrainingStep, seconds: float, what: str) -> tuple[Evidence, ...]:
    """Return the seconds as evidence, with those of the step."""
    return (
        Evidence(what, seconds, "s", "measured"),
        Evidence("mean step", step.seconds, "s", "measured"),
        Evidence("recorded steps", float(step.recorded), "count", "measured"),
    )


def at_most(step: TrainingStep, seconds: float, words: str) -> Gain:
    """Return an upper bound of what is saved: these seconds of each step."""
    formula = f"{duration(seconds)} of {duration(known(step.seconds) or 0.0)} per step {words}"
    return Gain("time", share_of_step(step, seconds), formula, "derived", is_bound=True)
