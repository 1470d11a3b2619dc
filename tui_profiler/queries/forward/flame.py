"""One forward by depth: every module is a block below its parent, in the order of the tree.

That is the order of registration, in which most models call their parts; who calls them otherwise
sees the shares, and not the order.

1. The cells of a block are shared out over what is inside it: children lie within their parent,
   and a level that nothing is missing from adds up to the cells of the one above.
2. Neighbours narrower than half a cell are one block together; what gets no cell even so is not
   drawn. How many modules have no block of their own is counted.
3. Time that a container spends outside its modules stands at its end: when it was is not known.
   It is the self time of tree, panel and report: the mean over one set of forwards.
4. Such means add up. Medians, of recordings of older versions, need not: what is missing stays
   blank.
"""

from __future__ import annotations

from array import array
from functools import lru_cache
from itertools import accumulate

from msgspec import Struct

from tui_profiler.formatting.canvas import split_cells
from tui_profiler.queries.forward.strip import ELSEWHERE, Segment, Strip, as_written, weight
from tui_profiler.queries.time.base import base
from tui_profiler.queries.time.node_seconds import root_seconds
from tui_profiler.session import Session, Tree

LEAST_CELLS = 0.5
MAX_LEVELS = 256


class Flame(Struct, frozen=True):
    """Blocks by level, the upper first."""

    root: int
    """Index of the node that fills the width."""
    levels: tuple[Strip, ...]
    """Empty where nothing is known that widths could be shares of."""
    hidden: int
    """Modules inside the root with a share of the forward and no block of their own."""
    is_uneven: bool = False
    """Whether somewhere medians do not add up, so that cells are blank."""


class _Scale(Struct, frozen=True, eq=False):
    session: Session
    tree: Tree
    whole: float
    """What the whole base takes in seconds of forwards, or costs on paper."""
    measured: bool

    def weight(self, node: int) -> float:
        return weight(self.session, node, measured=self.measured)

    def own(self, node: int, inside: float) -> float:
        """Return the self time, or the computed cost of a container outside its modules."""
        if not self.measured:
            return max(self.weight(node) - inside, 0.0)
        timings = self.session.timings
        return (timings.own_per_forward(node) if timings is not None else None) or 0.0


def flame(session: Session, root: int, cells: int) -> Flame:
    """Lay out a node and all inside it over so many cells."""
    tree = session.tree
    if tree is None or not 0 <= root < len(tree) or cells <= 0:
        return Flame(root, (), 0)
    measured = root_seconds(session) is not None
    of_forwards = base(session).of_forwards or 1.0
    scale = _Scale(session, tree, weight(session, 0, measured=measured) / of_forwards, measured)
    own = scale.weight(root)
    if scale.whole <= 0 or own <= 0:
        return Flame(root, (), 0)
    level = [Segment(root, tree.ends[root], 0, cells, as_written(own / scale.whole), True)]
    levels: list[Strip] = []
    drawn, is_uneven = 0, False
    while level and len(levels) < MAX_LEVELS:
        levels.append(Strip(tuple(level), measured))
        drawn += sum(_is_block(segment) for segment in level)
        blocks = [outer for outer in level if _is_block(outer)]
        laid = [(outer, _inside(scale, outer)) for outer in blocks]
        is_uneven |= any(inner and _end(inner) < _end([outer]) for outer, inner in laid)
        level = [inner for _, inside in laid for inner in inside]
    counts = _counts(tree, session.timings.tick.nodes if measured and session.timings else None)
    hidden = max(counts[tree.ends[root]] - counts[root] - drawn, 0)
    return Flame(root, tuple(levels), hidden, is_uneven)


def spot(shown: Flame, node: int) -> tuple[int, Segment] | None:
    """Return level and the block that a node is, or is hidden in; None where it is not inside."""
    for number in range(len(shown.levels) - 1, -1, -1):
        for segment in shown.levels[number].segments:
            if segment.first <= node < segment.stop:
                return number, segment
    return None


def module_of(tree: Tree, node: int) -> int:
    """Return the module that a node is, or that an operator is called in."""
    while tree.nodes[node].kind == "op" and tree.nodes[node].parent >= 0:
        node = tree.nodes[node].parent
    return node


def beside(session: Session, root: int, node: int, step: int) -> int:
    """Return the next module in time at the same depth inside ``root``, or the former; else itself.

    Siblings come first; after the last of them, those of the next parent.
    """
    tree = session.tree
    if tree is None or node == root:
        return node
    depth = tree.depths[node]
    if step < 0:
        before = (at for at in range(node - 1, root, -1) if tree.depths[at] == depth)
        return next((at for at in before if takes_part(session, at)), node)
    at, stop = tree.ends[node], tree.ends[root]
    while at < stop:
        if tree.depths[at] < depth:
            at += 1
        elif takes_part(session, at):
            return at
        else:
            at = tree.ends[at]
    return node


def first_inside(session: Session, shown: Flame, node: int) -> int:
    """Return the first module inside a node, those with a block of their own first; else itself."""
    tree = session.tree
    if tree is None:
        return node
    blocks = [s.first for level in shown.levels for s in level.segments if _is_block(s)]
    inside = [block for block in blocks if tree.nodes[block].parent == node]
    called = (child for child in tree.children(node) if takes_part(session, child))
    return min(inside) if inside else next(called, node)


def takes_part(session: Session, node: int) -> bool:
    """Tell whether a module has a share of the forward, so that one can go there."""
    tree = session.tree
    if tree is None or tree.nodes[node].kind != "module":
        return False
    return weight(session, node, measured=root_seconds(session) is not None) > 0


def _end(segments: list[Segment]) -> int:
    return segments[-1].start + segments[-1].cells


def _is_block(segment: Segment) -> bool:
    return segment.alone and segment.first != ELSEWHERE


def _inside(scale: _Scale, outer: Segment) -> list[Segment]:
    """Share out the cells of a block over its modules and its own time."""
    tree = scale.tree
    children = [(child, scale.weight(child)) for child in tree.modules_in(outer.first)]
    inside = sum(each for _, each in children)
    if inside <= 0:
        return []
    own = scale.own(outer.first, inside)
    whole = max(scale.weight(outer.first), inside + own)
    least = whole / outer.cells * LEAST_CELLS
    parts = _joined(tree, children, least)
    if own >= least:
        parts.append((Segment(ELSEWHERE, ELSEWHERE, 0, 0, 0.0, True), own))
    rest = whole - inside - own
    weights = [each for _, each in parts]
    *widths, _ = split_cells([*weights, rest if rest >= least else 0.0], outer.cells)
    placed: list[Segment] = []
    start = outer.start
    for (part, each), cells in zip(parts, widths, strict=True):
        if cells:
            share = as_written(each / scale.whole)
            placed.append(Segment(part.first, part.stop, start, cells, share, part.alone))
        start += cells
    return placed


def _joined(
    tree: Tree, children: list[tuple[int, float]], least: float
) -> list[tuple[Segment, float]]:
    """Return the children that are called, narrow neighbours as one; not placed yet."""
    parts: list[tuple[Segment, float]] = []
    is_open = False
    for child, each in children:
        if each <= 0:
            continue
        is_narrow = each < least
        if is_narrow and is_open:
            run, sum_of_run = parts[-1]
            joined = Segment(run.first, tree.ends[child], 0, 0, 0.0, False)
            parts[-1] = (joined, sum_of_run + each)
        else:
            parts.append((Segment(child, tree.ends[child], 0, 0, 0.0, True), each))
        is_open = is_narrow
    return parts


@lru_cache(maxsize=2)
def _counts(tree: Tree, measured: bytes | None) -> array[int]:
    """Count in preorder the modules that have a share; kept, because they change seldom."""
    has_share = bytearray(len(tree) + 1)
    if measured is None:
        for index, node in enumerate(tree.nodes):
            has_share[index + 1] = node.kind == "module" and tree.weight_on_paper(index) > 0
    else:
        for index in memoryview(measured).cast("I"):
            if index < len(tree):
                has_share[index + 1] = 1
    return array("I", accumulate(has_share))
