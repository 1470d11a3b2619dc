"""Where the storages of a file lie: what a persistent id of a pickle refers to."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from tui_profiler.archive.pickles.values import Named, Persistent
from tui_profiler.archive.reading.dtypes import STORAGES
from tui_profiler.archive.reading.errors import ArchiveError
from tui_profiler.archive.zips.directory import STORED, Member, Zip


class StorageClaim(Struct, frozen=True, gc=False):
    """What a pickle says of a storage."""

    key: str
    dtype: str
    """Of its elements; ``uint8`` where it is untyped."""
    elements: int
    offset_elements: int = 0
    """Of a view into the storage, as files before torch 0.4 could have."""
    location: str = "cpu"


class Storage(Struct, frozen=True, gc=False):
    """Where a storage lies."""

    identity: str
    """Unique over all files that are looked into together."""
    bytes: int
    file: str
    start: int | None
    """Byte of the file; None where the values are in none."""


class Storages(Protocol):
    """Finds storages: in the members of a zip, or behind the pickles of a legacy file."""

    def locate(self, claim: StorageClaim) -> Storage:
        """Give where a storage lies.

        Raises:
            ArchiveError: It is not there, or has another size than the claim.
        """


def claim_of(persistent: Persistent) -> StorageClaim | None:
    """Give what a persistent id says of a storage; None where it is no id of a storage.

    The id is (``storage``, class, key, location, number of elements) and, in legacy files, a sixth
    for views: (key of the view, offset in elements, elements) or None.
    """
    # A match would say this better, and takes half a second for 100,000 storages.
    id_ = persistent.key
    if not isinstance(id_, tuple) or len(id_) not in (5, 6) or id_[0] != "storage":
        return None
    _, kind, key, location, elements, *rest = id_
    if not isinstance(kind, Named) or not isinstance(key, str | int):
        return None
    dtype = STORAGES.get(kind.name.rpartition(".")[2])
    if dtype is None or not isinstance(elements, int) or elements < 0:
        return None
    offset = _offset_of_view(rest[0]) if rest else 0
    if offset is None:
        return None
    place = location if isinstance(location, str) else "?"
    return StorageClaim(str(key), dtype, elements, offset, place)


def _offset_of_view(view: object) -> int | None:
    """Give the offset in (key, offset, elements), 0 for no view, None for anything else."""
    match view:
        case None:
            return 0
        case (_, int(offset), int()) if offset >= 0:
            return offset
    return None


class ZipStorages:
    """Storages as members of a zip: ``data/0``, ``data/1``."""

    def __init__(self, archive: Zip, folder: str) -> None:
        self._archive = archive
        self._folder = folder
        self._known: dict[str, Storage] = {}

    def locate(self, claim: StorageClaim) -> Storage:
        """Give where the member with the storage lies.

        Raises:
            ArchiveError: There is none, it is compressed, or it has another size than the claim.
        """
        known = self._known.get(claim.key)
        if known is None:
            name = f"{self._folder}{claim.key}"
            member = self._archive.members.get(name)
            if member is None:
                raise self._archive.region.error(f"has no member {name[:200]!a} for its storage")
            known = self._known[claim.key] = located(self._archive, member)
        return known


def located(archive: Zip, member: Member) -> Storage:
    """Give where the values in a member lie.

    Raises:
        ArchiveError: It is compressed, which torch never does to values, or does not lie where the
            directory says.
    """
    if member.method != STORED:
        raise ArchiveError(
            "is compressed, which torch never does to values: it would be "
            f"{member.bytes} bytes out of {member.stored_bytes}",
            archive.region.file,
            archive.place(member),
        )
    file = archive.region.file
    start = archive.region.start + archive.start(member)
    # A member without bytes begins where another one does.
    identity = f"{file}:{start if member.bytes else archive.place(member)}"
    return Storage(identity, member.bytes, file, start)
