"""Tensors of a file where they lie: mapped into memory, read when they are used.

The look into the file has checked that every tensor lies within its storage, and every storage
within its file. Nothing is unpickled; the map is private, so that no write reaches the file.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import torch

from tui_profiler.archive import Found, TensorEntry
from tui_profiler.probe.load.common.errors import model_failed
from tui_profiler.probe.process.memory_limit import allow_map


def mapped_tensors(found: Found, shown: str) -> dict[str, torch.Tensor]:
    """Give every tensor of a file, or of all its shards, by name.

    Raises:
        LoadError: One of them has no plain values in a file, or a type that torch has not.
    """
    maps: dict[str, mmap.mmap] = {}
    return {entry.name: _tensor(entry, maps, shown) for entry in found.tensors}


def _tensor(entry: TensorEntry, maps: dict[str, mmap.mmap], shown: str) -> torch.Tensor:
    dtype = getattr(torch, entry.dtype, None)
    if not isinstance(dtype, torch.dtype) or entry.offset is None:
        what = f"{shown} holds {entry.name} as {entry.dtype}, which cannot be read as it lies there"
        raise model_failed(what)
    if 0 in entry.shape:
        return torch.empty(entry.shape, dtype=dtype)
    held = maps.get(entry.file)
    if held is None:
        with Path(entry.file).open("rb") as stream:
            allow_map(os.fstat(stream.fileno()).st_size)
            held = maps[entry.file] = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_COPY)
    reach = 1 + sum(
        stride * (axis - 1) for stride, axis in zip(entry.strides, entry.shape, strict=True)
    )
    flat = torch.frombuffer(held, dtype=dtype, count=reach, offset=entry.offset)
    return flat.as_strided(entry.shape, entry.strides)
