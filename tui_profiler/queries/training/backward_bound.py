"""What limits the backward of a node: its work in one pass against the roofs of this machine.

1. The rules are those of a forward (``queries/cost/bound.py``), with what the backward of the own
   operators of a module costs in place of the forward, and its own seconds in the backward.
2. Costs are of one pass: seconds of a step are divided by its backward passes. What checkpointing
   runs again is in neither.
3. Which level of memory holds the data follows from what an operator moves in the mean: the work of
   the backward is known by module, not by operator.
4. Waiting for a core is known of the whole step: it is taken off evenly. What the thread did in
   the backward of a module is not read: its own seconds are those of operators.
5. Of compiled code it is not known which operators the backward runs: it has no class.
"""

import math
from array import array
from collections.abc import Generator

from msgspec.structs import replace

from tui_profiler.figures.units import dtype as short_dtype
from tui_profiler.figures.units import share as share_text
from tui_profiler.messages import Ceilings, Cost, known
from tui_profiler.queries.cost import bound
from tui_profiler.queries.cost.bound import Bound, ClassSeconds, Limits
from tui_profiler.queries.cost.bound_classes import KINDS, BoundKind
from tui_profiler.queries.cost.ceilings import UsableRoofs, usable_roofs
from tui_profiler.queries.cost.incremental import STEP, Incremental, sums_in_steps
from tui_profiler.queries.time.repeated_siblings import Steps
from tui_profiler.queries.time.step_seconds import timed_backward
from tui_profiler.queries.training.step import why_no_step
from tui_profiler.queries.training.step_costs import why_no_backward
from tui_profiler.session import Session, Tree
from tui_profiler.session.training import NO_COST, CostColumns, NodeCost, StepColumns


def backward_bound(session: Session, node: int, steps: Steps = ()) -> Bound | None:
    """Return the class of a module's backward; None where ``why_no_backward_bound`` says why.

    Args:
        session: whose node it is.
        node: its index.
        steps: the runs that it lies in where its row sums over them; then only class and mix.
    """
    found = backward_mixes(session)
    tree, cost, ceilings = session.tree, session.training_cost, session.ceilings
    if found is None or tree is None or cost is None or ceilings is None:
        return None
    parts = found.of(node, steps)
    kind = bound.largest(parts)
    if kind is None:
        return None
    whole = sum(parts)
    *shares, open_share = (each / whole for each in parts)
    waits = found.waiting_share(node, steps)
    judged = Bound(kind, measured=True, mix=tuple(shares), waiting=waits, not_decided=open_share)
    if steps or bound.holds_work(tree, node):
        part = share_text(shares[KINDS.index(kind)])
        reason = f"{part} of its time is {bound.phrase(kind)}"
        return replace(judged, is_container=True, reason=reason)
    return _with_figures(judged, work_of(cost.of(node) or NO_COST), tree, node, whole, ceilings)


def why_no_backward_bound(session: Session) -> str:
    """Return why no backward has a class; empty where one may have."""
    if session.training is None:
        return why_no_step(session)
    if session.training.step.why_no_backward and timed_backward(session, 0) is None:
        return session.training.step.why_no_backward
    if session.training_cost is None:
        return "the work of the backward is known with --train only"
    if why := why_no_backward(session):
        return why
    if session.ceilings is None or not bound.has_roofs(session.ceilings):
        return "the roofline is not calibrated"
    return ""


def work_of(cost: NodeCost) -> Cost:
    """Return what the backward of a node costs in one pass, as the cost of a forward is told."""
    return Cost(
        parameters=0,
        parameter_bytes=0,
        macs=cost.macs,
        flops=cost.flops,
        input_bytes=cost.input_bytes,
        weight_bytes=cost.weight_bytes,
        output_bytes=cost.output_bytes,
        ops=cost.ops,
        uncosted=cost.uncosted,
    )


def moved_by(roofs: UsableRoofs, work: Cost, all_weights: int) -> bound.MoveSeconds:
    """Return the least time of moving the bytes of a backward, by rule 3."""
    activations, weights = work.input_bytes + work.output_bytes, work.weight_bytes
    if not roofs.levels or not activations + weights:
        return bound.MoveSeconds(0.0, 0.0)
    moved = (activations, weights, max(work.ops, 1), all_weights)
    seconds = roofs.memory_seconds(*moved)
    if seconds is None:
        return bound.MoveSeconds(0.0, roofs.memory_seconds_at_most(*moved))
    return bound.MoveSeconds(seconds, 0.0)


def backward_mixes(session: Session) -> ClassSeconds | None:
    """Return the seconds of one pass by class, of all nodes; None where nothing can be said."""
    tree, training, cost = session.tree, session.training, session.training_cost
    if tree is None or training is None or cost is None or why_no_backward_bound(session):
        return None
    return mixes(tree, limits(tree, session.ceilings, cost), training)


def waiting_share(training: StepColumns) -> float:
    """Return which share of a step the thread that trains waited for a core."""
    thread, seconds = training.step.thread, known(training.step.seconds)
    waiting = known(thread.waiting) if thread is not None else None
    return min(waiting / seconds, 1.0) if waiting and seconds else 0.0


@Incremental
def limits(tree: Tree, ceilings: Ceilings, cost: CostColumns) -> Generator[None, None, Limits]:
    """Return what explains the backward of every module's own operators, up to how many seconds."""
    roofs = usable_roofs(ceilings)
    all_weights = tree.costs[0].parameter_bytes if len(tree) else 0
    codes = bytearray([bound.NOT_DECIDED]) * len(tree)
    limit = array("d", [math.inf]) * len(tree)
    for index, node in enumerate(tree.nodes):
        if index % STEP == 0:
            yield
        if node.kind == "module" and not node.is_opaque:
            work = _own_work(tree, cost, index)
            dtype, moved = bound.node_dtype(tree, index), moved_by(roofs, work, all_weights)
            codes[index], limit[index] = bound.explained(
                work, roofs, dtype, moved, depends=bound.own_dependence(tree, index)
            )
    # Python in a backward is not read.
    return Limits(bytes(codes), limit, array("d", bytes(8 * len(tree))))


def _own_work(tree: Tree, cost: CostColumns, node: int) -> Cost:
    """Return the work of a module's backward without that of modules inside."""
    parts = [work_of(cost.of(child) or NO_COST) for child in tree.modules_in(node)]
    return bound.without(work_of(cost.of(node) or NO_COST), parts)


@Incremental
def mixes(tree: Tree, limits: Limits, training: StepColumns) -> Generator[None, None, ClassSeconds]:
    """Return the mixes of one message of steps."""
    own = tuple(array("d", bytes(8 * (len(tree) + 1))) for _ in (*KINDS, bound.NOT_DECIDED))
    waited = array("d", bytes(8 * (len(tree) + 1)))
    passes = max(training.step.passes, 1.0)
    waits, count = waiting_share(training), len(tree)
    for number, (node, spent) in enumerate(training.own_backward()):
        if number % STEP == 0:
            yield
        if node < count:
            seconds = spent / passes
            judged = seconds * (1.0 - waits)
            code = limits.codes[node] if judged <= limits.seconds[node] else bound.UNEXPLAINED
            own[code][node + 1] = judged
            waited[node + 1] = seconds - judged
    sums: tuple[array[float], ...] = ()
    for column in own:
        sums = (*sums, (yield from sums_in_steps(column)))
    return ClassSeconds(tree, sums, (yield from sums_in_steps(waited)))


def _with_figures(
    judged: Bound, work: Cost, tree: Tree, node: int, seconds: float, ceilings: Ceilings
) -> Bound:
    roofs, dtype = usable_roofs(ceilings), bound.node_dtype(tree, node)
    moved = moved_by(roofs, work, tree.costs[0].parameter_bytes)
    memory = moved.seconds if roofs.levels else None
    least = bound.least_seconds(work, roofs, dtype, memory)
    shares = {kind: time / seconds for kind, time in least.items()}
    return replace(
        judged,
        compute_share=shares.get("compute"),
        memory_share=shares.get("memory"),
        overhead_share=shares.get("overhead"),
        flops_per_second=work.flops / seconds,
        bytes_per_second=bound.bytes_moved(work) / seconds,
        intensity=bound.intensity(work),
        dtype=short_dtype(dtype),
        reason=_reason(judged.kind, shares, work),
    )


def _reason(kind: BoundKind, shares: dict[BoundKind, float], work: Cost) -> str:
    if kind == "unexplained" and work.uncosted:
        return f"work is a lower bound: {work.uncosted} of {work.ops} operators have no formula"
    if kind == "unexplained":
        return "neither compute- nor bandwidth-limited; cause unknown"
    return f"{share_text(shares.get(kind, 0.0))} of its time at the {kind} roof"
