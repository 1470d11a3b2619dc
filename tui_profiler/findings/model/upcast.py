"""``upcast``: casts and operators in a wider dtype than the weights."""

from tui_profiler.findings.evidence import time_share
from tui_profiler.findings.evidence.finding import Evidence, Finding, check, counted
from tui_profiler.messages import Node
from tui_profiler.queries.cost.bound import node_dtype
from tui_profiler.session import Session, Tree

_BITS = {"float16": 16, "bfloat16": 16, "float32": 32, "float64": 64}
_CASTS = frozenset({"aten::_to_copy", "aten::to"})
_LEAST_VALUES = 1024
"""Of a tensor: scalars in float64 come from Python, and cost nothing."""


@check("upcast", holds_in="both")
def upcast(session: Session) -> Finding | None:
    """Find casts to a wider dtype, and operators in a wider dtype than the weights.

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
    written = sum(tree.costs[node].output_bytes for node in nodes)
    return Finding(
        kind="upcast",
        title=f"keep {counted(len(nodes), 'operator')} in {own}",
        why=(
            f"The weights are {own}, but some tensors have a wider dtype, which costs compute and"
            " memory traffic. Some reductions need the precision: check the output."
        ),
        nodes=time_share.slowest_first(session, nodes),
        evidence=(
            Evidence("casts to a wider dtype", len(casts), "count", "derived"),
            Evidence("operators in a wider dtype", len(wide), "count", "derived"),
            Evidence("bytes that they write", written, "B", "derived"),
        ),
        gains=(
            time_share.gain(
                time_share.spent(session, nodes),
                f"casts and wider operators take {{}}; in {own}, at most all of it is saved",
                "the share of a forward that they take",
                is_bound=True,
            ),
        ),
        why_no_trial="only the model's author knows which of them need the precision",
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
