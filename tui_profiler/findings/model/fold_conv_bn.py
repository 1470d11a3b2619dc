"""``fold-conv-bn``: a batch norm in evaluation is a scale and a shift that the convolution can do.

Source: Jacob et al., arXiv 1712.05877, section 3.2; ``torch.nn.utils.fusion.fuse_conv_bn_eval``.
"""

from __future__ import annotations

from tui_profiler.findings.evidence.figure_text import counted
from tui_profiler.findings.evidence.finding import Evidence, Finding, Gain, check
from tui_profiler.findings.evidence.graph import (
    BATCH_NORMS,
    CONVOLUTIONS,
    graph,
    is_evaluating_norm,
    operators,
)
from tui_profiler.findings.evidence.time_share import is_negligible, slowest_first, spent
from tui_profiler.messages import Unknown
from tui_profiler.session import Session, Tree


@check("fold-conv-bn", holds_in="inference")
def fold_conv_bn(session: Session) -> Finding | None:
    """Find batch norms that read a convolution which nothing else reads.

    The nodes are the batch norms: modules, or operators where a forward calls the function.
    """
    tree = session.tree
    norms = _foldable(tree) if tree is not None else ()
    found = spent(session, norms)
    if tree is None or not norms or is_negligible(found):
        return None
    moved = sum(tree.costs[node].input_bytes + tree.costs[node].output_bytes for node in norms)
    evidence = [
        Evidence(
            "batch norms that are the only consumer of a convolution",
            len(norms),
            "count",
            "derived",
        ),
        Evidence("activations that they read and write", moved, "B", "derived"),
    ]
    if isinstance(found, Unknown):
        gain = Gain("time", found, "the batch norms' share of a forward")
    else:
        gain = found.gain(f"batch norms take {found.text}; folding removes this time")
        evidence.append(found.evidence("their time per forward"))
    return Finding(
        kind="fold-conv-bn",
        title=f"fold {counted(len(norms), 'batch norm')} into convolutions",
        why=(
            "In eval mode, a batch norm is a per-channel scale and shift that can be folded into"
            " the weights of the preceding convolution. Only rounding changes."
        ),
        nodes=slowest_first(session, norms),
        evidence=tuple(evidence),
        gains=(gain,),
        trial="fold-conv-bn",
    )


def _foldable(tree: Tree) -> tuple[int, ...]:
    edges = graph(tree)
    found = []
    for norm in operators(tree, BATCH_NORMS):
        node = tree.nodes[norm]
        writer = edges.only_writer(norm)
        if writer is None or tree.nodes[writer].name not in CONVOLUTIONS:
            continue
        # What is called more than once in a forward may have another reader the second time.
        once = node.calls == tree.nodes[writer].calls == 1
        if once and edges.only_reader(writer) == norm and is_evaluating_norm(node):
            is_module = node.parent >= 0 and "BatchNorm" in tree.nodes[node.parent].type
            found.append(node.parent if is_module else norm)
    return tuple(found)
