"""Finds the directory of a zip file from its last bytes, 32 or 64 bits wide."""

from __future__ import annotations

import struct

from tui_profiler.archive.reading import limits
from tui_profiler.archive.reading.file_region import Region

_END = struct.Struct("<4s4H2IH")
_END_SIGNATURE = b"PK\x05\x06"
_LOCATOR = struct.Struct("<4sIQI")
_LOCATOR_SIGNATURE = b"PK\x06\x07"
_END64 = struct.Struct("<4sQ2H2I4Q")
_END64_SIGNATURE = b"PK\x06\x06"
_LONGEST_COMMENT = 0xFFFF
_LEAST_ENTRY = 46


def directory_region(zip_region: Region) -> tuple[Region, int]:
    """Give where the directory lies, and how many entries it claims to have.

    Raises:
        ArchiveError: There is no end of a zip file, or it does not account for all bytes before it.
    """
    at = _end_of_zip(zip_region)
    _, disk, first_disk, here, count, size, offset, _ = _END.unpack(zip_region.read(at, _END.size))
    end = at
    wide = _wide_end(zip_region, at)
    if wide is not None:
        end, disk, first_disk, here, count, size, offset = wide
    if disk or first_disk or here != count:
        raise zip_region.error("is a part of a zip file in several files", at)
    if offset + size != end:
        raise zip_region.error(
            f"the zip's directory should end at byte {end}, and ends at {offset + size}: "
            "bytes are missing or were added",
            at,
        )
    if count > limits.ZIP_ENTRIES or size > limits.ZIP_DIRECTORY_BYTES:
        raise zip_region.error(f"is a zip of {count} members, more than any model has", at)
    if count * _LEAST_ENTRY > size:
        raise zip_region.error(f"claims {count} members in a directory of {size} bytes", at)
    return zip_region.part(offset, size, "zip directory"), count


def _end_of_zip(zip_region: Region) -> int:
    tail = min(zip_region.size, _END.size + _LONGEST_COMMENT)
    data = zip_region.read(zip_region.size - tail, tail)
    at = len(data) - _END.size
    while at >= 0:
        at = data.rfind(_END_SIGNATURE, 0, at + len(_END_SIGNATURE))
        if at < 0:
            break
        # The comment must reach exactly to the end, or it is a signature within something else.
        if at + _END.size + _END.unpack_from(data, at)[7] == len(data):
            return zip_region.size - tail + at
        at -= 1
    raise zip_region.error("is cut short: the end of the zip file, with its directory, is missing")


def _wide_end(zip_region: Region, at: int) -> tuple[int, int, int, int, int, int, int] | None:
    if at < _LOCATOR.size:
        return None
    signature, disk, offset, _ = _LOCATOR.unpack(zip_region.read(at - _LOCATOR.size, _LOCATOR.size))
    if signature != _LOCATOR_SIGNATURE:
        return None
    if disk or offset + _END64.size > at - _LOCATOR.size:
        raise zip_region.error("points to an end of the zip that is not there", at - _LOCATOR.size)
    fields = _END64.unpack(zip_region.read(offset, _END64.size))
    signature, record, _, _, disk, first_disk, here, count, size, start = fields
    if signature != _END64_SIGNATURE or offset + 12 + record != at - _LOCATOR.size:
        raise zip_region.error("has a damaged end of the zip", offset)
    return offset, disk, first_disk, here, count, size, start
