"""A step of training from left to right: its parts, and below forward and backward the modules.

1. Parts are in the order of a step, as they are in the mean: a program may interleave them.
2. Modules are in the order of the tree in the forward and in the other order in the backward, where
   what checkpointing runs again counts to the module. A level with a single module is left out.
3. Cells are shared out from the outside in: what is inside of a block lies within it; time outside
   of a module's children stands at its end, because when it was is not known. What gets no cell is
   not drawn, and nothing inside of it.
4. Times on a GPU are not those of the thread's parts: then no modules are drawn below parts.
5. A module that fills the width is its forward and its backward, beside each other.
"""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from msgspec import Struct

from tui_profiler.formatting.canvas import split_cells
from tui_profiler.messages import SlowStep, known
from tui_profiler.queries.forward.strip import as_written
from tui_profiler.queries.time.step_seconds import directions
from tui_profiler.queries.training.step import Part, PartName, parts_of, step_parts
from tui_profiler.session import Session, Tree

MOST_LEVELS = 64
_DIRECTIONS: tuple[PartName, ...] = ("forward", "backward")


class Block(Struct, frozen=True):
    """A part of the step, or a module in its forward or backward."""

    start: int
    """Cells from the left."""
    cells: int
    share: float
    """Of the step, 0 to 1, rounded to what is written."""
    part: PartName
    node: int | None = None
    """Index of the module; None for the part itself."""


Level: TypeAlias = tuple[Block, ...]


def step_blocks(session: Session, root: int, cells: int) -> tuple[Level, ...]:
    """Return the blocks of the mean step over so many cells, by level; none before there is one.

    Args:
        session: that was told of steps.
        root: index of the module that fills the width; 0 for the whole step.
        cells: of the width.
    """
    tree, training = session.tree, session.training
    seconds = None if training is None else known(training.step.seconds)
    if training is None or not seconds:
        return ()
    outer = _laid_out(step_parts(session), cells)
    if tree is None or (training.step.on_device and not root):
        return (outer,)
    inside = _Inside(session, tree, seconds)
    if root:
        outer = inside.passes(root, cells)
    levels, around = [outer], outer
    while around and len(levels) < MOST_LEVELS:
        around = tuple(one for block in around for one in inside.of(block, root))
        if len({block.node for block in around}) > 1:
            levels.append(around)
    return tuple(levels) if outer else ()


def slow_step_blocks(session: Session, slow: SlowStep, cells: int) -> tuple[Level, Level]:
    """Return the parts of one slow step, and those of the mean one to the same scale."""
    step = session.training.step if session.training is not None else None
    mean = known(step.seconds) if step is not None else None
    one = _laid_out(parts_of(slow.parts, slow.seconds), cells)
    if not mean:
        return one, ()
    return one, _laid_out(step_parts(session), round(cells * min(mean / slow.seconds, 1.0)))


def _laid_out(parts: Iterable[Part], cells: int) -> Level:
    seen = [(part.name, part.share) for part in parts if part.share]
    blocks, at = [], 0
    rest = max(1.0 - sum(share for _, share in seen), 0.0)  # Of parts that are not known.
    widths = split_cells([*(share for _, share in seen), rest], cells)
    for (name, share), width in zip(seen, widths, strict=False):
        if width:
            blocks.append(Block(at, width, as_written(share), name))
        at += width
    return tuple(blocks)


class _Inside:
    """What lies inside of modules, looked at once for both directions."""

    def __init__(self, session: Session, tree: Tree, whole: float) -> None:
        self._session, self._tree, self._whole = session, tree, whole
        self._known: dict[int, tuple[list[int], list[float], list[float]]] = {}

    def passes(self, node: int, cells: int) -> Level:
        """Return forward and backward of a module over the whole width."""
        seconds = directions(self._session, node)
        return self._placed(0, cells, seconds, ((name, None) for name in _DIRECTIONS))

    def of(self, block: Block, root: int) -> Level:
        """Return the modules right inside of a block that get a cell."""
        if block.part not in _DIRECTIONS:
            return ()
        node = root if block.node is None else block.node
        if node not in self._known:
            inside = self._tree.modules_in(node)
            seconds = [directions(self._session, one) for one in inside]
            self._known[node] = (inside, [one for one, _ in seconds], [one for _, one in seconds])
        inside, forwards, backwards = self._known[node]
        spent = forwards if block.part == "forward" else backwards
        if block.part == "backward":
            inside, spent = inside[::-1], spent[::-1]
        rest = max(self._seconds(block, node) - sum(spent), 0.0)
        named = ((block.part, module) for module in inside)
        return self._placed(block.start, block.cells, [*spent, rest], named)

    def _seconds(self, block: Block, node: int) -> float:
        """Return what a block takes: of a part of the step all of it, not the model's alone."""
        training = self._session.training
        if not node and training is not None:
            return known(getattr(training.step.parts, block.part)) or 0.0
        return directions(self._session, node)[_DIRECTIONS.index(block.part)]

    def _placed(
        self,
        start: int,
        cells: int,
        seconds: Sequence[float],
        named: Iterable[tuple[PartName, int | None]],
    ) -> Level:
        """Share out cells; the last seconds may be nobody's."""
        blocks = []
        widths = split_cells(seconds, cells)
        for (part, node), each, width in zip(named, seconds, widths, strict=False):
            if width:
                share = as_written(each / self._whole)
                blocks.append(Block(start, width, share, part, node))
                start += width
        return tuple(blocks)
