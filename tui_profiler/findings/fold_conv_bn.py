"""``fold-conv-bn``: a batch norm in evaluation is a scale and a shift that the convolution can do.

Source: Markuš, Fusing batch normalization and convolution in runtime, 2018;
``torch.nn.utils.fusion.fuse_conv_bn_eval``.
"""

from __future__ import annotations

from tui_profiler.findings.finding import Evidence, Finding, Gain
from tui_profiler.findings.graph import (
    BATCH_NORMS,
    CONVOLUTIONS,
    graph,
    is_evaluating_norm,
    operators,
)
from tui_profiler.findings.spent import spent
from tui_profiler.messages import Unknown
from tui_profiler.session import Session, Tree


def fold_conv_bn(session: Session) -> Finding | None:
    """Find batch norms that read a convolution which nothing else reads.

    The nodes are the batch norms: modules, or operators where a forward calls the function.
    """
    tree = session.tree
    if tree is None:
        return None
    norms = _foldable(tree)
    if not norms:
        return None
    found = spent(session, norms)
    if isinstance(found, Unknown):
        gain = Gain("time", found, "the share of a forward that the batch norms take")
        times: tuple[Evidence, ...] = ()
    else:
        formula = f"batch norms take {found.text} a forward, folded they take none"
        provenance = "derived" if found.is_measured else "estimated"
        gain = Gain("time", found.share, formula, provenance)
        times = (Evidence("their time a forward", found.seconds, "s", found.provenance),)
    moved = sum(tree.costs[node].input_bytes + tree.costs[node].output_bytes for node in norms)
    return Finding(
        kind="fold-conv-bn",
        title=f"fold {len(norms)} batch norm{'s' * (len(norms) != 1)} into convolutions",
        why=(
            "In evaluation a batch norm scales and shifts each channel, which the weights of the"
            " convolution before it can do at no cost. Only rounding changes."
        ),
        nodes=norms,
        evidence=(
            Evidence("batch norms that alone read a convolution", len(norms), "count", "derived"),
            Evidence("bytes that they move a forward", moved, "B", "derived"),
            *times,
        ),
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
            parent = node.parent
            is_module = "BatchNorm" in tree.nodes[parent].type
            found.append(parent if is_module else norm)
    return tuple(found)
