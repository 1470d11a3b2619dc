"""Which operator reads what another one wrote.

A tensor's writer is the operator that gave it; a view's is the view, which reads from the writer of
its base. After a write in place, every tensor on that storage comes from there.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

from tui_profiler.probe.process.yielding import free
from tui_profiler.probe.torch_compat.internals import storage_key, tensor_key
from tui_profiler.probe.trace.tree.growing_tree import Place


class Dataflow:
    """Pairs of places, in the order in which they were seen."""

    def __init__(self) -> None:
        self._tick = 0
        self._writers: dict[int, tuple[int, Place]] = {}
        self._in_place: dict[int | None, tuple[int, Place]] = {}
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
        stamp = (self._tick, place)
        for tensor in given:
            self._writers[tensor_key(tensor)] = stamp
        for tensor in written:
            self._writers[tensor_key(tensor)] = stamp
            self._in_place[self._key(tensor)] = stamp

    def free(self) -> None:
        """Drop everything, a few places at a time."""
        free(self._writers, self._in_place, self.edges)

    def _join(self, reader: Place, tensor: torch.Tensor) -> None:
        tick, writer = self._writers.get(tensor_key(tensor), (0, None))
        changed, changer = self._in_place.get(self._key(tensor), (0, None))
        for source in (writer, changer if changed > tick else None):
            if source is not None and source is not reader:
                self.edges[(source, reader)] = None

    def _key(self, tensor: torch.Tensor) -> int | None:
        key = storage_key(tensor)
        return None if key is None else self._stands_for.get(key, key)
