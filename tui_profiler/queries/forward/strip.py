"""One forward from left to right: how wide each child of the root is, and where a node lies in it.

1. Widths are shares of the forward's time; before the first times, of its multiply-accumulates.
2. Children too narrow for a cell of their own are drawn together with their neighbours in order.
3. The segments and the gaps between them take exactly the cells given.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Generator, Iterator
from itertools import accumulate

from msgspec import Struct
from msgspec.structs import replace

from tui_profiler.formatting.canvas import split_cells
from tui_profiler.queries.cost.bound import (
    ClassSeconds,
    ceilings_of,
    floors,
    has_roofs,
    limits,
    mix_arguments,
    mixes,
)
from tui_profiler.queries.cost.incremental import STEP, Incremental, sums_in_steps
from tui_profiler.queries.cost.thread_parts import arguments, thread_parts
from tui_profiler.queries.time.base import base
from tui_profiler.queries.time.node_seconds import node_seconds, root_seconds
from tui_profiler.session import Session, Timings, Tree

LEAST_CELLS = 1.0
"""A child narrower than this has no segment of its own."""
JOINED_CELLS = 2.0
"""Narrow neighbours share a segment until it is this wide: single cells would be a dotted line."""
ELSEWHERE = -1


class Segment(Struct, frozen=True):
    """A run of cells: one child, or several narrow ones."""

    first: int
    """Index of its first node; ``ELSEWHERE`` for what the root does outside its children."""
    stop: int
    """One past the last node in preorder."""
    start: int
    """First cell."""
    cells: int
    share: float
    """Of the base (``queries/time/base.py``), rounded to what is written."""
    alone: bool
    """It is one child, which may be named."""


class Strip(Struct, frozen=True):
    """Segments from left to right."""

    segments: tuple[Segment, ...]
    measured: bool
    """False: widths are shares of the MACs."""


class _Part(Struct, frozen=True):
    first: int
    stop: int
    weight: float
    alone: bool


def divided(tree: Tree) -> int:
    """Return the node whose children the strip shows: the root, or below it the first with two."""
    node = 0
    while True:
        inside = tree.modules_in(node)
        if len(inside) != 1:
            return node
        node = inside[0]


def weight(session: Session, node: int, *, measured: bool) -> float:
    """Return what a node's width is a share of: seconds a forward, or what it costs on paper."""
    assert session.tree is not None
    if measured:
        return node_seconds(session, node) or 0.0
    return float(session.tree.weight_on_paper(node))


def as_written(share: float) -> float:
    """Round a share to what is written of it.

    Unrounded it would differ at every tick, and nothing that differs is held still.
    """
    return round(share, 2 if share >= 0.01 else 3)


def strip(session: Session, cells: int) -> Strip:
    """Share out ``cells`` over the children of the root."""
    tree = session.tree
    if tree is None or not len(tree) or cells <= 0:
        return Strip((), measured=False)
    measured = root_seconds(session) is not None
    node = divided(tree)
    weights = [
        (child, weight(session, child, measured=measured))
        for child in tree.modules_in(node) or [node]
    ]
    whole, of = weight(session, 0, measured=measured), base(session).of_forwards
    return replace(laid_out(tree, weights, whole, cells, of), measured=measured)


def laid_out(
    tree: Tree, weights: list[tuple[int, float]], whole: float, cells: int, of_base: float = 1.0
) -> Strip:
    """Share out ``cells`` over nodes by their weights, and what is left of the whole.

    Args:
        tree: that the nodes are of.
        weights: of each node.
        whole: of which they are parts.
        cells: of the strip.
        of_base: share of the base that the whole is.
    """
    parts = [_Part(child, tree.ends[child], each, True) for child, each in weights]
    inside = sum(part.weight for part in parts)
    whole = max(whole, inside)
    if whole <= 0:
        return Strip((), measured=True)
    parts = _joined(parts, whole / cells)
    if (whole - inside) / whole * cells >= LEAST_CELLS:
        parts.append(_Part(ELSEWHERE, ELSEWHERE, whole - inside, True))
    return Strip(_placed(parts, whole, cells, of_base), measured=True)


def place(session: Session, shown: Strip, node: int) -> tuple[int, int] | None:
    """Return (first cell, cells) under which a node lies, None where it is not in the strip."""
    tree = session.tree
    if tree is None:
        return None
    for segment in shown.segments:
        if segment.first <= node < segment.stop:
            break
    else:
        return None
    if segment.alone and node == segment.first:
        return segment.start, segment.cells
    before, within, whole = _position(session, segment, node, measured=shown.measured)
    if whole <= 0:
        return segment.start, min(1, segment.cells)
    first = min(int(before / whole * segment.cells), segment.cells - 1)
    stop = min(max(round((before + within) / whole * segment.cells), first + 1), segment.cells)
    return segment.start + first, stop - first


def with_shares(shown: Strip, share_of: Callable[[int], float | None]) -> Strip:
    """Return a strip with the shares of another moment beside the names; cells stay as they are.

    Args:
        shown: the strip.
        share_of: returns the share of the base that a module takes.
    """
    segments = (
        replace(one, share=as_written(share_of(one.first) or 0.0))
        if one.alone and one.first != ELSEWHERE
        else one
        for one in shown.segments
    )
    return replace(shown, segments=tuple(segments))


def moved(shown: Strip, by: int) -> Strip:
    """Shift every segment to the right."""
    return replace(
        shown, segments=tuple(replace(one, start=one.start + by) for one in shown.segments)
    )


def colours(shown: Strip, found: ClassSeconds | None) -> tuple[tuple[int, ...], ...]:
    """Share out the cells of each segment over the bounds; none where nothing is known."""
    if not shown.measured or found is None:
        return tuple(() for _ in shown.segments)
    widths = (
        () if one.first == ELSEWHERE else split_cells(found.between(one.first, one.stop), one.cells)
        for one in shown.segments
    )
    return tuple(each if any(each) else () for each in widths)


def _joined(parts: list[_Part], of_one_cell: float) -> list[_Part]:
    """Join neighbours narrower than a cell until together they are wide enough."""
    joined: list[_Part] = []
    open_run = False
    for part in parts:
        narrow = part.weight < of_one_cell * LEAST_CELLS
        if narrow and open_run and joined[-1].weight < of_one_cell * JOINED_CELLS:
            last = joined[-1]
            # Of a backward the last comes first.
            first, stop = min(last.first, part.first), max(last.stop, part.stop)
            joined[-1] = _Part(first, stop, last.weight + part.weight, False)
        else:
            joined.append(part)
        open_run = narrow
    return joined


def _placed(parts: list[_Part], whole: float, cells: int, of_base: float) -> tuple[Segment, ...]:
    """Return each part its cells; parts with none are left out and their gap is shared again."""
    while True:
        # A hundred gaps would tell more about gaps than about time.
        gap = 1 if len(parts) * 4 <= cells else 0
        widths = split_cells([part.weight for part in parts], cells - gap * (len(parts) - 1))
        if all(widths) or not any(widths):
            break
        parts = [part for part, width in zip(parts, widths, strict=True) if width]
    segments: list[Segment] = []
    start = 0
    for part, width in zip(parts, widths, strict=True):
        share = as_written(part.weight / whole * of_base)
        segments.append(Segment(part.first, part.stop, start, width, share, part.alone))
        start += width + gap
    return tuple(segments)


def _position(
    session: Session, segment: Segment, node: int, *, measured: bool
) -> tuple[float, float, float]:
    """Return the weight before a node in its segment, of the node, and of the segment."""
    tree = session.tree
    assert tree is not None
    sums = own_sums(tree, session.timings if measured else None)
    start, stop = sums[segment.first], sums[segment.stop]
    return sums[node] - start, sums[tree.ends[node]] - sums[node], stop - start


@Incremental
def own_sums(tree: Tree, timings: Timings | None) -> Generator[None, None, array[float]]:
    """Add up in preorder what each module does itself: seconds of a tick, or costs on paper."""
    own = array("d", bytes(8 * (len(tree) + 1)))  # The first is 0.
    if timings is None:
        for index, at in enumerate(tree.nodes):
            weight = tree.weight_on_paper(index)
            own[index + 1] += weight
            if at.parent >= 0:
                own[at.parent + 1] -= weight
        return array("d", accumulate(own))
    nodes = memoryview(timings.tick.nodes).cast("I")
    seconds = timings.own
    for start in range(0, len(nodes), STEP):
        part = slice(start, start + STEP)
        for node, spent in zip(nodes[part], seconds[part], strict=True):
            if node < len(tree):
                own[node + 1] = spent
        yield
    return (yield from sums_in_steps(own))


def prepared(session: Session) -> Iterator[None]:
    """Compute what every new tick of a large tree needs, and yield between the steps.

    At 100,000 nodes this was most of the 75 to 101 ms in which a new tick blocked the keys.
    """
    tree, timings, ceilings = session.tree, session.timings, ceilings_of(session)
    if tree is None or timings is None:
        return
    yield from own_sums.steps(tree, timings)
    if ceilings is None:
        return
    yield from floors.steps(tree, ceilings)
    if has_roofs(ceilings):
        yield from limits.steps(tree, ceilings)
        yield from thread_parts.steps(*arguments(session))
        yield from mixes.steps(*mix_arguments(session, ceilings))
