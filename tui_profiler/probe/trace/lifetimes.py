"""Peak memory of one forward, from the lives of its storages.

1. A storage lives from the operator that returns it until the last reference to it is gone, Python
   locals included. Taking it from the last use in the graph instead is 17 to 39 % too low: a local
   keeps a tensor alive although nothing reads it again.
2. Sizes are rounded up to 64 bytes, as torch's allocator on the CPU aligns them.
3. What an operator allocates and frees inside is its workspace, which the recorder foretells. Its
   term is what it adds to the peak of the tensors; the two may be at different operators.
4. The steps of ``memory_log`` are counted here: the most of them is the peak.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from heapq import nlargest

import torch

from tui_profiler.messages import MemorySteps, PeakMemory, Unknown
from tui_profiler.probe.torch_internals import storage_key
from tui_profiler.probe.trace.memory_log import Made, MemoryLog
from tui_profiler.probe.trace.places import Place

_ALIGNMENT = 64
"""Bytes. Source: ``c10/core/alignment.h``, ``gAlignment``."""

_MOST_ALIVE = 20
"""Tensors alive at the peak that are named."""


class Lifetimes:
    """Bytes that are alive, and the most there ever were."""

    def __init__(self, held: Iterable[torch.Tensor], inputs: Iterable[torch.Tensor]) -> None:
        """Take ``held`` (parameters, buffers) and ``inputs`` as alive from before to after."""
        self._known = {storage_key(tensor) for tensor in held}
        self._living: dict[int, weakref.ref[torch.UntypedStorage]] = {}
        self._made: dict[int, Made] = {}
        self._handed_over: dict[int, weakref.ref[torch.UntypedStorage]] = {}
        self._alive_at_peak: list[tuple[Place | None, int]] | None = None
        """None while the peak is the present: it is written down when something changes."""
        self._log = MemoryLog()
        self.input_bytes = self.live_bytes = self._sum_of_inputs(inputs)
        self._start_bytes = self.live_bytes
        self.peak_bytes = self.live_bytes
        self.peak_at: Place | None = None
        self.peak_with_workspace: int | None = self.live_bytes
        """The most with what operators allocate inside; None where that is not known of one."""
        self.tensors = 0
        self.sized = 0
        self.skipped = 0

    def add(
        self, place: Place, outputs: Iterable[torch.Tensor], workspace: int | None = None
    ) -> None:
        """Enter what an operator returned, and what it allocated inside while it ran."""
        for tensor in outputs:
            self.tensors += 1
            key = storage_key(tensor)
            if key is None:
                self.skipped += 1
            elif key not in self._known and not self.began_here(key):
                self._begin(key, tensor.untyped_storage(), place)
        if self.live_bytes > self.peak_bytes:
            self.peak_bytes = self.live_bytes
            self.peak_at = place
            self._alive_at_peak = None
        if workspace is None or self.peak_with_workspace is None:
            self.peak_with_workspace = None
        else:
            self.peak_with_workspace = max(self.peak_with_workspace, self.live_bytes + workspace)
        self._log.add(place, self.live_bytes, workspace)

    def steps(self, index_of: Callable[[Place | None], int]) -> MemorySteps:
        """Give what was alive after each call; ``index_of`` gives a place's node, -1 for none."""
        living = self._made.values()
        return self._log.message(index_of, living, self.input_bytes, self._start_bytes)

    def alive_at_peak(self) -> list[tuple[Place | None, int]]:
        """Give the largest tensors alive at the peak: what made each, and its bytes.

        All inputs together are one entry without a place.
        """
        if self._alive_at_peak is None:
            made = ((place, size) for place, size, _ in self._made.values())
            alive = [(None, self.input_bytes), *made]
            found = nlargest(_MOST_ALIVE, alive, key=lambda pair: pair[1])
            self._alive_at_peak = [pair for pair in found if pair[1]]
        return self._alive_at_peak

    def enter(self, tensors: Iterable[torch.Tensor]) -> None:
        """Count what is alive already and may end in this forward, such as a cache's tensors."""
        for tensor in tensors:
            key = storage_key(tensor)
            if key is not None and key not in self._known and not self.began_here(key):
                size = _aligned(tensor.untyped_storage().nbytes())
                self.live_bytes += size
                self._follow(key, tensor.untyped_storage(), (None, size, self._log.calls))
        if self._log.calls == 0:
            self._start_bytes = self.live_bytes
        if self.live_bytes > self.peak_bytes:
            self.peak_bytes = self.live_bytes
            self._alive_at_peak = None

    def began_here(self, key: int | None) -> bool:
        """Tell whether a storage was made in this forward."""
        return key in self._living or key in self._handed_over

    def is_known(self, key: int | None) -> bool:
        """Tell whether a storage was there before this forward, or was made in it."""
        return key in self._known or self.began_here(key)

    def hand_over(self, key: int, twin: torch.UntypedStorage) -> None:
        """Count a storage that began here for as long as ``twin`` lives, which stands for it."""
        entered = self._living.pop(key, None)
        storage = entered() if entered is not None else None
        made = self._made.pop(key, (None, 0, 0))
        if storage is None:
            self._known.add(int(twin._cdata))
            return
        # The address can be another storage's once this one is gone.
        self._handed_over[key] = weakref.ref(storage, lambda _: self._handed_over.pop(key))
        self._follow(int(twin._cdata), twin, made)

    def _begin(self, key: int, storage: torch.UntypedStorage, place: Place) -> None:
        size = _aligned(storage.nbytes())
        self.sized += 1
        self.live_bytes += size
        self._follow(key, storage, (place, size, self._log.calls))

    def _follow(self, key: int, storage: torch.UntypedStorage, made: Made) -> None:
        def end(_: weakref.ref[torch.UntypedStorage]) -> None:
            if self.live_bytes == self.peak_bytes:
                self.alive_at_peak()
            del self._living[key]
            del self._made[key]
            self.live_bytes -= made[1]
            self._log.end(made)

        self._living[key] = weakref.ref(storage, end)
        self._made[key] = made

    def _sum_of_inputs(self, inputs: Iterable[torch.Tensor]) -> int:
        total = 0
        for tensor in inputs:
            key = storage_key(tensor)
            if key not in self._known:
                self._known.add(key)
                total += _aligned(tensor.untyped_storage().nbytes()) if key is not None else 0
        return total


def peak_memory(
    lifetimes: Lifetimes,
    index_of: Callable[[Place | None], int],
    parameters: int,
    buffers: int,
    kv_cache: int | None = None,
) -> PeakMemory:
    """Put the terms together.

    Args:
        lifetimes: of a forward that has ended.
        index_of: the index of a place's node; -1 for none.
        parameters: bytes in distinct storages.
        buffers: the same, without those that parameters are in.
        kv_cache: bytes of the cache that the forward gave back; None where it gave none.
    """
    whole = lifetimes.peak_with_workspace
    unknown = Unknown("modelled for the CPU only: elsewhere the backend chooses it at run time")
    return PeakMemory(
        parameters=parameters,
        buffers=buffers,
        activations=lifetimes.peak_bytes - (kv_cache or 0),
        workspace=unknown if whole is None else max(0, whole - lifetimes.peak_bytes),
        at=index_of(lifetimes.peak_at),
        tensors=lifetimes.tensors,
        sized=lifetimes.sized,
        kv_cache=kv_cache,
        skipped=lifetimes.skipped,
        alive=tuple((index_of(place), size) for place, size in lifetimes.alive_at_peak()),
    )


def _aligned(size_bytes: int) -> int:
    return (size_bytes + _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT
