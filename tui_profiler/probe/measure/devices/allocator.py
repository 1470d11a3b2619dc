"""What torch's allocators hold, without importing torch: it may still be on its way.

``inactive_split`` over ``reserved`` is the fragmentation: memory that is free, in pieces of blocks
that cannot be given back. Source: torch, docs/source/notes/cuda.rst, "Memory management", and
``torch.cuda.memory_stats``.
"""

import sys
from typing import Any

from tui_profiler.messages import Allocator, Figure, Unknown

_NO_CPU = Unknown("torch keeps no running total of its CPU allocator")
_NOT_COUNTED = Unknown("this version of torch does not count it")


def allocators() -> tuple[Allocator, ...]:
    """Return one for each device that torch uses in this process; the CPU's is always there.

    A device that CUDA was not started for has none: to ask would start it.
    """
    return (_cpu(), *_cuda())


def cuda_uuids() -> tuple[str, ...] | None:
    """Return the UUIDs of the GPUs that CUDA sees, in its order; None while it was not started."""
    cuda = started_cuda()
    if cuda is None:
        return None
    return tuple(
        str(getattr(cuda.get_device_properties(index), "uuid", ""))
        for index in range(cuda.device_count())
    )


def _cpu() -> Allocator:
    return Allocator("cpu", _NO_CPU, _NO_CPU, _NO_CPU, _NO_CPU, _NO_CPU, _NO_CPU, _NO_CPU)


def _cuda() -> tuple[Allocator, ...]:
    cuda = started_cuda()
    if cuda is None:
        return ()
    return tuple(
        from_statistics(f"cuda:{index}", cuda.memory_stats(index))
        for index in range(cuda.device_count())
    )


def from_statistics(device: str, statistics: dict[str, int]) -> Allocator:
    """Pick from what ``torch.cuda.memory_stats`` gives; it is empty before the first tensor."""

    def figure(name: str) -> Figure:
        if not statistics:
            return 0.0
        value = statistics.get(name)
        return _NOT_COUNTED if value is None else float(value)

    return Allocator(
        device=device,
        allocated_bytes=figure("allocated_bytes.all.current"),
        reserved_bytes=figure("reserved_bytes.all.current"),
        inactive_split_bytes=figure("inactive_split_bytes.all.current"),
        peak_allocated_bytes=figure("allocated_bytes.all.peak"),
        peak_reserved_bytes=figure("reserved_bytes.all.peak"),
        retries=figure("num_alloc_retries"),
        out_of_memory=figure("num_ooms"),
    )


def started_cuda() -> Any:
    """Return ``torch.cuda`` once it was started; None before, and while torch is being imported."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    is_initialised = getattr(cuda, "is_initialized", None)
    return cuda if is_initialised is not None and is_initialised() else None
