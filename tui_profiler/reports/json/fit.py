"""A model on devices that are not here, as JSON: every figure by the data sheet.

1. Names and units never change within one ``schema``; ``docs/fit.schema.json`` describes them.
2. Times are least times of eager PyTorch: each device is slower. ``fused_s`` is the least time of
   fused kernels, as of ``torch.compile`` (``queries/hardware/on_device.py``).
"""

from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import field

from tui_profiler.messages import Unknown
from tui_profiler.queries.cost.totals import batch_axis
from tui_profiler.queries.hardware.data_sheets import DataSheet
from tui_profiler.queries.hardware.fits import Fit, Fitted, cublas_bytes, devices_needed, need_of
from tui_profiler.queries.hardware.on_device import NOT_TRACED, LeastTime, Limit, least_time, phases
from tui_profiler.reports import json_values
from tui_profiler.session import Bounded, Session

DEPENDS = "memory depends on the data"
SCHEMA: Literal["tui-profiler/fit/1"] = "tui-profiler/fit/1"


class LeastForward(json_values.Part, frozen=True):
    """What a forward takes at least, by the data sheet."""

    phase: str | None
    """prefill or decode, of a model that generates tokens."""
    seconds: json_values.Size
    """Of eager PyTorch: operators run one after another, inputs and outputs are in memory."""
    fused_seconds: json_values.Size = field(name="fused_s")
    """Of fused kernels (torch.compile): matmuls and convolutions only."""
    compute_seconds: json_values.Size = field(name="compute_s")
    """Part of `seconds` in compute-bound operators."""
    memory_seconds: json_values.Size = field(name="memory_s")
    """Part of `seconds` in memory-bound operators."""
    limit: Limit | None
    """null if nothing was counted."""
    energy_j: json_values.Size
    """At the power limit of the board."""
    no_peak: list[str]
    """Dtypes without a peak in the data sheet: their FLOPs are not in the time."""
    uncosted: json_values.Count
    """Operators without a formula: their FLOPs are not in the time."""


class LeastLayer(json_values.Part, frozen=True):
    """What a layer takes at least; in the order of `layers`."""

    path: str
    seconds: json_values.Size
    fused_seconds: json_values.Size = field(name="fused_s")
    limit: Limit | None
    energy_j: json_values.Size


class OnDevice(json_values.Part, frozen=True):
    """The forward on a device by its data sheet: minimum times."""

    name: str
    title: str
    source: str
    memory_bytes: json_values.Size
    bytes_per_second: json_values.Size = field(name="bytes_per_s")
    watts: json_values.Size
    """Power limit of the board."""
    flops_per_second: dict[str, float] = field(name="flops_per_s")
    """Dense peaks of matrix products, by dtype."""
    least: list[LeastForward]
    layers: list[LeastLayer]


class NeededMemory(json_values.Part, frozen=True):
    """Bytes alive at the peak, predicted."""

    weights: json_values.Size
    """Parameters and buffers."""
    cache: json_values.Size = field(name="kv_cache")
    state: json_values.Size = field(name="training_state")
    """Gradients and the optimizer's state; 0 of a forward."""
    activations: json_values.Size
    convolution: json_values.Size = field(name="convolution_allowance")
    """Of cuDNN's workspace: what copies of the inputs and outputs of convolutions add to the peak;
    in a training step the larger one of input and output of the largest convolution."""
    depends: Bounded | None = field(name="bounded")
    """How they depend on the data; null if they do not. Of an upper bound `needed_bytes` and
    `devices` are at most, `largest_batch` is at least."""


class FittedDevice(json_values.Part, frozen=True):
    """One device."""

    name: str
    title: str
    source: str
    """Source of its figures: a data sheet."""
    memory_bytes: json_values.Size
    bytes_per_second: json_values.Size = field(name="bytes_per_s")
    watts: json_values.Size
    fits: json_values.Known[bool]
    needed_bytes: json_values.Known[json_values.Size]
    """At the batch of the report, allowances included."""
    free_bytes: json_values.Known[json_values.Size]
    """Of the memory, less the reserve."""
    cublas_allowance: json_values.Count
    largest_batch: json_values.Known[json_values.Count]
    devices: json_values.Known[json_values.Count]
    """Devices needed with tensor parallelism: 1, 2, 4 or 8."""
    least: Annotated[list[LeastForward], json_values.EACH]


class FitReport(json_values.Closed, frozen=True):
    """A model on devices by their data sheets, as `tui-profiler fit --format json` prints it.

    One object per model on one line. Times are seconds, sizes bytes.
    """

    schema: Literal["tui-profiler/fit/1"]
    model: str
    batch: json_values.Known[json_values.Count]
    training: bool
    """Whether the memory is that of a training step."""
    reserve_bytes: json_values.Size
    """Left free for the driver, torch's kernels and fragmentation."""
    memory: json_values.Known[NeededMemory]
    devices: Annotated[list[FittedDevice], json_values.EACH]
    unavailable: dict[str, str]
    """Path to the reason."""


def fit_json(sessions: Sequence[Session], found: tuple[Fitted, ...], reserve: float) -> str:
    """Return the report as one line, without a line end; arguments as of ``fitted``."""
    session, need = sessions[0], need_of(sessions[0])
    model = session.model
    report = FitReport(
        schema=SCHEMA,
        model=model.name if model is not None else "",
        batch=batch_axis(model),
        training=session.training_memory is not None,
        reserve_bytes=reserve,
        memory=need if isinstance(need, Unknown) else json_values.fill(NeededMemory, need),
        devices=[_device(session, one) for one in found],
        unavailable={},
    )
    return json_values.one_line(json_values.plain(report))


def _device(session: Session, found: Fitted) -> FittedDevice:
    sheet, held = found.sheet, found.fit
    return json_values.fill(
        FittedDevice,
        sheet,
        fits=json_values.or_why(held.fits, DEPENDS) if isinstance(held, Fit) else held,
        needed_bytes=held.need if isinstance(held, Fit) else held,
        free_bytes=held.free if isinstance(held, Fit) else held,
        cublas_allowance=cublas_bytes(sheet),
        largest_batch=held.largest_batch if isinstance(held, Fit) else held,
        devices=devices_needed(held) if isinstance(held, Fit) else held,
        least=least_forwards(session, sheet),
    )


def on_device(session: Session, sheet: DataSheet) -> OnDevice | Unknown:
    """Return a session's forward on a device."""
    tree = session.tree
    if tree is None or not tree.has_forward:
        return NOT_TRACED
    of_nodes = ((found, least_time(tree, node, sheet)) for node, found in enumerate(tree.nodes))
    layers = [
        json_values.fill(
            LeastLayer,
            least,
            path=found.path,
            energy_j=least.joules(sheet),
        )
        for found, least in of_nodes
        if isinstance(least, LeastTime)
    ]
    return json_values.fill(
        OnDevice,
        sheet,
        least=least_forwards(session, sheet),
        layers=layers,
    )


def least_forwards(session: Session, sheet: DataSheet) -> list[LeastForward]:
    """Return the least time of each phase of a model."""
    found = ((tree, least_time(tree, 0, sheet)) for tree in phases(session))
    return [
        json_values.fill(
            LeastForward,
            least,
            phase=tree.phase or None,
            energy_j=least.joules(sheet),
        )
        for tree, least in found
        if isinstance(least, LeastTime)
    ]
