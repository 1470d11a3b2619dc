"""Which operator reads what another one wrote.

A tensor's writer is the operator that gave it; a view's is the view, which reads from the writer of
its base. After a write in place, every tensor on that storage comes from there.

Addresses are used again, by the next tensor of the same size as a rule: what is known of a tensor
holds for as long as that one lives.
"""

import weakref
from collections.abc import Iterable

import torch

from tui_profiler.probe.process.yielding import free
from tui_profiler.probe.torch_compat.internals import storage_key
from tui_profiler.probe.trace.tree.growing_tree import Place


class Dataflow:
    """Pairs of places, in the order in which they were seen."""

    def __init__(self) -> None:
        self._tick = 0
        self._writers: dict[int, tuple[weakref.ref[torch.Tensor], int, Place]] = {}
        self._in_place: dict[int, tuple[weakref.ref[torch.UntypedStorage], int, Place]] = {}
        self._stands_for: dict[int, int] = {}
        self.edges: dict[tuple[Place, Place], None] = {}

    def alias(self, twin: int, key: int) -> None:
        """Take what is written into one storage as written into the other that it stands for."""
        self._stands_for[twin] = key

    def forget(self, twin: int) -> None:
        """Take a storage for itself again: its address can be another's by now."""
        self._stands_for.pop(twin, None)

    def add(
        self,
        place: Place,
        read: Iterable[torch.Tensor],
        given: Iterable[torch.Tensor],
        written: Iterable[torch.Tensor],
    ) -> None:
        """Enter one operator call: what it read, what it returned, what it wrote in place."""
        self._tick += 1
        for tensor in read:
            self._join(place, tensor)
        for tensor in given:
            self._writers[id(tensor)] = weakref.ref(tensor), self._tick, place
        for tensor in written:
            self._writers[id(tensor)] = weakref.ref(tensor), self._tick, place
            self._note_write(tensor, place)

    def free(self) -> None:
        """Drop everything, a few places at a time."""
        free(self._writers, self._in_place, self.edges)

    def _note_write(self, tensor: torch.Tensor, place: Place) -> None:
        key = self._key(tensor)
        if key is None:
            return

        def end(ended: weakref.ref[torch.UntypedStorage]) -> None:
            if key in self._in_place and self._in_place[key][0] is ended:
                del self._in_place[key]

        self._in_place[key] = weakref.ref(tensor.untyped_storage(), end), self._tick, place

    def _join(self, reader: Place, tensor: torch.Tensor) -> None:
        known = self._writers.get(id(tensor))
        tick = -1
        if known is not None and known[0]() is tensor:
            _, tick, writer = known
            self._enter(writer, reader)
        key = self._key(tensor)
        if key in self._in_place:
            _, changed, changer = self._in_place[key]
            if changed > tick:
                self._enter(changer, reader)

    def _enter(self, writer: Place, reader: Place) -> None:
        if writer is not reader:
            self.edges[(writer, reader)] = None

    def _key(self, tensor: torch.Tensor) -> int | None:
        key = storage_key(tensor)
        return None if key is None else self._stands_for.get(key, key)
