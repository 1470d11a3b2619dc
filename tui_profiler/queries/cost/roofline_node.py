"""One node under the roofline: what it reaches, what its roof is there, and what it could gain.

A part stands under its own roof. A block is measured against all parts inside, each at its own
roof: their least times together, over the time of the block.
"""

from __future__ import annotations

from bisect import bisect_left

from msgspec import Struct

from tui_profiler.formatting.text import safe
from tui_profiler.queries.cost.bound import Bound, BoundKind, bound, bytes_moved, intensity
from tui_profiler.queries.cost.roofline import Achieved, Parts
from tui_profiler.queries.time.forward_kinds import why_times_do_not_fit
from tui_profiler.queries.time.node_seconds import node_seconds
from tui_profiler.session import Bounded, Session, Tree


class NodeRoofline(Struct, frozen=True):
    """Figures of one node; None where there is none, and ``why`` says the reason."""

    name: str
    """Safe to show."""
    is_part: bool
    """False: a block, of which the figures are its parts' together."""
    kind: BoundKind | None = None
    """What holds it back, where that was measured."""
    seconds: float | None = None
    """Of one forward."""
    intensity: float | None = None
    """FLOPs a byte, None for a node without FLOPs: it has no place in the plot."""
    achieved: float | None = None
    """A second: of FLOPs, or of bytes where it has no FLOPs."""
    unit: str = "FLOP/s"
    """Of ``achieved`` and ``roof``; ``B/s`` for a node without FLOPs."""
    bounded: Bounded | None = None
    """Whether the FLOPs depend on the data."""
    is_least: bool = False
    """Operators without a formula are not in the FLOPs."""
    roof: float | None = None
    """The highest rate here."""
    roof_name: str = ""
    """Which roof is the lower one here: the dtype of a compute ceiling, ``memory``, ``mixed``."""
    least_seconds: float | None = None
    """Of one forward, at the roof."""
    gain: float | None = None
    """Share of the whole forward that would be saved at the roof; None where it is there."""
    why: str = ""
    """What decided the class, or why figures are missing."""

    @property
    def share(self) -> float | None:
        """Share of the roof that is reached."""
        if not self.seconds or self.least_seconds is None:
            return None
        return self.least_seconds / self.seconds


def name_of(tree: Tree, node: int) -> str:
    """Return a node's path as it is shown; of an operator its module's, and what it does."""
    found = tree.nodes[node]
    if found.kind == "op" and found.parent >= 0:
        operator = found.name.partition("::")[2] or found.name
        module = tree.nodes[found.parent].path
        return safe(f"{module}/{operator}" if module else operator)
    return safe(found.path or found.name)


def node_roofline(session: Session, found: Parts, now: Achieved, node: int) -> NodeRoofline:
    """Return the figures of one node of the tree."""
    tree = session.tree
    assert tree is not None
    cost = tree.costs[node]
    why_not = why_times_do_not_fit(session)
    seconds = None if why_not else (node_seconds(session, node) or None)
    rates = cost.flops or bytes_moved(cost)
    least = _least(tree, found, now, node)
    judged = bound(session, node) if seconds else None
    measured = judged if judged is not None and judged.measured else None
    is_part = node in found.places
    return NodeRoofline(
        name=name_of(tree, node),
        is_part=is_part,
        kind=measured.kind if measured is not None else None,
        seconds=seconds,
        intensity=intensity(cost) or None,
        achieved=rates / seconds if seconds and rates else None,
        unit="FLOP/s" if cost.flops else "B/s",
        bounded=tree.bounded.get(node),
        is_least=cost.uncosted > 0,
        roof=rates / least if least and rates else None,
        roof_name=_roof_name(measured) if is_part else "mixed",
        least_seconds=least,
        gain=_gain(seconds, least, now.whole),
        why=why_not or _why(measured, seconds, rates),
    )


def _least(tree: Tree, found: Parts, now: Achieved, node: int) -> float | None:
    place = found.places.get(node)
    if place is not None:
        return found.least[place] or None
    first = bisect_left(found.nodes, node)
    stop = bisect_left(found.nodes, tree.ends[node])
    timed = (place for place in range(first, stop) if now.seconds[place] > 0)
    return sum(found.least[place] for place in timed) or None


def _roof_name(measured: Bound | None) -> str:
    if measured is None:
        return ""
    compute, memory = measured.compute_share or 0.0, measured.memory_share or 0.0
    return measured.dtype if compute > memory else "memory"


def _gain(seconds: float | None, least: float | None, whole: float | None) -> float | None:
    if not seconds or least is None or not whole or least >= seconds:
        return None
    return (seconds - least) / whole


def _why(measured: Bound | None, seconds: float | None, rates: float) -> str:
    if not rates:
        return "no FLOPs and no bytes"
    if seconds is None:
        return "not timed"
    return measured.reason if measured is not None else ""
