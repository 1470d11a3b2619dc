"""Memory over one forward: what is alive after each operator, and who; bytes, predicted.

1. A step is one operator call, or the most of several neighbours in a very long forward.
2. What lives at a step are the weights, the tensors, and what its operator allocates inside; the
   peak is the step with the most of these together, where the last is known.
"""

from bisect import bisect_right
from collections.abc import Sized
from functools import lru_cache
from heapq import nlargest

from msgspec import Struct

from tui_profiler.messages import NO_FORWARD, Tensor, Unknown, known
from tui_profiler.queries.forward.strip import divided
from tui_profiler.session import Session, Tree
from tui_profiler.session.columns import Memory

INPUTS = -1
CACHE = -2
"""In place of the operator that made a tensor: none did."""
_ALIGNMENT = 64
"""Bytes that the sizes of tensors are rounded up to, as torch's allocator on the CPU has it."""


class Column(Struct, frozen=True, gc=False):
    """The most of the steps that one column stands for; weights are not in it."""

    live: int
    """In tensors."""
    whole: int
    """In tensors and, where it is known, in scratch memory inside operators."""


class Block(Struct, frozen=True):
    """A run of steps that belong to one module."""

    name: str
    """Relative to the node that the axis divides; as the model gave it: not safe yet."""
    first: int
    """Its first step."""
    steps: int


class AliveTensor(Struct, frozen=True, gc=False):
    """A tensor that is alive."""

    maker: int
    """Index of the operator node that made it; ``INPUTS`` are all inputs, ``CACHE`` is a tensor of
    a cache that was passed in."""
    bytes: int


class Alive(Struct, frozen=True):
    """Who is alive at one moment; weights are not among them."""

    tensors: tuple[AliveTensor, ...]
    """The largest, largest first."""
    others: int | None
    """How many more there are; None where that is not known."""
    others_bytes: int
    workspace: int | None
    """In scratch memory inside the operator; None where it is not known."""
    live: int
    """In all tensors."""


def steps_of(session: Session) -> Memory | Unknown:
    """Return the steps of the forward that is looked at, or why there are none."""
    tree = session.tree
    if tree is None:
        return Unknown("the tree is not known yet")
    if not tree.has_forward:
        return Unknown(NO_FORWARD)
    if tree.memory is None:
        recorded = session.playback is not None
        older = "this recording" if recorded else "the program"
        return Unknown(f"{older} is older than this figure")
    if not len(tree.memory):
        return Unknown("no operator of this forward was seen")
    return tree.memory


def weight_bytes(tree: Tree) -> float:
    """Return the bytes of parameters and buffers, as far as they are known."""
    if tree.done is None:
        return 0.0
    peak = tree.done.peak_memory
    return (known(peak.parameters) or 0.0) + (known(peak.buffers) or 0.0)


@lru_cache(maxsize=2)
def weight_tensors(tree: Tree) -> int:
    """Return how many parameters and buffers there are, shared ones once."""
    return sum(not weight.shared_with for node in tree.nodes for weight in node.weights)


@lru_cache(maxsize=2)
def peak_step(memory: Memory) -> int:
    """Return the step with the most alive, the first of equals."""
    return max(range(len(memory)), key=memory.whole.__getitem__)


@lru_cache(maxsize=2)
def most_tensors(memory: Memory) -> int:
    """Return the step with the most in tensors alone, the first of equals."""
    return max(range(len(memory)), key=memory.live.__getitem__)


def workspace(memory: Memory, step: int) -> int | None:
    """Return the scratch memory inside the operator of a step; None where it is not known."""
    return memory.whole[step] - memory.live[step] if memory.knows_workspace else None


@lru_cache(maxsize=4)
def columns(memory: Memory, cells: int) -> tuple[Column, ...]:
    """Share out all steps over ``cells`` columns from left to right; each keeps its most."""
    count = len(memory)
    found = []
    for cell in range(cells):
        start = cell * count // cells
        stop = max((cell + 1) * count // cells, start + 1)
        found.append(Column(max(memory.live[start:stop]), max(memory.whole[start:stop])))
    return tuple(found)


def place(memory: Sized, step: int, cells: int) -> tuple[int, int]:
    """Return the first and the last of ``cells`` columns that a step is in."""
    count = len(memory)
    last = ((step + 1) * cells - 1) // count
    return min(-(-step * cells // count), last), last


def module_at(tree: Tree, memory: Memory, step: int) -> int:
    """Return the module whose operator a step is."""
    return max(tree.nodes[memory.nodes[step]].parent, 0)


@lru_cache(maxsize=64)
def first_step(tree: Tree, memory: Memory, node: int) -> int | None:
    """Return the first step inside a node; None where none is."""
    stop = tree.ends[node]
    return next((i for i, at in enumerate(memory.nodes) if node <= at < stop), None)


@lru_cache(maxsize=2)
def blocks(tree: Tree, memory: Memory) -> tuple[Block, ...]:
    """Return the modules that divide the forward, in the order in which they begin.

    They are the root's; one that has more than half of the steps stands aside for its own.
    """
    top = divided(tree)
    modules = tree.modules_in(top)
    while True:
        found = _steps_in(tree, memory, modules)
        large = next((m for m, (_, count) in found.items() if 2 * count > len(memory)), None)
        inner = tree.modules_in(large) if large is not None else []
        if large is None or not inner:
            break
        at = modules.index(large)
        modules[at : at + 1] = inner
    around = f"{tree.nodes[top].path}."
    made = [
        Block(tree.nodes[module].path.removeprefix(around), first, count)
        for module, (first, count) in found.items()
    ]
    return tuple(sorted(made, key=lambda block: block.first))


@lru_cache(maxsize=16)
def alive_at(memory: Memory, step: int, most: int) -> Alive:
    """Return who is alive after a step, the ``most`` largest by name."""
    ordinal = memory.ordinals[step]
    lives = zip(memory.makers, memory.sizes, memory.first, memory.last, strict=True)
    found = [
        AliveTensor(maker if maker >= 0 else CACHE, size)
        for maker, size, first, last in lives
        if first <= ordinal <= last and size
    ]
    if memory.steps.input_bytes:
        found.append(AliveTensor(INPUTS, memory.steps.input_bytes))
    largest = tuple(nlargest(most, found, key=lambda one: one.bytes))
    live = memory.live[step]
    return Alive(
        tensors=largest,
        others=None if memory.steps.left_out else len(found) - len(largest),
        others_bytes=max(live - sum(one.bytes for one in largest), 0),
        workspace=workspace(memory, step),
        live=live,
    )


def recorded_peak(tree: Tree, most: int) -> Alive | None:
    """Return who was alive at the peak, where steps are not told but the peak is."""
    peak = tree.done.peak_memory if tree.done is not None else None
    if peak is None or isinstance(peak.activations, Unknown):
        return None
    named = tuple(
        AliveTensor(node if 0 <= node < len(tree) else INPUTS, size)
        for node, size in peak.alive[:most]
    )
    live = int(peak.activations + (known(peak.kv_cache) or 0.0))
    others = max(live - sum(one.bytes for one in named), 0)
    scratch = known(peak.workspace)
    return Alive(named, None, others, None if scratch is None else int(scratch), live)


def shape_of(tree: Tree, living: AliveTensor) -> Tensor | None:
    """Return tensor that an operator wrote into such a storage; None where it is not certain."""
    if living.maker < 0:
        inputs = tree.nodes[0].inputs if living.maker == INPUTS else ()
        return inputs[0] if len(inputs) == 1 else None
    fits = [one for one in tree.nodes[living.maker].outputs if _aligned(one.bytes) == living.bytes]
    return fits[0] if fits else None


def _aligned(size: int) -> int:
    return (size + _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT


def _steps_in(tree: Tree, memory: Memory, modules: list[int]) -> dict[int, tuple[int, int]]:
    """Return the first step inside each module, and how many there are; without those of none.

    Args:
        tree: that they are in.
        memory: its steps.
        modules: in preorder, none inside another.
    """
    found: dict[int, tuple[int, int]] = {}
    for step, node in enumerate(memory.nodes):
        at = bisect_right(modules, node) - 1
        if at >= 0 and node < tree.ends[modules[at]]:
            first, count = found.get(modules[at], (step, 0))
            found[modules[at]] = (first, count + 1)
    return found
