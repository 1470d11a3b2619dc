"""Memory over one training step: what is alive after each operator, who, and for what; predicted.

1. A point is one operator call of forward, loss, backward or optimizer, or the most of several
   neighbours in a very long step.
2. Parameters, buffers, inputs and the optimizer's state are alive all along.
"""

from collections.abc import Sequence
from functools import lru_cache
from heapq import nlargest

from msgspec import Struct

from tui_profiler.messages import TENSOR_USES, TensorUse
from tui_profiler.messages.training import StepPhase
from tui_profiler.queries.forward.memory import Column
from tui_profiler.queries.training.step_costs import node_backward
from tui_profiler.session import Session, Tree
from tui_profiler.session.training import MemoryColumns


class AliveTensor(Struct, frozen=True, gc=False):
    """A tensor that is alive."""

    maker: int
    """Index of the node that made it; -1 for the loss and the optimizer."""
    use: TensorUse
    bytes: int


class AliveInStep(Struct, frozen=True):
    """Who is alive after a point, beside what is all along."""

    uses: tuple[int, ...]
    """Bytes in the order of ``TENSOR_USES``."""
    workspace: int | None
    """Allocated inside of the operator; None where it is not known."""
    tensors: tuple[AliveTensor, ...]
    """The largest, largest first."""


@lru_cache(maxsize=2)
def totals(columns: MemoryColumns) -> tuple[int, ...]:
    """Return all that is alive at each point, workspace included where it is known."""
    constant = columns.constant_bytes
    of_uses = zip(*columns.by_use, columns.scratch, strict=True)
    return tuple(constant + sum(uses) + max(scratch, 0) for *uses, scratch in of_uses)


def peak_point(columns: MemoryColumns) -> int:
    """Return the point with the most alive, the first of equals."""
    every = totals(columns)
    return every.index(max(every))


@lru_cache(maxsize=4)
def drawn(columns: MemoryColumns, cells: int) -> tuple[Column, ...]:
    """Share out all points over ``cells`` columns; each keeps its most.

    ``live`` is in gradients and saved activations, ``whole`` in everything but what is alive all
    along.
    """
    constant, count, every = columns.constant_bytes, len(columns), totals(columns)
    gradients, saved = columns.by_use[:2]
    found = []
    for cell in range(cells):
        start = cell * count // cells
        stop = max((cell + 1) * count // cells, start + 1)
        kept = max(gradients[at] + saved[at] for at in range(start, stop))
        found.append(Column(kept, max(every[start:stop]) - constant))
    return tuple(found)


def phase_at(columns: MemoryColumns, point: int) -> StepPhase:
    """Return what of the step a point is in; the loss is part of the forward."""
    ordinal, memory = columns.ordinals[point], columns.memory
    if ordinal < memory.backward_at:
        return "forward"
    return "backward" if ordinal < memory.optimizer_at else "optimizer"


def phases(columns: MemoryColumns) -> tuple[tuple[StepPhase, int], ...]:
    """Return the phases that have points, and the first point of each."""
    found: dict[StepPhase, int] = {}
    for point in range(len(columns)):
        found.setdefault(phase_at(columns, point), point)
    return tuple(found.items())


def module_at(tree: Tree, columns: MemoryColumns, point: int) -> int:
    """Return the module whose operator a point is; the root for the loss and the optimizer."""
    return module_of(tree, columns.nodes[point])


def module_of(tree: Tree, node: int) -> int:
    """Return a module, or that of an operator; the root for what is none of the model's."""
    if not 0 <= node < len(tree):
        return 0
    return node if tree.nodes[node].kind == "module" else max(tree.nodes[node].parent, 0)


@lru_cache(maxsize=64)
def first_point(tree: Tree, columns: MemoryColumns, node: int) -> int | None:
    """Return the first point inside a node; None where none is."""
    stop = tree.ends[node]
    return next((at for at, of in enumerate(columns.nodes) if node <= of < stop), None)


@lru_cache(maxsize=16)
def alive_at(columns: MemoryColumns, point: int, most: int) -> AliveInStep:
    """Return who is alive after a point, the ``most`` largest by name."""
    ordinal, scratch = columns.ordinals[point], columns.scratch[point]
    lives = zip(
        columns.makers, columns.sizes, columns.first, columns.last, columns.kinds, strict=True
    )
    found = [
        AliveTensor(maker, TENSOR_USES[kind], size)
        for maker, size, first, last, kind in lives
        if first <= ordinal <= last and size
    ]
    return AliveInStep(
        uses=tuple(use[point] for use in columns.by_use),
        workspace=None if scratch < 0 else scratch,
        tensors=tuple(nlargest(most, found, key=lambda one: one.bytes)),
    )


def saved_by_modules(session: Session, most: int) -> Sequence[tuple[int, int]]:
    """Return the modules whose own operators save most for the backward, and how many bytes."""
    tree = session.tree
    if tree is None or node_backward(session, 0) is None:
        return ()
    found = []
    for node, one in enumerate(tree.nodes):
        if one.kind != "module":
            continue
        inside = sum(_saved(session, child) for child in tree.modules_in(node))
        own = _saved(session, node) - inside
        if own > 0:
            found.append((node, own))
    return nlargest(most, found, key=lambda of: of[1])


def _saved(session: Session, node: int) -> int:
    cost = node_backward(session, node)
    return 0 if cost is None else cost.saved_bytes
