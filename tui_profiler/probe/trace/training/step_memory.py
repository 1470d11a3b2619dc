"""Who is alive when, over a whole training step: forward, backward, optimizer.

1. As in ``tree/lifetimes.py`` a storage lives from the operator that returns it until the last
   reference to it is gone, sizes are rounded up to 64 bytes, and what an operator allocates and
   frees inside is its workspace.
2. What a storage is for is known at the end: a gradient is what a parameter holds when the backward
   has ended; an activation is saved if it is alive when the backward begins and only the output of
   the model is let go of; what is left is temporary, the output too.
3. Parameters, buffers, inputs and the optimizer's state live all along. The step is a later one:
   its optimizer has stepped before, and gradients are there from before only where they are
   accumulated.
4. Under a dispatch mode the engine adds up gradients that come from several nodes out of place, and
   without one in place: the sum takes the place of the first of them, and is counted so unless
   that is a view.
"""

import weakref
from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from tui_profiler.probe.cost.call import tensors_in
from tui_profiler.probe.torch_compat.internals import storage_key
from tui_profiler.probe.trace.tree.growing_tree import Place
from tui_profiler.probe.trace.tree.lifetimes import aligned

Integers: TypeAlias = NDArray[np.int64]

GRADIENT, SAVED, RECOMPUTED, TEMPORARY = range(4)
_ALIVE = -1


class StepLives(NamedTuple):
    """The storages of a step that has ended, and its operators; one entry for each."""

    makers: Sequence[Place | None]
    """What made a storage; None: the loss, the optimizer, or what is not known."""
    sizes: Integers
    first: Integers
    """The first operator after which it is alive."""
    last: Integers
    """The last one."""
    kinds: Integers
    """``GRADIENT``, ``SAVED``, ``RECOMPUTED`` or ``TEMPORARY``."""
    places: Sequence[Place | None]
    """What each operator belongs to."""
    scratch: Integers
    """Bytes that each operator allocates and frees inside; -1 where that is not known."""
    corrections: Integers
    """Bytes to take off what is alive after each operator."""
    phases: tuple[int, int, int]
    """Operators before the backward, before the optimizer, and of all."""


class _Born(NamedTuple):
    """How a storage came to be."""

    place: Place | None
    size_bytes: int
    node: int
    is_again: bool


_MOST_POSITIVE = (1 << 63) - 1


class StepMemory:
    """Storages and operators of the step that is recorded."""

    def __init__(self, held: Iterable[torch.Tensor]) -> None:
        """Take ``held`` (parameters, buffers, inputs) as alive all along."""
        self._known = {storage_key(tensor) for tensor in held}
        self._living: dict[int, tuple[weakref.ref[torch.UntypedStorage], int]] = {}
        self._makers: list[Place | None] = []
        self._sizes, self._first, self._last = array("q"), array("q"), array("q")
        self._kinds = array("b")
        self._nodes = array("q")
        self._places: list[Place | None] = []
        self._scratch = array("q")
        self._sums: list[tuple[int, int]] = []
        self._outputs: list[int] = []
        self._ends: list[int] = []
        self.is_on = True
        """Whether operators count."""

    def hold(self, tensors: Iterable[torch.Tensor]) -> None:
        """Take more as alive all along, such as the state of the optimizer."""
        self._known.update(storage_key(tensor) for tensor in tensors)

    def add(
        self,
        place: Place | None,
        outputs: Iterable[torch.Tensor],
        scratch: int | None,
        *,
        kept: Mapping[int, int] | None = None,
        is_again: bool = False,
        node: int = 0,
    ) -> None:
        """Enter one operator.

        Args:
            place: that it belongs to.
            outputs: what it returned.
            scratch: what it allocated inside; None where that is not known.
            kept: bytes of outputs that are larger than they look, by their position.
            is_again: checkpointing runs it once more.
            node: of the graph, that it is part of the backward of.
        """
        if not self.is_on:
            return
        for position, tensor in enumerate(outputs):
            key = storage_key(tensor)
            if key is not None and key not in self._known and key not in self._living:
                storage = tensor.untyped_storage()
                size = (kept or {}).get(position) or storage.nbytes()
                self._begin(key, storage, _Born(place, size, node, is_again))
        self._places.append(place)
        self._scratch.append(-1 if scratch is None else scratch)

    def note_sum(self, first: torch.Tensor) -> None:
        """Take note that the last operator may be the engine's sum of two gradients.

        It is one if what it added to was made by another node, and is gone before the next one. A
        view, such as the gradient of a transposed weight, shares its storage: it is added up out of
        place, and so into a tensor that the next sum can take the place of.
        """
        entry = self._living.get(storage_key(first) or 0)
        if not self.is_on or entry is None or not self._nodes or first._is_view():
            return
        life = entry[1]
        if self._nodes[life] != self._nodes[-1] and self._sizes[life] == self._sizes[-1]:
            self._sums.append((len(self._places) - 1, life))

    def hold_output(self, output: object) -> None:
        """Take what a forward gave as held until the backward has ended, whoever lets go of it."""
        for tensor in tensors_in(output):
            entry = self._living.get(storage_key(tensor) or 0)
            if entry is not None:
                self._outputs.append(entry[1])

    def save_what_lives(self) -> None:
        """Take all that is alive as saved for the backward, which begins."""
        for _, life in list(self._living.values()):
            if self._kinds[life] == TEMPORARY:
                self._kinds[life] = SAVED

    def hold_gradients(self, gradients: Iterable[torch.Tensor]) -> None:
        """Take note of what parameters hold when the backward has ended."""
        for tensor in gradients:
            entry = self._living.get(storage_key(tensor) or 0)
            if entry is not None:
                self._kinds[entry[1]] = GRADIENT

    def end_phase(self) -> None:
        """Take note that the forward, the backward or the step has ended."""
        self._ends.append(len(self._places))

    def lives(self) -> StepLives:
        """Return what was entered; the step has ended."""
        calls = len(self._places)
        last = np.array(self._last, np.int64)
        last[last == _ALIVE] = calls - 1
        corrections = np.zeros(calls, np.int64)
        for operator, life in self._sums:
            if last[life] == operator:
                corrections[operator] = self._sizes[life]
        before, optimizer, *_ = [*self._ends, calls, calls]
        last[self._outputs] = np.maximum(last[self._outputs], optimizer - 1)
        return StepLives(
            list(self._makers),
            np.array(self._sizes, np.int64),
            np.array(self._first, np.int64),
            last,
            np.array(self._kinds, np.int64),
            list(self._places),
            np.array(self._scratch, np.int64),
            corrections,
            (before, optimizer, calls),
        )

    def free(self) -> None:
        """Follow no storage any more."""
        self._living.clear()

    def _begin(self, key: int, storage: torch.UntypedStorage, born: _Born) -> None:
        life = len(self._sizes)
        self._makers.append(born.place)
        self._sizes.append(aligned(born.size_bytes))
        self._first.append(len(self._places))
        self._last.append(_ALIVE)
        self._kinds.append(RECOMPUTED if born.is_again else TEMPORARY)
        self._nodes.append(born.node & _MOST_POSITIVE)

        def end(_: weakref.ref[torch.UntypedStorage]) -> None:
            if self._living.pop(key, None) is not None:
                self._last[life] = len(self._places) - 1

        self._living[key] = weakref.ref(storage, end), life
