"""``upcast``: tensors made wider on the way, in a model of narrower ones."""

from __future__ import annotations

from tui_profiler.findings.evidence.figure_text import counted
from tui_profiler.findings.evidence.finding import Evidence, Finding, Gain, check
from tui_profiler.findings.evidence.time_share import slowest_first, spent
from tui_profiler.messages import Node, Unknown
from tui_profiler.queries.cost.bound import node_dtype
from tui_profiler.session import Session, Tree

_BITS = {"float16": 16, "bfloat16": 16, "float32": 32, "float64": 64}
_CASTS = frozenset({"aten::_to_copy", "aten::to"})
_LEAST_VALUES = 1024
"""Of a tensor: scalars in float64 are Python's own, and cost nothing."""


@check("upcast", holds_in="both")
def upcast(session: Session) -> Finding | None:
    """Find casts to more bits, and floating work in more bits than the weights have.

    The nodes are operators.
    """
    tree = session.tree
    own = _weight_dtype(tree) if tree is not None else ""
    if tree is None or own not in _BITS:
        return None
    casts = [i for i, node in enumerate(tree.nodes) if _widens(node)]
    wide = [
        index
        for index, node in enumerate(tree.nodes)
        if node.kind == "op"
        and index not in casts
        and tree.costs[index].flops
        and _BITS.get(_written(node), 0) > _BITS[own]
    ]
    nodes = (*casts, *wide)
    if not nodes:
        return None
    found = spent(session, nodes)
    moved = sum(tree.costs[node].output_bytes for node in nodes)
    if isinstance(found, Unknown):
        gain = Gain("time", found, "the share of a forward that they take")
    else:
        formula = f"casts and wider work take {found.text}; in {own} at most all of it goes"
        gain = found.gain(formula, is_bound=True)
    return Finding(
        kind="upcast",
        title=f"keep {counted(len(nodes), 'operator')} in {own}",
        why=(
            f"The weights are {own}, but tensors become wider on the way, which is more to compute"
            " and to move. Some sums need the precision: check the output."
        ),
        nodes=slowest_first(session, nodes),
        evidence=(
            Evidence("casts to more bits", len(casts), "count", "derived"),
            Evidence("operators on wider values than the weights", len(wide), "count", "derived"),
            Evidence("wider values that they write", moved, "B", "derived"),
        ),
        gains=(gain,),
        why_no_trial="the model's author knows which need the precision",
    )


def _weight_dtype(tree: Tree) -> str:
    """Return the dtype of most bytes of parameters; empty where there are none."""
    found: dict[str, int] = {}
    for index, node in enumerate(tree.nodes):
        if any(not weight.is_buffer for weight in node.weights):
            name = node_dtype(tree, index)
            found[name] = found.get(name, 0) + sum(one.bytes for one in node.weights)
    return max(found, key=found.__getitem__, default="")


def _widens(node: Node) -> bool:
    if node.kind != "op" or node.name not in _CASTS or not node.inputs or not node.outputs:
        return False
    before, after = _BITS.get(node.inputs[0].dtype, 99), _BITS.get(_written(node), 0)
    return after > before


def _written(node: Node) -> str:
    """Return the dtype of what an operator writes, empty where that is next to nothing."""
    for tensor in node.outputs[:1]:
        bits = _BITS.get(tensor.dtype)
        if bits is not None and tensor.bytes * 8 >= bits * _LEAST_VALUES:
            return tensor.dtype
    return ""
