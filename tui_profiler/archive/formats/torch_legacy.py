"""Reads what torch.save wrote before version 1.6: pickles one after the other, then the storages.

The file is five pickles (a magic number, a protocol version, facts about the machine, the object,
the keys of its storages) and then, for each key, the number of elements and the elements.

Source: ``_legacy_save`` and ``_legacy_load`` in torch/serialization.py.
"""

from __future__ import annotations

from collections.abc import Iterable

from tui_profiler.archive.formats.totals import found_of
from tui_profiler.archive.pickles.contents import Gathering
from tui_profiler.archive.pickles.reader import Pickle, read_pickle
from tui_profiler.archive.pickles.state_dict import children, gather
from tui_profiler.archive.pickles.storages import Storage, StorageClaim, claim_of
from tui_profiler.archive.pickles.trust import told_apart
from tui_profiler.archive.pickles.values import Mapping, Persistent
from tui_profiler.archive.reading.dtypes import BITS
from tui_profiler.archive.reading.errors import ArchiveError
from tui_profiler.archive.reading.file_contents import Found
from tui_profiler.archive.reading.file_region import Region

_MAGIC_NUMBER = 0x1950A86A20F9469CFC6C
MAGIC = b"\x80\x02\x8a\x0a" + _MAGIC_NUMBER.to_bytes(10, "little") + b"."
_PROTOCOL = 1001
_COUNT_BYTES = 8


class LegacyStorages:
    """Storages that follow the pickles, in the order of their keys."""

    def __init__(self, region: Region, start: int, keys: list[str]) -> None:
        self._region = region
        self._start = start
        self._keys = keys
        self._places: dict[str, tuple[int, int]] = {}

    def find(self, persistents: Iterable[Persistent]) -> int:
        """Find where each storage lies, and give the offset behind the last one.

        Raises:
            ArchiveError: A storage has another size than the pickle says, or ends behind the file.
        """
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
        """Give where a storage lies.

        Raises:
            ArchiveError: Its key is not among those that the file lists.
        """
        place = self._places.get(claim.key)
        if place is None:
            raise ArchiveError(f"has no storage {claim.key[:80]!a}", self._region.file)
        start = self._region.start + place[0]
        return Storage(f"{self._region.file}:{start}", place[1], self._region.file, start)


def is_torch_legacy(region: Region) -> bool:
    """Say if the bytes begin with the magic number of torch's older files."""
    return region.size >= len(MAGIC) and region.read(0, len(MAGIC)) == MAGIC


def read_torch_legacy(region: Region) -> Found:
    """Give what an older file of torch.save holds.

    Raises:
        ArchiveError: It is cut short or damaged, or does what no honest file does.
    """
    version = read_pickle(region, len(MAGIC))
    if version.value != _PROTOCOL:
        raise region.error(f"is of another version than {_PROTOCOL}", len(MAGIC))
    machine = read_pickle(region, version.end)
    content_pickle = read_pickle(region, machine.end)
    listed = read_pickle(region, content_pickle.end)
    storages = LegacyStorages(region, listed.end, _keys(listed, region, content_pickle.end))
    end = storages.find(content_pickle.persistents)
    gathering = Gathering(region, storages)
    content, metadata = gather(content_pickle.value, gathering)
    if end != region.size:
        gathering.problem(f"byte {end}", f"{region.size - end} bytes follow the last storage")
    pickles = (version, machine, content_pickle, listed)
    return found_of(
        "torch-legacy",
        region.file,
        content,
        gathering,
        names=told_apart([name for pickled in pickles for name in pickled.names]),
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
