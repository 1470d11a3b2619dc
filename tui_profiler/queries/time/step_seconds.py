"""Seconds of a node in a training step: forward, backward, and what checkpointing runs again."""

from collections.abc import Iterator
from typing import NamedTuple

from tui_profiler.messages import Figure, Unknown, known
from tui_profiler.queries.time.operator_seconds import operator_seconds
from tui_profiler.session import Session, Tree
from tui_profiler.session.training import NodeStep, StepColumns


class NodeShare(NamedTuple):
    """A node in a training step; seconds per step, and its share of the step."""

    forward: float
    backward: float
    recomputed: Figure
    own: float
    """Without modules called inside, and without recomputation where that is unknown."""
    share: Figure
    own_share: Figure
    """Without modules called inside; both unknown where recomputation is."""


def node_share(session: Session, node: int) -> NodeShare | None:
    """Return what a node takes of a step; None where it was not called in recorded steps.

    A container that is never called itself, such as a ModuleList, takes what its children take.
    What is run again counts to all modules around it.
    """
    if session.training is None:
        return None
    times = list(_times(session.training, session.tree, node))
    seconds = known(session.training.step.seconds)
    if not times or not seconds:
        return None
    own = times[0].own if session.training.of(node) is not None else 0.0
    forward = sum(one.forward for one in times)
    backward = sum(one.backward for one in times)
    recomputed = sum(one.recomputed for one in times)
    if session.tree is not None and node < len(session.tree):
        recomputed = session.training.recomputed_in(node, session.tree.ends[node])
    unknown = session.training.step.recompute
    if isinstance(unknown, Unknown):
        return NodeShare(forward, backward, unknown, own, unknown, unknown)
    whole = forward + backward + recomputed
    return NodeShare(forward, backward, recomputed, own, whole / seconds, own / seconds)


def directions(session: Session, node: int) -> tuple[float, float]:
    """Return the seconds of a node in a step in the forward and in the backward, 0 where unknown.

    As of ``node_share``; what checkpointing runs again counts to the backward.
    """
    training, tree = session.training, session.tree
    if training is None or tree is None:
        return 0.0, 0.0
    if not training.has_recomputed and (found := training.directions_of(node)) is not None:
        return found
    whole = node_share(session, node)
    if whole is None:
        return 0.0, 0.0
    return whole.forward, whole.backward + (known(whole.recomputed) or 0.0)


def timed_backward(session: Session, node: int) -> NodeShare | None:
    """Return the same; None also where its backward was not timed."""
    found = node_share(session, node)
    if found is None or session.training is None:
        return None
    return found if found.backward or not session.training.step.why_no_backward else None


def step_forward(session: Session, node: int) -> float | None:
    """Return the seconds of a step in the forwards of a node; None where they are not known.

    An operator has that part of its module's that it has of the module's self time in a forward.
    """
    training, tree, timings = session.training, session.tree, session.timings
    if training is None or tree is None or tree.nodes[node].kind == "module":
        found = node_share(session, node)
        return None if found is None else found.forward
    operators = operator_seconds(session)
    seconds = None if operators is None else operators.of(node)
    if operators is None or seconds is None or timings is None:
        return None
    module = operators.module(node)
    of_step, own = training.of(module), timings.own_per_forward(module)
    return seconds * of_step.own_forward / own if of_step is not None and own else None


def _times(training: StepColumns, tree: Tree | None, node: int) -> Iterator[NodeStep]:
    """Yield the times of a node, or else those of the nearest inside of it that have some."""
    if (own := training.of(node)) is not None:
        yield own
    elif tree is not None:
        for child in tree.modules_in(node):
            yield from _times(training, tree, child)
