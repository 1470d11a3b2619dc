"""``int8-dynamic``: linear and recurrent layers with int8 weights, dynamic activations.

Only the time of reading fewer bytes of weights can be predicted: the int8 roof is not measured.
Where a layer is compute-bound, its whole time is the upper bound.
"""

from tui_profiler.figures.units import duration, size
from tui_profiler.findings.evidence import quantities, time_share
from tui_profiler.findings.evidence.affected_operators import (
    compute_roof,
    matrix_parts,
    memory_roof,
)
from tui_profiler.findings.evidence.finding import Evidence, Finding, Gain, check, counted
from tui_profiler.findings.evidence.memory import memory_gain
from tui_profiler.messages import Unknown, known
from tui_profiler.queries.cost.bound import bytes_moved, own_dependence
from tui_profiler.queries.cost.breakdown import OpType
from tui_profiler.session import Session, Tree

_LAYERS: frozenset[OpType] = frozenset({"Linear", "recurrent"})
_KEPT = 0.25
"""Of the bytes of weights: 8 bits of 32."""


@check(
    "int8-dynamic",
    holds_in="inference",
    reads=(quantities.TREE,),
    uses=(*quantities.TIME_OF_NODES, quantities.PEAK),
)
def int8_dynamic(session: Session) -> Finding | None:
    """Find linear and recurrent layers in float32 on a CPU."""
    tree = session.tree
    if tree is None or session.model is None or session.model.device != "cpu":
        return None
    nodes = tuple(
        part.node
        for part in matrix_parts(session, tree, _LAYERS)
        if tree.nodes[part.node].kind == "module" and _weight_bytes(tree, part.node)
    )
    weights = sum(_weight_bytes(tree, node) for node in nodes)
    if not weights:
        return None
    found = time_share.spent(session, nodes)
    formula = f"three quarters of {size(weights)} of weights"
    gains = (
        _time(session, tree, nodes, found),
        memory_gain(tree, weights * (1 - _KEPT), formula, "estimated"),
    )
    shares = [known(gain.share) for gain in gains]
    if all(share is not None and share < time_share.LEAST_SHARE for share in shares):
        return None
    return Finding(
        kind="int8-dynamic",
        title=f"quantise {counted(len(nodes), _layers(tree, nodes))} to int8",
        why=(
            "int8 weights are a quarter of the bytes that every forward reads. Activations are"
            " quantised on the fly, which costs time, and outputs lose precision."
        ),
        nodes=time_share.slowest_first(session, nodes),
        evidence=(
            Evidence("linear and recurrent layers in float32", len(nodes), "count", "derived"),
            Evidence("bytes of their weights", weights, "B", "derived"),
            *time_share.evidence(found),
        ),
        gains=gains,
    )


def _layers(tree: Tree, nodes: tuple[int, ...]) -> str:
    kinds = [tree.nodes[node].type.endswith(("RNN", "LSTM", "GRU", "Cell")) for node in nodes]
    return "recurrent layer" if all(kinds) else "layer" if any(kinds) else "linear layer"


def _weight_bytes(tree: Tree, node: int) -> int:
    weights = tree.nodes[node].weights
    wide = (one for one in weights if not one.is_buffer and one.dtype == "float32")
    return sum(one.bytes for one in wide if len(one.shape) > 1)


def _time(
    session: Session, tree: Tree, nodes: tuple[int, ...], found: time_share.TimeSpent | Unknown
) -> Gain:
    compute = compute_roof(session.ceilings, "float32")
    memory = memory_roof(session.ceilings)
    if compute and memory and not isinstance(found, Unknown):
        saved = 0.0
        for node in nodes:
            cost = tree.costs[node]
            products = cost.flops / compute
            now = bytes_moved(cost) / memory
            # Activations are read once more, and written in 8 bits.
            then = (
                cost.weight_bytes * _KEPT + cost.output_bytes + 2.25 * cost.input_bytes
            ) / memory
            saved += max(max(products, now) - max(products, then), 0.0)
        if time_share.share_of(saved, found.whole) >= time_share.LEAST_SHARE:
            formula = (
                f"reading a quarter of the weights' bytes saves {duration(saved)} of"
                f" {found.whole_text}; int8 matmuls may save more, their roof is not measured"
            )
            is_bound = any(own_dependence(tree, node) == "at most" for node in nodes)
            share = time_share.share_of(saved, found.whole)
            return Gain("time", share, formula, "estimated", is_bound)
    return time_share.gain(
        found,
        "these layers take {}; the int8 roof is not measured",
        "the time of reading weights, a quarter of it kept",
        is_bound=True,
    )
