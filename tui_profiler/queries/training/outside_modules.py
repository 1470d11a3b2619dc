"""What of a step lies in no module of the model: other models, the loss, what else is computed."""

from tui_profiler.figures.units import share as share_text
from tui_profiler.messages import BackwardLine, TrainingStep, known
from tui_profiler.queries.training.backward_operators import outside_operators
from tui_profiler.queries.training.source_lines import line_name
from tui_profiler.session import Session

LEAST_SAID = 0.1
"""Of the backward: what is less is not said where there is little room."""
LEAST_OPERATOR = 0.05
"""Of what the backward runs outside of the model, from which on an operator is named."""
MOST_OPERATORS = 3
LEAST_LINE = 0.01
"""Of the backward, from which on a line is listed with what it runs outside of modules."""


def line_seconds(line: BackwardLine) -> float:
    """Return what the passes take per step that begin in a line."""
    return line.modules + line.others + line.outside


def outside_lines(step: TrainingStep) -> tuple[BackwardLine, ...]:
    """Return the lines whose passes run much that no model made, most seconds first."""
    least = LEAST_LINE * sum(map(line_seconds, step.backward_lines))
    found = [line for line in step.backward_lines if line.outside > least]
    return tuple(sorted(found, key=lambda line: -line.outside))


def outside_share(step: TrainingStep) -> float | None:
    """Return the share of the backward outside of all models; None where it is not known."""
    whole = sum(line_seconds(line) for line in step.backward_lines)
    outside = sum(line.outside for line in step.backward_lines)
    return outside / whole if whole > 0 else None


def outside_words(step: TrainingStep) -> str:
    """Return ``outside modules 12 %, train, vae.py:83``.

    Empty where it is little, not known, or spread over lines of which none has much.
    """
    share, lines = outside_share(step), outside_lines(step)
    if share is None or share < LEAST_SAID or not lines:
        return ""
    return f"outside modules {share_text(share)}, {line_name(lines[0])}"


def outside_operator_words(session: Session) -> str:
    """Return what the backward mostly runs outside of the model; empty before a window saw it.

    ``BinaryCrossEntropyBackward0 61 %, aten::pow 12 %``: shares of their own seconds.
    """
    rows = outside_operators(session, MOST_OPERATORS)
    return ", ".join(
        f"{row.name} {share_text(row.share)}" for row in rows if row.share >= LEAST_OPERATOR
    )


def named_backward(step: TrainingStep) -> float:
    """Return the seconds of backward passes that lie in modules or are told by a source line."""
    in_models = sum(known(one.backward) or 0.0 for one in step.other_models)
    own = sum(line.modules + line.outside for line in step.backward_lines)
    return own + in_models
