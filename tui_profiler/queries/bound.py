"""What holds a node back: compute, memory or overhead, with the figures that decided it.

Measured: three least times are set against the time that the node really takes.

- compute: FLOPs over the measured ceiling of the node's dtype;
- memory: bytes over the measured copy bandwidth (Williams, Waterman, Patterson: Roofline,
  CACM 52(4), 2009);
- overhead: operators times the measured least time of one operator.

The largest of the three names the class. Where even the largest explains less than a tenth of the
time, the time goes elsewhere, outside the arithmetic: overhead, with low confidence.

On paper, before anything is measured: at most 10 FLOPs a byte is memory, above it compute.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from tui_profiler.messages import Ceilings, Cost, known
from tui_profiler.queries.seconds import node_seconds
from tui_profiler.queries.sorts import times_fit_costs
from tui_profiler.session import Session, Tree
from tui_profiler.units import dtype as short_dtype

BoundKind: TypeAlias = Literal["compute", "memory", "overhead"]
KINDS: tuple[BoundKind, ...] = ("compute", "memory", "overhead")
LETTERS: dict[BoundKind, str] = {"compute": "C", "memory": "M", "overhead": "O"}

PAPER_RIDGE = 10.0
"""FLOPs a byte: at most this is memory-bound on any hardware (the product's own rule)."""
UNEXPLAINED_BELOW = 0.1
FROM_CACHES_ABOVE = 1.05
"""Share of the memory ceiling; more than noise above it is no memory traffic at all."""


class Bound(Struct, frozen=True):
    """The class of a node and why; shares are of the node's own measured time."""

    kind: BoundKind
    measured: bool
    """False: from the intensity alone, on paper."""
    compute_share: float | None = None
    """Share of the compute ceiling reached: least time over time."""
    memory_share: float | None = None
    """Share of the memory ceiling reached."""
    overhead_share: float | None = None
    """Share of the time that calling the operators takes at least."""
    flops_per_second: float | None = None
    bytes_per_second: float | None = None
    intensity: float | None = None
    """FLOPs a byte; None where nothing is moved."""
    ridge: float | None = None
    """FLOPs a byte at which the two ceilings meet."""
    dtype: str = ""
    """Of the compute ceiling that was used."""
    confident: bool = True
    reason: str = ""
    """One sentence with the figures that decided it."""


def bytes_moved(cost: Cost) -> int:
    """Give the bytes that the operators of a node read and write."""
    return cost.input_bytes + cost.weight_bytes + cost.output_bytes


def intensity(cost: Cost) -> float | None:
    """Give FLOPs a byte, None where nothing is moved."""
    moved = bytes_moved(cost)
    return cost.flops / moved if moved else None


def bound(session: Session, node: int) -> Bound | None:
    """Give the class of a node, None where it costs nothing and was not measured."""
    if session.tree is None:
        return None
    return bound_of(session, node, session.tree.costs[node], node_seconds(session, node))


def bound_of(session: Session, node: int, cost: Cost, seconds: float | None) -> Bound | None:
    """Give the class of what costs and takes so much, in the dtype of a node."""
    tree, ceilings = session.tree, session.ceilings
    if seconds and ceilings is not None and tree is not None and times_fit_costs(session):
        return _measured(cost, seconds, ceilings, _ceiling(ceilings, node_dtype(tree, node)))
    return on_paper(cost)


def on_paper(cost: Cost) -> Bound | None:
    """Give the class that the intensity alone says, None where nothing is moved."""
    ratio = intensity(cost)
    if ratio is None:
        return None
    kind: BoundKind = "memory" if ratio <= PAPER_RIDGE else "compute"
    return Bound(kind, measured=False, intensity=ratio, reason="on paper, by its FLOPs a byte")


def node_dtype(tree: Tree, node: int) -> str:
    """Give the dtype that a node computes in: of its weights, its outputs or its inputs."""
    found = tree.nodes[node]
    names = (
        *(weight.dtype for weight in found.weights if not weight.is_buffer),
        *(tensor.dtype for tensor in (*found.outputs, *found.inputs)),
    )
    return next((name for name in names if name.startswith(("float", "bfloat"))), "float32")


def least_seconds(cost: Cost, ceilings: Ceilings, dtype: str) -> dict[BoundKind, float]:
    """Give the seconds that each roof alone asks for; roofs that are not known are left out."""
    _, flops_roof = _ceiling(ceilings, dtype)
    bytes_roof = known(ceilings.bytes_per_second)
    op_seconds = known(ceilings.op_seconds)
    least: dict[BoundKind, float] = {}
    if flops_roof:
        least["compute"] = cost.flops / flops_roof
    if bytes_roof:
        least["memory"] = bytes_moved(cost) / bytes_roof
    if op_seconds is not None:
        least["overhead"] = cost.ops * op_seconds
    return least


def _ceiling(ceilings: Ceilings, dtype: str) -> tuple[str, float | None]:
    for ceiling in ceilings.compute:
        if ceiling.dtype == dtype:
            return dtype, known(ceiling.flops_per_second)
    return dtype, None


def _measured(
    cost: Cost, seconds: float, ceilings: Ceilings, ceiling: tuple[str, float | None]
) -> Bound | None:
    dtype, flops_roof = ceiling
    bytes_roof = known(ceilings.bytes_per_second)
    moved = bytes_moved(cost)
    least = least_seconds(cost, ceilings, dtype)
    shares = {kind: time / seconds for kind, time in least.items()}
    if not shares:
        return on_paper(cost)
    kind = max(shares, key=lambda candidate: shares[candidate])
    explained = shares[kind] >= UNEXPLAINED_BELOW
    found = Bound(
        kind=kind if explained else "overhead",
        measured=True,
        compute_share=shares.get("compute"),
        memory_share=shares.get("memory"),
        overhead_share=shares.get("overhead"),
        flops_per_second=cost.flops / seconds,
        bytes_per_second=moved / seconds,
        intensity=cost.flops / moved if moved else None,
        ridge=flops_roof / bytes_roof if flops_roof and bytes_roof else None,
        dtype=short_dtype(dtype),
        confident=explained,
    )
    return _with_reason(found)


def _with_reason(found: Bound) -> Bound:
    if not found.confident:
        reason = "far below every roof: the time goes outside the arithmetic"
    elif found.kind == "overhead":
        reason = (
            f"calling its operators takes {(found.overhead_share or 0) * 100:.0f} % of the time"
        )
    elif found.kind == "memory" and (found.memory_share or 0) > FROM_CACHES_ABOVE:
        reason = "faster than memory: its data comes from the caches"
    elif found.intensity is not None and found.ridge is not None:
        ratio = found.intensity / found.ridge
        times = f"{ratio:.1f}×" if ratio >= 0.095 else f"{ratio:.2f}×"
        reason = f"{found.intensity:.3g} FLOP/B is {times} the ridge at {found.ridge:.3g}"
    else:
        reason = "the only ceiling that is known"
    return replace(found, reason=reason)


def mix(session: Session, node: int) -> dict[BoundKind, float]:
    """Give a node's seconds per forward by class: its own time and that of all modules inside."""
    tree, timings = session.tree, session.timings
    seconds: dict[BoundKind, float] = dict.fromkeys(KINDS, 0.0)
    if tree is None or timings is None or session.ceilings is None:
        return seconds
    if not times_fit_costs(session):
        return seconds
    for inside in _modules(tree, node):
        own = timings.own_per_forward(inside)
        if own:
            seconds[_own_kind(session, tree, inside, own)] += own
    return seconds


def _modules(tree: Tree, node: int) -> Iterator[int]:
    return (i for i in range(node, tree.ends[node]) if tree.nodes[i].kind == "module")


def _own_kind(session: Session, tree: Tree, node: int, seconds: float) -> BoundKind:
    assert session.ceilings is not None
    ceiling = _ceiling(session.ceilings, node_dtype(tree, node))
    found = _measured(own_cost(tree, node), seconds, session.ceilings, ceiling)
    return found.kind if found is not None else "overhead"


def own_cost(tree: Tree, node: int) -> Cost:
    """Give what a module's operators cost without those of modules inside.

    An opaque module has all of them: no module inside has a time of its own.
    """
    if tree.nodes[node].is_opaque:
        return tree.costs[node]
    ops = [tree.costs[child] for child in tree.children(node) if tree.nodes[child].kind == "op"]
    if tree.nodes[node].kind == "op":
        ops = [tree.costs[node]]
    whole = tree.costs[node]
    return Cost(
        parameters=whole.parameters,
        parameter_bytes=whole.parameter_bytes,
        macs=sum(cost.macs for cost in ops),
        flops=sum(cost.flops for cost in ops),
        input_bytes=sum(cost.input_bytes for cost in ops),
        weight_bytes=sum(cost.weight_bytes for cost in ops),
        output_bytes=sum(cost.output_bytes for cost in ops),
        ops=sum(cost.ops for cost in ops),
        uncosted=sum(cost.uncosted for cost in ops),
    )
