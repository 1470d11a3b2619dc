"""Reads archives of torch.export: where the weights lie, and the module each operator came from.

Three layouts are known, newest first:

- torch 2.9 on: ``models/model.json``, ``data/weights/model_weights_config.json`` and raw
  ``data/weights/weight_0``; tensor subclasses are pickled instead;
- torch 2.8: ``models/model.json`` and ``data/weights/model.pt``, which torch.save wrote;
- torch 2.1 to 2.7: ``serialized_exported_program.json`` and ``serialized_state_dict.pt``.

Source: torch/export/pt2_archive/_package.py (``_load_state_dict`` reads the first two) and
torch/export/__init__.py (``load``, for the last).

An operator's ``nn_module_stack`` is a text such as ``L__self__,,Net;L__self__conv,conv,Conv2d``:
key, path and class of each module around it. The program is searched for these texts and not
parsed: it can be a hundred times larger than its list of modules.

Sources: ``serialize_metadata`` of GraphModuleSerializer in torch/_export/serde/serialize.py;
``PayloadConfig``, ``PayloadMeta`` and ``TensorMeta`` in torch/_export/serde/schema.py.
"""

import json
import re
from collections.abc import Iterable, Iterator

from msgspec import structs

from tui_profiler.archive.formats.torch_save import PICKLE, check_stored, read_torch_zip
from tui_profiler.archive.pickles.contents import Gathering
from tui_profiler.archive.pickles.reader import read_pickle
from tui_profiler.archive.pickles.safe_globals import sorted_by_trust
from tui_profiler.archive.pickles.tensors import Described, StorageClaim, ZipStorages
from tui_profiler.archive.reading import limits, zips
from tui_profiler.archive.reading.file_contents import Found, Role
from tui_profiler.archive.reading.file_region import ArchiveError, Region
from tui_profiler.archive.reading.strict_json import Json, read_json
from tui_profiler.archive.reading.tensor_layout import BITS, SCALAR_TYPES
from tui_profiler.archive.reading.zips import Zip, read_member, read_zip

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
    """Return what an archive of torch.export holds."""
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
    for path, class_name in _modules_of_programs(archive, programs).items():
        gathering.module(path, class_name)
    texts = zips.small_texts(archive, (_FORMAT, "archive_version", "version", "byteorder"))
    return gathering.found(
        "exported-program",
        "program",
        names=sorted_by_trust(names),
        checksum=zips.checksum_of(archive),
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
            pickled = _gather_config(archive, config, folder, role, gathering)
            for name, member in pickled:
                names += _gather_saved(archive, member, "unknown", gathering, name)
    return names


def _gather_saved(
    archive: Zip, member: str, role: Role, gathering: Gathering, name: str = ""
) -> list[str]:
    """Gather the tensors that torch.save wrote, under their names or that of the only one."""
    if not name and not archive.members[member].bytes:
        return []  # no weights, or no constants
    region = read_member(archive, member)
    inner = read_zip(region)
    if PICKLE not in inner.members:
        raise region.error("is no file that torch.save wrote")
    found = read_torch_zip(inner)
    gathering.problems += found.problems
    for tensor in found.tensors:
        gathering.listed(structs.replace(tensor, name=name or tensor.name), role)
    return list(found.globals)


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


_STACK = re.compile(rb'"nn_module_stack": ?("(?:[^"\\]|\\.){0,65536}")')
_LEVEL_PARTS = 3
_CALL = re.compile(r"@\d+$")


def _modules_of_programs(archive: Zip, programs: Iterable[str]) -> dict[str, str]:
    """Return the class of each module that operators came from, by path, as they come first."""
    classes: dict[str, str] = {}
    seen: set[bytes] = set()
    for program in programs:
        text = zips.inflated(archive, program, limits.PROGRAM_BYTES)
        for match in _STACK.finditer(text):
            if match[1] not in seen:
                seen.add(match[1])
                _add(match[1], classes)
            if len(seen) > limits.MODULES or len(classes) > limits.MODULES:
                raise archive.error(
                    archive.members[program], f"has more than {limits.MODULES} modules"
                )
    return classes


def _add(quoted: bytes, classes: dict[str, str]) -> None:
    try:
        stack = json.loads(quoted)
    except ValueError:
        return
    for level in str(stack).split(";"):
        parts = level.rsplit(",", _LEVEL_PARTS - 1)
        if len(parts) == _LEVEL_PARTS:
            # A module that is called again has @1 behind its path.
            classes.setdefault(_CALL.sub("", parts[1]), parts[2])


_STRIDED = 7
_CUSTOM_OBJECTS = ("custom_obj_", "opaque_obj_")


def _gather_config(
    archive: Zip, config: str, folder: str, role: Role, gathering: Gathering
) -> list[tuple[str, str]]:
    """Gather the tensors that are kept as raw bytes; return name and member of the pickled ones."""
    region = read_member(archive, config)
    entries = read_json(region)
    inner = entries.get("config") if isinstance(entries, dict) else None
    if not isinstance(inner, dict):
        raise region.error("lists no weights")
    pickled = []
    for name, entry in inner.items():
        where = f"tensor {name[:200]!a}"
        gathering.path("", name)
        if not isinstance(entry, dict) or not isinstance(path := entry.get("path_name"), str):
            gathering.problem(where, f"has no place in {config}")
        elif path.startswith(_CUSTOM_OBJECTS):
            continue
        elif entry.get("use_pickle") is True:
            pickled.append((name, f"{folder}{path}"))
        else:
            tensor = _described(entry.get("tensor_meta"), f"{folder}{path}", archive, region)
            if isinstance(tensor, str):
                gathering.problem(where, tensor)
            else:
                gathering.described(name, tensor, _role(entry, role))
    return pickled


def _role(entry: dict[str, Json], otherwise: Role) -> Role:
    if entry.get("is_param") is True:
        return "parameter"
    # A weight that is no parameter is a buffer; a constant is neither.
    return "constant" if otherwise == "constant" else "buffer"


def _described(meta: Json, member: str, archive: Zip, region: Region) -> Described | str:
    if not isinstance(meta, dict):
        return "has no shape and dtype"
    number = meta.get("dtype")
    dtype = SCALAR_TYPES.get(number) if isinstance(number, int) else None
    if dtype is None:
        return "has an unknown dtype"
    shape, strides = _numbers(meta.get("sizes")), _numbers(meta.get("strides"))
    offset = _numbers([meta.get("storage_offset")])
    if shape is None or strides is None or offset is None or len(shape) != len(strides):
        return "has no valid shape, strides and offset"
    stored = archive.members.get(member)
    if stored is None:
        raise ArchiveError(
            f"names {member[:200]!a}, which is not a member", region.file, region.where
        )
    # Weights that were never real (FakeTensor) are kept as no bytes at all.
    if not stored.bytes:
        return Described(shape, strides, dtype, 0, None)
    claim = StorageClaim(member, dtype, stored.bytes * 8 // BITS[dtype])
    plain = meta.get("layout", _STRIDED) == _STRIDED
    return Described(shape, strides, dtype, offset[0], claim, is_plain=plain)


def _numbers(entry: Json) -> tuple[int, ...] | None:
    """Return numbers that are written as {"as_int": 3}; None where one is not, or is negative."""
    if not isinstance(entry, list):
        return None
    numbers = []
    for item in entry:
        number = item.get("as_int") if isinstance(item, dict) else item
        if type(number) is not int or number < 0:
            return None
        numbers.append(number)
    return tuple(numbers)
