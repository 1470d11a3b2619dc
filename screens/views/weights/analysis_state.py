"""State of reading values and of measuring sensitivity."""

from tui_profiler.messages import NO_FORWARD
from tui_profiler.session import Session

from ...actions.table import refusal


def is_reading(session: Session) -> bool:
    """Return whether values are being read."""
    known_of = session.parameters
    return known_of is not None and known_of.done is None and session.ended is None


def why_not_read(session: Session) -> str:
    """Return why values cannot be read; empty where they can."""
    return refusal(session, "AnalyseParameters") if session.parameters is None else ""


def is_measuring(session: Session) -> bool:
    """Return whether sensitivity is being measured."""
    measured = session.sensitivity
    return measured is not None and measured.done is None and session.ended is None


def has_sensitivities(session: Session) -> bool:
    """Return whether there are sensitivities, or will be."""
    measured = session.sensitivity
    return measured is not None and (bool(measured.weights) or is_measuring(session))


def why_not_measured(session: Session) -> str:
    """Return why no sensitivity is measured; empty where it is, or was not requested."""
    measured = session.sensitivity
    if session.tree is not None and not session.tree.has_forward:
        return NO_FORWARD
    if measured is None and (why := refusal(session, "MeasureSensitivity")):
        return why
    if measured is None or measured.weights or measured.done is None or measured.started.under:
        return ""
    return measured.done.why


def has_random_weights(session: Session) -> bool:
    """Return whether the weights are randomly initialised, as far as known."""
    read, measured, model = session.parameters, session.sensitivity, session.model
    return (
        (read is not None and read.started.is_random)
        or (measured is not None and measured.started.is_random)
        or (model is not None and model.weights == "random")
    )
