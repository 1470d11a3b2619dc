"""A model's file, and statistics of its parameters, as JSON."""

import struct
from typing import Annotated, Literal, TypeAlias

from msgspec import field

from tui_profiler import messages
from tui_profiler.queries.parameters.rollup import ParameterSums, rolled_up
from tui_profiler.reports.json_values import EACH, Count, Known, Number, Part, fill, one_of
from tui_profiler.session import Session
from tui_profiler.session.parameters import in_order

NOT_ASKED = "not analysed; --parameters does it"
_NOT_FINITE = "no value is finite"
_OF_FINITE = ("mean", "std", "minimum", "maximum", "l1", "l2")


class Moments(Part, frozen=True):
    """Statistics of all finite values of a tensor."""

    count: Count
    """Finite values; NaN and infinite values are in no other figure. A complex value counts as two
    real ones."""
    nans: Count
    infinities: Count
    zeros: Count
    near_zeros: Count
    """Below near_zero_below in magnitude, zeros included."""
    near_zero_below: float
    sparsity: Known[float]
    """Share of zeros."""
    mean: Known[float]
    std: Known[float]
    """Of the population (not the sample)."""
    minimum: Known[float]
    maximum: Known[float]
    skewness: Known[float]
    kurtosis: Known[float]
    """Excess kurtosis: 0 for a normal distribution."""
    l1: Known[float]
    l2: Known[float]
    """L2 norm; of a matrix the Frobenius norm."""


class Histogram(Part, frozen=True):
    """A value on an edge is in the bin further from 0."""

    edges: tuple[float, ...]
    counts: tuple[Count, ...]
    entropy_bits: float


class Pruned(Part, frozen=True):
    """Number of values that can be zeroed at a given error."""

    loss: float
    """‖w − pruned‖₂ / ‖w‖₂, smallest magnitudes first."""
    sparsity: float


class PrunedChannels(Part, frozen=True):
    """Number of channels that can be zeroed at a given error."""

    loss: float
    """‖w − pruned‖₂ / ‖w‖₂, smallest magnitudes first."""
    channels: Count


class Channels(Part, frozen=True):
    """Rows of the first axis; null for fewer than two axes."""

    count: Count
    size: Count
    norms: tuple[float, ...]
    """L2 norms in ascending order; at most 256, evenly sampled by rank."""
    dead: Count
    outliers: Count
    """Channels whose largest magnitude is above 6 times the median over all channels."""
    first_outliers: tuple[Count, ...]
    pruned: list[PrunedChannels]
    near_duplicates: Known[float]
    """Rows with |cosine| above 0.999 to an earlier row."""
    compared: Count
    heads: int | None
    head_norms: tuple[float, ...]


class Spectral(Part, frozen=True):
    """The largest singular value."""

    norm: Known[float]
    method: messages.SpectralMethod
    rows: Count
    columns: Count
    iterations: Count
    tolerance: float
    """Relative residual at the end of the Lanczos iteration."""


class Quantised(Part, frozen=True):
    """A storage format of the values, and its quantisation noise."""

    format: messages.Format
    granularity: messages.Granularity
    group: int | None
    sqnr_db: Known[float]
    bits: float
    """Per value, scales included."""


class Sampled(Part, frozen=True):
    """Number of values that were sampled for these figures."""

    values: Count
    of: Count


class Width(Part, frozen=True):
    """The narrowest format with 30 dB SQNR; null for buffers, vectors and integers."""

    format: str
    granularity: messages.Granularity | None
    bits: float
    error: float
    """Relative L2 error of the tensor."""
    saved_bytes: Count
    why: str


class Compression(Part, frozen=True):
    """Lossless compressibility of the values."""

    entropy_bits: float
    bound: float
    codec: str
    ratio: float
    planes_ratio: float
    """With bytes grouped by position first."""
    sampled: Sampled


class TensorValues(Part, frozen=True):
    """One parameter or buffer."""

    name: str
    """As in the state dict."""
    owner: str
    """Dotted path of the module."""
    shape: tuple[Count, ...]
    dtype: str
    bytes: Count
    """Of its storage: values of an expanded tensor count once."""
    storage_bytes: Count
    alignment: int | None
    """Largest power of two, up to 4096, that divides its address in memory or its offset in the
    file."""
    is_buffer: bool
    is_contiguous: bool
    shared_with: str | None
    """First name of tied values, which has the figures."""
    why_none: str | None
    moments: Known[Moments]
    histogram: Histogram | None
    pruned: list[Pruned]
    channels: Channels | None
    spectral: Spectral | None
    quantised: Annotated[list[Quantised], EACH]
    quantised_on: Sampled | None
    width: Width | None
    compression: Compression | None
    missing: dict[str, str]
    """Why a part is missing."""


class ModuleValues(Part, frozen=True):
    """Parameters in and below each module, as one set of values; buffers are not included."""

    path: str
    tensors: Count
    looked_at: Count
    bytes: Count
    count: Count
    nans: Count
    infinities: Count
    zeros: Count
    near_zeros: Count
    mean: Known[float]
    std: Known[float]
    minimum: Known[float]
    maximum: Known[float]
    skewness: Known[float]
    kurtosis: Known[float]
    l1: Known[float]
    l2: Known[float]
    norm: Known[float] = field(name="largest_spectral_norm")
    prunable: Number
    """Share of values that can be zeroed at an error of 10 % of each tensor's norm."""
    recommended_bytes: Count
    entropy_bytes: Count
    pressed_bytes: Count
    dead: Count
    outliers: Count
    near_duplicates: Count


class ParameterValues(Part, frozen=True):
    """Only with --parameters: statistics of every value."""

    is_random: bool
    """The weights are randomly initialised: the figures do not apply to a trained model."""
    weights: str
    tensors_looked_at: int | None
    bytes_read: int | None
    seconds: Number
    is_whole: bool
    why: str | None
    """Why it is incomplete."""
    left_out: Count
    """Number of tensors that were not read, the smallest ones."""
    tensors: Annotated[list[TensorValues], EACH]
    modules: Annotated[list[ModuleValues], EACH]


def parameters_section(session: Session, top: int | None) -> ParameterValues | messages.Unknown:
    """Return every tensor, and every node's parameters rolled up, or that nobody asked.

    Args:
        session: As it was left.
        top: Only so many tensors, the largest.
    """
    found = session.parameters
    if found is None:
        return messages.Unknown(NOT_ASKED)
    tensors = in_order(found, session.tree)
    if top is not None:
        tensors = sorted(tensors, key=lambda one: (one.moments is None, -one.bytes))[:top]
    done, tree = found.done, session.tree
    return ParameterValues(
        is_random=found.started.is_random,
        weights=found.started.weights,
        tensors_looked_at=done.tensors if done is not None else None,
        bytes_read=done.bytes if done is not None else None,
        seconds=done.seconds if done is not None else None,
        is_whole=done is not None and not done.was_stopped and not done.why,
        why=done.why or None if done is not None else "it was not finished",
        left_out=found.started.left_out,
        tensors=[_tensor(one) for one in tensors],
        modules=[
            _module(tree.nodes[index].path, one)
            for index, one in rolled_up(session).items()
            if tree is not None
        ],
    )


def _tensor(one: messages.TensorStatistics) -> TensorValues:
    same = f"the same values as {one.shared_with}" if one.shared_with else one.why_none
    return fill(
        TensorValues,
        one,
        alignment=one.alignment or None,
        moments=messages.Unknown(same or "not analysed")
        if one.moments is None
        else _moments(one.moments),
        histogram=None if one.histogram is None else _histogram(one.histogram),
        channels=None if one.channels is None else _channels(one.channels),
        quantised=[fill(Quantised, part, group=part.group or None) for part in one.quantised],
        missing=dict(one.whys),
    )


def _moments(found: messages.parameters.Moments) -> Moments:
    sparsity = found.zeros / found.count if found.count else messages.Unknown(_NOT_FINITE)
    unknown = {} if found.count else dict.fromkeys(_OF_FINITE, messages.Unknown(_NOT_FINITE))
    return fill(Moments, found, sparsity=sparsity, **unknown)


def _histogram(found: messages.parameters.Histogram) -> Histogram:
    counts = struct.unpack(f"<{len(found.counts) // 8}Q", found.counts)
    return fill(Histogram, found, edges=numbers(found.edges, "d"), counts=counts)


def numbers(column: bytes, kind: Literal["d", "f"]) -> tuple[float, ...]:
    """Return a column of little-endian numbers: ``d`` float64, ``f`` float32."""
    return struct.unpack(f"<{len(column) // struct.calcsize(kind)}{kind}", column)


def _channels(found: messages.parameters.Channels) -> Channels:
    return fill(Channels, found, norms=numbers(found.norms, "f"), heads=found.heads or None)


def _module(path: str, found: ParameterSums) -> ModuleValues:
    sums = found.sums
    counted = sums.count or None
    return fill(
        ModuleValues,
        found,
        path=path,
        count=sums.count,
        nans=sums.nans,
        infinities=sums.infinities,
        zeros=sums.zeros,
        mean=sums.mean if counted else None,
        minimum=sums.minimum if counted else None,
        maximum=sums.maximum if counted else None,
        l1=sums.magnitudes,
        prunable=found.prunable / counted if counted else None,
        recommended_bytes=round(found.recommended_bytes),
        entropy_bytes=round(found.entropy_bytes),
        pressed_bytes=round(found.pressed_bytes),
    )


_Content: TypeAlias = Annotated[str, one_of("parameters", "module", "program", "other", "nothing")]
_Checksum: TypeAlias = Annotated[
    str, one_of("verified", "failed", "none in this format", "not checked")
]


class Problem(Part, frozen=True):
    """A defect of the file."""

    file: str
    where: str | None
    what: str


class File(Part, frozen=True):
    """Contents of the model's file, read without loading it."""

    kind: str
    """Detected from its bytes: safetensors, torchscript, exported-program, torch-zip-state-dict,
    ..."""
    content: _Content
    bytes: Count
    """Of all storages in use, each counted once."""
    tensors: Count
    checksum: _Checksum
    globals: tuple[str, ...]
    """Names that loading it would import; at most 100."""
    untrusted_globals: tuple[str, ...]
    """Of those, names known to run code."""
    problems: list[Problem]
    """At most 100."""
    problem_count: Count
    hint: str | None
    """The command that runs these parameters."""


def file_section(found: messages.FileFacts | None) -> File | None:
    """Return what a look into the model's file told; None where the model is no file."""
    return None if found is None else fill(File, found)
