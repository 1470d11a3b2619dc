"""What every part of a forward reaches of what this machine can do, and in which order to walk it.

1. Parts are the leaf modules, and the operators that lie in no leaf module: all work of a forward,
   each operator's once. What moves nothing and computes nothing has no roof, and is no part.
2. A part's roof is the lower one of its dtype's ceiling and of intensity times the copy bandwidth
   (Williams, Waterman, Patterson: Roofline, CACM 52(4), 2009). So the time at its roof is the
   larger one of the least times of ``bound``, and the share that it reaches is that over its time.
3. A block is measured against all parts inside, each at its own roof: their least times together,
   over the time of the block.
4. What depends on the tree and the ceilings alone is found once; a tick only adds the seconds.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections.abc import Mapping
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from tui_profiler.figures.units import dtype as short_dtype
from tui_profiler.formatting.text import safe
from tui_profiler.messages import Ceilings, Cost
from tui_profiler.queries.cost import bound
from tui_profiler.queries.cost.bound_classes import KINDS, BoundKind
from tui_profiler.queries.cost.ceilings import UsableRoofs, usable_roofs
from tui_profiler.queries.cost.thread_parts import thread_parts_of
from tui_profiler.queries.time.base import base
from tui_profiler.queries.time.forward_kinds import times_fit_costs, why_times_do_not_fit
from tui_profiler.queries.time.node_seconds import node_seconds, root_seconds
from tui_profiler.session import Bounded, Session, Tree

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
        """FLOPs per byte at which the roof of most of the model becomes flat."""
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
    """FLOPs per byte; 0 for a part without FLOPs, which has no place in the plot."""
    least: list[float]
    """Seconds at the roof; 0 where no roof is known for it."""
    dtypes: list[str]
    """That it computes in, as torch names it."""
    kinds: bytes
    """What holds it back, as long as that explains its time; position in ``KINDS``."""
    limits: list[float]
    """Seconds above which that does not explain its time."""
    otherwise: int = bound.UNEXPLAINED
    """What holds it back above them, position in ``KINDS``."""

    def code(self, place: int, seconds: float) -> int:
        """Return what holds a part back that takes so many seconds; ``UNJUDGED`` if unknown."""
        code = self.kinds[place]
        return code if seconds <= self.limits[place] else self.otherwise

    def kind(self, place: int, seconds: float) -> BoundKind | None:
        """Return ``code`` as a class, None where nothing says."""
        code = self.code(place, seconds)
        return None if code == UNJUDGED else KINDS[code]


class Achieved(Struct, frozen=True, eq=False):
    """What one tick adds to the parts."""

    seconds: list[float]
    """Of one forward, by place; 0 where nothing was measured."""
    on_core: list[float]
    """The same without what was waited for a core."""
    whole: float | None
    """Seconds of one forward, None before the first times."""
    judged: int
    """Parts with times and a roof."""
    below: int
    """Parts below half of their roof."""
    below_seconds: float
    """Of one forward, spent in those."""
    rates: tuple[float, float] | None
    """The least and the greatest FLOP per second of all parts, None where none is known."""
    by_thread: Mapping[int, int] = {}
    """Class of the parts of whose time it is known what the thread did: position in ``KINDS``, or
    ``UNJUDGED``, by place."""

    def code(self, found: Parts, place: int) -> int:
        """Return the class of a part: position in ``KINDS``, or ``UNJUDGED``."""
        known = self.by_thread.get(place)
        return found.code(place, self.on_core[place]) if known is None else known

    def kind(self, found: Parts, place: int) -> BoundKind | None:
        """Return the class of a part, None where nothing says."""
        code = self.code(found, place)
        return None if code == UNJUDGED else KINDS[code]


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


def parts(
    tree: Tree, ceilings: Ceilings | None, beyond: bound.Beyond = bound.NOTHING_KNOWN
) -> Parts:
    """Return the parts of a tree and what each could reach.

    Args:
        tree: that they are of.
        ceilings: of the machine.
        beyond: what holds a part back that the roofs do not explain.
    """
    nodes = [i for i in part_nodes(tree) if tree.costs[i].flops or bound.bytes_moved(tree.costs[i])]
    if ceilings is None or not bound.has_roofs(ceilings):
        return parts_of(tree, nodes, [tree.costs[node] for node in nodes], None, [])
    held = bound.floors(tree, ceilings)
    moved = [held.moved(node, tree.ends[node]) for node in nodes]
    found = parts_of(tree, nodes, [tree.costs[node] for node in nodes], held.roofs, moved)
    limits = [limit * beyond.factor for limit in found.limits]
    return replace(found, limits=limits, otherwise=beyond.code)


def parts_of(
    tree: Tree,
    nodes: list[int],
    costs: list[Cost],
    usable: UsableRoofs | None,
    moved: list[bound.MoveSeconds],
) -> Parts:
    """Return what some nodes could reach.

    Args:
        tree: that they are of.
        nodes: in preorder.
        costs: of each, its work.
        usable: the roofs; None where none is known.
        moved: of each, the least time of moving its bytes; empty without roofs.
    """
    flops, intensities, least, limits = [], [], [], []
    dtypes = _dtypes(tree, nodes)
    kinds = bytearray()
    for at, (cost, dtype) in enumerate(zip(costs, dtypes, strict=True)):
        flops.append(float(cost.flops))
        intensities.append(bound.intensity(cost) or 0.0)
        times: dict[BoundKind, float] = {}
        code, limit = UNJUDGED, math.inf
        if usable is not None:
            times = bound.least_seconds(cost, usable, dtype, moved[at].seconds)
            code, limit = bound.explained(
                cost,
                usable,
                dtype,
                moved[at],
                depends=bound.own_dependence(tree, nodes[at]),
            )
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
    seconds, on_core = _seconds(session, found)
    now = achieved(found, seconds, on_core, root_seconds(session))
    return replace(now, by_thread=_by_thread(session, found))


def _by_thread(session: Session, found: Parts) -> dict[int, int]:
    """Return the classes of the parts of whose time it is known what the thread did."""
    tree, timings, parts = session.tree, session.timings, thread_parts_of(session)
    if tree is None or timings is None or parts is None or timings.own_read is None:
        return {}
    codes: dict[int, int] = {}
    for node, place in found.places.items():
        is_module = tree.nodes[node].kind == "module"
        position = timings.position(node if is_module else tree.nodes[node].parent)
        if position is None:
            continue
        if parts.faults[position] or parts.blocked[position] or parts.python[position]:
            spent = bound.node_parts(session, node)
            if any(spent):
                kind = bound.largest(spent)
                codes[place] = UNJUDGED if kind is None else KINDS.index(kind)
    return codes


def achieved(
    found: Parts, seconds: list[float], on_core: list[float], whole: float | None
) -> Achieved:
    """Return what the parts reach that take so many seconds; arguments as the fields."""
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
    return Achieved(seconds, on_core, whole, judged, below, below_seconds, rates)


def _seconds(session: Session, found: Parts) -> tuple[list[float], list[float]]:
    """Return ``node_seconds`` of all parts, and the same without waiting for a core.

    A part is timed itself or not at all.
    """
    tree, timings, operators = session.tree, session.timings, session.operators
    none = [0.0] * len(found.nodes)
    if not times_fit_costs(session):
        return none, none
    seconds, on_core = none, none
    if tree is not None and timings is not None:
        positions = _positions(timings.tick.nodes, found)
        # The last one is of parts without a position.
        whole, own, on = [*timings.whole, 0.0], timings.own, timings.own_on_core
        seconds = on_core = [whole[position] for position in positions]
        if timings.waiting:
            waited = [*(spent - left for spent, left in zip(own, on, strict=True)), 0.0]
            on_core = [
                max(spent - waited[position], 0.0)
                for spent, position in zip(seconds, positions, strict=True)
            ]
    if tree is not None and operators is not None:
        seconds, on_core = [*seconds], [*on_core]
        for node in memoryview(operators.times.nodes).cast("I"):
            place = found.places.get(node)
            if place is not None and tree.nodes[node].kind == "op":
                spent = seconds[place] = on_core[place] = node_seconds(session, node) or 0.0
                if timings is not None:
                    on_core[place] = timings.on_core(tree.nodes[node].parent, spent)
    return seconds, on_core


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
    """Return the places of all parts that are in the plot, the fewest FLOPs per byte first."""
    drawn = [
        place for place, spent in enumerate(now.seconds) if spent > 0 and found.intensities[place]
    ]
    return sorted(drawn, key=found.intensities.__getitem__)


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
    """FLOPs per byte, None for a node without FLOPs: it has no place in the plot."""
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
    """Share of the base (``queries/time/base.py``) that would be saved at the roof; None where it
    is there."""
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
    why_not = why_times_do_not_fit(session)
    seconds = None if why_not else (node_seconds(session, node) or None)
    judged = bound.bound(session, node) if seconds else None
    measured = judged if judged is not None and judged.measured else None
    figures = figures_of(tree, (found, now), node, tree.costs[node], (seconds, measured))
    gain = figures.gain and figures.gain * base(session).of_forwards
    figures = replace(figures, bounded=tree.bounded.get(node), gain=gain)
    return replace(figures, why=why_not) if why_not else figures


def figures_of(
    tree: Tree,
    known: tuple[Parts, Achieved],
    node: int,
    cost: Cost,
    measured: tuple[float | None, bound.Bound | None],
) -> NodeRoofline:
    """Return the figures of a node.

    Args:
        tree: that it is of.
        known: all parts, and what they reach.
        node: its index.
        cost: its work.
        measured: its seconds and its class, where they are known.
    """
    (found, now), (seconds, judged) = known, measured
    rates = cost.flops or bound.bytes_moved(cost)
    least = _least(tree, found, now, node)
    is_part = node in found.places
    depends = tree.depends(node) if least is None and seconds else None
    return NodeRoofline(
        name=name_of(tree, node),
        is_part=is_part,
        kind=judged.kind if judged is not None else None,
        seconds=seconds,
        intensity=bound.intensity(cost) or None,
        achieved=rates / seconds if seconds and rates else None,
        unit="FLOP/s" if cost.flops else "B/s",
        is_least=cost.uncosted > 0,
        roof=rates / least if least and rates else None,
        roof_name=_roof_name(judged) if is_part else "mixed",
        least_seconds=least,
        gain=_gain(seconds, least, now.whole),
        why=bound.WHY_OPEN[depends] if depends else _why(judged, seconds, rates),
    )


def _least(tree: Tree, found: Parts, now: Achieved, node: int) -> float | None:
    place = found.places.get(node)
    if place is not None:
        return found.least[place] or None
    first = bisect_left(found.nodes, node)
    stop = bisect_left(found.nodes, tree.ends[node])
    timed = [place for place in range(first, stop) if now.seconds[place] > 0]
    if any(bound.own_dependence(tree, found.nodes[place]) for place in timed):
        return None  # Their FLOPs depend on the data, and they have no least time.
    return sum(found.least[place] for place in timed) or None


def _roof_name(measured: bound.Bound | None) -> str:
    if measured is None:
        return ""
    compute, memory = measured.compute_share or 0.0, measured.memory_share or 0.0
    return measured.dtype if compute > memory else "memory"


def _gain(seconds: float | None, least: float | None, whole: float | None) -> float | None:
    if not seconds or least is None or not whole or least >= seconds:
        return None
    return (seconds - least) / whole


def _why(measured: bound.Bound | None, seconds: float | None, rates: float) -> str:
    if not rates:
        return "no FLOPs and no bytes"
    if seconds is None:
        return "not timed"
    return measured.reason if measured is not None else ""
