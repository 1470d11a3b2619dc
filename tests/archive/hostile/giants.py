"""Honest files at the size where a reader becomes slow: very deep, very many, very large."""

from __future__ import annotations

import json
import struct
import sys
from pathlib import Path

import torch
from torch import nn

SHARDS = 200
PARAMETERS = 503_000_000_000


def write_giants(folder: Path) -> list[Path]:
    """Write the giants; sparse files stand for values that nobody reads."""
    paths = [folder / name for name in ("deep.pt", "modules.pt", "state.pt")]
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(100_000)
    deep: nn.Module = nn.Linear(1, 1)
    for _ in range(3_000):
        deep = nn.Sequential(deep)
    torch.save(deep, paths[0])
    many = nn.Sequential(
        *(nn.Sequential(nn.Linear(1, 1), nn.LayerNorm(1), nn.ReLU()) for _ in range(25_000))
    )
    torch.save(many, paths[1])
    torch.save(many.state_dict(), paths[2])
    sys.setrecursionlimit(limit)
    shards = folder / "shards"
    shards.mkdir()
    write_shards(shards, SHARDS, PARAMETERS)
    return [*paths, shards]


def write_shards(folder: Path, count: int, parameters: int) -> None:
    """Write sharded safetensors of bfloat16 with an index, without their values."""
    weight_map = {}
    each = parameters // count
    rows = each // (16 * 4096)
    for number in range(count):
        name = f"model-{number + 1:05}-of-{count:05}.safetensors"
        header: dict[str, object] = {}
        at = 0
        for part in range(16):
            size = rows * 4096 * 2
            header[f"layers.{number}.{part}.weight"] = {
                "dtype": "BF16", "shape": [rows, 4096], "data_offsets": [at, at + size],
            }  # fmt: skip
            weight_map[f"layers.{number}.{part}.weight"] = name
            at += size
        text = json.dumps(header).encode()
        with (folder / name).open("wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            file.truncate(8 + len(text) + at)
    index = {"metadata": {"total_size": parameters * 2}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
