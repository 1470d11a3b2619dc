"""What limits a node: a class of ``bound_classes.py``, decided here alone.

The work of a module's own operators (of an operator, its own) has three least times:

- compute: FLOPs over the measured ceiling of the node's dtype;
- memory: bytes over the measured copy bandwidth of the level that holds them (Williams, Waterman,
  Patterson: Roofline, CACM 52(4), 2009; levels: ``ceilings.py``);
- overhead: operators times the measured least time of one operator.

1. The largest of the three is the class of the measured time. Where even the largest explains less
   than a tenth of it, the class is *unexplained*: no figure says where the time goes.
2. A roof that is not good enough, or has no figure, leaves its least time between nothing and what
   its figure says, or open. The class is measured where that cannot change it, by rule 1; else it
   is *not decided* by these roofs, and told on paper. Each module's own work is judged alone.
   Likewise where sizes depend on the data (``tree.bounded``): FLOPs and bytes that are an upper
   bound ask between nothing and what they say; behind a value that Python read, the traced work is
   no bound, and every roof is open. Unless a real forward on the same inputs cost the same.
3. An operator without a formula may compute any amount: then only compute can be the largest; all
   else is unexplained, and the reason says so.
4. A container's time is that of its own operators and of all modules inside, each in its class: its
   *mix*. The class of a container is the largest part of its mix, if what is not decided cannot
   make another part the largest; else it is estimated on paper.
5. On a GPU times are those of its kernels. Where it still had work when the host left the model,
   launching takes none of that time: there is no overhead. Where it had caught up with the host in
   most forwards, it waits for the host: what no other floor explains to the half is overhead.
6. Time in which the thread that runs forwards waited for a core is no work of the node's but a
   state of the host: it is taken off first, is in no class, and is a figure of its own
   (``Bound.waiting``). How much of it each node waited follows from forwards in which every call
   read it; before there are any it is taken off evenly.
8. What the thread did decides before the roofs (``thread_parts.py``): *blocked* is time asleep,
   *faults* are page faults, *python* is time on a core outside of operators. Only time in
   operators is held against floors. Python that calls operators and modules is overhead: up to
   ten times (``UNEXPLAINED_BELOW``) the least time of an operator for each of them.
7. On paper, before anything is measured and where rule 2 or 4 says so, the class is that of the
   intensity: at most 10 FLOPs per byte is memory, above it compute. None where no operator of it
   has a formula. Where part of the work is an upper bound, only if it is the same without that
   part; behind a value that Python read, none.

9. A fused recurrent layer (``aten::mkldnn_rnn_layer``) runs its time steps one after another: each
   counts as an operator, and reads the hidden-to-hidden matrix again, from the nearest level that
   can keep half of it.

A tree with live bars asks for the mix of every visible row at every tick. So the largest least time
of every module, and up to which time it explains it, are found once for a tree and its ceilings;
a tick is summed over the preorder, and a subtree is two look-ups.
"""

from __future__ import annotations

import math
import re
from array import array
from bisect import bisect_right
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from tui_profiler.figures.units import dtype as short_dtype
from tui_profiler.figures.units import intensity as intensity_text
from tui_profiler.figures.units import share as share_text
from tui_profiler.formatting.text import safe
from tui_profiler.messages import Ceilings, Cost, Node, Unknown
from tui_profiler.queries.cost.bound_classes import (
    CLASSES,
    KINDS,
    OF_FLOORS,
    OF_THREAD,
    BoundKind,
)
from tui_profiler.queries.cost.ceilings import MEMORY, OPERATOR, UsableRoofs, usable_roofs
from tui_profiler.queries.cost.incremental import STEP, Incremental, sums_in_steps
from tui_profiler.queries.cost.thread_parts import ThreadParts, thread_parts_of
from tui_profiler.queries.time.forward_kinds import times_fit_costs
from tui_profiler.queries.time.node_seconds import NO_CPU_TIME, node_seconds
from tui_profiler.queries.time.repeated_siblings import Steps, members, summed
from tui_profiler.session import Bounded, Session, Timings, Tree

OVERHEAD = KINDS.index("overhead")
PYTHON = KINDS.index("python")
FAULTS = KINDS.index("faults")
BLOCKED = KINDS.index("blocked")
UNEXPLAINED = KINDS.index("unexplained")

NOT_DECIDED = len(KINDS)
"""In place of a position in ``KINDS``: the roofs do not decide it."""

PAPER_RIDGE = 10.0
"""FLOPs per byte; the product's own rule, the same for every machine. Ridges of real ones lie from
about 5 (a core of a server, float64) to about 300 (16 bits on an H100): near it, and below the
ridge of a GPU, the class is a guess until times are held against measured roofs."""
UNEXPLAINED_BELOW = 0.1
"""Share of the time that the largest floor must explain. Roofs are those of large, contiguous work:
kernels of small layers reach 10 to 50 % of them, and stay with their class. Below a tenth a guess
at the cause would be about a tenth of the time; what is left may have any other."""
EXPLAINED_BESIDE_HOST = 0.5
"""Share of the time that the largest floor must explain where a GPU waits for the host."""
FROM_CACHES_ABOVE = 1.05
"""Share of the roof of memory, or of a cache; above it by more than a roof may be too low without
being raised (``LEAST_RAISED`` of ``probe/measure/ceilings/ceilings.py``), a nearer level has the
data."""


_WORK = ("macs", "flops", "input_bytes", "weight_bytes", "output_bytes", "ops", "uncosted")
NO_FORMULA = "not counted: an operator has no formula"
NOTHING_MOVED = "it moves no bytes"
BY_DATA = "how much work it has depends on the data: FLOPs and bytes are upper bounds"
BY_VALUE = "how much work it has depends on a value in the data: FLOPs and bytes are no bounds"
WHY_OPEN: Mapping[Bounded, str] = {"at most": BY_DATA, "about": BY_VALUE}
_RECURRENT, _RECURRENT_INPUTS = "aten::mkldnn_rnn_layer", 3
INTEGERS = "int8"
_INTEGERS = re.compile(
    r"quantized::|onednn::q(linear|conv)|aten::_?(weight_int[48]pack_mm|int_mm|quantized_\w+)"
)
_WIDE, _NARROW = "float32", ("float16", "bfloat16")
_MOST_NAMED = 3
_ROUNDING = 1e-9
"""Share of a sum; more than differences of sums of 100,000 figures are off."""


class Bound(Struct, frozen=True):
    """The class of a node and the figures that decided it."""

    kind: BoundKind
    measured: bool
    """False: from the intensity alone, on paper."""
    mix: tuple[float, ...] = ()
    """Share of the node's time in each of ``KINDS``, without waiting for a core; empty on paper."""
    waiting: float = 0.0
    """Share of the node's time in which its thread waited for a core."""
    not_decided: float = 0.0
    """Share of the node's time that the roofs do not decide: in modules told on paper."""
    no_roof: tuple[tuple[BoundKind, str], ...] = ()
    """Which of the three roofs is not known or not good enough, and why, of a measured class."""
    compute_share: float | None = None
    """Share of the compute ceiling reached: least time over time."""
    memory_share: float | None = None
    """Share of the memory ceiling reached."""
    overhead_share: float | None = None
    """Share of the time that calling the operators takes at least."""
    flops_per_second: float | None = None
    bytes_per_second: float | None = None
    intensity: float | None = None
    """FLOPs per byte; None where nothing is moved."""
    ridge: float | None = None
    """FLOPs per byte at which the two ceilings meet."""
    dtype: str = ""
    """Of the compute ceiling that was used."""
    is_container: bool = False
    """Whether modules inside take part of the time: then the mix decided the class."""
    reason: str = ""
    """One sentence with the figures that decided it."""


class Beyond(NamedTuple):
    """What takes the time that the largest floor does not explain."""

    factor: float
    """Of the longest time that a floor may explain."""
    code: int
    """Position in ``KINDS``."""


NOTHING_KNOWN = Beyond(1.0, UNEXPLAINED)
FOR_HOST = Beyond(UNEXPLAINED_BELOW / EXPLAINED_BESIDE_HOST, OVERHEAD)


class Floors(Struct, frozen=True, eq=False):
    """What the roofs ask of a tree."""

    roofs: UsableRoofs
    moving: array[float]
    """Least seconds of moving the bytes of all operators before a node, in preorder; of those that
    come from a level whose roof is good."""
    moving_at_most: array[float]
    """Likewise of the others: what it is at most."""

    def memory_seconds(self, start: int, stop: int) -> float | None:
        """Return the least time of moving the bytes of the operators of a run of nodes.

        Returns:
            None where a level that they come from has no good roof.
        """
        if not self.roofs.levels or self.moving_at_most[stop] > self.moving_at_most[start]:
            return None
        return self.moving[stop] - self.moving[start]

    def moved(self, start: int, stop: int) -> MoveSeconds:
        """Return the same with what it is at most."""
        good = self.moving[stop] - self.moving[start]
        return MoveSeconds(good, self.moving_at_most[stop] - self.moving_at_most[start])


class MoveSeconds(NamedTuple):
    """Least seconds of moving bytes."""

    good: float
    """From levels whose roofs are good."""
    at_most: float
    """From the others, at most."""

    @property
    def seconds(self) -> float | None:
        """The least time; None where it is not known."""
        return None if self.at_most else self.good


class Limits(Struct, frozen=True, eq=False):
    """Of every module: the largest floor of its own operators, and up to which time it explains."""

    codes: bytes
    """Position in ``KINDS``, or ``NOT_DECIDED``; one byte for each node."""
    seconds: array[float]
    """Above this own time in operators the module is unexplained."""
    calling: array[float]
    """Up to these own seconds outside of operators, Python is that of calling operators and
    modules."""


class ClassSeconds:
    """Seconds by class of every subtree, of one tick."""

    def __init__(self, tree: Tree, sums: tuple[array[float], ...], waited: array[float]) -> None:
        """Take the running sums of a tick.

        Args:
            tree: that they are of.
            sums: by ``KINDS``, then what is not decided.
            waited: of the time waiting for a core, which is in none of them.
        """
        self._ends = tree.ends
        self._runs: dict[tuple[int, Steps], tuple[float, ...]] = {}
        self._sums = sums
        self._waited = waited

    def of(self, node: int, steps: Steps = ()) -> tuple[float, ...]:
        """Return the seconds of a node and all inside it, by ``KINDS``, then what is not decided.

        Args:
            node: its index.
            steps: the runs that it lies in where its row sums over them.
        """
        if not steps:
            return self.between(node, self._ends[node])
        found = self._runs.get((node, steps))
        if found is None:
            ends = (summed(sums, self._ends[node], steps) for sums in self._sums)
            starts = (summed(sums, node, steps) for sums in self._sums)
            found = tuple(max(end - start, 0.0) for end, start in zip(ends, starts, strict=True))
            self._runs[node, steps] = found
        return found

    def waiting_share(self, node: int, steps: Steps = ()) -> float:
        """Return the share of the whole time of a node in which its thread waited for a core."""
        waited = summed(self._waited, self._ends[node], steps) - summed(self._waited, node, steps)
        whole = sum(self.of(node, steps)) + waited
        return min(max(waited / whole, 0.0), 1.0) if whole > 0.0 else 0.0

    def between(self, start: int, stop: int) -> tuple[float, ...]:
        """Return the seconds of a run of nodes in preorder, in the same order."""
        # Differences of long sums may come out a hair below 0.
        return tuple(max(sums[stop] - sums[start], 0.0) for sums in self._sums)

    def first_not_decided(self, start: int, stop: int) -> int | None:
        """Return the first module of a run whose own time the roofs do not decide."""
        sums = self._sums[NOT_DECIDED]
        if sums[stop] == sums[start]:
            return None
        return bisect_right(sums, sums[start], start, stop + 1) - 1

    def count_not_decided(self) -> tuple[int, int]:
        """Return how many modules have such a time, and how many any."""

        def risen(column: array[float]) -> int:
            return sum(after > before for before, after in pairwise(column))

        counts = [risen(column) for column in self._sums]
        return counts[NOT_DECIDED], sum(counts)


def ceilings_of(session: Session) -> Ceilings | None:
    """Return the roofs that times are held against; without that of operators by rule 5."""
    ceilings, device = session.ceilings, session.gpu_forwards
    is_ahead = device is not None and device.waits_for_host is False
    return _launched_ahead(ceilings) if ceilings is not None and is_ahead else ceilings


def beyond(timings: Timings | None) -> Beyond:
    """Return what takes time beyond the floors: the host, where a GPU waits for it."""
    device = timings.device if timings is not None else None
    return FOR_HOST if device is not None and device.waits_for_host else NOTHING_KNOWN


@lru_cache(maxsize=4)
def _launched_ahead(ceilings: Ceilings) -> Ceilings:
    return replace(ceilings, op_seconds=0.0)


def bytes_moved(cost: Cost) -> int:
    """Return the bytes that the operators of a node read and write."""
    return cost.input_bytes + cost.weight_bytes + cost.output_bytes


def is_counted(cost: Cost) -> bool:
    """Tell whether the work of a node is known, if only as a lower bound.

    It is not where nothing at all was counted, neither work nor bytes, and something was not seen,
    such as compiled code: then 0 is no figure.
    """
    return bool(cost.flops or bytes_moved(cost)) or not cost.uncosted


def known_macs(cost: Cost) -> int | None:
    """Return the multiply-accumulates; None if they are unknown.

    A lower bound if some operators have no formula; None, not 0, if nothing was counted then.
    """
    return cost.macs if cost.macs or not cost.uncosted else None


def known_flops(cost: Cost) -> int | None:
    """Return the FLOPs, with the same rules as ``known_macs``."""
    return cost.flops if cost.flops or not cost.uncosted else None


def is_at_least(cost: Cost) -> bool:
    """Tell whether FLOPs and intensity are lower bounds: only some operators have a formula.

    Where others depend on the data (``tree.bounded``), they are neither upper nor lower bound.
    """
    return bool(cost.uncosted and cost.flops)


def known_bytes(cost: Cost) -> int | None:
    """Return the bytes that the operators read and write, None where they are not known."""
    return bytes_moved(cost) if is_counted(cost) else None


def why_not_counted(tree: Tree) -> str:
    """Return the reason why work in a tree is not known."""
    names = tree.done.uncosted if tree.done is not None else ()
    if not names:
        return NO_FORMULA
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"not counted: {', '.join(map(safe, names[:_MOST_NAMED]))}{more}"


def intensity(cost: Cost) -> float | None:
    """Return FLOPs per byte, None where nothing is moved or no FLOPs are known."""
    flops, moved = known_flops(cost), bytes_moved(cost)
    return flops / moved if moved and flops is not None else None


def bound(session: Session, node: int, steps: Steps = ()) -> Bound | None:
    """Return the class of a node, None where it costs nothing and was not measured.

    Args:
        session: whose node it is.
        node: its index.
        steps: the runs that it lies in where its row sums over them; then only class and mix.
    """
    tree = session.tree
    if tree is None or not tree.has_forward:
        return None
    parts = node_parts(session, node, steps)
    kind = largest(parts)
    if kind is None:
        return on_paper(tree, node)
    *shares, open_share = (each / sum(parts) for each in parts)
    judged = Bound(
        kind,
        measured=True,
        mix=tuple(shares),
        waiting=waiting_share(session, node, steps),
        not_decided=open_share,
        is_container=bool(steps),
    )
    return judged if steps else _with_figures(session, tree, node, judged)


def largest(parts: tuple[float, ...]) -> BoundKind | None:
    """Return the class of most of the time; None where what is not decided could be another."""
    *seconds, not_decided = parts
    most = max(seconds, default=0.0)
    if not most:
        return None
    first = seconds.index(most)
    other = max(part for index, part in enumerate(seconds) if index != first)
    return KINDS[first] if most >= other + not_decided else None


def kinds_of(session: Session) -> Callable[[int], BoundKind | None]:
    """Return a function that returns the class of a node as ``bound`` does, for many nodes."""
    tree, found = session.tree, mixes_of(session)

    def kind_of(node: int) -> BoundKind | None:
        if tree is None or not tree.has_forward:
            return None
        is_module = tree.nodes[node].kind == "module"
        kind = largest(found.of(node) if found and is_module else node_parts(session, node))
        if kind is not None:
            return kind
        paper = on_paper(tree, node)
        return None if paper is None else paper.kind

    return kind_of


def on_paper(tree: Tree, node: int) -> Bound | None:
    """Return the class that the intensity alone says; None where ``why_no_class`` says why."""
    ratio = intensity(tree.costs[node])
    if ratio is None or why_no_class(tree, node):
        return None
    kind: BoundKind = "memory" if ratio <= PAPER_RIDGE else "compute"
    side = "at most" if ratio <= PAPER_RIDGE else "above"
    reason = f"{intensity_text(ratio)} FLOP/B, {side} {PAPER_RIDGE:.0f}: {kind}-bound"
    return Bound(kind, measured=False, intensity=ratio, reason=reason)


def why_no_class(tree: Tree, node: int) -> str:
    """Return why the work of a node has no class on paper, empty where it has one."""
    cost = tree.costs[node]
    if cost.uncosted and not cost.flops:
        return _none_counted(cost)
    ratio = intensity(cost)
    if ratio is None:
        return NOTHING_MOVED
    if cost.uncosted and ratio <= PAPER_RIDGE:
        # Bytes are known of every operator, FLOPs of those with a formula: only above 10 it holds.
        return f"its FLOPs are a lower bound: {_without_formula(cost)}"
    match tree.depends(node):
        case "about":
            return BY_VALUE
        case "at most" if not _is_sure_side(tree, node, ratio):
            return BY_DATA
    return ""


def _is_sure_side(tree: Tree, node: int, ratio: float) -> bool:
    """Return whether the intensity is on one side of the ridge with and without bounded work.

    Less of an operator's work never raises its FLOPs per byte: one that is bounded has no other
    part, and is sure below the ridge.
    """
    flops, moved = _bounded_work(tree)
    end, cost = tree.ends[node], tree.costs[node]
    sure_flops = cost.flops - (flops[end] - flops[node])
    sure_bytes = bytes_moved(cost) - (moved[end] - moved[node])
    if sure_bytes <= 0:
        return ratio <= PAPER_RIDGE
    return (ratio <= PAPER_RIDGE) == (sure_flops / sure_bytes <= PAPER_RIDGE)


@lru_cache(maxsize=4)
def _bounded_work(tree: Tree) -> tuple[array[int], array[int]]:
    """Return FLOPs and bytes of operators whose work is an upper bound, summed in preorder."""
    flops, moved = array("q", [0]), array("q", [0])
    for index, (node, cost) in enumerate(zip(tree.nodes, tree.costs, strict=True)):
        is_bounded = node.kind == "op" and tree.depends(index) == "at most"
        flops.append(flops[-1] + is_bounded * cost.flops)
        moved.append(moved[-1] + is_bounded * bytes_moved(cost))
    return flops, moved


def _none_counted(cost: Cost) -> str:
    if cost.uncosted == cost.ops == 1:
        return "its FLOPs are not known: the operator has no formula"
    return f"its FLOPs are not known: {_without_formula(cost)}"


def _without_formula(cost: Cost) -> str:
    return f"{cost.uncosted} of {cost.ops} operators have no formula"


def phrase(kind: BoundKind) -> str:
    """Return a class in a sentence: ``memory-bound``, ``page faults``, ``unexplained``."""
    return CLASSES[kind].phrase


def node_mix(session: Session, node: int, steps: Steps = ()) -> tuple[float, ...]:
    """Return a node's seconds per forward by class, all 0 where it has no measured class."""
    return node_parts(session, node, steps)[:NOT_DECIDED]


def node_parts(session: Session, node: int, steps: Steps = ()) -> tuple[float, ...]:
    """Return the same, and last the seconds whose class the roofs do not decide."""
    tree = session.tree
    found = mixes_of(session)
    if tree is None or found is None:
        return (0.0,) * (len(KINDS) + 1)
    if tree.nodes[node].kind == "module":
        return found.of(node, steps)
    seconds = [0.0] * (len(KINDS) + 1)
    for each in members(node, steps):
        spent = node_seconds(session, each)
        if spent and (ceilings := ceilings_of(session)) is not None:
            held = floors(tree, ceilings)
            dtype, moved = node_dtype(tree, each), held.moved(each, each + 1)
            explains = explained(
                called_cost(tree, each),
                held.roofs,
                dtype,
                moved,
                depends=own_dependence(tree, each),
            )
            judged, faults, blocked = _of_operator(session, tree.nodes[each].parent, spent)
            seconds[_code(explains, judged)] += judged
            seconds[FAULTS] += faults
            seconds[BLOCKED] += blocked
    return tuple(seconds)


def _of_operator(session: Session, module: int, spent: float) -> tuple[float, float, float]:
    """Return an operator's seconds of work, in page faults and blocked, without waiting for a core.

    They are divided as the time of its module is, of which page faults and sleep are known.
    """
    timings, parts = session.timings, thread_parts_of(session)
    if timings is None or parts is None:
        return spent, 0.0, 0.0
    unwaited = timings.on_core(module, spent)
    position = timings.position(module)
    if position is None:
        return unwaited, 0.0, 0.0
    work, faults = parts.operators[position], parts.faults[position]
    on_core = work + faults + parts.python[position]
    asleep = parts.blocked[position]
    # What a module sleeps outside of its operators is not theirs.
    outside = parts.outside[position]
    within = max(asleep - outside, 0.0)
    whole = work + within
    off = unwaited * within / whole if whole > 0.0 else 0.0
    part = faults / on_core if on_core > 0.0 else 0.0
    return (unwaited - off) * (1.0 - part), (unwaited - off) * part, off


def waiting_share(session: Session, node: int, steps: Steps = ()) -> float:
    """Return the share of a node's time in which its thread waited for a core; 0 if unknown."""
    tree, timings, found = session.tree, session.timings, mixes_of(session)
    if tree is None or timings is None or found is None:
        return 0.0
    if tree.nodes[node].kind == "module":
        return found.waiting_share(node, steps)
    spent = node_seconds(session, node)
    left = timings.on_core(tree.nodes[node].parent, spent) if spent else 0.0
    return max(1.0 - left / spent, 0.0) if spent else 0.0


def mixes_of(session: Session) -> ClassSeconds | None:
    """Return the mixes of all nodes, None where nothing is measured against this machine."""
    tree, timings, ceilings = session.tree, session.timings, ceilings_of(session)
    if tree is None or timings is None or ceilings is None or not times_fit_costs(session):
        return None
    if not has_roofs(ceilings):
        return None
    return mixes(*mix_arguments(session, ceilings))


def mix_arguments(
    session: Session, ceilings: Ceilings
) -> tuple[Tree, Limits, Timings, ThreadParts]:
    """Return what ``mixes`` is computed from, of a session with a tree and a tick."""
    tree, timings, parts = session.tree, session.timings, thread_parts_of(session)
    assert tree is not None
    assert timings is not None
    assert parts is not None
    return tree, limits(tree, ceilings), timings, parts


def has_roofs(ceilings: Ceilings) -> bool:
    """Return whether there is any figure to hold times against."""
    roofs = usable_roofs(ceilings)
    return bool(
        roofs.compute
        or roofs.compute_at_least
        or roofs.levels
        or roofs.op_seconds is not None
        or roofs.op_seconds_at_most is not None
    )


def why_not_decided(session: Session, node: int) -> str:
    """Return which roof leaves the class of a node open, or of a module inside; empty where none.

    Only where there are times: before them nothing is.
    """
    tree, ceilings, found = session.tree, ceilings_of(session), mixes_of(session)
    if tree is None or ceilings is None or found is None:
        return ""
    if tree.nodes[node].kind == "op":
        is_open = bool(node_parts(session, node)[NOT_DECIDED])
        return open_roof(tree, floors(tree, ceilings), node) if is_open else ""
    first = found.first_not_decided(node, tree.ends[node])
    return "" if first is None else open_roof(tree, floors(tree, ceilings), first)


def not_decided_modules(session: Session) -> tuple[int, int]:
    """Return how many timed modules the roofs do not decide, and how many there are."""
    found = mixes_of(session)
    return (0, 0) if found is None else found.count_not_decided()


def memory_level(session: Session) -> str:
    """Return the level whose roof takes most of the memory-bound time of the whole model."""
    tree, timings, ceilings = session.tree, session.timings, ceilings_of(session)
    seconds: dict[str, float] = {}
    if tree is None or timings is None or ceilings is None or mixes_of(session) is None:
        return MEMORY
    found, roofs = limits(tree, ceilings), usable_roofs(ceilings)
    for node, code in enumerate(found.codes):
        own = timings.on_core(node, timings.own_per_forward(node) or 0.0)
        if KINDS[code : code + 1] != ("memory",) or not 0 < own <= found.seconds[node]:
            continue
        levels: dict[str, float] = {}
        for moved in _own_moves(tree, node):
            for name, least in roofs.level_names(*moved):
                levels[name] = levels.get(name, 0.0) + least
        name = max(levels, key=levels.__getitem__, default=MEMORY)
        seconds[name] = seconds.get(name, 0.0) + own
    return max(seconds, key=seconds.__getitem__, default=MEMORY)


def open_roof(tree: Tree, held: Floors, node: int) -> str:
    """Say what leaves a node's own work open: the roof that could ask most; empty if nothing."""
    if (depends := own_dependence(tree, node)) is not None:
        return WHY_OPEN[depends]
    dtype, cost = node_dtype(tree, node), certain_cost(tree, node)
    _, at_most = _floors(cost, held.roofs, dtype, own_moved(tree, held, node))
    if not at_most:
        return ""
    kind = max(at_most, key=at_most.__getitem__)
    return held.roofs.sentence(_roof_name(tree, held, node, kind))


def _roof_name(tree: Tree, held: Floors, node: int, kind: BoundKind) -> str:
    """Return the name of the roof of a kind that a node needs and that is not good."""
    if kind != "memory":
        return node_dtype(tree, node) if kind == "compute" else OPERATOR
    names = (held.roofs.level_not_good(*moved) for moved in _own_moves(tree, node))
    return next(filter(None, names), MEMORY)


def _own_moves(tree: Tree, node: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield bytes of activations and of weights, calls, and all weights, of each own operator."""
    all_weights = tree.costs[0].parameter_bytes
    if tree.nodes[node].is_opaque:
        cost = certain_cost(tree, node)
        activations = cost.input_bytes + cost.output_bytes
        yield activations, cost.weight_bytes, tree.nodes[node].calls, all_weights
        return
    is_whole = tree.nodes[node].kind == "op"
    inside = range(node, tree.ends[node]) if is_whole else (node, *tree.children(node))
    for index in inside:
        cost, at = tree.costs[index], tree.nodes[index]
        if at.kind == "op" or (index == node and tree.ends[node] == node + 1):
            activations = cost.input_bytes + cost.output_bytes
            yield activations, cost.weight_bytes, at.calls, all_weights


@Incremental
def floors(tree: Tree, ceilings: Ceilings) -> Generator[None, None, Floors]:
    """Return what the roofs ask of a tree."""
    roofs = usable_roofs(ceilings)
    all_weights = tree.costs[0].parameter_bytes if len(tree) else 0
    activations, weights = yield from _own_bytes(tree)
    moving, total = array("d", [0.0]), 0.0
    at_most, most = array("d", [0.0]), 0.0
    for index, node in enumerate(tree.nodes):
        if index % STEP == 0:
            yield
        moved = (max(activations[index], 0), max(weights[index], 0))
        if roofs.levels and any(moved):
            seconds = roofs.memory_seconds(*moved, node.calls, all_weights)
            if seconds is None:
                most += roofs.memory_seconds_at_most(*moved, node.calls, all_weights)
            total += seconds or 0.0
        if roofs.levels and (sequence := time_steps(node)) is not None:
            good, otherwise = roofs.again_seconds(*sequence, node.calls)
            total, most = total + good, most + otherwise
        moving.append(total)
        at_most.append(most)
    return Floors(roofs, moving, at_most)


def _own_bytes(tree: Tree) -> Generator[None, None, tuple[array[int], array[int]]]:
    """Return the bytes of activations and of weights that no child of a node moves.

    They are those of operators; of a module there are some where its operators are not told.
    """
    activations = array("q", (cost.input_bytes + cost.output_bytes for cost in tree.costs))
    weights = array("q", (cost.weight_bytes for cost in tree.costs))
    for index, node in enumerate(tree.nodes):
        if index % STEP == 0:
            yield
        if node.parent >= 0:
            cost = tree.costs[index]
            activations[node.parent] -= cost.input_bytes + cost.output_bytes
            weights[node.parent] -= cost.weight_bytes
    inside_until = 0
    for index, node in enumerate(tree.nodes):
        if index % STEP == 0:
            yield
        if index < inside_until:
            activations[index] = weights[index] = 0
        elif node.is_opaque:
            cost, inside_until = certain_cost(tree, index), tree.ends[index]
            activations[index] = cost.input_bytes + cost.output_bytes
            weights[index] = cost.weight_bytes
    return activations, weights


@Incremental
def mixes(
    tree: Tree, limits: Limits, timings: Timings, parts: ThreadParts
) -> Generator[None, None, ClassSeconds]:
    """Return the mixes of a tick."""
    own = tuple(array("d", bytes(8 * (len(tree) + 1))) for _ in (*KINDS, NOT_DECIDED))
    waited = array("d", bytes(8 * (len(tree) + 1)))
    nodes = memoryview(timings.tick.nodes).cast("I")
    columns = (
        *(nodes, timings.own, timings.own_on_core),
        *(parts.operators, parts.python, parts.faults, parts.blocked),
    )
    codes, limit, calling, count = limits.codes, limits.seconds, limits.calling, len(tree)
    factor, otherwise = beyond(timings)
    for start in range(0, len(nodes), STEP):
        part = slice(start, start + STEP)
        for node, spent, left, judged, python, faults, blocked in zip(
            *(column[part] for column in columns), strict=True
        ):
            if node < count:
                place = node + 1
                code = codes[node] if judged <= limit[node] * factor else otherwise
                own[code][place] = judged
                own[OVERHEAD if python <= calling[node] else PYTHON][place] += python
                own[FAULTS][place] = faults
                own[BLOCKED][place] = blocked
                waited[place] = spent - left
        yield
    sums: tuple[array[float], ...] = ()
    for column in own:
        sums = (*sums, (yield from sums_in_steps(column)))
    return ClassSeconds(tree, sums, (yield from sums_in_steps(waited)))


@Incremental
def limits(tree: Tree, ceilings: Ceilings) -> Generator[None, None, Limits]:
    """Return what explains the own time of every module, and up to how many seconds."""
    yield from floors.steps(tree, ceilings)
    found = floors(tree, ceilings)
    codes = bytearray([UNEXPLAINED]) * len(tree)
    limit = array("d", bytes(8 * len(tree)))
    calling = array("d", bytes(8 * len(tree)))
    call, calls_inside = _longest_call(found.roofs), array("q", bytes(8 * len(tree)))
    for node in tree.nodes:
        if node.kind == "module" and node.parent >= 0:
            calls_inside[node.parent] += node.calls
    for index, node in enumerate(tree.nodes):
        if index % STEP == 0:
            yield
        if node.kind == "module":
            cost, dtype = called_cost(tree, index), node_dtype(tree, index)
            moved = own_moved(tree, found, index)
            codes[index], limit[index] = explained(
                cost, found.roofs, dtype, moved, depends=own_dependence(tree, index)
            )
            calls = cost.ops + node.calls + calls_inside[index]
            calling[index] = calls * call
    return Limits(bytes(codes), limit, calling)


def _longest_call(roofs: UsableRoofs) -> float:
    """Return the seconds of Python that may belong to one call of an operator or a module."""
    seconds = roofs.op_seconds if roofs.op_seconds is not None else roofs.op_seconds_at_most
    return math.inf if seconds is None else seconds / UNEXPLAINED_BELOW


class TimeSteps(NamedTuple):
    """The sequence that a fused recurrent layer runs through."""

    steps: int
    matrix_bytes: int
    """Bytes of the hidden-to-hidden matrix, which every step reads."""


def time_steps(node: Node) -> TimeSteps | None:
    """Return the time steps of one call of a fused recurrent operator, None for any other.

    Its inputs are (steps, batch, width), the input-to-hidden and the hidden-to-hidden matrix.
    """
    if node.kind != "op" or node.name != _RECURRENT or len(node.inputs) < _RECURRENT_INPUTS:
        return None
    return TimeSteps(node.inputs[0].shape[0], node.inputs[2].bytes)


def called_cost(tree: Tree, node: int) -> Cost:
    """Return ``certain_cost`` in which every time step of a recurrent operator is an operator."""
    cost, at = certain_cost(tree, node), tree.nodes[node]
    if at.is_opaque:
        return cost
    own = (node,) if at.kind == "op" else tree.children(node)
    more = 0
    for each in own:
        if (sequence := time_steps(tree.nodes[each])) is not None:
            more += (sequence.steps - 1) * tree.nodes[each].calls
    return replace(cost, ops=cost.ops + more) if more else cost


def own_dependence(tree: Tree, node: int) -> Bounded | None:
    """Return how the own work of a node depends on the data; "about" outweighs "at most"."""
    if not tree.bounded:
        return None
    at = tree.nodes[node]
    own = (node,) if at.kind == "op" or at.is_opaque else tree.children(node)
    found = {tree.depends(each) for each in own if each == node or tree.nodes[each].kind == "op"}
    return "about" if "about" in found else "at most" if "at most" in found else None


def explained(
    cost: Cost,
    roofs: UsableRoofs,
    dtype: str,
    moved: MoveSeconds,
    *,
    depends: Bounded | None = None,
) -> tuple[int, float]:
    """Return the class of the largest floor, and the longest time that it may explain.

    Args:
        cost: of the work.
        roofs: of the machine.
        dtype: that it computes in.
        moved: least seconds of moving its bytes.
        depends: how the work depends on the data.
    """
    least, at_most = _floors(cost, roofs, dtype, moved, depends=depends)
    kind = max(least, key=least.__getitem__, default=None)
    largest = least[kind] if kind is not None else 0.0
    most = max(at_most.values(), default=0.0)
    if cost.uncosted and (kind != "compute" or most > largest):
        return UNEXPLAINED, 0.0
    if most > largest:
        return NOT_DECIDED, most / UNEXPLAINED_BELOW
    if kind is None or not largest:
        return UNEXPLAINED, 0.0
    return KINDS.index(kind), largest / UNEXPLAINED_BELOW


def largest_floor(tree: Tree, held: Floors, node: int) -> float | None:
    """Return the least seconds of an operator; None where another roof could ask more."""
    moved, dtype = held.moved(node, node + 1), node_dtype(tree, node)
    depends = own_dependence(tree, node)
    least, at_most = _floors(tree.costs[node], held.roofs, dtype, moved, depends=depends)
    largest = max(least.values(), default=0.0)
    return None if any(largest < most for most in at_most.values()) else largest


def _floors(
    cost: Cost,
    roofs: UsableRoofs,
    dtype: str,
    moved: MoveSeconds,
    *,
    depends: Bounded | None = None,
) -> tuple[dict[BoundKind, float], dict[BoundKind, float]]:
    """Return the floors that are known, and of the others what they are at most.

    Arguments as of ``explained``.
    """
    least = least_seconds(cost, roofs, dtype, moved.seconds if roofs.levels else None)
    at_most: dict[BoundKind, float] = {}
    if cost.flops and "compute" not in least:
        rate = _compute_rate(cost, roofs.compute_at_least, dtype)
        at_most["compute"] = cost.flops / rate if rate else math.inf
    if bytes_moved(cost) and "memory" not in least:
        at_most["memory"] = moved.good + moved.at_most if roofs.levels else math.inf
    if cost.ops and "overhead" not in least:
        seconds = roofs.op_seconds_at_most
        at_most["overhead"] = math.inf if seconds is None else cost.ops * seconds
    if depends == "at most":
        for kind in ("compute", "memory"):
            if least.get(kind):
                at_most[kind] = least.pop(kind)
    if depends == "about":
        return {}, dict.fromkeys(OF_FLOORS, math.inf)
    return least, at_most


def _code(explains: tuple[int, float], seconds: float) -> int:
    code, limit = explains
    return code if seconds <= limit else UNEXPLAINED


def own_moved(tree: Tree, found: Floors, node: int) -> MoveSeconds:
    """Return the least time of moving the bytes of ``own_cost``."""
    whole = found.moved(node, tree.ends[node])
    if tree.nodes[node].kind == "op":
        return whole
    parts = [found.moved(child, tree.ends[child]) for child in tree.modules_in(node)]
    return MoveSeconds(
        _rest(whole.good, [part.good for part in parts]),
        _rest(whole.at_most, [part.at_most for part in parts]),
    )


def _rest(whole: float, parts: list[float]) -> float:
    """Return what is left; nothing where it is no more than rounding."""
    left = whole - sum(parts)
    return left if left > _ROUNDING * whole else 0.0


def own_cost(tree: Tree, node: int) -> Cost:
    """Return what a module's operators cost without those of modules inside.

    An opaque module has all of them: no module inside has a time of its own.
    """
    whole, nodes = tree.costs[node], tree.nodes
    if nodes[node].is_opaque or nodes[node].kind == "op":
        return whole
    return without(whole, [tree.costs[child] for child in tree.modules_in(node)])


def without(whole: Cost, parts: Sequence[Cost]) -> Cost:
    """Return work without that of parts inside; parameters are those of the whole."""
    if not parts:
        return whole
    left = {
        name: max(getattr(whole, name) - sum(getattr(part, name) for part in parts), 0)
        for name in _WORK
    }
    return replace(whole, **left)


def certain_cost(tree: Tree, node: int) -> Cost:
    """Return of ``own_cost`` what a forward cannot do without.

    Compiled and scripted code fuses operators: how many kernels run is not known, and what one
    operator writes for the next may never leave a register. So an opaque module has no operators
    here, and only the bytes of its own inputs, outputs and parameters.
    """
    cost, at = own_cost(tree, node), tree.nodes[node]
    if not at.is_opaque:
        return cost
    return replace(
        cost,
        ops=0,
        input_bytes=min(cost.input_bytes, at.calls * sum(each.bytes for each in at.inputs)),
        output_bytes=min(cost.output_bytes, at.calls * sum(each.bytes for each in at.outputs)),
        weight_bytes=min(cost.weight_bytes, at.calls * cost.parameter_bytes),
    )


def node_dtype(tree: Tree, node: int) -> str:
    """Return the dtype that a node computes in: of its weights, its outputs or its inputs.

    ``int8`` where an operator of its own multiplies integers: its tensors may all be float32.
    """
    found = tree.nodes[node]
    own = (found,) if found.kind == "op" else (tree.nodes[child] for child in tree.children(node))
    if any(each.kind == "op" and _INTEGERS.match(each.name) for each in own):
        return INTEGERS
    names = (
        *(weight.dtype for weight in found.weights if not weight.is_buffer),
        *(tensor.dtype for tensor in (*found.outputs, *found.inputs)),
    )
    return next((name for name in names if name.startswith(("float", "bfloat"))), "float32")


def least_seconds(
    cost: Cost, roofs: UsableRoofs, dtype: str, memory: float | None
) -> dict[BoundKind, float]:
    """Return the seconds that each roof alone asks for; roofs that are not known are left out.

    Args:
        cost: of the work.
        roofs: of the machine.
        dtype: that it computes in.
        memory: least seconds of moving its bytes; None where memory has no roof.
    """
    least: dict[BoundKind, float] = {}
    if flops_roof := _compute_rate(cost, roofs.compute, dtype):
        least["compute"] = cost.flops / flops_roof
    if memory is not None:
        least["memory"] = memory
    if roofs.op_seconds is not None:
        least["overhead"] = cost.ops * roofs.op_seconds
    return least


def _compute_rate(cost: Cost, rates: dict[str, float], dtype: str) -> float | None:
    """Return the roof of work; of pointwise operators of 16 bits float32's where it is higher.

    On a processor torch computes them in float32 (``at::vec::convert_to_float``), whatever its
    matrix products of 16 bits take.
    """
    rate = rates.get(dtype)
    if cost.macs or dtype not in _NARROW or rate is None:
        return rate
    return max(rate, rates.get(_WIDE, 0.0))


def _with_figures(session: Session, tree: Tree, node: int, judged: Bound) -> Bound:
    """Return the measured class with what the node reaches of each roof."""
    cost, seconds, ceilings = tree.costs[node], node_seconds(session, node), ceilings_of(session)
    assert ceilings is not None
    kind, mix, not_decided = judged.kind, judged.mix, judged.not_decided
    # What a node reaches of a roof, it reaches while it runs.
    seconds = seconds * (1.0 - judged.waiting) if seconds is not None else None
    is_container = holds_work(tree, node)
    held, dtype = floors(tree, ceilings), node_dtype(tree, node)
    certain = called_cost(tree, node) if tree.nodes[node].is_opaque or not is_container else cost
    moved = bytes_moved(certain)
    memory = held.memory_seconds(node, tree.ends[node])
    depends = tree.depends(node)
    moves = held.moved(node, tree.ends[node])
    least, at_most = _floors(certain, held.roofs, dtype, moves, depends=depends)
    shares = {each: time / seconds for each, time in least.items()} if seconds else {}
    no_roof: dict[BoundKind, str] = {
        each: WHY_OPEN[depends]
        if depends == "about" or (depends and each != "overhead")
        else held.roofs.sentence(_roof_name(tree, held, node, each))
        for each in at_most
    }
    flops_roof = _compute_rate(cost, held.roofs.compute, dtype)
    ridge = flops_roof * memory / moved if flops_roof and memory and moved else None
    flops = known_flops(cost)
    if is_container or kind in OF_THREAD:
        reason = f"{share_text(mix[KINDS.index(kind)])} of its time is {_meaning(kind)}"
        if not_decided:
            reason += f", {share_text(not_decided)} is not decided"
        if kind == "unexplained" and (inner := _most_unexplained(session, tree, node)):
            reason += f"; {safe(tree.nodes[inner].path)}: {_reason_of(session, inner)}"
    elif not is_counted(cost):
        reason = why_not_counted(tree)
    elif kind == "unexplained" and cost.uncosted:
        reason = f"work is a lower bound: {cost.uncosted} of {cost.ops} operators have no formula"
    elif at_most and kind != "unexplained" and seconds:
        reason = _reason_without(kind, shares, {k: s / seconds for k, s in at_most.items()})
    else:
        device = session.gpu_forwards
        waits = device is not None and device.waits_for_host is True
        reason = _leaf_reason(kind, shares, intensity(certain), ridge, waits_for_host=waits)
        nearest = max(shares, key=shares.__getitem__, default=None)
        if kind == "unexplained" and nearest and not why_no_thread_class(session, "python"):
            part = shares[nearest] / mix[UNEXPLAINED]
            reason = _SLOW_KERNEL.format(share=share_text(part), kind=nearest)
    return replace(
        judged,
        no_roof=tuple(no_roof.items()),
        compute_share=shares.get("compute"),
        memory_share=shares.get("memory"),
        overhead_share=shares.get("overhead"),
        flops_per_second=None if not seconds or flops is None or depends else flops / seconds,
        bytes_per_second=None if not seconds or depends else moved / seconds,
        intensity=intensity(certain),
        ridge=ridge,
        dtype=short_dtype(dtype),
        is_container=is_container,
        reason=reason,
    )


_SLOW_KERNEL = (
    "on a core in operators, at {share} of the nearest roof ({kind}): their kernels are slow for"
    " this dtype, shape or layout"
)


def _most_unexplained(session: Session, tree: Tree, node: int) -> int | None:
    """Return the module without modules inside that has most of the unexplained time of a node."""
    found, inner = mixes_of(session), node
    while found is not None and holds_work(tree, inner):
        inside = tree.modules_in(inner)
        seconds = {child: found.of(child)[UNEXPLAINED] for child in inside}
        most = max(seconds, key=seconds.__getitem__, default=None)
        if most is None or 2 * seconds[most] < found.of(inner)[UNEXPLAINED]:
            return None
        inner = most
    return None if inner == node else inner


def _reason_of(session: Session, node: int) -> str:
    found = bound(session, node)
    return "" if found is None else found.reason


def why_no_thread_class(session: Session, kind: BoundKind) -> str:
    """Return why it is not known what time is of a class of ``OF_THREAD``; empty where it is."""
    timings, ceilings = session.timings, session.ceilings
    if timings is not None and timings.device is not None:
        return "times are those of the GPU's kernels"
    if timings is None or timings.own_read is None:
        return NO_CPU_TIME
    if kind == "python" and session.windows is None:
        return "no operator window yet: Python is not told from operators"
    if kind == "faults":
        cost = ceilings.fault_seconds if ceilings is not None else Unknown("not measured")
        return f"the cost of a page fault: {cost.reason}" if isinstance(cost, Unknown) else ""
    return ""


def kinds_seen(session: Session) -> tuple[BoundKind, ...]:
    """Return the classes to explain: those of the roofs, and the others that the model has."""
    has_nodes = session.tree is not None and len(session.tree) > 0
    mix = dict(zip(KINDS, node_mix(session, 0) if has_nodes else (), strict=False))
    return tuple(kind for kind in KINDS if kind not in OF_THREAD or mix.get(kind))


_MEANS: Mapping[BoundKind, str] = {
    "python": "on a core outside of operators: Python, NumPy or an extension",
    "blocked": "asleep: sleep, files, network or locks",
}


def _meaning(kind: BoundKind) -> str:
    """Return a class in a sentence, with what it covers where its name alone does not say."""
    return _MEANS.get(kind, phrase(kind))


def holds_work(tree: Tree, node: int) -> bool:
    """Return whether modules inside are called: they have times of their own."""
    if tree.nodes[node].kind == "op" or tree.nodes[node].is_opaque:
        return False
    inside = (tree.nodes[index] for index in range(node + 1, tree.ends[node]))
    return any(each.kind == "module" and each.calls for each in inside)


def _reason_without(
    kind: BoundKind, shares: dict[BoundKind, float], at_most: dict[BoundKind, float]
) -> str:
    """Say that a roof which is not good enough cannot be the one that limits."""
    others = ", ".join(f"{each} at most {share_text(part)}" for each, part in at_most.items())
    return f"{kind} takes at least {share_text(shares.get(kind, 0.0))} of the time, {others}"


def _leaf_reason(
    kind: BoundKind,
    shares: dict[BoundKind, float],
    ratio: float | None,
    ridge: float | None,
    *,
    waits_for_host: bool,
) -> str:
    if kind == "unexplained":
        return "neither compute- nor bandwidth-limited; cause unknown"
    if kind == "overhead" and waits_for_host:
        return "the GPU waits for the host: caught up at the end of at least half of the forwards"
    if kind == "overhead":
        return f"operator overhead takes {shares.get('overhead', 0.0) * 100:.0f} % of the time"
    if kind == "memory" and shares.get("memory", 0.0) > FROM_CACHES_ABOVE:
        return "above its memory roof: the data is in a cache"
    if ratio is None:
        return NOTHING_MOVED
    if ridge is None:
        return "it computes nothing"
    part = ratio / ridge
    times = f"{part:.1f}×" if part >= 0.095 else f"{part:.2f}×"
    return f"{ratio:.3g} FLOP/B is {times} the ridge at {ridge:.3g}"
