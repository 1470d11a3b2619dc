"""What the backward of every part reaches of what this machine can do, as ``roofline`` does.

Parts are the leaf modules whose backward was timed and whose work is known: operators have no time
of their own in the backward. Seconds and work are of one pass (``backward_bound``).
"""

import math

from msgspec.structs import replace

from tui_profiler.messages import Cost, known
from tui_profiler.queries.cost import bound, roofline
from tui_profiler.queries.cost.ceilings import usable_roofs
from tui_profiler.queries.cost.roofline_view import Work
from tui_profiler.queries.time.step_seconds import directions
from tui_profiler.queries.training.backward_bound import (
    backward_bound,
    moved_by,
    waiting_share,
    work_of,
)
from tui_profiler.session import Session
from tui_profiler.session.training import NO_COST


def _parts(session: Session) -> roofline.Parts | None:
    tree, cost, ceilings = session.tree, session.training_cost, session.ceilings
    if tree is None or cost is None or cost.cost.why:
        return None
    found: list[tuple[int, Cost]] = []
    for node in roofline.part_nodes(tree):
        at = tree.nodes[node]
        work = work_of(cost.of(node) or NO_COST)
        if at.kind == "module" and not at.is_opaque and (work.flops or bound.bytes_moved(work)):
            found.append((node, work))
    nodes, costs = [node for node, _ in found], [work for _, work in found]
    if ceilings is None or not bound.has_roofs(ceilings):
        return roofline.parts_of(tree, nodes, costs, None, [])
    roofs, all_weights = usable_roofs(ceilings), tree.costs[0].parameter_bytes
    moved = [moved_by(roofs, work, all_weights) for work in costs]
    return roofline.parts_of(tree, nodes, costs, roofs, moved)


def _seconds(session: Session, node: int) -> float:
    """Return what one backward pass takes in a node; 0 where that is not known."""
    training = session.training
    found = None if training is None else training.of(node)
    if training is None or found is None:
        return 0.0
    return found.backward / max(training.step.passes, 1.0)


def _reached(session: Session, found: roofline.Parts) -> roofline.Achieved:
    seconds = [_seconds(session, node) for node in found.nodes]
    on_core = 1.0 if session.training is None else 1.0 - waiting_share(session.training)
    whole = _seconds(session, 0) or None
    return roofline.achieved(found, seconds, [each * on_core for each in seconds], whole)


def _node(
    session: Session, found: roofline.Parts, now: roofline.Achieved, node: int
) -> roofline.NodeRoofline:
    tree, cost = session.tree, session.training_cost
    assert tree is not None
    work = work_of((cost.of(node) if cost is not None else None) or NO_COST)
    seconds = _seconds(session, node) or None
    judged = backward_bound(session, node) if seconds else None
    figures = roofline.figures_of(tree, (found, now), node, work, (seconds, judged))
    step = None if session.training is None else known(session.training.step.seconds)
    of_step = directions(session, 0)[1] / step if step else 0.0
    return replace(figures, gain=figures.gain and figures.gain * of_step)


BACKWARD = Work(
    parts=_parts,
    parts_from=lambda session: (session.tree, session.ceilings, session.training_cost),
    reached=_reached,
    times_from=lambda session: (session.training,),
    at=lambda session: -math.inf if session.training is None else session.training.step.at,
    node=_node,
)
