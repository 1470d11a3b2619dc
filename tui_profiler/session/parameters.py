"""What is known of the values of the parameters, and how much the output depends on each weight."""

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from tui_profiler import messages
from tui_profiler.messages import Scheme
from tui_profiler.session.tree import Tree, weight_name

MOST_TENSORS = 50_000


class Parameters(Struct, frozen=True, eq=False):
    """The last analysis, so far."""

    started: messages.ParametersStarted
    progress: messages.ParametersProgress | None = None
    done: messages.ParametersDone | None = None
    """None while it runs."""
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
        return replace(known, done=message, tensors=tuple(map(_without_pending, known.tensors)))
    if known.done is not None:
        return known
    for at, one in enumerate(known.tensors):
        if one.pending and one.name == message.name:
            return replace(known, tensors=(*known.tensors[:at], message, *known.tensors[at + 1 :]))
    if len(known.tensors) == MOST_TENSORS:
        return known
    return replace(known, tensors=(*known.tensors, message))


def _without_pending(one: messages.TensorStatistics) -> messages.TensorStatistics:
    """Return the final statistics of a tensor."""
    if not one.pending:
        return one
    whys = tuple((part, "stopped before it was known") for part in one.pending)
    return replace(one, pending=(), whys=(*one.whys, *whys))


def in_order(found: Parameters, tree: Tree | None) -> list[messages.TensorStatistics]:
    """Return all tensors in the order of the tree; they came in the order they were done."""
    if tree is None:
        return list(found.tensors)
    owned = (weight_name(node, weight) for node in tree.nodes for weight in node.weights)
    names = dict.fromkeys(owned)
    place = {name: number for number, name in enumerate(names)}
    return sorted(found.tensors, key=lambda one: (place.get(one.name, len(place)), one.name))


_MOST_WEIGHTS = 50_000


class Sensitivities(Struct, frozen=True, eq=False):
    """The last measurement, and every figure of the same scheme from those before."""

    started: messages.SensitivityStarted
    done: messages.SensitivityDone | None = None
    """None while it runs."""
    weights: Mapping[str, messages.Sensitivity] = {}
    """By the weight's full name."""
    measured: int = 0
    """In the last measurement."""

    @property
    def scheme(self) -> Scheme:
        """What was done to each weight."""
        return self.started.scheme


def with_sensitivity(
    known: Sensitivities | None,
    message: messages.SensitivityStarted | messages.Sensitivity | messages.SensitivityDone,
) -> Sensitivities | None:
    """Return what is known after a message; what belongs to no measurement changes nothing."""
    if isinstance(message, messages.SensitivityStarted):
        is_same = known is not None and known.scheme == message.scheme
        return Sensitivities(message, weights=known.weights if known and is_same else {})
    if known is None or known.done is not None or message.scheme != known.scheme:
        return known
    if isinstance(message, messages.SensitivityDone):
        return replace(known, done=message)
    before = known.weights.get(message.name)
    if before is None and len(known.weights) >= _MOST_WEIGHTS:
        return known
    if before is not None and not message.done and before.done:
        return known  # A figure that was measured stays until it is measured again.
    weights = {**known.weights, message.name: message}
    return replace(known, weights=weights, measured=max(known.measured, message.done))
