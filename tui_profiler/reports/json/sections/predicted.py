"""What a model costs on paper, as JSON: its peak memory and how its work is distributed."""

from tui_profiler.messages import PeakMemory
from tui_profiler.queries.cost.breakdown import OpType
from tui_profiler.queries.cost.distribution import Band
from tui_profiler.queries.cost.totals import known_peak_bytes, peak_bytes
from tui_profiler.reports.json_values import Count, Known, Part, Size, fill, or_why
from tui_profiler.session import Tree

_NO_CACHE = "forward returned no cache"


class Alive(Part, frozen=True):
    """A tensor alive at the peak."""

    path: str | None
    """Path of the operator that produced it; null for the inputs, all together."""
    bytes: Count


class PeakCoverage(Part, frozen=True):
    """Coverage of the prediction, in tensors."""

    tensors: Count
    """Tensor outputs of operators."""
    known_dtypes: Count
    """Of those, with a known type: all outputs of the dispatcher have one."""
    sized: Count
    """Of those, allocations with a known size."""
    aliases: Count
    """Of those, in existing storages: views, in-place results, weights."""
    skipped: Count
    """Of those, without a separate storage, such as sparse tensors: not in the peak."""


class PredictedPeak(Part, frozen=True):
    """Peak memory of one forward in bytes, predicted from tensor lifetimes."""

    parameters: Known[float]
    buffers: Known[float]
    activations: Known[float]
    workspace: Known[float]
    """Workspace of operators at the peak; null if it is not modelled."""
    kv_cache: Known[float]
    """KV cache of a language model after the forward, not included in activations. Null if forward
    returns no cache; then it is not part of the sum."""
    total: Known[float]
    """Sum of the parts; null if one is not known."""
    at_least: Known[float]
    """Sum of the known parts."""
    at: str | None
    """Path of the operator after which activations are largest; null if nothing was allocated."""
    alive: list[Alive]
    """The largest tensors alive at the peak, at most 20, largest first."""
    coverage: PeakCoverage


class OperatorType(Part, frozen=True):
    """Operators of one type."""

    type: OpType
    count: Count
    """Calls in one forward."""
    flops: Known[Count]
    share: Size | None
    """Share of all FLOPs."""


class LayerType(Part, frozen=True):
    """Modules of one class."""

    type: str
    """Class of module."""
    count: Count
    parameters: Count
    """Owned directly by these modules."""
    flops: Known[Count]
    """Of the operators that they call directly."""
    share: Size | None
    """Share of all FLOPs."""


class IntensityBand(Part, frozen=True):
    """Operators of a range of FLOPs per byte."""

    band: Band
    ops: Count
    """Calls of operators that move bytes."""
    flops: Count
    flops_share: Size | None
    """Share of all FLOPs."""


def peak_memory(tree: Tree, peak: PeakMemory) -> PredictedPeak:
    """Return the parts of the peak, who is alive at it, and what it was found from."""
    return fill(
        PredictedPeak,
        peak,
        kv_cache=or_why(peak.kv_cache, _NO_CACHE),
        total=peak_bytes(peak),
        at_least=known_peak_bytes(peak),
        at=_path(tree, peak.at),
        alive=[Alive(path=_path(tree, node), bytes=size) for node, size in peak.alive],
        coverage=fill(
            PeakCoverage,
            peak,
            known_dtypes=peak.tensors,
            aliases=peak.tensors - peak.sized - peak.skipped,
        ),
    )


def _path(tree: Tree, node: int) -> str | None:
    return tree.nodes[node].path if 0 <= node < len(tree) else None
