"""Reads small members of a zip: the texts that torch puts beside the values."""

from __future__ import annotations

import zlib
from collections.abc import Iterable

from tui_profiler.archive.reading.errors import ArchiveError
from tui_profiler.archive.reading.file_contents import Checksum
from tui_profiler.archive.reading.file_region import Region
from tui_profiler.archive.zips.directory import STORED, Zip

_SMALL_BYTES = 64


def read_member(archive: Zip, name: str) -> Region:
    """Give the bytes of a member that is not compressed.

    Raises:
        ArchiveError: There is none of this name, or it is compressed.
    """
    member = archive.members.get(name)
    if member is None:
        raise archive.region.error(f"has no member {name[:200]!a}")
    if member.method != STORED:
        raise ArchiveError(
            f"is compressed, {member.bytes} bytes out of {member.stored_bytes}: torch never writes "
            "that",
            archive.region.file,
            archive.place(member),
        )
    return archive.values(member)


def inflated(archive: Zip, name: str, most: int) -> bytes:
    """Give the bytes of a member, compressed or not, if there are at most ``most``.

    Raises:
        ArchiveError: There are more, whatever the directory says; or they are damaged.
    """
    member = archive.members[name]
    values = archive.values(member)
    if member.bytes > most or values.size > most:
        raise values.error(f"is of {member.bytes} bytes, more than its kind needs")
    data = values.read(0, values.size)
    if member.method == STORED:
        return data
    stream = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        read = stream.decompress(data, most + 1)
    except zlib.error as error:
        raise values.error(f"cannot be decompressed: {error}") from error
    if len(read) != member.bytes or not stream.eof:
        raise values.error(f"does not become the {member.bytes} bytes that the directory says")
    return read


def small_texts(archive: Zip, names: Iterable[str]) -> dict[str, str]:
    """Give those of the named members that there are, if they are a few characters of text."""
    texts = {}
    for name in names:
        member = archive.members.get(name)
        if member is not None and member.bytes <= _SMALL_BYTES and member.method == STORED:
            values = archive.values(member)
            text = values.read(0, values.size).decode("utf-8", "replace").strip()
            texts[name.removeprefix(".")] = text
    return texts


def checksum_of(archive: Zip) -> Checksum:
    """Say if there are checksums to compare: torch can be told not to write them."""
    if any(member.crc for member in archive.members.values()):
        return "not checked"
    return "none in this format"
