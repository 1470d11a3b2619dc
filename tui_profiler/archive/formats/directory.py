"""Looks into a directory: its index, or its files of weights, and Hugging Face's config.json."""

from __future__ import annotations

import os
from pathlib import Path

from msgspec import structs

from tui_profiler.archive.formats.shards import LookInto, joined, look_into_index, read_index
from tui_profiler.archive.reading import limits
from tui_profiler.archive.reading.errors import ArchiveError
from tui_profiler.archive.reading.file_contents import Found, Problem
from tui_profiler.archive.reading.file_region import open_file
from tui_profiler.archive.reading.strict_json import Json, read_json

CONFIG = "config.json"
_INDEX = ".index.json"
# The first of these groups that a directory has is its weights: they are often there twice.
_GROUPS = ((".safetensors",), (".bin", ".pt", ".pth"), (".pt2",))
_NOT_WEIGHTS = (
    "training_args.bin",
    "optimizer.pt",
    "optimizer.bin",
    "scheduler.pt",
    "rng_state.pth",
    "scaler.pt",
)


def look_into_directory(path: Path, look_into: LookInto) -> Found:
    """Give what a directory of weights holds.

    Args:
        path: The directory.
        look_into: Looks into one file.

    Raises:
        ArchiveError: It cannot be listed, holds no weights and no config, or none can be read.
    """
    names = _names(path)
    metadata: dict[str, str] = {}
    problems: list[Problem] = []
    if CONFIG in names:
        try:
            metadata = _config(path / CONFIG)
        except ArchiveError as error:
            problems.append(Problem(error.file, error.where, error.what))
    found = _weights(path, names, look_into)
    if CONFIG not in names:
        if found is None:
            raise ArchiveError("holds no weights and no config.json", str(path))
        return structs.replace(found, path=str(path))
    if found is None:
        found = Found("unknown", str(path), "nothing", checksum="none in this format")
    return structs.replace(
        found,
        kind="hugging-face-directory",
        path=str(path),
        metadata={**found.metadata, **metadata, "weights": found.kind},
        problems=(*problems, *found.problems),
        files=(str(path / CONFIG), *found.files),
    )


def _names(path: Path) -> list[str]:
    names: list[str] = []
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                if len(names) >= limits.SHARDS:
                    raise ArchiveError(f"holds more than {limits.SHARDS} files", str(path))
                names.append(entry.name)
    except OSError as error:
        raise ArchiveError(f"cannot be listed: {error.strerror}", str(path)) from error
    return sorted(names)


def _weights(path: Path, names: list[str], look_into: LookInto) -> Found | None:
    for endings in _GROUPS:
        group = [name for name in names if name.endswith(endings) and name not in _NOT_WEIGHTS]
        indexes = [
            name
            for name in names
            if name.endswith(tuple(f"{ending}{_INDEX}" for ending in endings))
        ]
        for index in indexes:
            with open_file(path / index) as region:
                weight_map = read_index(region)
            if weight_map is not None:
                return look_into_index(path / index, weight_map, look_into)
        if len(group) == 1:
            return look_into(path / group[0])
        if group:
            return joined(path, [path / name for name in group], look_into)
    return None


def _config(path: Path) -> dict[str, str]:
    with open_file(path) as region:
        # Python's writer gives NaN and Infinity to some configs (Mamba's time limits).
        entries = read_json(region, numbers_only=False)
    if not isinstance(entries, dict):
        raise ArchiveError("is no JSON object", str(path))
    told = {key: _in_words(entries.get(key)) for key in ("model_type", "architectures", "dtype")}
    told["dtype"] = told["dtype"] or _in_words(entries.get("torch_dtype"))
    return {key: text for key, text in told.items() if text}


def _in_words(value: Json) -> str:
    if isinstance(value, list):
        return ", ".join(item for item in value[:10] if isinstance(item, str))[:200]
    return value[:200] if isinstance(value, str) else ""
