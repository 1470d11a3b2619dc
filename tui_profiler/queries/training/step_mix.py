"""Classes of a node's time in a step: those of its forward and of its backward together."""

from tui_profiler.messages import known
from tui_profiler.queries.cost.bound import NOT_DECIDED, node_parts
from tui_profiler.queries.cost.bound_classes import KINDS
from tui_profiler.queries.time.repeated_siblings import Steps, members
from tui_profiler.queries.time.step_seconds import node_share, step_forward
from tui_profiler.queries.training.backward_bound import backward_mixes
from tui_profiler.session import Session


def step_parts_by_class(session: Session, node: int, steps: Steps = ()) -> tuple[float, ...]:
    """Return a node's seconds per step by class, and last those whose class is not known.

    A forward and a backward without a class, and what checkpointing runs again, have none; all are
    0 where no part has a class.
    """
    each = tuple(members(node, steps))
    forward = sum(step_forward(session, one) or 0.0 for one in each)
    shares = [found for one in each if (found := node_share(session, one)) is not None]
    backward = backward_mixes(session)
    parts = [0.0] * (len(KINDS) + 1)
    _add(parts, node_parts(session, node, steps), forward)
    of_backward = (0.0,) * len(parts) if backward is None else backward.of(node, steps)
    _add(parts, of_backward, sum(share.backward for share in shares))
    if not any(parts[:NOT_DECIDED]):
        return (0.0,) * len(parts)
    parts[NOT_DECIDED] += sum(known(share.recomputed) or 0.0 for share in shares)
    return tuple(parts)


def _add(parts: list[float], by_class: tuple[float, ...], seconds: float) -> None:
    """Add seconds in the proportion of classes; to those without a class where there is none."""
    whole = sum(by_class)
    if whole <= 0.0:
        parts[NOT_DECIDED] += seconds
        return
    for place, spent in enumerate(by_class):
        parts[place] += seconds * spent / whole
