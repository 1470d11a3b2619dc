"""Reads what torch.save writes, and pickles that it did not write.

- Since 1.6 a zip with one pickle, and a member for each storage.
- Before, five pickles (a magic number, a protocol version, facts about the machine, the object,
  the keys of its storages) and then, for each key, the number of elements and the elements.
- Of a pickle that is neither, torch refuses to load it: what is told of it is what it would import.

Source: ``_legacy_save`` and ``_legacy_load`` in torch/serialization.py.
"""

from collections.abc import Iterable

from tui_profiler.archive.pickles.contents import Gathering
from tui_profiler.archive.pickles.reader import Mapping, Named, Persistent, Pickle, read_pickle
from tui_profiler.archive.pickles.safe_globals import sorted_by_trust
from tui_profiler.archive.pickles.state_dict import children, gather
from tui_profiler.archive.pickles.tensors import Storage, StorageClaim, ZipStorages, claim_of
from tui_profiler.archive.reading import zips
from tui_profiler.archive.reading.file_contents import Content, Found, Kind
from tui_profiler.archive.reading.file_region import ArchiveError, Region
from tui_profiler.archive.reading.tensor_layout import BITS
from tui_profiler.archive.reading.zips import Zip

PICKLE = "data.pkl"
_STORAGES = "data/"


def is_torch_zip(archive: Zip) -> bool:
    """Say if a zip is one that torch.save wrote."""
    return PICKLE in archive.members


def read_torch_zip(archive: Zip) -> Found:
    """Return what a file of torch.save holds."""
    region = zips.read_member(archive, PICKLE)
    pickled = read_pickle(region)
    gathering = Gathering(region, ZipStorages(archive, _STORAGES))
    content, metadata = gather(pickled.value, gathering)
    check_whole(pickled.end, region, gathering)
    check_stored(archive, gathering)
    for name in zips.unexpected_members(archive, "torch.save"):
        # torch.load does not read it.
        gathering.problem(
            archive.region.where, f"has the member {name}, which torch.save does not write"
        )
    texts = zips.small_texts(archive, ("byteorder", ".format_version", "version"))
    return gathering.found(
        _kind(content, metadata),
        content,
        names=sorted_by_trust(pickled.names),
        checksum=zips.checksum_of(archive),
        metadata={**texts, **metadata},
    )


def check_whole(end: int, region: Region, gathering: Gathering) -> None:
    """Tell of bytes behind a pickle's end, which nothing reads and something may hide in."""
    if end != region.size:
        where = f"{region.where}, byte {end}" if region.where else f"byte {end}"
        gathering.problem(where, f"{region.size - end} bytes follow the end of the pickle")


def check_stored(archive: Zip, gathering: Gathering) -> None:
    """Tell of compressed members: torch.save writes none, and a small one can become a huge one."""
    for member in archive.members.values():
        if member.method == zips.DEFLATED:
            gathering.problem(
                archive.place(member),
                f"is compressed, {member.bytes} bytes out of {member.stored_bytes}: "
                "torch.save never writes that",
            )


def _kind(content: Content, metadata: dict[str, str]) -> Kind:
    if content == "module":
        return "torch-zip-module"
    # One tensor has no name to bind it by.
    is_state_dict = content == "parameters" and "holds" not in metadata
    return "torch-zip-state-dict" if is_state_dict else "torch-zip-other"


_MAGIC_NUMBER = 0x1950A86A20F9469CFC6C
_MAGIC = b"\x80\x02\x8a\x0a" + _MAGIC_NUMBER.to_bytes(10, "little") + b"."
_PROTOCOL = 1001
_COUNT_BYTES = 8


class _LegacyStorages:
    """Storages that follow the pickles, in the order of their keys."""

    def __init__(self, region: Region, start: int, keys: list[str]) -> None:
        self._region = region
        self._start = start
        self._keys = keys
        self._places: dict[str, tuple[int, int]] = {}

    def find(self, persistents: Iterable[Persistent]) -> int:
        """Find where each storage lies, and give the offset behind the last one."""
        claims = {claim.key: claim for claim in map(claim_of, persistents) if claim is not None}
        at = self._start
        for key in self._keys:
            claim = claims.get(key)
            if claim is None:
                raise self._region.error(f"has a storage {key[:80]!a} that no tensor uses", at)
            elements = int.from_bytes(self._region.read(at, _COUNT_BYTES), "little", signed=True)
            if elements != claim.elements:
                raise self._region.error(
                    f"gives storage {key[:80]!a} {elements} elements, and its pickle "
                    f"{claim.elements}",
                    at,
                )
            size = -(-elements * BITS[claim.dtype] // 8)
            at += _COUNT_BYTES
            if at + size > self._region.size:
                raise self._region.error(
                    f"is cut short: storage {key[:80]!a} needs {size} bytes, and "
                    f"{self._region.size - at} follow",
                    at,
                )
            self._places[key] = at, size
            at += size
        return at

    def locate(self, claim: StorageClaim) -> Storage:
        """Return where a storage lies."""
        place = self._places.get(claim.key)
        if place is None:
            raise ArchiveError(f"has no storage {claim.key[:80]!a}", self._region.file)
        start = self._region.start + place[0]
        return Storage(f"{self._region.file}:{start}", place[1], self._region.file, start)


def is_torch_legacy(region: Region) -> bool:
    """Say if the bytes begin with the magic number of torch's older files."""
    return region.size >= len(_MAGIC) and region.read(0, len(_MAGIC)) == _MAGIC


def read_torch_legacy(region: Region) -> Found:
    """Return what an older file of torch.save holds."""
    version = read_pickle(region, len(_MAGIC))
    if version.value != _PROTOCOL:
        raise region.error(f"is of another version than {_PROTOCOL}", len(_MAGIC))
    machine = read_pickle(region, version.end)
    content_pickle = read_pickle(region, machine.end)
    listed = read_pickle(region, content_pickle.end)
    storages = _LegacyStorages(region, listed.end, _keys(listed, region, content_pickle.end))
    end = storages.find(content_pickle.persistents)
    gathering = Gathering(region, storages)
    content, metadata = gather(content_pickle.value, gathering)
    if end != region.size:
        gathering.problem(f"byte {end}", f"{region.size - end} bytes follow the last storage")
    pickles = (version, machine, content_pickle, listed)
    return gathering.found(
        "torch-legacy",
        content,
        names=sorted_by_trust([name for pickled in pickles for name in pickled.names]),
        checksum="none in this format",
        metadata={**_byte_order(machine), **metadata},
    )


def _keys(listed: Pickle, region: Region, at: int) -> list[str]:
    if not isinstance(listed.value, list):
        raise region.error("has no list of its storages", at)
    keys = [str(key) for key in listed.value if isinstance(key, str | int)]
    if len(keys) != len(listed.value) or len(set(keys)) != len(keys):
        raise region.error("has a damaged list of its storages", at)
    return keys


def _byte_order(machine: Pickle) -> dict[str, str]:
    if isinstance(machine.value, Mapping):
        for key, value in children(machine.value):
            if key == "little_endian" and isinstance(value, bool):
                return {"byteorder": "little" if value else "big"}
    return {}


_PROTOCOL_MARKS = tuple(b"\x80" + bytes([version]) for version in range(2, 6))
# What a pickle of protocol 0 or 1 begins with: a container, a mark or an import.
_OLD_STARTS = b"(c]})}lditG"


class _NoStorages:
    def __init__(self, region: Region) -> None:
        self._region = region

    def locate(self, claim: StorageClaim) -> Storage:
        raise self._region.error(f"keeps storage {claim.key[:80]!a} outside of the file")


def read_raw_pickle(region: Region) -> Found | None:
    """Return what a bare pickle would import; None where the bytes are no pickle."""
    start = region.read(0, min(region.size, 2))
    is_marked = start in _PROTOCOL_MARKS
    if not is_marked and (not start or start[0] not in _OLD_STARTS):
        return None
    try:
        pickled = read_pickle(region)
    except ArchiveError:
        if is_marked:
            raise
        return None
    if not is_marked and not pickled.names and not isinstance(pickled.value, Named):
        # A text that happens to read as a pickle that imports nothing: there are many.
        return None
    gathering = Gathering(region, _NoStorages(region))
    content, metadata = gather(pickled.value, gathering)
    check_whole(pickled.end, region, gathering)
    return gathering.found(
        "raw-pickle",
        "other" if content == "parameters" else content,
        names=sorted_by_trust(pickled.names),
        checksum="none in this format",
        metadata=metadata,
    )
