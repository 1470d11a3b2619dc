"""The most memory that one real forward allocates, to hold the prediction against.

1. On the CPU every allocation is an event of ``torch.profiler``.
2. On CUDA the caching allocator's own statistics give the peak, from before the first forward: what
   that one allocates and keeps (cuBLAS's workspace) is in it.
3. Libraries that bypass torch's allocators (MKL's packing buffers, thread stacks) are not seen.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch.profiler import ProfilerActivity, profile

from tui_profiler.probe.cost.call import tensors_in
from tui_profiler.probe.torch_compat.forward_inputs import Inputs
from tui_profiler.probe.torch_compat.internals import storage_key
from tui_profiler.probe.torch_compat.kineto import Allocation, allocations
from tui_profiler.probe.trace.failure import ForwardError
from tui_profiler.probe.trace.snapshot import Snapshot
from tui_profiler.probe.trace.tree.weights import held_bytes, weight_storages

_Forward: TypeAlias = Callable[[], object]


@dataclass(frozen=True)
class MeasuredPeak:
    """What one real forward held at its worst moment; bytes."""

    device: str
    """``cpu``, or ``cuda:0``."""
    inputs_bytes: int
    """Storages of the inputs, which live all the time."""
    allocated_bytes: int
    """The most that the forward had allocated at once: activations and workspace."""
    kept_bytes: int = 0
    """Of caches that the first forward makes and the model keeps."""

    @property
    def peak_bytes(self) -> int:
        """Inputs, activations and workspace: what stands beside a prediction's last two terms."""
        return self.inputs_bytes + self.kept_bytes + self.allocated_bytes


def measured_peak(model: torch.nn.Module, inputs: Inputs) -> MeasuredPeak:
    """Run ``model`` for real and measure the most memory that a forward allocates.

    It runs twice without gradients: to warm up, and to measure. Attributes, buffers and random
    generators are put back afterwards.

    Raises:
        ForwardError: the model raised.
    """
    tensors = tensors_in((inputs.args, inputs.kwargs))
    storages = {storage_key(tensor): tensor for tensor in tensors}
    size = sum(t.untyped_storage().nbytes() for key, t in storages.items() if key is not None)
    device = _device(model, tensors)
    snapshot = Snapshot(model)

    def forward() -> object:
        return model(*inputs.args, **inputs.kwargs)

    try:
        with torch.no_grad():
            if device.type == "cuda":
                return MeasuredPeak(str(device), size, _peak_on_cuda(forward, device))
            forward()
            kept = held_bytes(model) - sum(
                sum(storages.values()) for storages in weight_storages(model)
            )
            return MeasuredPeak(str(device), size, most_alive(_events(forward)), kept)
    except (Exception, SystemExit) as error:
        raise ForwardError(error, "") from error
    finally:
        snapshot.restore()


def most_allocated(forward: Callable[[], object], device: torch.device) -> int:
    """Run something once and give the most bytes that it had allocated at once; its output too.

    It should have run before: what a first run allocates and keeps is otherwise in it.
    """
    if device.type == "cuda":
        return _peak_on_cuda(forward, device)
    return most_alive(_events(forward))


def _device(model: torch.nn.Module, tensors: Sequence[torch.Tensor]) -> torch.device:
    first = next((t for t in (*model.parameters(), *tensors)), None)
    return torch.device("cpu") if first is None else first.device


def _peak_on_cuda(forward: _Forward, device: torch.device) -> int:
    torch.cuda.synchronize(device)
    before = torch.cuda.memory_allocated(device)
    forward()
    torch.cuda.reset_peak_memory_stats(device)
    forward()
    torch.cuda.synchronize(device)
    return torch.cuda.max_memory_allocated(device) - before


def _events(forward: _Forward) -> list[Allocation]:
    """Return what a forward allocates and frees, in time order; its output is kept until then."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as events:
        output = forward()
    results: Any = events.profiler
    found = allocations(results.kineto_results)
    del output
    return found


def most_alive(events: Sequence[Allocation]) -> int:
    """Return the most bytes alive at once.

    Frees of what was there before the forward (a cache that it replaces) are left out.
    """
    began: dict[int, int] = {}
    live = peak = 0
    for event in events:
        if event.size_bytes > 0:
            began[event.address] = event.size_bytes
            live += event.size_bytes
        else:
            live -= began.pop(event.address, 0)
        peak = max(peak, live)
    return peak
