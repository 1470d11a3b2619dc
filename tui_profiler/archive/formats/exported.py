"""Reads archives of torch.export: where the weights lie, and the module each operator came from.

Three layouts are known, newest first:

- torch 2.9 on: ``models/model.json``, ``data/weights/model_weights_config.json`` and raw
  ``data/weights/weight_0``; tensor subclasses are pickled instead;
- torch 2.8: ``models/model.json`` and ``data/weights/model.pt``, which torch.save wrote;
- torch 2.1 to 2.7: ``serialized_exported_program.json`` and ``serialized_state_dict.pt``.

Source: torch/export/pt2_archive/_package.py (``_load_state_dict`` reads the first two) and
torch/export/__init__.py (``load``, for the last).
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import structs

from tui_profiler.archive.formats.exported_modules import modules_of_program
from tui_profiler.archive.formats.exported_weights import gather_config
from tui_profiler.archive.formats.torch_zip import PICKLE, check_stored, read_torch_zip
from tui_profiler.archive.formats.totals import found_of
from tui_profiler.archive.pickles.contents import Gathering
from tui_profiler.archive.pickles.reader import read_pickle
from tui_profiler.archive.pickles.storages import ZipStorages
from tui_profiler.archive.pickles.trust import told_apart
from tui_profiler.archive.reading.errors import ArchiveError
from tui_profiler.archive.reading.file_contents import Found, Role, TensorEntry
from tui_profiler.archive.zips.directory import Zip, read_zip
from tui_profiler.archive.zips.members import checksum_of, read_member, small_texts

_FORMAT = "archive_format"
_MODELS = "models/"
_OLD_PROGRAM = "serialized_exported_program.json"
_OLD_WEIGHTS: tuple[tuple[str, Role], ...] = (
    ("serialized_state_dict.pt", "unknown"),
    ("serialized_constants.pt", "constant"),
)
_OLD_INPUTS = "serialized_example_inputs.pt"
_PARTS: tuple[tuple[str, str, Role], ...] = (
    ("data/weights/", "weights", "unknown"),
    ("data/constants/", "constants", "constant"),
)
_COMPILED = "data/aotinductor/"
_OPAQUE_OBJECT = "opaque_obj_"


def is_exported(archive: Zip) -> bool:
    """Say if a zip is an archive of torch.export."""
    return (
        _FORMAT in archive.members
        or _OLD_PROGRAM in archive.members
        or any(name.startswith(_MODELS) for name in archive.members)
    )


def read_exported(archive: Zip) -> Found:
    """Give what an archive of torch.export holds.

    Raises:
        ArchiveError: Its parts are damaged, or larger than any model's.
    """
    gathering = Gathering(archive.region, ZipStorages(archive, ""))
    check_stored(archive, gathering)
    names: list[str] = []
    if _OLD_PROGRAM in archive.members:
        programs = [_OLD_PROGRAM]
        for member, role in _OLD_WEIGHTS:
            if member in archive.members:
                names += _gather_saved(archive, member, role, gathering)
        if _OLD_INPUTS in archive.members:
            names += _names_of_saved(archive, _OLD_INPUTS)
    else:
        programs = [
            name
            for name in archive.members
            if name.startswith(_MODELS) and name.endswith(".json") and name.count("/") == 1
        ]
        for program in programs:
            model = program.removeprefix(_MODELS).removesuffix(".json")
            names += _gather_model(archive, model, gathering)
        names += _names_beside(archive, gathering)
    for entry in modules_of_program(archive, programs):
        gathering.module(entry.path, entry.class_name)
    texts = small_texts(archive, (_FORMAT, "archive_version", "version", "byteorder"))
    return found_of(
        "exported-program",
        archive.region.file,
        "program",
        gathering,
        names=told_apart(names),
        checksum=checksum_of(archive),
        metadata={**texts, **_told_of(archive, programs)},
    )


def _gather_model(archive: Zip, model: str, gathering: Gathering) -> list[str]:
    names: list[str] = []
    for folder, word, role in _PARTS:
        config = f"{folder}{model}_{word}_config.json"
        saved = f"{folder}{model}.pt"
        if saved in archive.members:
            names += _gather_saved(archive, saved, role, gathering)
        elif config in archive.members:
            pickled = gather_config(archive, config, folder, role, gathering)
            for name, member in pickled:
                names += _gather_pickled(archive, name, member, gathering)
    return names


def _gather_saved(archive: Zip, member: str, role: Role, gathering: Gathering) -> list[str]:
    if not archive.members[member].bytes:
        return []
    found = _inner(archive, member)
    gathering.problems += found.problems
    for tensor in found.tensors:
        gathering.listed(tensor, role)
    return list(found.globals)


def _gather_pickled(archive: Zip, name: str, member: str, gathering: Gathering) -> list[str]:
    found = _inner(archive, member)
    gathering.problems += found.problems
    for tensor in found.tensors:
        gathering.listed(_renamed(tensor, name), tensor.role)
    return list(found.globals)


def _renamed(tensor: TensorEntry, name: str) -> TensorEntry:
    return structs.replace(tensor, name=name)


def _inner(archive: Zip, member: str) -> Found:
    region = read_member(archive, member)
    inner = read_zip(region)
    if PICKLE not in inner.members:
        raise region.error("is no file that torch.save wrote")
    return read_torch_zip(inner)


def _names_of_saved(archive: Zip, member: str) -> list[str]:
    region = read_member(archive, member)
    if not region.size:
        return []
    return list(read_pickle(read_member(read_zip(region), PICKLE)).names)


def _names_beside(archive: Zip, gathering: Gathering) -> Iterator[str]:
    # Sample inputs and opaque objects are unpickled when the program is loaded.
    for name in archive.members:
        try:
            if name.startswith("data/sample_inputs/") and name.endswith(".pt"):
                yield from _names_of_saved(archive, name)
            elif name.startswith(f"data/constants/{_OPAQUE_OBJECT}"):
                yield from read_pickle(read_member(archive, name)).names
        except ArchiveError as error:
            gathering.problem(error.where, error.what)


def _told_of(archive: Zip, programs: list[str]) -> dict[str, str]:
    told = {"programs": ", ".join(programs[:20])} if programs else {}
    compiled = [name for name in archive.members if name.startswith(_COMPILED)]
    native = [name for name in compiled if name.endswith((".so", ".cubin", ".dll", ".dylib"))]
    if native:
        told["native code"] = ", ".join(native[:20])
    return told
