"""What is done about the values of weights now, and why nothing is."""

from __future__ import annotations

from tui_profiler.messages import NO_FORWARD, SensitivityStarted
from tui_profiler.queries.panel.accepted_requests import refusal
from tui_profiler.session import Session


def is_reading(session: Session) -> bool:
    """Tell whether values are looked at now; nobody does where the worker is gone."""
    known_of = session.parameters
    return known_of is not None and known_of.done is None and session.ended is None


def why_not_read(session: Session) -> str:
    """Say why nobody looks at the values; empty where that can be asked for."""
    return refusal(session, "AnalyseParameters") if session.parameters is None else ""


def is_measuring(session: Session) -> bool:
    """Tell whether sensitivity is measured now."""
    measured = session.sensitivity
    return measured is not None and measured.done is None and session.ended is None


def has_sensitivities(session: Session) -> bool:
    """Tell whether there are figures of sensitivity, or will be."""
    measured = session.sensitivity
    return measured is not None and (bool(measured.weights) or is_measuring(session))


def why_not_measured(session: Session) -> str:
    """Say why sensitivity is measured of no weight; empty where it is, or was not asked for."""
    measured = session.sensitivity
    if session.tree is not None and not session.tree.has_forward:
        return NO_FORWARD
    if measured is None and (why := refusal(session, "MeasureSensitivity")):
        return why
    if measured is None or measured.weights or measured.done is None or measured.started.under:
        return ""
    return measured.done.why


def has_random_weights(session: Session) -> bool:
    """Tell whether the values are those of an initialisation, as far as that is known."""
    model = session.model
    started: SensitivityStarted | None = (
        session.sensitivity.started if session.sensitivity is not None else None
    )
    of_parameters = session.parameters is not None and session.parameters.started.is_random
    return (
        of_parameters
        or (started is not None and started.is_random)
        or (model is not None and model.weights == "random")
    )
