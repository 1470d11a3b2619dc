"""``fuse-activation``: an activation that alone reads what a product wrote."""

from __future__ import annotations

from tui_profiler.findings.evidence.figure_text import counted
from tui_profiler.findings.evidence.finding import Evidence, Finding, Gain, check
from tui_profiler.findings.evidence.graph import Graph, graph
from tui_profiler.findings.evidence.time_share import is_negligible, slowest_first, spent
from tui_profiler.messages import Unknown
from tui_profiler.queries.cost.breakdown import op_type
from tui_profiler.session import Session, Tree

_ACTIVATION_NAMES = """aten::relu aten::relu_ aten::gelu aten::silu aten::silu_ aten::sigmoid
    aten::tanh aten::hardtanh aten::hardtanh_ aten::hardswish aten::hardswish_ aten::leaky_relu
    aten::leaky_relu_ aten::elu aten::mish"""
_ACTIVATIONS = frozenset(_ACTIVATION_NAMES.split())
_VIEWS = frozenset({"aten::view", "aten::_unsafe_view", "aten::reshape"})
_MOST_VIEWS = 4


@check("fuse-activation", holds_in="both")
def fuse_activation(session: Session) -> Finding | None:
    """Find activations right after a linear layer or a convolution, batch norms aside.

    The nodes are the activations' operators.
    """
    tree = session.tree
    if tree is None:
        return None
    edges = graph(tree)
    nodes = tuple(
        index
        for index, node in enumerate(tree.nodes)
        if node.kind == "op"
        and node.name in _ACTIVATIONS
        and node.calls == 1
        and _product_before(tree, edges, index)
    )
    found = spent(session, nodes)
    if not nodes or is_negligible(found):
        return None
    moved = sum(tree.costs[node].input_bytes + tree.costs[node].output_bytes for node in nodes)
    evidence = [
        Evidence("activations that alone read a product", len(nodes), "count", "derived"),
        Evidence("activations that they read and write", moved, "B", "derived"),
    ]
    if isinstance(found, Unknown):
        gain = Gain("time", found, "the activations' share of a forward")
    else:
        formula = f"they take {found.text}; fused into the preceding operator at best nothing"
        gain = found.gain(formula, is_bound=True)
        evidence.append(found.evidence("their time per forward"))
    return Finding(
        kind="fuse-activation",
        title=f"fuse {counted(len(nodes), 'activation')} into the preceding operator",
        why=(
            "A product can apply its activation to what it is about to write. Eager PyTorch has no"
            " call for that; a compiler or an inference engine does it."
        ),
        nodes=slowest_first(session, nodes),
        evidence=tuple(evidence),
        gains=(gain,),
        why_no_trial="eager PyTorch cannot fuse them: the trial of compile does",
    )


def _product_before(tree: Tree, edges: Graph, activation: int) -> bool:
    at = activation
    for _ in range(_MOST_VIEWS):
        writer = edges.only_writer(at)
        if writer is None or edges.only_reader(writer) != at or tree.nodes[writer].calls != 1:
            return False
        if op_type(tree.nodes[writer]) in ("Linear", "Conv1d", "Conv2d", "Conv3d"):
            return True
        if tree.nodes[writer].name not in _VIEWS:
            return False
        at = writer
    return False
