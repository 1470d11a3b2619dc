"""What the backward of a module runs: operators of its own calls, and of those inside."""

from collections.abc import Iterable
from typing import NamedTuple

from tui_profiler.formatting.text import safe
from tui_profiler.messages.training import OUTSIDE
from tui_profiler.session import Session
from tui_profiler.session.columns import CalledOperator


class BackwardOperator(NamedTuple):
    """One name of operators in the backward of a module; means per step, all calls together."""

    name: str
    """Of an operator, or of the node of autograd's graph for what it takes outside of operators."""
    calls: int
    """In the last window."""
    seconds: float
    """With what it calls; of the parts of a module added up."""
    own: float
    """Seconds without what it calls: own seconds of all rows add up to the module's."""
    share: float
    """Of the own seconds of all rows, 0 to 1."""
    is_recomputed: bool
    """Whether checkpointing repeated it inside of the backward."""


def backward_operators(
    session: Session, node: int, most: int | None = None
) -> tuple[BackwardOperator, ...]:
    """Return what the backward of a module runs, most own seconds first, modules inside included.

    Nothing before the first window on a step.

    Args:
        session: that was watched.
        node: of the module.
        most: how many.
    """
    return tuple(_rows(session, [node, *_inside(session, node)])[:most])


def outside_operators(session: Session, most: int | None = None) -> tuple[BackwardOperator, ...]:
    """Return what the backward runs outside of the model: the loss, other models."""
    return tuple(_rows(session, [OUTSIDE])[:most])


def _inside(session: Session, node: int) -> Iterable[int]:
    tree = session.tree
    return () if tree is None else range(node + 1, tree.ends[node])


def _rows(session: Session, nodes: Iterable[int]) -> list[BackwardOperator]:
    found: dict[tuple[str, bool], list[CalledOperator]] = {}
    if session.backward is None:
        return []
    for node in nodes:
        for one in session.backward.of(node):
            found.setdefault((one.name, False), []).append(one)
        for one in session.backward.recomputed(node):
            found.setdefault((one.name, True), []).append(one)
    total = sum(one.own for each in found.values() for one in each)
    rows = [
        BackwardOperator(
            safe(name),
            sum(one.calls for one in each),
            sum(one.seconds for one in each),
            sum(one.own for one in each),
            sum(one.own for one in each) / total if total > 0 else 0.0,
            is_recomputed,
        )
        for (name, is_recomputed), each in found.items()
    ]
    return sorted(rows, key=lambda row: (-row.own, row.is_recomputed, row.name))
