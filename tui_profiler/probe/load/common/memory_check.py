"""Whether a model fits into the memory that is free."""

from __future__ import annotations

from pathlib import Path

import psutil
import torch

from tui_profiler.probe.load.common.layers import modules_in_order
from tui_profiler.probe.process.memory_limit import limit_bytes

_GROUP = Path("/sys/fs/cgroup")


def free_bytes(device: torch.device) -> int:
    """Return the free memory of a device; on the CPU within the memory limit of this process."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    free = int(psutil.virtual_memory().available)
    most = limit_bytes()
    free = free if most is None else min(free, most)
    limit, used = _number(_GROUP / "memory.max"), _number(_GROUP / "memory.current")
    return free if limit is None or used is None else min(free, max(limit - used, 0))


def held_bytes(model: torch.nn.Module) -> int:
    """Give the bytes of a model's parameters and buffers, shared ones once."""
    sizes: dict[int, int] = {}
    for _, module in modules_in_order(model):
        for tensor in (*module.parameters(recurse=False), *module.buffers(recurse=False)):
            sizes[id(tensor)] = tensor.numel() * tensor.element_size()
    return sum(sizes.values())


def why_it_does_not_fit(sketch: torch.nn.Module, device: torch.device) -> str:
    """Say why a model cannot be held on a device; empty where it can.

    Args:
        sketch: The model on meta, which takes no memory.
        device: Where it would be.
    """
    if device.type == "meta":
        return ""
    needed, free = held_bytes(sketch) / 2**30, free_bytes(device) / 2**30
    if needed <= free:
        return ""
    return f"its parameters take {needed:,.1f} GiB, and {free:,.1f} GiB of memory are free"


def _number(path: Path) -> int | None:
    """Read a number; None where there is no such file, or it says ``max``."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None
