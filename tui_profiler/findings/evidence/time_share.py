"""How much of a forward goes to some of its nodes: measured, or on paper by the machine's roofs."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from msgspec import Struct

from tui_profiler.figures.units import duration
from tui_profiler.findings.evidence.finding import Evidence, Gain, Provenance
from tui_profiler.messages import Ceilings, Unknown
from tui_profiler.queries.cost.bound import floors, has_roofs, largest_floor, open_roof
from tui_profiler.queries.time.node_seconds import node_seconds, root_seconds
from tui_profiler.session import Session, Tree

NO_TIMES = Unknown("neither times nor this machine's roofs are known yet")
LEAST_SHARE = 0.001
"""Of a forward: what would save less is no advice, and no trial could tell it from noise."""


class TimeSpent(Struct, frozen=True):
    """Seconds of one forward in some nodes, and in all of it."""

    seconds: float
    whole: float
    is_measured: bool
    """False: the least times by the machine's roofs, of the nodes and of the whole alike."""
    is_of_window: bool = False
    """Operators are timed in windows, in a forward that is slower: their part of it is taken."""

    @property
    def share(self) -> float:
        """Part of the forward, 0 to 1."""
        return share_of(self.seconds, self.whole)

    @property
    def provenance(self) -> Provenance:
        """Where the seconds come from."""
        if self.is_of_window:
            return "derived"
        return "measured" if self.is_measured else "estimated"

    @property
    def text(self) -> str:
        """Say both: ``0.41 ms of 5.20 ms``."""
        return f"{self.seconds_text} of {self.whole_text}"

    @property
    def seconds_text(self) -> str:
        """Say the seconds, with ``~`` where they are on paper."""
        return ("" if self.is_measured else "~") + duration(self.seconds)

    @property
    def whole_text(self) -> str:
        """Say the forward's seconds likewise."""
        return ("" if self.is_measured else "~") + duration(self.whole)

    def evidence(self, what: str) -> Evidence:
        """Return the seconds as evidence."""
        return Evidence(what, self.seconds, "s", self.provenance)

    def gain(self, formula: str, *, is_bound: bool = False) -> Gain:
        """Return the gain of a forward in which these seconds are saved."""
        provenance: Provenance = "derived" if self.is_measured else "estimated"
        return Gain("time", self.share, formula, provenance, is_bound)


def share_of(part: float, whole: float) -> float:
    """Return a share between 0 and 1; 0 of nothing."""
    return min(max(part / whole, 0.0), 1.0) if whole > 0 else 0.0


def spent(session: Session, nodes: Iterable[int]) -> TimeSpent | Unknown:
    """Return what nodes take, none of them inside another.

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
        is_of_window = any(tree.nodes[node].kind == "op" for node in wanted)
        slower = _window_over_forward(session, whole) if is_of_window else 1.0
        return TimeSpent(sum(known_times) / slower, whole, True, is_of_window)
    if session.ceilings is None:
        return NO_TIMES
    least = least_times(tree, session.ceilings)
    if isinstance(least, Unknown):
        return least
    on_paper = least[0] if least else 0.0
    if not on_paper:
        return NO_TIMES
    return TimeSpent(sum(least[node] for node in wanted), on_paper, False)


def _window_over_forward(session: Session, whole: float) -> float:
    """Return how many times as long as others a forward in an operator window takes, at least 1."""
    assert session.operators is not None
    return max(session.operators.times.forward_seconds / whole, 1.0)


def forward(session: Session) -> TimeSpent | Unknown:
    """Return all of a forward: what it takes of itself."""
    return spent(session, (0,)) if session.tree is not None and len(session.tree) else NO_TIMES


def slowest_first(session: Session, nodes: Iterable[int]) -> tuple[int, ...]:
    """Return nodes by what a forward spends in them; those without times as they were."""
    return tuple(sorted(nodes, key=lambda node: -(node_seconds(session, node) or 0.0)))


def is_negligible(found: TimeSpent | Unknown) -> bool:
    """Tell whether it is known that there is next to nothing to gain."""
    return not isinstance(found, Unknown) and found.share < LEAST_SHARE


@lru_cache(maxsize=2)
def least_times(tree: Tree, ceilings: Ceilings) -> tuple[float, ...] | Unknown:
    """Return the least seconds of every node by the roofs; a module's are those of its operators.

    Not known where a roof without a figure, or not good enough, could be the largest of some
    operator: a share of a whole needs all of it.
    """
    found = [0.0] * len(tree)
    if not has_roofs(ceilings):
        return NO_TIMES
    held = floors(tree, ceilings)
    for index in range(len(tree) - 1, -1, -1):
        node, cost = tree.nodes[index], tree.costs[index]
        if node.kind == "op" and cost.ops:
            least = largest_floor(tree, held, index)
            if least is None:
                return Unknown(f"on paper not known: {open_roof(tree, held, index)}")
            found[index] = least
        if node.parent >= 0:
            found[node.parent] += found[index]
    return tuple(found)
