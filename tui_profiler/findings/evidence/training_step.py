"""The training step that findings speak of, and shares of it."""

from tui_profiler.figures.units import duration
from tui_profiler.findings.evidence.finding import Evidence, Gain
from tui_profiler.findings.evidence.time_share import share_of
from tui_profiler.messages import TrainingStep, known
from tui_profiler.queries.cost.rules import Quantity, why_contended, why_unusable
from tui_profiler.queries.training.step import PartName
from tui_profiler.queries.training.step_quantities import RECORDED, STEP
from tui_profiler.session import Session


def recorded_step(session: Session) -> TrainingStep | None:
    """Return the training step, of a rule that reads it; None before the first."""
    return session.training.step if session.training is not None else None


def usable_step(session: Session) -> TrainingStep | None:
    """Return the training step, of a rule that uses it; None where it is not good for advice."""
    return None if why_no_step(session) else recorded_step(session)


def why_no_step(session: Session) -> str:
    """Return why the training step is not good for advice; empty where it is."""
    return next(filter(None, (_why_not(session, one) for one in STEP)), "")


def why_no_advice(session: Session) -> str:
    """Return the same; empty also for a program that was not seen to train."""
    return why_no_step(session) if session.training is not None else ""


def _why_not(session: Session, quantity: Quantity) -> str:
    why = why_unusable(session, quantity)
    is_named = why and quantity is not RECORDED and not why_contended(session, quantity.clock)
    return f"{quantity.name}: {why}" if is_named else why


def seconds_of(step: TrainingStep, *parts: PartName) -> float:
    """Return the mean seconds of the parts that are known: at least what they take together.

    The time of the others lies in ``other``.
    """
    figures = (known(getattr(step.parts, name)) for name in parts)
    return sum(seconds for seconds in figures if seconds is not None)


def step_seconds(step: TrainingStep) -> float:
    """Return the mean seconds of a step, of a rule that reads or uses them."""
    seconds = known(step.seconds)
    assert seconds is not None, "the rule is withheld then"
    return seconds


def share_of_step(step: TrainingStep, seconds: float) -> float:
    """Return the share that seconds are of the mean step, 0 to 1."""
    return share_of(seconds, step_seconds(step))


def of_step(step: TrainingStep, seconds: float, what: str) -> tuple[Evidence, ...]:
    """Return the seconds as evidence, with those of the step."""
    return (
        Evidence(what, seconds, "s", "measured"),
        Evidence("mean step", step.seconds, "s", "measured"),
        Evidence("recorded steps", float(step.recorded), "count", "measured"),
    )


def at_most(step: TrainingStep, seconds: float, words: str) -> Gain:
    """Return an upper bound of what is saved: these seconds of each step."""
    formula = f"{duration(seconds)} of {duration(step_seconds(step))} per step {words}"
    return Gain("time", share_of_step(step, seconds), formula, "derived", is_bound=True)
