"""How long a forward spends in a node."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from functools import lru_cache

from tui_profiler.queries.time.operator_seconds import operator_seconds
from tui_profiler.session import Session, Tree
from tui_profiler.session.columns import Timings

UNEVEN = 0.85
"""Parts that make less of the whole leave something to say: medians do, means do not."""


def node_seconds(session: Session, node: int) -> float | None:
    """Return the seconds a forward spends in a node, None where nothing was measured.

    Of a module the mean over one set of forwards, so that children and self time make it exactly;
    of an operator what operator windows say of that mean (``operator_seconds.py``): operators
    never take more than their module.

    A container that is never called itself, such as a ModuleList, takes what its children take.
    """
    tree, timings = session.tree, session.timings
    if tree is None:
        return None
    if tree.nodes[node].kind == "op":
        operators = operator_seconds(session)
        return operators.of(node) if operators is not None else None
    if timings is None:
        return None
    seconds = timings.per_forward(node)
    return _inside_seconds(tree, timings, node) if seconds is None else seconds


ENQUEUED = "on a GPU, modules are timed (CUDA events), operators are not"
NO_CPU_TIME = "CPU time of calls is not read yet: about one forward per second reads it"
CPU_OF_CALLS = "CPU time is read only for calls of modules"


def cpu_seconds(session: Session, node: int) -> float | None:
    """Return the CPU seconds that a forward's thread spends in a module; None where not read.

    A mean over forwards now and then in which every call reads it. A container that is never called
    itself takes what its children take.
    """
    tree, timings = session.tree, session.timings
    if tree is None or timings is None or tree.nodes[node].kind == "op":
        return None
    if node in timings:
        return timings.cpu_per_forward(node)
    inside = [timings.cpu_per_forward(each) for each in measured_inside(tree, timings, node)]
    known = [seconds for seconds in inside if seconds is not None]
    return sum(known) if known else None


def unwaited_seconds(session: Session, node: int) -> float | None:
    """Return the seconds that a forward spends in a node, without waiting for a core.

    Of forwards in which every call read what its thread waited, so that nodes and the whole are of
    the same ones; before there are any, waiting is taken off evenly.
    """
    tree, timings, seconds = session.tree, session.timings, node_seconds(session, node)
    if tree is None or timings is None or seconds is None or not timings.waiting:
        return seconds
    even = seconds * (1.0 - timings.waiting)
    read, usual = timings.unwaited_per_forward(0), timings.per_forward(0)
    if not read or not usual:
        return even
    if tree.nodes[node].kind == "op":  # Of windows: its share of a usual forward.
        return seconds * read / usual
    if node in timings:
        return timings.unwaited_per_forward(node) if timings.unwaited_per_forward(node) else even
    inside = [timings.unwaited_per_forward(each) for each in measured_inside(tree, timings, node)]
    return sum(each or 0.0 for each in inside) if any(inside) else even


def why_no_cpu_time(session: Session, node: int) -> str:
    """Return why ``cpu_seconds`` is None of a node that has times."""
    tree, tick = session.tree, session.tick
    if tree is not None and tree.nodes[node].kind == "op":
        return CPU_OF_CALLS
    if tick is None or not tick.cpu_forwards:
        return NO_CPU_TIME
    return "not called in the forwards that read CPU time"


def parts_share(session: Session, node: int) -> float | None:
    """Return the share of a node's time that its children and its self time account for.

    1 where times are means. Medians, of recordings of older versions, do not add up: where a part
    is interrupted now and then, every forward has one that took long, and no part's median has it.
    None where a node has no parts or no times.
    """
    tree, timings = session.tree, session.timings
    if tree is None or timings is None:
        return None
    whole, inside = timings.per_forward(node), _inside_seconds(tree, timings, node)
    if not whole or inside is None:
        return None
    return (inside + (timings.own_per_forward(node) or 0.0)) / whole


def _inside_seconds(tree: Tree, timings: Timings, node: int) -> float | None:
    """Add up the nodes right inside of one that were measured."""
    seconds = [
        timings.per_forward(inside) or 0.0 for inside in measured_inside(tree, timings, node)
    ]
    return sum(seconds) if seconds else None


def measured_inside(tree: Tree, timings: Timings, node: int) -> Iterator[int]:
    """Yield the nearest nodes inside of one that were measured."""
    measured = _measured(timings.tick.nodes)
    stop = tree.ends[node]
    position = bisect_left(measured, node + 1)
    while position < len(measured) and (inside := measured[position]) < stop:
        yield inside
        position = bisect_left(measured, tree.ends[inside], lo=position + 1)


@lru_cache(maxsize=4)
def _measured(packed: bytes) -> array[int]:
    """Return indexes of the measured nodes in preorder; they change seldom, so they are kept."""
    return array("I", sorted(memoryview(packed).cast("I")))


def root_seconds(session: Session) -> float | None:
    """Return the seconds of one whole forward, None before the first times."""
    seconds = node_seconds(session, 0) if session.tree is not None and len(session.tree) else None
    return seconds or None


def part_of(seconds: float | None, whole: float | None) -> float | None:
    """Return the share of a whole that a time is, at most all of it; None where one is not known.

    Medians, of recordings of older versions, do not add up: sums of them may be longer than the
    whole. No part of a forward takes 102 % of it.
    """
    return None if seconds is None or not whole else min(seconds / whole, 1.0)


def macs_share(tree: Tree, node: int) -> float | None:
    """Return a node's share of the multiply-accumulates of one forward, None if there are none.

    Where there is no forward it is the share of the parameters.
    """
    whole = tree.weight_on_paper(0)
    return tree.weight_on_paper(node) / whole if whole else None
