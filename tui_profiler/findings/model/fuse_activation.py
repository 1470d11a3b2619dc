"""``fuse-activation``: activations that can be fused into the preceding matmul or convolution."""

from tui_profiler.findings.evidence import time_share
from tui_profiler.findings.evidence.finding import Evidence, Finding, check, counted
from tui_profiler.findings.evidence.graph import Graph, graph
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
    """Find activations that are the only consumer of a linear layer or a convolution.

    The nodes are operators.
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
        # Of compiled or scripted code it is not known which operators are fused already.
        and not any(tree.nodes[above].is_opaque for above in tree.ancestors(index))
        and _product_before(tree, edges, index)
    )
    found = time_share.spent(session, nodes)
    if not nodes or time_share.is_negligible(found):
        return None
    moved = sum(tree.costs[node].input_bytes + tree.costs[node].output_bytes for node in nodes)
    return Finding(
        kind="fuse-activation",
        title=f"fuse {counted(len(nodes), 'activation')} into the preceding operator",
        why=(
            "A matmul or convolution kernel can apply the activation before it writes its output."
            " Eager PyTorch does not; a compiler or an inference engine does."
        ),
        nodes=time_share.slowest_first(session, nodes),
        evidence=(
            Evidence("activations after a matmul or convolution", len(nodes), "count", "derived"),
            Evidence("tensors that they read and write", moved, "B", "derived"),
            *time_share.evidence(found),
        ),
        gains=(
            time_share.gain(
                found,
                "they take {}; fused, they take no time at best",
                "the activations' share of a forward",
                is_bound=True,
            ),
        ),
        why_no_trial="eager PyTorch cannot fuse them; the compile trial does",
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
