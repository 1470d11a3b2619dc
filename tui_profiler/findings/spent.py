"""How much of a forward goes to some of its nodes: measured, or on paper by the machine's roofs."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from msgspec import Struct

from tui_profiler.findings.finding import Provenance
from tui_profiler.messages import Ceilings, Unknown
from tui_profiler.queries.bound import least_seconds, node_dtype
from tui_profiler.queries.seconds import node_seconds, root_seconds
from tui_profiler.session import Session, Tree
from tui_profiler.units import duration

NO_TIMES = Unknown("neither times nor this machine's roofs are known yet")


class Spent(Struct, frozen=True):
    """Seconds of one forward in some nodes, and in all of it."""

    seconds: float
    whole: float
    is_measured: bool
    """False: the least times by the machine's roofs, of the nodes and of the whole alike."""

    @property
    def share(self) -> float:
        """Part of the forward, 0 to 1."""
        return min(self.seconds / self.whole, 1.0) if self.whole else 0.0

    @property
    def provenance(self) -> Provenance:
        """Where the seconds come from."""
        return "measured" if self.is_measured else "estimated"

    @property
    def text(self) -> str:
        """Say both: ``0.41 of 5.20 ms``."""
        about = "" if self.is_measured else "~"
        return f"{about}{duration(self.seconds)} of {about}{duration(self.whole)}"


def spent(session: Session, nodes: Iterable[int]) -> Spent | Unknown:
    """Give what nodes take, none of them inside another.

    Where one of them has no time of its own, all are taken on paper: a share is of one kind.
    """
    tree = session.tree
    if tree is None:
        return NO_TIMES
    wanted = tuple(nodes)
    whole = root_seconds(session)
    times = [node_seconds(session, node) for node in wanted]
    known_times = [time for time in times if time is not None]
    if whole is not None and len(known_times) == len(times):
        return Spent(sum(known_times), whole, True)
    if session.ceilings is None:
        return NO_TIMES
    least = least_times(tree, session.ceilings)
    on_paper = least[0]
    if not on_paper:
        return NO_TIMES
    return Spent(sum(least[node] for node in wanted), on_paper, False)


@lru_cache(maxsize=2)
def least_times(tree: Tree, ceilings: Ceilings) -> tuple[float, ...]:
    """Give the least seconds of every node by the roofs; a module's are those of its operators."""
    found = [0.0] * len(tree)
    for index in range(len(tree) - 1, -1, -1):
        node, cost = tree.nodes[index], tree.costs[index]
        if node.kind == "op" and cost.ops:
            times = least_seconds(cost, ceilings, node_dtype(tree, index))
            found[index] = max(times.values(), default=0.0)
        if node.parent >= 0:
            found[node.parent] += found[index]
    return tuple(found)
