"""A model's file, and statistics of its parameters, as JSON."""

from __future__ import annotations

import struct
from typing import Annotated, Literal, TypeAlias

from tui_profiler.messages import FileFacts, TensorStatistics, Unknown, parameters
from tui_profiler.messages.parameters import Format, Granularity, SpectralMethod
from tui_profiler.queries.parameters.rollup import ParameterSums, rolled_up
from tui_profiler.reports.json_values import EACH, Count, Known, Number, Part, one_of, taken
from tui_profiler.reports.parameters_text import in_order
from tui_profiler.session import Session

NOT_ASKED = "not analysed; --parameters does it"


class Moments(Part, frozen=True):
    """Figures of all finite values of a tensor."""

    count: Count
    """Finite values; NaN and infinite ones are in no other figure. Complex ones are two real
    ones."""
    nans: Count
    infinities: Count
    zeros: Count
    near_zeros: Count
    """Below near_zero_below in magnitude, zeros among them."""
    near_zero_below: float
    sparsity: Known[float]
    """Share of zeros."""
    mean: Known[float]
    std: Known[float]
    """Of the population."""
    minimum: Known[float]
    maximum: Known[float]
    skewness: Known[float]
    kurtosis: Known[float]
    """Less 3: 0 for a normal distribution."""
    l1: Known[float]
    l2: Known[float]
    """Of a matrix its Frobenius norm."""


class Histogram(Part, frozen=True):
    """A value on an edge between two bins is in the one further from 0."""

    edges: tuple[float, ...]
    counts: tuple[Count, ...]
    entropy_bits: float


class Pruned(Part, frozen=True):
    """How many values can be 0 at a loss."""

    loss: float
    """‖w − pruned‖₂ / ‖w‖₂, the smallest going first."""
    sparsity: float


class PrunedChannels(Part, frozen=True):
    """How many channels can be 0 at a loss."""

    loss: float
    """‖w − pruned‖₂ / ‖w‖₂, the smallest going first."""
    channels: Count


class Channels(Part, frozen=True):
    """Rows of the first axis; null for fewer than two axes."""

    count: Count
    size: Count
    norms: tuple[float, ...]
    """L2 norms, rising; at most 256, evenly picked by rank."""
    dead: Count
    outliers: Count
    """Channels whose largest magnitude is more than 6 times the median of those of all."""
    first_outliers: tuple[Count, ...]
    pruned: list[PrunedChannels]
    near_duplicates: Known[float]
    """Rows whose cosine with an earlier row is above 0.999 in magnitude."""
    compared: Count
    heads: int | None
    head_norms: tuple[float, ...]


class Spectral(Part, frozen=True):
    """The largest singular value."""

    norm: Known[float]
    method: SpectralMethod
    rows: Count
    columns: Count
    iterations: Count
    tolerance: float
    """Relative residual at which Lanczos' iteration ended."""


class Quantised(Part, frozen=True):
    """A format in which the values would be stored, and its noise."""

    format: Format
    granularity: Granularity
    group: int | None
    sqnr_db: Known[float]
    bits: float
    """For each value, scales included."""


class Sampled(Part, frozen=True):
    """On how many of the values the figures beside it stand."""

    values: Count
    of: Count


class Width(Part, frozen=True):
    """The narrowest storage with 30 dB; null for buffers, vectors and whole numbers."""

    format: str
    granularity: Granularity | None
    bits: float
    error: float
    """Relative error of the tensor, L2."""
    saved_bytes: Count
    why: str


class Compression(Part, frozen=True):
    """How far a lossless codec packs the values."""

    entropy_bits: float
    bound: float
    codec: str
    ratio: float
    planes_ratio: float
    """With bytes of the same place put side by side first."""
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
    """Of its values where they lie: those of an expanded tensor once."""
    storage_bytes: Count
    alignment: int | None
    """Largest power of two, up to 4096, that divides where it begins in memory or in its file."""
    is_buffer: bool
    is_contiguous: bool
    shared_with: str | None
    """Name under which the same values were seen first; its figures are there."""
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
    """Why a part is not there."""


class ModuleValues(Part, frozen=True):
    """Parameters in and below each module, as one set of values; buffers are in none."""

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
    largest_spectral_norm: Known[float]
    prunable: Number
    """Share of values that could be 0 at a loss of 10 % of the norm of each tensor."""
    recommended_bytes: Count
    entropy_bytes: Count
    pressed_bytes: Count
    dead: Count
    outliers: Count
    near_duplicates: Count


class ParameterValues(Part, frozen=True):
    """With --parameters: every value looked at; null without."""

    is_random: bool
    """The weights are those of an initialisation: they say nothing of a trained model."""
    weights: str
    tensors_looked_at: int | None
    bytes_read: int | None
    seconds: Number
    is_whole: bool
    why: str | None
    """Why it is not whole."""
    left_out: Count
    """Tensors that were too many, the smallest."""
    tensors: Annotated[list[TensorValues], EACH]
    modules: Annotated[list[ModuleValues], EACH]


def parameters_section(session: Session, top: int | None) -> ParameterValues | Unknown:
    """Return every tensor, and every node's parameters rolled up, or that nobody asked.

    Args:
        session: As it was left.
        top: Only so many tensors, the largest.
    """
    found = session.parameters
    if found is None:
        return Unknown(NOT_ASKED)
    tensors = in_order(session, found)
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


def _tensor(one: TensorStatistics) -> TensorValues:
    same = f"the same values as {one.shared_with}" if one.shared_with else one.why_none
    return TensorValues(
        name=one.name,
        owner=one.owner,
        shape=one.shape,
        dtype=one.dtype,
        bytes=one.bytes,
        storage_bytes=one.storage_bytes,
        alignment=one.alignment or None,
        is_buffer=one.is_buffer,
        is_contiguous=one.is_contiguous,
        shared_with=one.shared_with or None,
        why_none=one.why_none or None,
        moments=Unknown(same or "not analysed") if one.moments is None else _moments(one.moments),
        histogram=None if one.histogram is None else _histogram(one.histogram),
        pruned=[Pruned(loss=part.loss, sparsity=part.sparsity) for part in one.pruned],
        channels=None if one.channels is None else _channels(one.channels),
        spectral=None if one.spectral is None else _spectral(one.spectral),
        quantised=[_quantised(part) for part in one.quantised],
        quantised_on=None if one.quantised_on is None else _sampled(one.quantised_on),
        width=None if one.width is None else _width(one.width),
        compression=None if one.compression is None else _compression(one.compression),
        missing=dict(one.whys),
    )


def _moments(found: parameters.Moments) -> Moments:
    def figure(value: float) -> float | Unknown:
        return value if found.count else Unknown("no value is finite")

    return Moments(
        count=found.count,
        nans=found.nans,
        infinities=found.infinities,
        zeros=found.zeros,
        near_zeros=found.near_zeros,
        near_zero_below=found.near_zero_below,
        sparsity=figure(found.zeros / max(found.count, 1)),
        mean=figure(found.mean),
        std=figure(found.std),
        minimum=figure(found.minimum),
        maximum=figure(found.maximum),
        skewness=found.skewness,
        kurtosis=found.kurtosis,
        l1=figure(found.l1),
        l2=figure(found.l2),
    )


def _histogram(found: parameters.Histogram) -> Histogram:
    return Histogram(
        edges=numbers(found.edges, "d"),
        counts=_whole_numbers(found.counts),
        entropy_bits=found.entropy_bits,
    )


def numbers(column: bytes, kind: Literal["d", "f"]) -> tuple[float, ...]:
    """Return a column of little-endian numbers: ``d`` float64, ``f`` float32."""
    return struct.unpack(f"<{len(column) // struct.calcsize(kind)}{kind}", column)


def _whole_numbers(column: bytes) -> tuple[int, ...]:
    return struct.unpack(f"<{len(column) // 8}Q", column)


def _channels(found: parameters.Channels) -> Channels:
    return Channels(
        count=found.count,
        size=found.size,
        norms=numbers(found.norms, "f"),
        dead=found.dead,
        outliers=found.outliers,
        first_outliers=found.first_outliers,
        pruned=[PrunedChannels(loss=part.loss, channels=part.channels) for part in found.pruned],
        near_duplicates=found.near_duplicates,
        compared=found.compared,
        heads=found.heads or None,
        head_norms=found.head_norms,
    )


def _spectral(found: parameters.Spectral) -> Spectral:
    return taken(Spectral, found)


def _quantised(found: parameters.Quantised) -> Quantised:
    return taken(Quantised, found, group=found.group or None)


def _sampled(found: parameters.Sampled) -> Sampled:
    return Sampled(values=found.values, of=found.of)


def _width(found: parameters.Width) -> Width:
    return taken(Width, found, granularity=found.granularity or None)


def _compression(found: parameters.Compression) -> Compression:
    return taken(Compression, found, sampled=_sampled(found.sampled))


def _module(path: str, found: ParameterSums) -> ModuleValues:
    sums = found.sums
    counted = sums.count or None
    return ModuleValues(
        path=path,
        tensors=found.tensors,
        looked_at=found.looked_at,
        bytes=found.bytes,
        count=sums.count,
        nans=sums.nans,
        infinities=sums.infinities,
        zeros=sums.zeros,
        near_zeros=found.near_zeros,
        mean=sums.mean if counted else None,
        std=found.std,
        minimum=sums.minimum if counted else None,
        maximum=sums.maximum if counted else None,
        skewness=found.skewness,
        kurtosis=found.kurtosis,
        l1=sums.magnitudes,
        l2=found.l2,
        largest_spectral_norm=found.norm,
        prunable=found.prunable / counted if counted else None,
        recommended_bytes=round(found.recommended_bytes),
        entropy_bytes=round(found.entropy_bytes),
        pressed_bytes=round(found.pressed_bytes),
        dead=found.dead,
        outliers=found.outliers,
        near_duplicates=found.near_duplicates,
    )


_Content: TypeAlias = Annotated[str, one_of("parameters", "module", "program", "other", "nothing")]
_Checksum: TypeAlias = Annotated[
    str, one_of("verified", "failed", "none in this format", "not checked")
]


class Problem(Part, frozen=True):
    """Something in the file that is not as it should be."""

    file: str
    where: str | None
    what: str


class File(Part, frozen=True):
    """What a look into the model's file told, without loading it."""

    kind: str
    """By its bytes: safetensors, torchscript, exported-program, torch-zip-state-dict, ..."""
    content: _Content
    bytes: Count
    """Of all storages in use, each counted once."""
    tensors: Count
    checksum: _Checksum
    globals: tuple[str, ...]
    """What loading it would import; at most 100."""
    untrusted_globals: tuple[str, ...]
    """Those of them that run code."""
    problems: list[Problem]
    """At most 100."""
    problem_count: Count
    hint: str | None
    """The command that runs these parameters."""


def file_section(found: FileFacts | None) -> File | None:
    """Return what a look into the model's file told; None where the model is no file."""
    if found is None:
        return None
    return taken(
        File,
        found,
        problems=[
            Problem(file=one.file, where=one.where or None, what=one.what) for one in found.problems
        ],
        hint=found.hint or None,
    )
