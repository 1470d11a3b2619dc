"""Values of a training step in the JSON report: activations, gradients, updates, the first NaN."""

from msgspec import UNSET, UnsetType, field

from tui_profiler.messages import Unknown
from tui_profiler.messages.training import ValueKind
from tui_profiler.queries.training import values as queries
from tui_profiler.reports.json_values import Count, Known, Number, Part, fill
from tui_profiler.session import Session
from tui_profiler.session.training import NodeValues, ValueStatistics

_UNREAD = Unknown("it was not read in that step")
_NOT_FINITE = Unknown("no finite element, or not counted on the device")


class Values(Part, frozen=True):
    """Statistics of some values."""

    largest: Known[Number] = field(name="max_abs")
    """Absolute maximum of finite elements."""
    rms: Known[Number]
    """Root mean square of finite elements."""
    zeros: Number
    """Share of elements, 0 to 1, as the next two."""
    nans: Number = field(name="nan")
    infs: Number = field(name="inf")


class LayerValues(Part, frozen=True):
    """The values of one module."""

    path: str
    activation: Known[Values]
    """What it returns."""
    gradient: Known[Values]
    """The gradient of that."""
    parameter_gradients: Known[Values]
    """Gradients of its own parameters, when the optimizer stepped."""
    weight_rms: Known[Number]
    """Of its own parameters, by at most 4,096 elements of each."""
    update_ratio: Known[Number]
    """Norm of what the optimizer added to them, over theirs."""


class FirstNan(Part, frozen=True):
    """The first NaN that was seen."""

    step: Count
    path: str
    """Of the module; empty for the model itself."""
    kind: ValueKind
    name: str = field(name="parameter")
    """Path of the parameter; empty for other kinds."""
    share: Number
    """Of the elements."""
    clean_step: Count
    """The last step before that was read and had none; 0: there was none."""
    is_in_weights: bool = field(name="in_weights")
    """Whether the module's own weights had one already: it is older than the step."""


class ValuesRead(Part, frozen=True):
    """Values of the last step that was read."""

    steps: Count
    """Read so far."""
    step: Count
    """The last of them, counted from the first that was seen."""
    gradient_norm: Known[Number]
    """Of all parameters, when the optimizer stepped."""
    first_nan: FirstNan | None
    """Null: none was seen in the steps that were read."""
    layers: list[LayerValues]


def values_section(session: Session) -> ValuesRead | UnsetType:
    """Return the values that were read; no key where nobody asked for them."""
    if session.values is None:
        return UNSET
    values = session.values.values
    return ValuesRead(
        steps=values.steps,
        step=values.step,
        gradient_norm=values.gradient_norm,
        first_nan=_first_nan(session),
        layers=[_layer(one.path, one.values) for one in queries.value_rows(session)],
    )


def _first_nan(session: Session) -> FirstNan | None:
    found, tree = queries.first_nan(session), session.tree
    if found is None or tree is None:
        return None
    return fill(FirstNan, found, path=tree.nodes[found.node].path)


def _layer(path: str, values: NodeValues) -> LayerValues:
    return LayerValues(
        path=path,
        activation=_values(values.activation),
        gradient=_values(values.gradient),
        parameter_gradients=_values(values.parameters),
        weight_rms=_UNREAD if values.weight_rms is None else values.weight_rms,
        update_ratio=_UNREAD if values.update_ratio is None else values.update_ratio,
    )


def _values(found: ValueStatistics | None) -> Values | Unknown:
    if found is None:
        return _UNREAD
    return Values(
        largest=_NOT_FINITE if found.largest is None else found.largest,
        rms=_NOT_FINITE if found.rms is None else found.rms,
        zeros=found.zeros or 0.0,
        nans=found.nans or 0.0,
        infs=found.infs or 0.0,
    )
