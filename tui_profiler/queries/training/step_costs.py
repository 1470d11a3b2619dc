"""A training step on paper: what it costs, its memory, and how much of the roof a step attains.

1. A step is as many passes as it has: of our own loop those that were asked for, of a program's the
   mean of its recorded steps. All passes cost what the recorded one did.
2. Model FLOPs are two per multiply-accumulate of forward and backward: matrix products,
   convolutions and attention, as PaLM counts them (Chowdhery et al. 2022, appendix B). Hardware
   FLOPs add what the backward computes again: by checkpointing, and the scores of fused attention.
   Each per second of the mean step over the roof of the dtype that most of them are in.
"""

import math
from collections import Counter

from msgspec import Struct

from tui_profiler.messages import Checkpointing, Figure, PassCost, Unknown, known
from tui_profiler.queries.cost.bound import WHY_OPEN, known_macs, why_not_counted
from tui_profiler.queries.cost.ceilings import usable_roofs
from tui_profiler.session import Session, Tree
from tui_profiler.session.training import NodeCost

NOT_RECORDED = Unknown("no training step was recorded")
_NO_STEP = Unknown("no step was measured")


class StepFlops(Struct, frozen=True):
    """FLOPs of matrix products, convolutions and attention in one step."""

    model: int
    """Forward and backward, without what is computed again."""
    hardware: int
    """With it."""


class Utilisation(Struct, frozen=True):
    """What a step attains of a roof."""

    mfu: Figure
    """Model FLOPs per second over the roof, 0 to 1."""
    hfu: Figure
    """Hardware FLOPs per second over it."""
    dtype: str
    """Of the roof; empty where it was named."""
    roof: Figure
    """FLOP per second."""


def node_backward(session: Session, node: int) -> NodeCost | None:
    """Return what the backward of a node costs in one pass; None where that is not known."""
    return None if session.training_cost is None else session.training_cost.of(node)


def gradient_bytes(session: Session, node: int) -> int | None:
    """Return the bytes of the gradients of a node's parameters; None where they are not known.

    Of a program's steps, of which none was recorded on paper, they are those of all parameters with
    ``requires_grad``, as if each got a dense gradient of its dtype: ``is_at_most`` then.
    """
    if (recorded := node_backward(session, node)) is not None:
        return recorded.gradient_bytes
    if session.training is None or session.tree is None:
        return None
    cost = session.tree.costs[node]
    if cost.trainable is None:
        return None
    whole = cost.parameters or 1
    return math.ceil(cost.parameter_bytes * cost.trainable / whole)


def is_at_most(session: Session) -> bool:
    """Tell whether ``gradient_bytes`` are those of all parameters that may get a gradient."""
    return node_backward(session, 0) is None


def why_no_backward(session: Session) -> str:
    """Return why no node has a cost of its backward; empty where they have."""
    if session.training_cost is None:
        return NOT_RECORDED.reason
    return session.training_cost.cost.why


def passes(session: Session) -> tuple[float, float] | None:
    """Return forwards and backward passes of one step; None where they are not known."""
    cost = session.training_cost
    if cost is not None and cost.cost.spec is not None:
        return float(cost.cost.spec.accumulate), float(cost.cost.spec.accumulate)
    if session.training is None:
        return None
    step = session.training.step
    return step.forwards, step.passes


def step_flops(session: Session) -> StepFlops | Unknown:
    """Return the FLOPs of one step by rule 2."""
    cost, tree = session.training_cost, session.tree
    if cost is None or tree is None or not len(tree):
        return NOT_RECORDED
    if cost.cost.why:
        return Unknown(cost.cost.why)
    count = passes(session)
    if count is None:
        return _NO_STEP
    if known_macs(tree.costs[0]) is None:
        return Unknown(why_not_counted(tree))
    forwards, backwards = count
    backward = cost.cost.backward.macs + cost.cost.loss_backward.macs
    forward = tree.costs[0].macs + cost.cost.loss_forward.macs
    model = 2 * (forwards * forward + backwards * backward)
    return StepFlops(round(model), round(model + 2 * backwards * cost.cost.recomputed.macs))


def utilisation(session: Session) -> Utilisation:
    """Return what a measured step attains of the roof, by rule 2."""
    flops = step_flops(session)
    roof, dtype = _roof(session)
    depends = session.tree.depends(0) if session.tree is not None else None
    if depends is not None and not isinstance(flops, Unknown):
        flops = Unknown(WHY_OPEN[depends])
    if isinstance(flops, Unknown):
        return Utilisation(flops, flops, dtype, roof)
    seconds = known(step_seconds(session))
    if not seconds:
        return Utilisation(_NO_STEP, _NO_STEP, dtype, roof)
    if isinstance(roof, Unknown):
        return Utilisation(roof, roof, dtype, roof)
    return Utilisation(flops.model / seconds / roof, flops.hardware / seconds / roof, dtype, roof)


def step_seconds(session: Session) -> Figure:
    """Return the mean time of a measured step."""
    return _NO_STEP if session.training is None else session.training.step.seconds


def _roof(session: Session) -> tuple[Figure, str]:
    """Return FLOP per second at most, and of which dtype."""
    cost = session.training_cost
    spec = cost.cost.spec if cost is not None else None
    if spec is not None and spec.peak_flops is not None:
        return spec.peak_flops, ""
    dtype = compute_dtype(session.tree)
    if dtype is None:
        return Unknown("no operator has multiply-accumulates"), ""
    if session.ceilings is None:
        return Unknown("the roofline is not calibrated"), dtype
    roofs = usable_roofs(session.ceilings)
    found = roofs.compute.get(dtype)
    if found is None:
        why = roofs.not_good.get(dtype) or roofs.unknown.get(dtype) or "it has no roof"
        return Unknown(f"{dtype}: {why}"), dtype
    return found, dtype


def compute_dtype(tree: Tree | None) -> str | None:
    """Return the dtype that most multiply-accumulates of a forward are in; None without any."""
    if tree is None:
        return None
    found: Counter[str] = Counter()
    for node, cost in zip(tree.nodes, tree.costs, strict=True):
        if node.kind == "op" and cost.macs and node.outputs:
            found[node.outputs[0].dtype] += cost.macs
    return found.most_common(1)[0][0] if found else None


def bytes_of(cost: PassCost) -> int:
    """Return the bytes that operators move."""
    return cost.input_bytes + cost.weight_bytes + cost.output_bytes


def peak_bytes(session: Session) -> Figure:
    """Return the most that a step has alive at once, with workspace."""
    if session.training_memory is None:
        return NOT_RECORDED
    memory = session.training_memory.memory
    workspace = memory.workspace
    return workspace if isinstance(workspace, Unknown) else memory.peak + workspace


def best_checkpointing(session: Session) -> tuple[Checkpointing, ...]:
    """Return what lowers the peak, most first; none where nothing does."""
    if session.training_memory is None:
        return ()
    memory = session.training_memory.memory
    whole = memory.peak + (known(memory.workspace) or 0)
    return tuple(one for one in memory.checkpointing if one.peak < whole)
