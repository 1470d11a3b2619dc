"""What every part of a forward reaches of what this machine can do, and in which order to walk it.

1. Parts are the leaf modules, and the operators that lie in no leaf module: all work of a forward,
   each operator's once. What moves nothing and computes nothing has no roof, and is no part.
2. A part's roof is the lower one of its dtype's ceiling and of intensity times the copy bandwidth
   (Williams, Waterman, Patterson: Roofline, CACM 52(4), 2009). So the time at its roof is the
   larger one of the least times of ``bound``, and the share that it reaches is that over its time.
3. What depends on the tree and the ceilings alone is found once; a tick only adds the seconds.
"""

from __future__ import annotations

import math
from array import array
from functools import lru_cache

from msgspec import Struct

from tui_profiler.figures.units import dtype as short_dtype
from tui_profiler.messages import Ceilings
from tui_profiler.queries.cost import bound
from tui_profiler.queries.cost.ceilings import usable_roofs
from tui_profiler.queries.time.forward_kinds import times_fit_costs
from tui_profiler.queries.time.node_seconds import node_seconds, root_seconds
from tui_profiler.session import Session, Tree

UNJUDGED = bound.NOT_DECIDED
"""In place of a position in ``KINDS``: no roof, or none good enough, says what limits a part."""
BELOW = 0.5
"""Of the roof: the status line counts the parts that reach less."""


class Roof(Struct, frozen=True):
    """What this machine can compute at most in one dtype."""

    dtype: str
    """As shown: ``f32``."""
    flops_per_second: float
    flops: float
    """FLOP of one forward in this dtype; 0 where no part computes in it."""


class Roofs(Struct, frozen=True):
    """All roofs that are known."""

    compute: tuple[Roof, ...] = ()
    """The one that most of the model computes under first."""
    bytes_per_second: float | None = None
    """Of memory."""
    caches: tuple[tuple[str, float], ...] = ()
    """Name and bytes per second of each cache, nearest to a core first."""

    @property
    def ridge(self) -> float | None:
        """FLOPs a byte at which the roof of most of the model becomes flat."""
        if not self.compute or not self.bytes_per_second:
            return None
        return self.compute[0].flops_per_second / self.bytes_per_second


class Parts(Struct, frozen=True, eq=False):
    """Rule 1, as columns in preorder."""

    nodes: array[int]
    places: dict[int, int]
    """Of a node: its place in the columns."""
    flops: list[float]
    intensities: list[float]
    """FLOPs a byte; 0 for a part without FLOPs, which has no place in the plot."""
    least: list[float]
    """Seconds at the roof; 0 where no roof is known for it."""
    dtypes: list[str]
    """That it computes in, as torch names it."""
    kinds: bytes
    """What holds it back, as long as that explains its time; position in ``KINDS``."""
    limits: list[float]
    """Seconds above which nothing explains its time."""

    def kind(self, place: int, seconds: float) -> bound.BoundKind | None:
        """Return what holds a part back that takes so many seconds, None where nothing says."""
        code = self.kinds[place]
        if code == UNJUDGED and seconds <= self.limits[place]:
            return None
        return bound.KINDS[code if seconds <= self.limits[place] else bound.UNEXPLAINED]


class Achieved(Struct, frozen=True, eq=False):
    """What one tick adds to the parts."""

    seconds: list[float]
    """Of one forward, by place; 0 where nothing was measured."""
    on_core: float
    """Share of a forward that its thread did not wait for a core."""
    whole: float | None
    """Seconds of one forward, None before the first times."""
    judged: int
    """Parts with times and a roof."""
    below: int
    """Parts below half of their roof."""
    below_seconds: float
    """Of one forward, spent in those."""
    rates: tuple[float, float] | None
    """The least and the greatest FLOP a second of all parts, None where none is known."""


def part_nodes(tree: Tree) -> list[int]:
    """Return the nodes of rule 1, in preorder; those that cost nothing are among them."""
    nodes, ends = tree.nodes, tree.ends
    holds_called = bytearray(len(tree))
    for index in range(len(tree) - 1, 0, -1):
        node = nodes[index]
        if node.kind == "module" and (node.calls or holds_called[index]):
            holds_called[node.parent] = 1
    found: list[int] = []
    index = 0
    while index < len(tree):
        node = nodes[index]
        if node.kind == "module" and holds_called[index] and not node.is_opaque:
            index += 1
            continue
        found.append(index)
        index = ends[index]
    return found


def parts(tree: Tree, ceilings: Ceilings | None) -> Parts:
    """Return the parts of a tree and what each could reach."""
    nodes = [i for i in part_nodes(tree) if tree.costs[i].flops or bound.bytes_moved(tree.costs[i])]
    flops, intensities, least, limits = [], [], [], []
    dtypes = _dtypes(tree, nodes)
    kinds = bytearray()
    held = (
        bound.floors(tree, ceilings) if ceilings is not None and bound.has_roofs(ceilings) else None
    )
    for node, dtype in zip(nodes, dtypes, strict=True):
        cost = tree.costs[node]
        moved = bound.bytes_moved(cost)
        flops.append(float(cost.flops))
        intensities.append(cost.flops / moved if moved else 0.0)
        times: dict[bound.BoundKind, float] = {}
        code, limit = UNJUDGED, math.inf
        if held is not None:
            moved_seconds = held.moved(node, tree.ends[node])
            times = bound.least_seconds(cost, held.roofs, dtype, moved_seconds.seconds)
            code, limit = bound.explained(cost, held.roofs, dtype, moved_seconds)
        if code == UNJUDGED:
            times = {}
        least.append(max(times.get("compute", 0.0), times.get("memory", 0.0)))
        kinds.append(code)
        limits.append(limit)
    places = {node: place for place, node in enumerate(nodes)}
    return Parts(array("I", nodes), places, flops, intensities, least, dtypes, bytes(kinds), limits)


def _dtypes(tree: Tree, nodes: list[int]) -> list[str]:
    """Return ``node_dtype`` of all; a tree holds equal tensors once, so few are looked at."""
    known: dict[tuple[int, int, int, str], str] = {}
    found = []
    for node in nodes:
        at = tree.nodes[node]
        key = (id(at.weights), id(at.outputs), id(at.inputs), at.type)
        if key not in known:
            known[key] = bound.node_dtype(tree, node)
        found.append(known[key])
    return found


def roofs(found: Parts, ceilings: Ceilings | None) -> Roofs:
    """Return the roofs that are known, with how much of the model computes under each."""
    if ceilings is None:
        return Roofs()
    used: dict[str, float] = {}
    for dtype, flops in zip(found.dtypes, found.flops, strict=True):
        used[dtype] = used.get(dtype, 0.0) + flops
    usable = usable_roofs(ceilings)
    compute = [
        Roof(short_dtype(dtype), rate, used.get(dtype, 0.0))
        for dtype, rate in usable.compute.items()
    ]
    compute.sort(key=lambda roof: -roof.flops)
    memory = usable.levels[-1].bytes_per_second if usable.levels else None
    caches = [
        (level.name, level.bytes_per_second)
        for level in usable.levels[:-1]
        if level.bytes_per_second is not None
    ]
    return Roofs(tuple(compute), memory, tuple(caches))


def reached(session: Session, found: Parts) -> Achieved:
    """Return what the parts take now."""
    seconds = _seconds(session, found)
    judged = below = 0
    below_seconds, slowest, fastest = 0.0, math.inf, 0.0
    for spent, least, flops in zip(seconds, found.least, found.flops, strict=True):
        if spent <= 0:
            continue
        if least > 0:
            judged += 1
            if least < BELOW * spent:
                below += 1
                below_seconds += spent
        if flops:
            rate = flops / spent
            slowest = rate if rate < slowest else slowest
            fastest = rate if rate > fastest else fastest
    rates = (slowest, fastest) if fastest else None
    on_core = 1.0 if session.timings is None else session.timings.on_core(1.0)
    return Achieved(seconds, on_core, root_seconds(session), judged, below, below_seconds, rates)


def _seconds(session: Session, found: Parts) -> list[float]:
    """Return ``node_seconds`` of all parts; a part is timed itself or not at all."""
    tree, timings, operators = session.tree, session.timings, session.operators
    seconds = [0.0] * len(found.nodes)
    if not times_fit_costs(session):
        return seconds
    if tree is not None and timings is not None:
        spent: list[float] = list(timings.whole)
        spent.append(0.0)  # Of parts without a position.
        seconds = [spent[position] for position in _positions(timings.tick.nodes, found)]
    if tree is not None and operators is not None:
        for node in memoryview(operators.times.nodes).cast("I"):
            place = found.places.get(node)
            if place is not None and tree.nodes[node].kind == "op":
                seconds[place] = node_seconds(session, node) or 0.0
    return seconds


@lru_cache(maxsize=2)
def _positions(packed: bytes, found: Parts) -> list[int]:
    """Return the position of each part in the columns of a tick, -1 where it has none.

    They change seldom, so they are kept.
    """
    positions = {node: at for at, node in enumerate(memoryview(packed).cast("I"))}
    return [positions.get(node, -1) for node in found.nodes]


def by_time(now: Achieved) -> list[int]:
    """Return the places of all parts with times, the longest first."""
    seconds = now.seconds
    timed = [place for place, spent in enumerate(seconds) if spent > 0]
    return sorted(timed, key=seconds.__getitem__, reverse=True)


def by_intensity(found: Parts, now: Achieved) -> list[int]:
    """Return the places of all parts that are in the plot, the fewest FLOPs a byte first."""
    drawn = [
        place for place, spent in enumerate(now.seconds) if spent > 0 and found.intensities[place]
    ]
    return sorted(drawn, key=found.intensities.__getitem__)
