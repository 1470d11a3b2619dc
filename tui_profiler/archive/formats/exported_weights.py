"""The configuration that says which bytes of an exported program's archive are which weight.

Source: ``PayloadConfig``, ``PayloadMeta`` and ``TensorMeta`` in torch/_export/serde/schema.py.
"""

from __future__ import annotations

from tui_profiler.archive.pickles.contents import Gathering
from tui_profiler.archive.pickles.rebuild import Described
from tui_profiler.archive.pickles.storages import StorageClaim
from tui_profiler.archive.reading.dtypes import BITS, SCALAR_TYPES
from tui_profiler.archive.reading.errors import ArchiveError
from tui_profiler.archive.reading.file_contents import Role
from tui_profiler.archive.reading.file_region import Region
from tui_profiler.archive.reading.strict_json import Json, read_json
from tui_profiler.archive.zips.directory import Zip
from tui_profiler.archive.zips.members import read_member

_STRIDED = 7
_CUSTOM_OBJECTS = ("custom_obj_", "opaque_obj_")


def gather_config(
    archive: Zip, config: str, folder: str, role: Role, gathering: Gathering
) -> list[tuple[str, str]]:
    """Gather the tensors that are kept as raw bytes; give name and member of the pickled ones.

    Args:
        archive: The zip.
        config: Name of the member with the configuration.
        folder: Where the members with the values lie.
        role: What these tensors are, where the configuration does not say.
        gathering: Takes the tensors and the problems.

    Raises:
        ArchiveError: The configuration is no JSON of the kind.
    """
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
        raise ArchiveError(f"names {member[:200]!a}, which is no member", region.file, region.where)
    # Weights that were never real (FakeTensor) are kept as no bytes at all.
    if not stored.bytes:
        return Described(shape, strides, dtype, 0, None)
    claim = StorageClaim(member, dtype, stored.bytes * 8 // BITS[dtype])
    plain = meta.get("layout", _STRIDED) == _STRIDED
    return Described(shape, strides, dtype, offset[0], claim, is_plain=plain)


def _numbers(entry: Json) -> tuple[int, ...] | None:
    """Give numbers that are written as {"as_int": 3}; None where one is not, or is negative."""
    if not isinstance(entry, list):
        return None
    numbers = []
    for item in entry:
        number = item.get("as_int") if isinstance(item, dict) else item
        if type(number) is not int or number < 0:
            return None
        numbers.append(number)
    return tuple(numbers)
