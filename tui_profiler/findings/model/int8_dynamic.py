"""``int8-dynamic``: linear layers with weights in eight bits, activations quantised as they come.

Of time only what fewer bytes of weights save can be predicted: what this machine multiplies in
eight bits is not among its measured roofs. Where the products themselves hold a layer back, its
whole time is the bound.
"""

from __future__ import annotations

from tui_profiler.figures.units import duration, size
from tui_profiler.findings.evidence.affected_operators import (
    compute_roof,
    matrix_parts,
    memory_roof,
    moved,
)
from tui_profiler.findings.evidence.figure_text import counted
from tui_profiler.findings.evidence.finding import Evidence, Finding, Gain, check
from tui_profiler.findings.evidence.time_share import (
    LEAST_SHARE,
    TimeSpent,
    share_of,
    slowest_first,
    spent,
)
from tui_profiler.messages import Unknown, known
from tui_profiler.queries.cost.breakdown import OpType
from tui_profiler.queries.cost.totals import peak_bytes
from tui_profiler.session import Session, Tree

_LAYERS: frozenset[OpType] = frozenset({"Linear", "recurrent"})
_KEPT = 0.25
"""Of the bytes of weights: eight bits of 32."""


@check("int8-dynamic", holds_in="inference")
def int8_dynamic(session: Session) -> Finding | None:
    """Find linear and recurrent layers in float32 on a processor."""
    tree = session.tree
    if tree is None or session.model is None or session.model.device != "cpu":
        return None
    nodes = _layers(session, tree)
    weights = sum(_weight_bytes(tree, node) for node in nodes)
    if not nodes or not weights:
        return None
    found = spent(session, nodes)
    time = _time(session, tree, nodes, found)
    memory = _memory(tree, weights)
    shares = [known(gain.share) for gain in (time, memory)]
    if all(share is not None and share < LEAST_SHARE for share in shares):
        return None
    measured = () if isinstance(found, Unknown) else (found.evidence("their time per forward"),)
    return Finding(
        kind="int8-dynamic",
        title=f"int8 weights in {counted(len(nodes), 'linear layer')}",
        why=(
            "Weights in eight bits are a quarter of the bytes that every forward reads. Activations"
            " are quantised on the way, which costs time, and the outputs lose digits."
        ),
        nodes=slowest_first(session, nodes),
        evidence=(
            Evidence("linear and recurrent layers in float32", len(nodes), "count", "derived"),
            Evidence("bytes of their weights", weights, "B", "derived"),
            *measured,
        ),
        gains=(time, memory),
        trial="int8-dynamic",
    )


def _layers(session: Session, tree: Tree) -> tuple[int, ...]:
    return tuple(
        part.node
        for part in matrix_parts(session, tree, _LAYERS)
        if tree.nodes[part.node].kind == "module" and _weight_bytes(tree, part.node)
    )


def _weight_bytes(tree: Tree, node: int) -> int:
    weights = tree.nodes[node].weights
    wide = (one for one in weights if not one.is_buffer and one.dtype == "float32")
    return sum(one.bytes for one in wide if len(one.shape) > 1)


def _time(session: Session, tree: Tree, nodes: tuple[int, ...], found: TimeSpent | Unknown) -> Gain:
    if isinstance(found, Unknown):
        return Gain("time", found, "the time of reading weights, a quarter of it kept")
    compute = compute_roof(session.ceilings, "float32")
    memory = memory_roof(session.ceilings)
    if compute and memory:
        saved = 0.0
        for node in nodes:
            cost = tree.costs[node]
            products = cost.flops / compute
            now = moved(cost) / memory
            # Activations are read once more, to be written in eight bits.
            then = (
                cost.weight_bytes * _KEPT + cost.output_bytes + 2.25 * cost.input_bytes
            ) / memory
            saved += max(max(products, now) - max(products, then), 0.0)
        if share_of(saved, found.whole) >= LEAST_SHARE:
            formula = (
                f"a quarter of the weights' bytes saves {duration(saved)} of {found.whole_text};"
                " products in eight bits may save more, their roof is not measured"
            )
            return Gain("time", share_of(saved, found.whole), formula, "estimated")
    formula = f"these layers take {found.text}; this machine's roof in int8 is not measured"
    return found.gain(formula, is_bound=True)


def _memory(tree: Tree, weights: int) -> Gain:
    whole = peak_bytes(tree.done.peak_memory) if tree.done is not None else None
    if whole is None or isinstance(whole, Unknown) or not whole:
        return Gain("memory", Unknown("the peak is not known"), "three quarters of those weights")
    saved = weights * (1 - _KEPT)
    formula = f"three quarters of {size(weights)} of weights, of a peak of {size(whole)}"
    return Gain("memory", share_of(saved, whole), formula, "estimated")
