"""The structure of a file or directory of weights: what kind it is, and its tensors."""

from pathlib import Path

from tui_profiler.archive.formats import torch_save
from tui_profiler.archive.formats.exported import is_exported, read_exported
from tui_profiler.archive.formats.safetensors import is_safetensors, structure_of_safetensors
from tui_profiler.archive.formats.shards import (
    read_index,
    structure_of_directory,
    structure_of_index,
)
from tui_profiler.archive.formats.torchscript import is_torchscript, read_torchscript
from tui_profiler.archive.reading.file_contents import Found, Problem
from tui_profiler.archive.reading.file_region import Region, open_file
from tui_profiler.archive.reading.garbage_collection import without_collector
from tui_profiler.archive.reading.zips import read_zip

_ZIP = b"PK\x03\x04"
_EMPTY_ZIP = b"PK\x05\x06"


def structure_of(path: Path) -> Found:
    """Return the structure of a file or directory of weights.

    Nothing in it is imported or run, and its values are not read: a terabyte takes no longer than
    its headers. What kind a file is, is told by its bytes alone.

    Raises:
        ArchiveError: It cannot be opened, or is damaged or hostile beyond what can be told of it.
    """
    with without_collector():
        if path.is_dir():
            return structure_of_directory(path, structure_of_file)
        with open_file(path) as region:
            weight_map = read_index(region) if _is_json(region) else None
            if weight_map is None:
                return _of_region(region)
        return structure_of_index(path, weight_map, structure_of_file)


def structure_of_file(path: Path) -> Found:
    """Return the structure of one file that is not an index."""
    with open_file(path) as region:
        return _of_region(region)


def _of_region(region: Region) -> Found:
    if is_safetensors(region):
        return structure_of_safetensors(region)
    if region.read(0, min(region.size, len(_ZIP))) in (_ZIP, _EMPTY_ZIP):
        return _of_zip(region)
    if torch_save.is_torch_legacy(region):
        return torch_save.read_torch_legacy(region)
    return torch_save.read_raw_pickle(region) or _stranger(region)


def _of_zip(region: Region) -> Found:
    archive = read_zip(region)
    if is_exported(archive):
        return read_exported(archive)
    if is_torchscript(archive):
        return read_torchscript(archive)
    if torch_save.is_torch_zip(archive):
        return torch_save.read_torch_zip(archive)
    return _unknown(region.file, "is a zip file, and not one that torch wrote")


def _is_json(region: Region) -> bool:
    start = region.read(0, min(region.size, 16)).lstrip()
    return start.startswith(b"{") and not is_safetensors(region)


_STARTS = (
    (b"GGUF", "a GGUF file"),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file (Keras)"),
    (b"\x93NUMPY", "a NumPy array"),
    (b"\x1f\x8b", "compressed by gzip"),
    (b"BZh", "compressed by bzip2"),
    (b"\xfd7zXZ\0", "compressed by xz"),
    (b"\x28\xb5\x2f\xfd", "compressed by zstd"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"%PDF", "a PDF file"),
    (b"\x7fELF", "a program"),
    (b"version https://git-lfs", "a pointer of Git LFS: the file itself was not fetched"),
    (b"<!DOCTYPE", "a web page, not what was to be downloaded"),
    (b"<html", "a web page, not what was to be downloaded"),
)
_TAR_AT = 257
_TFLITE_AT = 4


def _stranger(region: Region) -> Found:
    """Return the Found of a file that holds no weights we read, and what it is, where we know."""
    start = region.read(0, min(region.size, _TAR_AT + 5))
    what = next((name for mark, name in _STARTS if start.startswith(mark)), "")
    if start[_TAR_AT : _TAR_AT + 5] == b"ustar":
        what = "a tar archive (torch before 0.2 wrote such files)"
    if start[_TFLITE_AT : _TFLITE_AT + 4] == b"TFL3":
        what = "a TensorFlow Lite file"
    if not region.size:
        what = "empty"
    if region.size and not any(start):
        what = "nothing but zeros at its start: the copy was not finished"
    return _unknown(region.file, f"is {what or 'not a known weights file'}")


def _unknown(file: str, what: str) -> Found:
    problem = Problem(file, "", what)
    return Found(
        kind="unknown",
        path=file,
        content="nothing",
        problems=(problem,),
        checksum="none in this format",
        files=(file,),
    )
