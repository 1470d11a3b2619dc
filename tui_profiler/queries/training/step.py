"""A training step by part: shares of its time.

All figures are means over one set of recorded steps; the parts that are known add up to the step. A
part that was not seen is unknown, and its time lies in ``other``.
"""

from typing import Literal, NamedTuple, TypeAlias

from tui_profiler.figures.units import share as share_text
from tui_profiler.figures.units import share_cell
from tui_profiler.messages import Figure, StepParts, TrainingStep, Unknown, known
from tui_profiler.messages.training import Between
from tui_profiler.queries.cost.totals import was_run, why_no_times
from tui_profiler.queries.training.outside_modules import outside_words
from tui_profiler.queries.training.source_lines import line_name, line_share
from tui_profiler.session import Session

PartName: TypeAlias = Literal[
    "data", "transfer", "forward", "backward", "clip", "optimizer", "communication", "other"
]
PARTS: tuple[PartName, ...] = (
    *("data", "transfer", "forward", "backward"),
    *("clip", "optimizer", "communication", "other"),
)
"""In the order of a step."""
NO_STEP = "no training step was measured"
NOT_CALLED = "not called in the recorded steps"
LEAST_SET = 8
"""Recorded steps that a verdict needs."""
LEAST_LONGER = 0.02
"""Of the time, for steps that took far longer to be told of."""
MOST_APART = 0.1
"""Recorded steps from all of the last ones, in their mean, for that to be told."""
TOO_FAR_APART = 0.5
"""The same, from which on nothing is concluded. Recording itself makes steps of 1 ms a third
longer."""


class Part(NamedTuple):
    """One part of a step."""

    name: PartName
    seconds: float | None
    """Mean per step; None where it is not known."""
    share: float | None
    """Of the step, 0 to 1."""
    why: str
    """Why it is not known; else empty."""


class Rate(NamedTuple):
    """What a program trains with per second."""

    per_second: float
    unit: str
    error: float
    """Half a 95 % interval, as a share; above 0 inputs change, and it is an estimate."""

    @property
    def mark(self) -> str:
        """``~`` of an estimate."""
        return "~" if self.error else ""


def why_no_step(session: Session) -> str:
    """Return why no training step was measured; empty where one was."""
    if session.training is not None:
        return ""
    return NO_STEP if was_run(session) else why_no_times(session, NO_STEP)


def step_parts(session: Session) -> tuple[Part, ...]:
    """Return the parts of a step in its order; none before steps were recorded."""
    if session.training is None:
        return ()
    step = session.training.step
    seconds = known(step.seconds)
    return () if not seconds else parts_of(step.parts, seconds)


def parts_of(parts: StepParts, seconds: float) -> tuple[Part, ...]:
    """Return parts with their shares of a step of so many seconds."""
    found = []
    for name in PARTS:
        figure = getattr(parts, name)
        if isinstance(figure, Unknown):
            found.append(Part(name, None, None, figure.reason))
        else:
            found.append(Part(name, figure, figure / seconds, ""))
    return tuple(found)


def per_second(step: TrainingStep, of_a_step: Figure) -> Figure:
    """Return items or tokens per second of as many per step."""
    if isinstance(of_a_step, Unknown) or isinstance(step.per_second, Unknown):
        return of_a_step if isinstance(of_a_step, Unknown) else step.per_second
    return of_a_step * step.per_second


def usual_mean(step: TrainingStep) -> Figure:
    """Return the mean seconds of the last steps, recorded or not, without those far longer.

    With the time of those it is what ``per_second`` says.
    """
    if isinstance(step.per_second, Unknown) or step.last <= step.longer:
        return Unknown("it is not known how long the last steps were")
    all_seconds = step.last / step.per_second
    return all_seconds * (1.0 - step.longer_share) / (step.last - step.longer)


def longer_words(step: TrainingStep) -> str:
    """Return how many of the last steps took far longer, with their time; empty if that is little.

    ``13 of the last 256 took far longer, 56 % of the time``.
    """
    if step.longer_share < LEAST_LONGER:
        return ""
    which = f"{step.longer:,} of the last {step.last:,} took far longer"
    return f"{which}, {share_text(step.longer_share)} of the time"


def between_words(step: TrainingStep) -> tuple[str, ...]:
    """Return what lay between steps, how often, and its share of all time; most time first.

    ``evaluation every 200 steps, 3 % of the time``.
    """
    return tuple(
        f"{_times_words(one)}, {share_text(one.share)} of the time" for one in step.between
    )


def _times_words(between: Between) -> str:
    if between.count < 2:
        return f"1 {between.kind}" if between.kind == "evaluation" else between.kind
    steps = f"{between.every:,.3g}" if between.every < 100.0 else f"{between.every:,.0f}"
    return f"{between.kind} every {'step' if steps == '1' else f'{steps} steps'}"


def apart_words(step: TrainingStep) -> str:
    """Return how much longer recorded steps are than the last ones; empty if that is little."""
    recorded, usual = known(step.seconds), known(usual_mean(step))
    if not recorded or not usual or abs(recorded / usual - 1.0) < MOST_APART:
        return ""
    by = recorded / usual - 1.0
    how = f"{share_text(abs(by))} {'more' if by > 0 else 'less'} time"
    return f"recorded steps took {how} than all of the last {step.last:,}"


def why_not_representative(step: TrainingStep) -> str:
    """Return why nothing follows from recorded steps for all of them; empty where it does."""
    recorded, usual = known(step.seconds), known(usual_mean(step))
    if not recorded or not usual:
        return ""
    is_near = 1.0 / (1.0 + TOO_FAR_APART) <= recorded / usual <= 1.0 + TOO_FAR_APART
    return "" if is_near else apart_words(step)


def rates(step: TrainingStep) -> tuple[Rate, ...]:
    """Return items and tokens per second, those that are known."""
    found = (
        (per_second(step, step.items), "items/s", step.items_error),
        (per_second(step, step.tokens), "tokens/s", step.tokens_error),
    )
    return tuple(
        Rate(rate, unit, error) for figure, unit, error in found if (rate := known(figure))
    )


def parts_words(session: Session) -> str:
    """Return the parts that were seen, in percent, and the line in which ``other`` mostly is.

    ``data 18 · forward 2 · optimizer 31 · other 46 (log_metrics, train.py:54, 70 %)``. Of a
    backward of which much is in no module the line that begins it.
    """
    said = []
    for part in step_parts(session):
        if part.share is None or session.training is None:
            continue
        step = session.training.step
        said.append(f"{part.name} {share_cell(part.share) if part.share else 0}")
        where = ""
        if part.share and part.name == "other" and step.lines:
            line = step.lines[0]
            where = f"{line_name(line)}, {line_share(line, step)}"
        elif part.name == "backward":
            where = outside_words(step)
        said[-1] += f" ({where})" if where else ""
    return " · ".join(said)
