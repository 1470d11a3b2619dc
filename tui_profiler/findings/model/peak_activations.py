"""``peak-activations``: activations and workspace are most of the peak, not the weights."""

from tui_profiler.figures.units import size
from tui_profiler.findings.evidence import quantities
from tui_profiler.findings.evidence.finding import Evidence, Finding, Gain, check
from tui_profiler.findings.evidence.memory import batch_of, memory_gain, peak_of
from tui_profiler.findings.evidence.time_share import share_of
from tui_profiler.messages import PeakMemory, Unknown, known
from tui_profiler.session import Session, Tree

APPLIES_ABOVE = 0.5
"""Of the peak."""
_MOST_TENSORS = 5


@check(
    "peak-activations",
    holds_in="inference",
    reads=(quantities.TREE, quantities.PEAK),
    uses=(quantities.BATCH,),
)
def peak_activations(session: Session) -> Finding | None:
    """Find a peak of which activations and workspace are more than half."""
    tree = session.tree
    whole = peak_of(tree) if tree is not None else None
    if tree is None or tree.done is None or not whole:
        return None
    peak = tree.done.peak_memory
    activations, workspace = known(peak.activations), known(peak.workspace)
    if activations is None or workspace is None:
        return None
    if share_of(activations + workspace, whole) < APPLIES_ABOVE:
        return None
    live = [(node, held) for node, held in peak.alive[:_MOST_TENSORS] if 0 <= node < len(tree)]
    return Finding(
        kind="peak-activations",
        title="activations dominate peak memory",
        why=(
            f"{'A smaller batch, ' if (batch_of(session) or 0) > 1 else ''}16-bit activations or"
            " freeing the largest tensors before the operator at the peak lower it; smaller weights"
            " hardly do."
        ),
        nodes=_producers(tree, peak),
        evidence=(
            Evidence("activations at the peak", peak.activations, "B", "derived"),
            Evidence("workspace of the operator at the peak", peak.workspace, "B", "derived"),
            Evidence("parameters", peak.parameters, "B", "derived"),
            *(
                Evidence(f"live at the peak: {tree.nodes[node].path}", held, "B", "derived")
                for node, held in live[:3]
            ),
        ),
        gains=(_gain(session, tree, activations),),
        why_no_trial="the model's code decides when a tensor can be freed",
    )


def _gain(session: Session, tree: Tree, activations: float) -> Gain:
    has_items = (batch_of(session) or 0) > 1
    is_wide = any(tensor.dtype in ("float32", "float64") for tensor in tree.nodes[0].outputs)
    if has_items or is_wide:
        how = "half the batch size" if has_items else "16 bits"
        formula = f"{how}: half of {size(activations)} of activations"
        return memory_gain(tree, activations / 2, formula, "estimated")
    batch = "batch 1" if batch_of(session) == 1 else "no known batch axis"
    return Gain("memory", Unknown(f"{batch}, in 16 bits already"), "half of the activations")


def _producers(tree: Tree, peak: PeakMemory) -> tuple[int, ...]:
    """Return the producers of the largest tensors at the peak, then the operator at the peak."""
    nodes = (*(node for node, _ in peak.alive[:_MOST_TENSORS]), peak.at)
    return tuple(dict.fromkeys(node for node in nodes if 0 <= node < len(tree))) or (0,)
