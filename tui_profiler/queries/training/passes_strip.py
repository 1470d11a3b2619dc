"""One forward and its backward beside each other: how wide each child of the root is in both.

1. Widths are shares of what a step's forwards and backwards take; what is written beside a name is
   its share of the step, as in the tree and on the timeline.
2. The forward stands left, in the order of the tree; the backward right of it, in the other order,
   with what checkpointing runs again in it.
3. Segments of one direction are laid out as those of a forward (``queries/forward/strip.py``).
"""

from msgspec import Struct
from msgspec.structs import replace

from tui_profiler.formatting.canvas import split_cells
from tui_profiler.messages import known
from tui_profiler.queries.forward.flame import module_of
from tui_profiler.queries.forward.strip import Segment, Strip, as_written, divided, laid_out
from tui_profiler.queries.time.step_seconds import directions, timed_backward
from tui_profiler.session import Session, Tree

LEAST_CELLS = 24
"""Of a direction; with fewer the forward alone is drawn."""


class PassesStrip(Struct, frozen=True):
    """Two strips; the cells between them are for what stands between."""

    forward: Strip
    backward: Strip


def passes_strip(session: Session, cells: int, between: int) -> PassesStrip | None:
    """Share out cells over forward and backward of a step; None where either is not known.

    Args:
        session: that was told of steps.
        cells: of both together.
        between: blank cells before each of them.
    """
    tree, training = session.tree, session.training
    if tree is None or training is None or timed_backward(session, 0) is None:
        return None
    seconds = directions(session, 0)
    room, step = cells - 2 * between, known(training.step.seconds)
    if not all(seconds) or not step or room < 2 * LEAST_CELLS:
        return None
    least = min(max(split_cells(seconds, room)[0], LEAST_CELLS), room - LEAST_CELLS)
    node = divided(tree)
    inside = tree.modules_in(node) or [node]
    times = [directions(session, one) for one in inside]
    strips = []
    for place, (order, start, width) in enumerate(
        ((1, between, least), (-1, 2 * between + least, room - least))
    ):
        weights = [(one, each[place]) for one, each in zip(inside, times, strict=True)][::order]
        laid = laid_out(tree, weights, seconds[place], width)
        of_nodes = dict(weights)
        segments = tuple(
            replace(
                one,
                start=one.start + start,
                share=as_written(of_nodes[one.first] / step) if one.first in of_nodes else 0.0,
            )
            for one in laid.segments
        )
        strips.append(Strip(segments, measured=True))
    return PassesStrip(*strips)


def direction_share(session: Session, node: int, *, is_backward: bool) -> float:
    """Return the share of the step that a module takes in its forward, or in its backward."""
    step = known(session.training.step.seconds) if session.training is not None else None
    return directions(session, node)[is_backward] / step if step else 0.0


def places(session: Session, shown: PassesStrip, node: int) -> tuple[tuple[int, int], ...]:
    """Return (first cell, cells) under which a node lies in the forward and in the backward."""
    tree = session.tree
    if tree is None:
        return ()
    at = module_of(tree, node)
    found = (
        _place(session, tree, strip, at, is_backward=is_backward)
        for strip, is_backward in ((shown.forward, False), (shown.backward, True))
    )
    return tuple(place for place in found if place is not None)


def _place(
    session: Session, tree: Tree, shown: Strip, node: int, *, is_backward: bool
) -> tuple[int, int] | None:
    segment = next((one for one in shown.segments if one.first <= node < one.stop), None)
    if segment is None:
        return None
    start, stop = _within(session, tree, segment, node, is_backward=is_backward)
    first = min(int(start * segment.cells), segment.cells - 1)
    last = min(max(round(stop * segment.cells), first + 1), segment.cells)
    return segment.start + first, last - first


def _within(
    session: Session, tree: Tree, segment: Segment, node: int, *, is_backward: bool
) -> tuple[float, float]:
    """Return where a node begins and ends in a segment, 0 to 1, level by level."""
    start, stop = 0.0, 1.0
    siblings = [segment.first]
    while tree.ends[siblings[-1]] < segment.stop:
        siblings.append(tree.ends[siblings[-1]])
    while siblings:
        spent = [directions(session, one)[is_backward] for one in siblings]
        here = next(place for place, one in enumerate(siblings) if one <= node < tree.ends[one])
        parent = tree.nodes[siblings[0]].parent
        is_whole = siblings[0] == segment.first
        whole = sum(spent)
        if not is_whole:
            whole = max(whole, directions(session, parent)[is_backward])
        if whole > 0:
            before = sum(spent[here + 1 :] if is_backward else spent[:here])
            size = stop - start
            stop = start + size * (before + spent[here]) / whole
            start += size * before / whole
        if siblings[here] == node:
            break
        siblings = tree.modules_in(siblings[here])
    return start, stop
