"""``fold-conv-bn``, ``remove-dropout-identity``: modules that inference can do without.

Batch norms in eval mode can be folded into the convolution before them. Source: Jacob et al., arXiv
1712.05877, section 3.2; ``torch.nn.utils.fusion.fuse_conv_bn_eval``.
"""

from tui_profiler.findings.evidence import quantities, time_share
from tui_profiler.findings.evidence.finding import Evidence, Finding, check, counted
from tui_profiler.findings.evidence.graph import (
    BATCH_NORMS,
    CONVOLUTIONS,
    graph,
    is_evaluating_norm,
    operators,
)
from tui_profiler.messages import Unknown
from tui_profiler.queries.time.node_seconds import root_seconds
from tui_profiler.session import Session, Tree


@check(
    "fold-conv-bn",
    holds_in="inference",
    reads=(quantities.TREE,),
    uses=quantities.TIME_OF_NODES,
)
def fold_conv_bn(session: Session) -> Finding | None:
    """Find batch norms that are the only consumer of a convolution.

    The nodes are the batch norms: modules, or operators where a forward calls the functional form.
    """
    tree = session.tree
    norms = _foldable(tree) if tree is not None else ()
    found = time_share.spent(session, norms)
    if tree is None or not norms or time_share.is_negligible(found):
        return None
    moved = sum(tree.costs[node].input_bytes + tree.costs[node].output_bytes for node in norms)
    return Finding(
        kind="fold-conv-bn",
        title=f"fold {counted(len(norms), 'batch norm')} into convolutions",
        why=(
            "In eval mode, a batch norm is a per-channel scale and shift that can be folded into"
            " the weights of the preceding convolution. Only rounding changes."
        ),
        nodes=time_share.slowest_first(session, norms),
        evidence=(
            Evidence("batch norms after a convolution", len(norms), "count", "derived"),
            Evidence("activations that they read and write", moved, "B", "derived"),
            *time_share.evidence(found),
        ),
        gains=(
            time_share.gain(
                found,
                "batch norms take {}; folding removes this time",
                "the batch norms' share of a forward",
            ),
        ),
    )


def _foldable(tree: Tree) -> tuple[int, ...]:
    edges = graph(tree)
    found = []
    for norm in operators(tree, BATCH_NORMS):
        node = tree.nodes[norm]
        writer = edges.only_writer(norm)
        if writer is None or tree.nodes[writer].name not in CONVOLUTIONS:
            continue
        # A second call in the same forward may have another consumer.
        once = node.calls == tree.nodes[writer].calls == 1
        if once and edges.only_reader(writer) == norm and is_evaluating_norm(node):
            is_module = node.parent >= 0 and "BatchNorm" in tree.nodes[node.parent].type
            found.append(node.parent if is_module else norm)
    return tuple(found)


_TYPES = ("Dropout", "DropPath", "StochasticDepth", "FeatureAlphaDropout", "AlphaDropout")


@check(
    "remove-dropout-identity",
    holds_in="inference",
    reads=(quantities.TREE,),
    uses=quantities.TIME_OF_NODES,
)
def remove_dropout_identity(session: Session) -> Finding | Unknown | None:
    """Find Dropout and Identity modules that run no operator."""
    tree = session.tree
    if tree is None:
        return None
    nodes = tuple(
        index
        for index, node in enumerate(tree.nodes)
        if node.kind == "module"
        and node.calls
        and (node.type.startswith(_TYPES) or node.type == "Identity")
        and tree.costs[index].ops == 0
    )
    # By the roofs they take no time: only the module clock measures the cost of the calls.
    if nodes and root_seconds(session) is None:
        return time_share.NO_TIME
    found = time_share.spent(session, nodes)
    if not nodes or time_share.is_negligible(found):
        return None
    calls = sum(tree.nodes[node].calls for node in nodes)
    return Finding(
        kind="remove-dropout-identity",
        title=f"remove {counted(len(nodes), 'no-op module')}",
        why=(
            "In eval mode, Dropout and Identity return their input; they cost the Python call of"
            " the module. Outputs are bit-identical."
        ),
        nodes=time_share.slowest_first(session, nodes),
        evidence=(
            Evidence("no-op calls per forward", calls, "count", "derived"),
            *time_share.evidence(found, "time of those calls"),
        ),
        gains=(
            time_share.gain(
                found,
                "calling them takes {}; removing them saves this time",
                "the modules' share of a forward",
            ),
        ),
    )
