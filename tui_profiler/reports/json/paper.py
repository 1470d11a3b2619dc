"""What a model costs on paper, as JSON: its peak memory and how its work is distributed."""

from __future__ import annotations

from typing import TypedDict

from tui_profiler.messages import PeakMemory
from tui_profiler.queries.cost.breakdown import Architecture, OpType, architecture_of, breakdown
from tui_profiler.queries.cost.distribution import Band, intensity_bands, layer_types
from tui_profiler.queries.cost.totals import known_peak_bytes, peak_bytes
from tui_profiler.reports.json_values import Count, Known, Part, Size, or_why, taken
from tui_profiler.session import Tree

_NO_CACHE = "forward returned no cache"


class Alive(Part, frozen=True):
    """A tensor alive at the peak."""

    path: str | None
    """Of the operator that made it; null for the inputs, all together."""
    bytes: Count


class PeakCoverage(Part, frozen=True):
    """Which tensors the prediction covers."""

    tensors: Count
    """Tensor outputs of operators."""
    known_dtypes: Count
    """Of those, with a known type: all that the dispatcher gives have one."""
    sized: Count
    """Of those, allocations with a known size."""
    aliases: Count
    """Of those, in storages that were there before: views, in place, weights."""
    skipped: Count
    """Of those, without a storage of their own, as sparse ones: not in the peak."""


class PredictedPeak(Part, frozen=True):
    """Bytes at the worst moment of one forward, predicted from tensor lifetimes."""

    parameters: Known[float]
    buffers: Known[float]
    activations: Known[float]
    workspace: Known[float]
    """What scratch memory inside operators adds to the peak; null where it is not modelled."""
    kv_cache: Known[float]
    """What a language model keeps of the tokens so far, after the forward; activations are without
    it. Null where forward gives no cache back: then it is no part of the sum."""
    total: Known[float]
    """Sum of the parts; null where one is not known."""
    at_least: Known[float]
    """Sum of the parts that are known."""
    at: str | None
    """Path of the operator at whose end activations are at their most; null where nothing was
    allocated."""
    alive: list[Alive]
    """The largest tensors alive then, at most 20, largest first."""
    coverage: PeakCoverage


class OperatorType(Part, frozen=True):
    """Operators of one type."""

    type: OpType
    count: Count
    """Calls in one forward."""
    flops: Count
    share: Size | None
    """Of all FLOPs."""


class LayerType(Part, frozen=True):
    """Modules of one class."""

    type: str
    """Class of module."""
    count: Count
    parameters: Count
    """Owned by these modules themselves."""
    flops: Count
    """Of their own operators."""
    share: Size | None
    """Of all FLOPs."""


class IntensityBand(Part, frozen=True):
    """Operators of a range of FLOPs per byte."""

    band: Band
    ops: Count
    """Calls of operators that move bytes."""
    flops: Count
    flops_share: Size | None
    """Of all FLOPs."""


class Distribution(TypedDict):
    """How the work is distributed; each is a field of the report."""

    architecture: Architecture
    breakdown: list[OperatorType]
    layer_types: list[LayerType]
    intensity_bands: list[IntensityBand]


def peak_memory(tree: Tree, peak: PeakMemory) -> PredictedPeak:
    """Return the parts of the peak, who is alive at it, and what it was found from."""
    return PredictedPeak(
        parameters=peak.parameters,
        buffers=peak.buffers,
        activations=peak.activations,
        workspace=peak.workspace,
        kv_cache=or_why(peak.kv_cache, _NO_CACHE),
        total=peak_bytes(peak),
        at_least=known_peak_bytes(peak),
        at=_path(tree, peak.at),
        alive=[Alive(path=_path(tree, node), bytes=size) for node, size in peak.alive],
        coverage=PeakCoverage(
            tensors=peak.tensors,
            known_dtypes=peak.tensors,
            sized=peak.sized,
            aliases=peak.tensors - peak.sized - peak.skipped,
            skipped=peak.skipped,
        ),
    )


def distribution(tree: Tree) -> Distribution:
    """Return the architecture's class, and FLOPs by operator, by layer and by intensity."""
    return {
        "architecture": architecture_of(tree),
        "breakdown": [taken(OperatorType, one) for one in breakdown(tree)],
        "layer_types": [taken(LayerType, one) for one in layer_types(tree)],
        "intensity_bands": [taken(IntensityBand, one) for one in intensity_bands(tree)],
    }


def _path(tree: Tree, node: int) -> str | None:
    return tree.nodes[node].path if 0 <= node < len(tree) else None
