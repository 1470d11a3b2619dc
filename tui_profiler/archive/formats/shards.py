"""Weights in several files: a directory of them, or an index that says which tensor is in which.

Source: ``load_sharded_checkpoint`` in transformers/modeling_utils.py, for the form of the index:
``{"metadata": {…}, "weight_map": {tensor: file}}``.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path

from msgspec import structs

from tui_profiler.archive.reading import limits
from tui_profiler.archive.reading.file_contents import (
    Checksum,
    Found,
    Kind,
    Problem,
    TensorEntry,
    with_tensors,
)
from tui_profiler.archive.reading.file_region import ArchiveError, Region, open_file
from tui_profiler.archive.reading.strict_json import Json, read_json

_MAP = "weight_map"
_MOST_MISSING = 20

StructureOf = Callable[[Path], Found]
"""Looks into one file."""


def read_index(region: Region) -> dict[str, str] | None:
    """Return the file of each tensor, by an index; None where the JSON text is something else."""
    entries = read_json(region)
    weight_map = entries.get(_MAP) if isinstance(entries, dict) else None
    if not isinstance(weight_map, dict):
        return None
    for name, file in weight_map.items():
        if not _is_plain(file):
            raise region.error(
                f"places {name[:200]!a} in {str(file)[:200]!a}, which is not a file beside it"
            )
    return {name: str(file) for name, file in weight_map.items()}


def structure_of_index(path: Path, weight_map: dict[str, str], structure_of: StructureOf) -> Found:
    """Return what all the files of an index, whose path is given, hold together."""
    files = list(dict.fromkeys(weight_map.values()))
    found = joined(path, [path.parent / file for file in files], structure_of)
    held: dict[str, list[str]] = {}
    names = {file: Path(file).name for file in found.files}
    for tensor in found.tensors:
        held.setdefault(tensor.name, []).append(names[tensor.file])
    problems = [
        *_misplaced(path, weight_map, held, found),
        *(
            Problem(str(path), f"tensor {name[:200]!a}", "is in a file, and not in the index")
            for name in islice((name for name in held if name not in weight_map), _MOST_MISSING)
        ),
    ]
    return structs.replace(
        found, problems=(*found.problems, *problems), files=(str(path), *found.files)
    )


def joined(path: Path, files: Sequence[Path], structure_of: StructureOf) -> Found:
    """Return what several files hold together. A file that cannot be read becomes a problem."""
    if len(files) > limits.SHARDS:
        raise ArchiveError(f"is of {len(files)} files, more than any model has", str(path))
    parts: list[Found] = []
    problems: list[Problem] = []
    total = 0
    for file in files:
        try:
            part = structure_of(file)
        except ArchiveError as error:
            problems.append(Problem(error.file, error.where, error.what))
            continue
        parts.append(part)
        problems += part.problems
        total += len(part.tensors)
        if total > limits.TENSORS:
            raise ArchiveError(f"has more than {limits.TENSORS} tensors", str(path))
    if not parts and problems:
        first = problems[0]
        raise ArchiveError(first.what, first.file, first.where)
    tensors = [tensor for part in parts for tensor in part.tensors]
    problems += _twice(tensors)
    found = Found(
        _kind(parts),
        str(path),
        "parameters" if tensors else "nothing",
        globals=_union(part.globals for part in parts),
        untrusted_globals=_union(part.untrusted_globals for part in parts),
        dangerous_globals=_union(part.dangerous_globals for part in parts),
        problems=tuple(problems),
        checksum=_checksum(parts),
        metadata=parts[0].metadata if parts else {},
        files=tuple(file for part in parts for file in part.files),
    )
    return with_tensors(found, tensors)


def _is_plain(file: Json) -> bool:
    return (
        isinstance(file, str)
        and 0 < len(file) <= 255
        and not any(mark in file for mark in ("/", "\\", "\0"))
        and file not in (".", "..")
    )


def _misplaced(
    path: Path, weight_map: dict[str, str], held: dict[str, list[str]], found: Found
) -> list[Problem]:
    # Tensors of a file that could not be read are told by that file's own problem.
    read = {Path(file).name for file in found.files}
    wrong = [
        (name, file)
        for name, file in weight_map.items()
        if file in read and file not in held.get(name, [])
    ]
    return [
        Problem(str(path), f"tensor {name[:200]!a}", f"is not in {file[:200]!a}, as the index says")
        for name, file in wrong[:_MOST_MISSING]
    ]


def _twice(tensors: Iterable[TensorEntry]) -> list[Problem]:
    seen: dict[str, str] = {}
    problems: list[Problem] = []
    for tensor in tensors:
        if tensor.name in seen and len(problems) < _MOST_MISSING:
            what = f"is also in {seen[tensor.name][-200:]!a}"
            problems.append(Problem(tensor.file, f"tensor {tensor.name[:200]!a}", what))
        seen.setdefault(tensor.name, tensor.file)
    return problems


def _kind(parts: Sequence[Found]) -> Kind:
    kinds = {part.kind for part in parts}
    if kinds == {"safetensors"}:
        return "safetensors-sharded"
    return "torch-sharded" if kinds else "unknown"


def _checksum(parts: Sequence[Found]) -> Checksum:
    has_some = any(part.checksum == "not checked" for part in parts)
    return "not checked" if has_some else "none in this format"


def _union(lists: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(sorted({name for names in lists for name in names}))


_CONFIG = "config.json"
_INDEX = ".index.json"
# The first of these groups that a directory has is its weights: they are often there twice.
_GROUPS = ((".safetensors",), (".bin", ".pt", ".pth"), (".pt2",))
_NOT_WEIGHTS = (
    *("training_args.bin", "optimizer.pt", "optimizer.bin", "scheduler.pt", "rng_state.pth"),
    "scaler.pt",
)


def structure_of_directory(path: Path, structure_of: StructureOf) -> Found:
    """Return what a directory of weights holds."""
    names = _names(path)
    metadata: dict[str, str] = {}
    problems: list[Problem] = []
    if _CONFIG in names:
        try:
            metadata = _config(path / _CONFIG)
        except ArchiveError as error:
            problems.append(Problem(error.file, error.where, error.what))
    found = _weights(path, names, structure_of)
    if _CONFIG not in names:
        if found is None:
            raise ArchiveError("contains no weights and no config.json", str(path))
        return structs.replace(found, path=str(path))
    if found is None:
        found = Found("unknown", str(path), "nothing", checksum="none in this format")
    return structs.replace(
        found,
        kind="hugging-face-directory",
        path=str(path),
        metadata={**found.metadata, **metadata, "weights": found.kind},
        problems=(*problems, *found.problems),
        files=(str(path / _CONFIG), *found.files),
    )


def _names(path: Path) -> list[str]:
    names: list[str] = []
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                if len(names) >= limits.SHARDS:
                    raise ArchiveError(f"contains more than {limits.SHARDS} files", str(path))
                names.append(entry.name)
    except OSError as error:
        raise ArchiveError(f"cannot be listed: {error.strerror}", str(path)) from error
    return sorted(names)


def _weights(path: Path, names: list[str], structure_of: StructureOf) -> Found | None:
    for endings in _GROUPS:
        group = [name for name in names if name.endswith(endings) and name not in _NOT_WEIGHTS]
        indexes = tuple(f"{ending}{_INDEX}" for ending in endings)
        for index in (name for name in names if name.endswith(indexes)):
            with open_file(path / index) as region:
                weight_map = read_index(region)
            if weight_map is not None:
                return structure_of_index(path / index, weight_map, structure_of)
        if len(group) == 1:
            return structure_of(path / group[0])
        if group:
            return joined(path, [path / name for name in group], structure_of)
    return None


def _config(path: Path) -> dict[str, str]:
    with open_file(path) as region:
        # Python's writer gives NaN and Infinity to some configs (Mamba's time limits).
        entries = read_json(region, numbers_only=False)
    if not isinstance(entries, dict):
        raise ArchiveError("is not a JSON object", str(path))
    told = {key: _in_words(entries.get(key)) for key in ("model_type", "architectures", "dtype")}
    told["dtype"] = told["dtype"] or _in_words(entries.get("torch_dtype"))
    return {key: text for key, text in told.items() if text}


def _in_words(value: Json) -> str:
    if isinstance(value, list):
        return ", ".join(item for item in value[:10] if isinstance(item, str))[:200]
    return value[:200] if isinstance(value, str) else ""
