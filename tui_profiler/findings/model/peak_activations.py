"""``peak-activations``: memory that goes to what a forward computes, not to its weights."""

from __future__ import annotations

from tui_profiler.figures.units import size
from tui_profiler.findings.evidence.finding import Evidence, Finding, Gain, check
from tui_profiler.findings.evidence.time_share import share_of
from tui_profiler.messages import PeakMemory, Unknown, known
from tui_profiler.queries.cost.totals import peak_bytes
from tui_profiler.session import Session, Tree

APPLIES_ABOVE = 0.5
"""Of the peak."""
_MOST_TENSORS = 5


@check("peak-activations", holds_in="inference")
def peak_activations(session: Session) -> Finding | None:
    """Find a peak of which activations and workspace are more than half."""
    tree = session.tree
    peak = tree.done.peak_memory if tree is not None and tree.done is not None else None
    whole = known(peak_bytes(peak)) if peak is not None else None
    if tree is None or peak is None or not whole:
        return None
    activations, workspace = known(peak.activations) or 0.0, known(peak.workspace) or 0.0
    if share_of(activations + workspace, whole) < APPLIES_ABOVE:
        return None
    return Finding(
        kind="peak-activations",
        title="activations dominate peak memory",
        why=(
            "A smaller batch, 16-bit activations, or freeing the largest tensors before the"
            " operator at the peak lower it; smaller weights hardly do."
        ),
        nodes=_makers(tree, peak),
        evidence=(
            Evidence("activations at the peak", peak.activations, "B", "derived"),
            Evidence("scratch memory of the operator at the peak", peak.workspace, "B", "derived"),
            Evidence("parameters", peak.parameters, "B", "derived"),
            *_largest(tree, peak),
        ),
        gains=(_gain(session, activations, whole),),
        why_no_trial="which tensors may go earlier is in the model's own code",
    )


def _gain(session: Session, activations: float, whole: float) -> Gain:
    batch = session.loop.batch if session.loop is not None else None
    batch = batch or (session.model.batch if session.model is not None else None)
    wide = session.tree is not None and any(
        tensor.dtype in ("float32", "float64") for tensor in session.tree.nodes[0].outputs
    )
    if (batch or 0) > 1 or wide:
        how = "a batch half as large" if (batch or 0) > 1 else "in 16 bits"
        formula = f"{how} halves {size(activations)} of a peak of {size(whole)}"
        return Gain("memory", share_of(activations / 2, whole), formula, "estimated")
    return Gain("memory", Unknown("batch 1 in 16 bits already"), "half of the activations")


def _makers(tree: Tree, peak: PeakMemory) -> tuple[int, ...]:
    """Return the operators that made the largest tensors at the peak, then the one at the peak."""
    makers = [node for node, _ in peak.alive[:_MOST_TENSORS] if 0 <= node < len(tree)]
    at = [peak.at] if 0 <= peak.at < len(tree) else []
    return tuple(dict.fromkeys((*makers, *at))) or (0,)


def _largest(tree: Tree, peak: PeakMemory) -> tuple[Evidence, ...]:
    named = [(node, held) for node, held in peak.alive[:_MOST_TENSORS] if 0 <= node < len(tree)]
    return tuple(
        Evidence(f"alive at the peak, of {tree.nodes[node].path}", held, "B", "derived")
        for node, held in named[:3]
    )
