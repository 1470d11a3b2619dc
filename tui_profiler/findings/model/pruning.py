"""``pruning``: channels whose weights are next to nothing, or the same as another one's.

A channel that goes takes its part of the layer's time along. Single values do not: a dense kernel
multiplies a zero like any other number.
"""

from __future__ import annotations

from tui_profiler.figures.units import duration
from tui_profiler.findings.evidence.figure_text import counted
from tui_profiler.findings.evidence.finding import Evidence, Finding, Gain, check
from tui_profiler.findings.evidence.parameter_values import owners, trained_values
from tui_profiler.findings.evidence.time_share import LEAST_SHARE, share_of, spent
from tui_profiler.messages import TensorStatistics, Unknown, known
from tui_profiler.session import Session, Tree

LOSS = 0.05
"""Of the norm of a tensor's weights: what may go."""


@check("pruning", holds_in="inference")
def pruning(session: Session) -> Finding | None:
    """Find layers of which channels could go, of values that were looked at."""
    tree = session.tree
    found = tuple(one for one in trained_values(session) if _channels(one))
    held = sum(one.bytes for one in trained_values(session))
    saved = sum(one.bytes * _part(one) for one in found)
    if tree is None or not len(tree) or share_of(saved, held) < LEAST_SHARE:
        return None
    by_saved = tuple(sorted(found, key=lambda one: -one.bytes * _part(one)))
    dead = sum(one.channels.dead for one in found if one.channels is not None)
    alike = sum(int(known(one.channels.near_duplicates) or 0) for one in found if one.channels)
    values = [one for one in trained_values(session) if one.pruned]
    count = sum(one.moments.count for one in values if one.moments is not None)
    zeros = sum(_sparsity(one) * one.moments.count for one in values if one.moments is not None)
    return Finding(
        kind="pruning",
        title=f"prune {counted(sum(map(_channels, found)), 'channel')}",
        why=(
            f"They hold at most {LOSS:.0%} of the norm of their layer's weights. Layers that read"
            " them become smaller too, and the model is to be trained on for a while."
        ),
        nodes=owners(session, by_saved),
        evidence=(
            Evidence("prunable channels", sum(map(_channels, found)), "count", "measured"),
            Evidence("of them all zeros", dead, "count", "measured"),
            Evidence("near-duplicate channels", alike, "count", "measured"),
            Evidence("of all values, that could be 0", share_of(zeros, count), "share", "measured"),
            Evidence("bytes that the channels take", saved, "B", "derived"),
        ),
        gains=(
            _time(session, tree, found),
            Gain("memory", Unknown("the layers that read them are not known"), "those bytes"),
        ),
        why_no_trial="a model without channels is another one, and is trained on before it is used",
    )


def _channels(one: TensorStatistics) -> int:
    """Return how many channels of a tensor could go for the loss."""
    if one.channels is None or len(one.shape) < 2:
        return 0
    return next((part.channels for part in one.channels.pruned if part.loss == LOSS), 0)


def _part(one: TensorStatistics) -> float:
    return _channels(one) / one.channels.count if one.channels is not None else 0.0


def _sparsity(one: TensorStatistics) -> float:
    return next((part.sparsity for part in one.pruned if part.loss == LOSS), 0.0)


def _time(session: Session, tree: Tree, found: tuple[TensorStatistics, ...]) -> Gain:
    """Return each layer's time by the part of its channels that goes."""
    formula = "each layer's time by the part of its channels that goes"
    total, whole = 0.0, 0.0
    for one in found:
        node = tree.find(one.owner)
        took = spent(session, (node,)) if node is not None and tree.has_forward else None
        if took is None or isinstance(took, Unknown):
            return Gain("time", Unknown("the times of these layers are not known"), formula)
        total += took.seconds * _part(one)
        whole = took.whole
    said = f"{formula}: {duration(total)} of {duration(whole)}"
    return Gain("time", share_of(total, whole), said, "estimated")
