"""What is known of the values of the parameters, and how much the output depends on each weight."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from tui_profiler import messages
from tui_profiler.messages.parameters import (
    Scheme,
    Sensitivity,
    SensitivityDone,
    SensitivityStarted,
)

MOST_TENSORS = 50_000


class Parameters(Struct, frozen=True, eq=False):
    """The last analysis, as far as it has come."""

    started: messages.ParametersStarted
    progress: messages.ParametersProgress | None = None
    done: messages.ParametersDone | None = None
    """None while it goes on."""
    tensors: tuple[messages.TensorStatistics, ...] = ()
    """In the order in which they became known."""


def with_parameters(
    known: Parameters | None,
    message: messages.ParametersStarted
    | messages.TensorStatistics
    | messages.ParametersProgress
    | messages.ParametersDone,
) -> Parameters | None:
    """Return what is known after a message; what belongs to no analysis changes nothing."""
    if isinstance(message, messages.ParametersStarted):
        return Parameters(message)
    if known is None and isinstance(message, messages.ParametersDone):  # It could not even begin.
        nothing = messages.ParametersStarted(message.at, 0, 0, is_random=False, weights="")
        return Parameters(nothing, done=message)
    if known is None:
        return None
    if isinstance(message, messages.ParametersProgress):
        return replace(known, progress=message)
    if isinstance(message, messages.ParametersDone):
        return replace(known, done=message)
    if known.done is not None or len(known.tensors) == MOST_TENSORS:
        return known
    return replace(known, tensors=(*known.tensors, message))


_MOST_WEIGHTS = 50_000


class Sensitivities(Struct, frozen=True, eq=False):
    """The last measurement, and every figure of the same scheme from those before."""

    started: SensitivityStarted
    done: SensitivityDone | None = None
    """None while it goes on."""
    weights: Mapping[str, Sensitivity] = {}
    """By the weight's full name."""
    measured: int = 0
    """In the last measurement."""

    @property
    def scheme(self) -> Scheme:
        """What was done to each weight."""
        return self.started.scheme


def with_sensitivity(
    known: Sensitivities | None, message: SensitivityStarted | Sensitivity | SensitivityDone
) -> Sensitivities | None:
    """Return what is known after a message; what belongs to no measurement changes nothing."""
    if isinstance(message, SensitivityStarted):
        is_same = known is not None and known.scheme == message.scheme
        return Sensitivities(message, weights=known.weights if known and is_same else {})
    if known is None or known.done is not None or message.scheme != known.scheme:
        return known
    if isinstance(message, SensitivityDone):
        return replace(known, done=message)
    before = known.weights.get(message.name)
    if before is None and len(known.weights) >= _MOST_WEIGHTS:
        return known
    if before is not None and not message.done and before.done:
        return known  # A figure that was measured stays until it is measured again.
    weights = {**known.weights, message.name: message}
    return replace(known, weights=weights, measured=max(known.measured, message.done))
