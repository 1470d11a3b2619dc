"""A training step with as little in each part as there can be without waiting for a core.

How long the thread waited is known of whole steps. Each part is shortened by all of it, and so is
the step: what is still a large share of it does not come from waiting.
"""

from msgspec.structs import replace

from tui_profiler.messages import Figure, StepParts, TrainingStep, Unknown, known
from tui_profiler.queries.cost.rules import Waited, waited
from tui_profiler.session import Session


def least_parts(session: Session) -> Session:
    """Return the session with all waiting taken out of the step, and out of each of its parts.

    A sum of several parts is then less than it can be: a conclusion from it is sure.
    """
    waiting, training = waited(session, "step"), session.training
    if training is None:
        return session
    step = training.step
    seconds = known(step.seconds)
    if not seconds:
        return session
    most = waiting.share * seconds if isinstance(waiting, Waited) else seconds
    return replace(session, training=training.with_step(_shortened(step, seconds, most)))


def _shortened(step: TrainingStep, seconds: float, by: float) -> TrainingStep:
    def less(figure: Figure) -> Figure:
        return figure if isinstance(figure, Unknown) else max(figure - by, 0.0)

    names = StepParts.__struct_fields__
    parts = StepParts(*(less(getattr(step.parts, name)) for name in names))
    return replace(
        step,
        seconds=max(seconds - by, 0.0) or seconds,
        parts=parts,
        recompute=less(step.recompute),
    )
