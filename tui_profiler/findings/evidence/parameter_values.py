"""The values of parameters that were looked at, where they are those that the model is run with."""

from __future__ import annotations

from tui_profiler.messages import TensorStatistics
from tui_profiler.session import Session


def trained_values(session: Session) -> tuple[TensorStatistics, ...]:
    """Return the statistics of all parameters, each storage once.

    None before the analysis is over, and none of random weights: they say nothing of the model.
    """
    found = session.parameters
    if found is None or found.done is None or found.started.is_random:
        return ()
    return tuple(one for one in found.tensors if not one.is_buffer and not one.shared_with)


def owners(session: Session, tensors: tuple[TensorStatistics, ...]) -> tuple[int, ...]:
    """Return the nodes that own tensors, in the order given; the root for what has none."""
    tree = session.tree
    if tree is None:
        return ()
    nodes = {node.path: at for at, node in reversed(list(enumerate(tree.nodes)))}
    return tuple(dict.fromkeys(nodes.get(one.owner, 0) for one in tensors))
