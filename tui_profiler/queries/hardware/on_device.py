"""The least time of a forward on a device that is not here, by its data sheet.

1. An operator takes at least its FLOPs over the peak of its dtype, and at least its bytes over the
   bandwidth of the memory; a node takes at least the sum over its operators, which run one after
   another. Launching them, and what no kernel reaches of a peak, are not in it: a least time is a
   bound, not a forecast.
2. That is of eager PyTorch. Fused kernels (``torch.compile``, TensorRT) take at least the FLOPs and
   bytes of matrix products and convolutions: the other operators may run inside of them, and cost
   nothing. A product of activations alone may be a part of fused attention: it has FLOPs only.
   ``torch.compile`` was measured at 0.68 of the least time of eager PyTorch
   (``benchmarks/costs/published_latencies.py``).
3. What one call reads and writes may lie in the last cache when it is no larger: then it costs
   nothing here. So may weights of which the cache holds half.
4. FLOPs of a convolution are those of the direct algorithm. Winograd's takes fewer: a 3x3
   convolution may be above the peak by it, in float32 without matrix units.
5. Energy is the least time at the power limit of the board.
6. Where sizes depend on the data, traced work is an upper bound or none, and takes no least time.
"""

from bisect import bisect_left
from functools import lru_cache
from typing import Literal, TypeAlias

from msgspec import Struct

from tui_profiler.messages import Cost, Node, Unknown
from tui_profiler.queries.cost.bound import bytes_moved, certain_cost, node_dtype
from tui_profiler.queries.hardware.data_sheets import DataSheet
from tui_profiler.session import Session, Tree

Limit: TypeAlias = Literal["compute", "memory"]
LEAST_SECONDS = 1e-8
"""What is shown of a time: below it, a lower bound says nothing."""
NOT_TRACED = Unknown("no forward was traced")
_PARTLY_KEPT = 2.0
"""As of this machine's caches (``queries/cost/ceilings.py``)."""
_ATTENTION = "attention"
"""In the names of torch's operators that are fused attention already."""


class LeastTime(Struct, frozen=True):
    """What a node takes at least on a device."""

    seconds: float
    """Of one forward, by rule 1."""
    fused_seconds: float
    """The same with fused kernels, by rule 2; at most ``seconds``."""
    compute_seconds: float
    """Of it, in operators that the peak of their dtype holds back."""
    memory_seconds: float
    """Of it, in operators that the bandwidth holds back."""
    no_peak: tuple[str, ...] = ()
    """Dtypes that the data sheet has no peak of: their FLOPs are not in the time."""
    uncosted: int = 0
    """Operators without a formula: their FLOPs are not in it either."""
    by_data: int = 0
    """Operators whose sizes depend on the data: nothing of them is in it."""

    @property
    def limit(self) -> Limit | None:
        """What holds most of it back; None where there is no work."""
        if not self.seconds:
            return None
        return "compute" if self.compute_seconds >= self.memory_seconds else "memory"

    def joules(self, sheet: DataSheet) -> float:
        """Return the energy at the power limit, by rule 5."""
        return self.seconds * sheet.watts


class _Columns(Struct, frozen=True, eq=False):
    """Of every node in preorder, summed from the first on: one more than there are nodes."""

    compute: list[float]
    memory: list[float]
    fused: list[float]
    without_peak: list[int]
    """Operators that compute in a dtype without a peak, in preorder."""
    no_peaks: list[str]
    """The dtype of each."""
    by_data: list[int]
    """Operators whose sizes depend on the data, in preorder."""


def least_time(tree: Tree, node: int, sheet: DataSheet) -> LeastTime | Unknown:
    """Return what a node takes at least."""
    if not tree.has_forward:
        return NOT_TRACED
    columns, end = _columns(tree, sheet), tree.ends[node]
    compute = columns.compute[end] - columns.compute[node]
    memory = columns.memory[end] - columns.memory[node]
    fused = columns.fused[end] - columns.fused[node]
    first, stop = (bisect_left(columns.without_peak, at) for at in (node, end))
    missing = sorted(set(columns.no_peaks[first:stop]))
    uncosted = tree.costs[node].uncosted
    by_data = bisect_left(columns.by_data, end) - bisect_left(columns.by_data, node)
    return LeastTime(compute + memory, fused, compute, memory, tuple(missing), uncosted, by_data)


@lru_cache(maxsize=64)
def _columns(tree: Tree, sheet: DataSheet) -> _Columns:
    all_weights = tree.costs[0].parameter_bytes
    compute, memory, fused = [0.0], [0.0], [0.0]
    without_peak: list[int] = []
    no_peaks: list[str] = []
    opaque_end = 0
    for index, found in enumerate(tree.nodes):
        held_back = moved = alone = 0.0
        is_sure = tree.depends(index) is None
        if is_sure and index >= opaque_end and (found.kind == "op" or found.is_opaque):
            opaque_end = tree.ends[index] if found.is_opaque else 0
            cost = certain_cost(tree, index) if found.is_opaque else tree.costs[index]
            dtype = node_dtype(tree, index)
            rate = peak(sheet, dtype, has_macs=bool(cost.macs))
            if rate is None and cost.flops:
                without_peak.append(index)
                no_peaks.append(dtype)
            held_back = cost.flops / rate if rate else 0.0
            moved = _moved_seconds(cost, max(found.calls, 1), all_weights, sheet)
            if cost.macs:
                alone = max(held_back, moved) if _moves_fused(found, cost) else held_back
        compute.append(compute[-1] + (held_back if held_back >= moved else 0.0))
        memory.append(memory[-1] + (moved if moved > held_back else 0.0))
        fused.append(fused[-1] + alone)
    by_data = sorted(
        index for index in tree.bounded if tree.depends(index) and tree.nodes[index].kind == "op"
    )
    return _Columns(compute, memory, fused, without_peak, no_peaks, by_data)


def _moves_fused(found: Node, cost: Cost) -> bool:
    """Return whether a product moves its bytes in fused kernels too, by rule 2."""
    return not found.is_opaque and (cost.weight_bytes > 0 or _ATTENTION in found.name)


def peak(sheet: DataSheet, dtype: str, *, has_macs: bool) -> float | None:
    """Return FLOP per second at most of matrix products in a dtype, or of any other work."""
    rate = sheet.flops_per_second.get(dtype)
    if has_macs:
        return rate
    # Some compute 16 bits twice as fast as 32: a least time counts on it.
    vector = sheet.vector_flops_per_second * (2.0 if dtype in ("float16", "bfloat16") else 1.0)
    return vector if rate is None else min(rate, vector)


def _moved_seconds(cost: Cost, calls: int, all_weights: int, sheet: DataSheet) -> float:
    in_a_call = bytes_moved(cost) / calls
    activations = cost.input_bytes + cost.output_bytes if in_a_call > sheet.l2_bytes else 0
    weights = cost.weight_bytes if all_weights > _PARTLY_KEPT * sheet.l2_bytes else 0
    return (activations + weights) / sheet.bytes_per_second


def phases(session: Session) -> tuple[Tree, ...]:
    """Return the tree of each forward of a model: two of one that generates."""
    return session.phases or ((session.tree,) if session.tree is not None else ())
