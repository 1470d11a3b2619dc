"""One matrix product, one copy, one empty operator: what a device can do at most.

Nothing of the user's is changed: random numbers come from a generator of our own, and gradients are
off for this thread only. On a GPU the work is timed between events on its stream.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import torch

from tui_profiler.messages import Figure, Unknown
from tui_profiler.probe.measure.machine import memory, memory_group

PRODUCT_SECONDS = 0.4
"""What one dtype may take, about."""
COPY_SECONDS = 0.3
OPERATORS = 500
ROUNDS = 10

_LEAST_SIZE, _MOST_SIZE = 256, 8192
_REPEATS = 4
"""Of every product and copy; the first, which may still compile or allocate, may be the worst."""
_CACHES = 4
"""A copy is this many times as large as the last-level cache: the rest of it is then noise."""
_MOST_COPY_BYTES = 512 * 2**20
"""Or this, but not less than that cache, as it is read and written: a virtual machine names the
cache of the whole processor."""
_LEAST_COPY_BYTES = 64 * 2**20
_MEMORY_SHARE = 8
"""At most one part in so many of the free memory is used."""
_CPU_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30}


def product_rate(dtype: str, device: torch.device) -> Figure:
    """Give FLOP/s of square matrix products, the best of several sizes; a multiply-add is two.

    Args:
        dtype: torch's name without prefix.
        device: where.
    """
    kind = getattr(torch, dtype, None)
    if not isinstance(kind, torch.dtype):
        return Unknown(f"torch has no dtype {dtype}")
    try:
        return _product_rate(kind, device)
    except (RuntimeError, NotImplementedError) as error:
        return Unknown(f"no {dtype} matrix product on {device}: {_first_line(error)}")


def copy_rate(device: torch.device) -> Figure:
    """Give bytes per second of a copy, reading and writing both counted."""
    cache, free = last_level_cache_bytes(device), _free_bytes(device)
    wanted = max(_LEAST_COPY_BYTES, min(_CACHES * cache, max(_MOST_COPY_BYTES, cache)))
    size = min(wanted, free // _MEMORY_SHARE // 2)
    if size < cache:
        return Unknown("too little free memory for a copy larger than the caches")
    source = torch.ones(size // 4, dtype=torch.float32, device=device)
    # Written once beforehand: the first touch of a page costs far more than the copy.
    target = torch.zeros_like(source).copy_(source)
    seconds = _best(lambda: target.copy_(source), device, COPY_SECONDS)
    return 2 * source.numel() * source.element_size() / seconds


def operator_seconds(device: torch.device) -> float:
    """Give the least time of one operator on one element: dispatch and call."""
    one = torch.ones(1, device=device)

    def run() -> None:
        relu = torch.relu
        for _ in range(OPERATORS):
            relu(one)

    with torch.no_grad():
        run()
        return min(_seconds(run, device) for _ in range(ROUNDS)) / OPERATORS


def last_level_cache_bytes(device: torch.device, caches: Path = _CPU_CACHES) -> int:
    """Give the size of the cache nearest to memory; 0 where nothing tells it."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).L2_cache_size)
    sizes = [0]
    for file in caches.glob("index*/size"):
        text = file.read_text().strip()
        number, unit = text.rstrip("KMG"), text[-1:]
        if number.isdigit():
            sizes.append(int(number) * _UNITS.get(unit, 1))
    return max(sizes)


def _product_rate(kind: torch.dtype, device: torch.device) -> float:
    # Larger products come closer to the peak, but on a slow dtype one of them would take minutes:
    # each size is tried only if the one before it says that there is time.
    generator = torch.Generator(device).manual_seed(0)
    most = min(_MOST_SIZE, int((_free_bytes(device) / _MEMORY_SHARE / 3 / kind.itemsize) ** 0.5))
    best, size, left = 0.0, min(_LEAST_SIZE, most), PRODUCT_SECONDS
    while True:
        began = perf_counter()
        # Random, because a GPU draws less power on constants, and runs faster than it ever will.
        left_matrix, right = (
            torch.rand(size, size, generator=generator, device=device).to(kind) for _ in range(2)
        )
        out = torch.empty_like(right)
        seconds = _best(_product(left_matrix, right, out), device, left)
        best = max(best, 2 * size**3 / seconds)
        left -= perf_counter() - began
        if size >= most or 8 * seconds * _REPEATS > left:
            return best
        size = min(2 * size, most)


def _product(left: torch.Tensor, right: torch.Tensor, out: torch.Tensor) -> Callable[[], object]:
    return lambda: torch.mm(left, right, out=out)


def _best(action: Callable[[], object], device: torch.device, budget_seconds: float) -> float:
    with torch.no_grad():
        began = perf_counter()
        best = _seconds(action, device)
        for _ in range(_REPEATS - 1):
            if perf_counter() - began > budget_seconds:
                break
            best = min(best, _seconds(action, device))
        return best


def _seconds(action: Callable[[], object], device: torch.device) -> float:
    if device.type == "cuda":
        return _stream_seconds(action, device)
    began = perf_counter()
    action()
    return perf_counter() - began


def _stream_seconds(action: Callable[[], object], device: torch.device) -> float:
    with torch.cuda.device(device):
        begin: torch.cuda.Event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]  # torch
        end: torch.cuda.Event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]  # torch
        torch.cuda.synchronize(device)
        begin.record()
        action()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) / 1e3


def _free_bytes(device: torch.device) -> int:
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return int(free)
    used, total = memory(memory_group())
    return max(total - used, 0)


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
