"""Looks into a file or directory of weights: what kind it is, and what it holds."""

from __future__ import annotations

from pathlib import Path

from tui_profiler.archive.formats.directory import look_into_directory
from tui_profiler.archive.formats.exported import is_exported, read_exported
from tui_profiler.archive.formats.other_formats import stranger, unknown
from tui_profiler.archive.formats.raw_pickle import read_raw_pickle
from tui_profiler.archive.formats.safetensors import is_safetensors, look_into_safetensors
from tui_profiler.archive.formats.shards import look_into_index, read_index
from tui_profiler.archive.formats.torch_legacy import is_torch_legacy, read_torch_legacy
from tui_profiler.archive.formats.torch_zip import is_torch_zip, read_torch_zip
from tui_profiler.archive.formats.torchscript import is_torchscript, read_torchscript
from tui_profiler.archive.reading.file_contents import Found
from tui_profiler.archive.reading.file_region import Region, open_file
from tui_profiler.archive.reading.garbage_collection import without_collector
from tui_profiler.archive.zips.directory import read_zip

_ZIP = b"PK\x03\x04"
_EMPTY_ZIP = b"PK\x05\x06"


def look(path: Path) -> Found:
    """Give the structure of a file or directory of weights.

    Nothing in it is imported or run, and its values are not read: a terabyte takes no longer than
    its headers. What kind a file is, is told by its bytes alone.

    Raises:
        ArchiveError: It cannot be opened, or is damaged or hostile beyond what can be told of it.
    """
    with without_collector():
        if path.is_dir():
            return look_into_directory(path, look_into_file)
        with open_file(path) as region:
            weight_map = read_index(region) if _is_json(region) else None
            if weight_map is None:
                return _look_into(region)
        return look_into_index(path, weight_map, look_into_file)


def look_into_file(path: Path) -> Found:
    """Give the structure of one file that is no index.

    Raises:
        ArchiveError: It cannot be opened, or is damaged or hostile beyond what can be told of it.
    """
    with open_file(path) as region:
        return _look_into(region)


def _look_into(region: Region) -> Found:
    if is_safetensors(region):
        return look_into_safetensors(region)
    if region.read(0, min(region.size, len(_ZIP))) in (_ZIP, _EMPTY_ZIP):
        return _look_into_zip(region)
    if is_torch_legacy(region):
        return read_torch_legacy(region)
    return read_raw_pickle(region) or stranger(region)


def _look_into_zip(region: Region) -> Found:
    archive = read_zip(region)
    if is_exported(archive):
        return read_exported(archive)
    if is_torchscript(archive):
        return read_torchscript(archive)
    if is_torch_zip(archive):
        return read_torch_zip(archive)
    return unknown(region.file, "is a zip file, and not one that torch wrote")


def _is_json(region: Region) -> bool:
    start = region.read(0, min(region.size, 16)).lstrip()
    return start.startswith(b"{") and not is_safetensors(region)
