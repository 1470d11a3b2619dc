"""What is known of the values of the parameters."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from tui_profiler.messages import (
    ParametersDone,
    ParametersProgress,
    ParametersStarted,
    TensorStatistics,
)

MOST_TENSORS = 50_000


class Parameters(Struct, frozen=True, eq=False):
    """The last analysis, as far as it has come."""

    started: ParametersStarted
    progress: ParametersProgress | None = None
    done: ParametersDone | None = None
    """None while it goes on."""
    tensors: tuple[TensorStatistics, ...] = ()
    """In the order in which they became known."""


def with_parameters(
    known: Parameters | None,
    message: ParametersStarted | TensorStatistics | ParametersProgress | ParametersDone,
) -> Parameters | None:
    """Give what is known after a message; what belongs to no analysis changes nothing."""
    if isinstance(message, ParametersStarted):
        return Parameters(message)
    if known is None and isinstance(message, ParametersDone):  # It could not even begin.
        nothing = ParametersStarted(message.at, 0, 0, is_random=False, weights="")
        return Parameters(nothing, done=message)
    if known is None:
        return None
    if isinstance(message, ParametersProgress):
        return replace(known, progress=message)
    if isinstance(message, ParametersDone):
        return replace(known, done=message)
    if known.done is not None or len(known.tensors) == MOST_TENSORS:
        return known
    return replace(known, tensors=(*known.tensors, message))
