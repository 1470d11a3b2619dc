"""Quantities of a training step, which rules declare.

A part that was not seen is unknown, and its time lies in ``other``.
"""

from tui_profiler.messages import StepParts, TrainingStep, Unknown
from tui_profiler.queries.cost.rules import UNKNOWN, Clock, Quantity, reason_of, waited
from tui_profiler.queries.training.step import (
    LEAST_SET,
    NO_STEP,
    usual_mean,
    why_not_representative,
)
from tui_profiler.session import Session

LEAST_SAMPLES = 50
"""Samples of the stack that a line needs: one with a tenth of the step then has a standard error
below half of that."""


def _step(session: Session) -> TrainingStep | None:
    return session.training.step if session.training is not None else None


def _why_no_set(session: Session) -> str:
    step = _step(session)
    if step is None:
        return NO_STEP
    if step.recorded < LEAST_SET:
        return f"{step.recorded} of {LEAST_SET} steps recorded"
    return ""


def _why_no_seconds(session: Session) -> str:
    step = _step(session)
    return NO_STEP if step is None else reason_of(step.seconds, "")


def _why_no_rate(session: Session) -> str:
    """Return why the last steps cannot be compared with those recorded, or are far from them.

    Recordings of older versions have no number of last steps.
    """
    step = _step(session)
    if step is None:
        return NO_STEP
    why = reason_of(usual_mean(step), "") if step.last else ""
    return why or why_not_representative(step)


def _why_no_waiting(session: Session) -> str:
    found = waited(session, "step")
    step = _step(session)
    if found is None or step is None:
        return NO_STEP
    if isinstance(found, Unknown):
        return found.reason
    if 0 < step.thread_steps < LEAST_SET:
        return f"read in {step.thread_steps} of {LEAST_SET} steps"
    return ""


def _part(name: str, words: str) -> Quantity:
    def missing(session: Session) -> str:
        step = _step(session)
        return NO_STEP if step is None else reason_of(getattr(step.parts, name), "")

    return Quantity(words, {f"training.step.parts.{name}": UNKNOWN}, missing, "step")


def _figure(
    field: str, words: str, otherwise: str = "", *, clock: Clock = "", is_usual: bool = True
) -> Quantity:
    """Return the quantity of a field that is ``Unknown`` or None where it is not known."""

    def missing(session: Session) -> str:
        step = _step(session)
        return NO_STEP if step is None else reason_of(getattr(step, field), otherwise)

    blank = None if otherwise else UNKNOWN
    return Quantity(words, {f"training.step.{field}": blank}, missing, clock, is_usual)


def _why_no_lines(session: Session) -> str:
    step = _step(session)
    if step is None:
        return NO_STEP
    if not step.lines:
        return step.why_no_lines or "no line was seen"
    return "" if step.samples >= LEAST_SAMPLES else f"{step.samples} of {LEAST_SAMPLES} samples"


def _why_no_settings(session: Session) -> str:
    step = _step(session)
    if step is None:
        return NO_STEP
    return "" if step.optimizer_settings else "no optimizer was seen"


RECORDED = Quantity("recorded training steps", {"training": None}, _why_no_set, "step")
SECONDS = Quantity(
    "time of a training step", {"training.step.seconds": UNKNOWN}, _why_no_seconds, "step"
)
RATE = Quantity(
    "time of all training steps", {"training.step.per_second": UNKNOWN}, _why_no_rate, "step"
)
WAITING = Quantity(
    "waiting of the training thread for a core", {"training.step.thread": None}, _why_no_waiting
)
STEP = (RECORDED, SECONDS, RATE, WAITING)
"""Of every rule on a training step."""
DATA = _part("data", "time in the data loader")
TRANSFER = _part("transfer", "time of copies to a GPU")
FORWARD = _part("forward", "time in the forward")
BACKWARD = _part("backward", "time in the backward")
CLIP = _part("clip", "time in clipping")
OPTIMIZER = _part("optimizer", "time in the optimizer")
COMMUNICATION = _part("communication", "time in communication")
OTHER = _part("other", "time outside of the named parts")
PARTS = (DATA, TRANSFER, FORWARD, BACKWARD, CLIP, OPTIMIZER, COMMUNICATION, OTHER)
"""In the order of ``StepParts``."""
assert len(PARTS) == len(StepParts.__struct_fields__)
RECOMPUTE = _figure("recompute", "time of recomputation", clock="step")
LINES = Quantity(
    "samples of source lines",
    {
        "training.step.lines": (),
        "training.step.samples": 0,
        "training.step.lines_rest": 0.0,
        "training.step.lines_unsampled": 0.0,
    },
    _why_no_lines,
)
LOADER = _figure("loader", "settings of the data loader", "no DataLoader was seen", is_usual=False)
SETTINGS = Quantity(
    "settings of the optimizer", {"training.step.optimizer_settings": ()}, _why_no_settings
)
KEPT = _figure("kept_gradients", "gradients before and after a step", "they were not compared")
ITEMS = _figure("items", "items per training step")
EVERY = (
    *STEP, *PARTS, RECOMPUTE, LINES, LOADER, SETTINGS, KEPT, ITEMS,
)  # fmt: skip
