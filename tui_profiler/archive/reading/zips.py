"""Zip files as torch writes them, read by stricter rules than zip's own.

1. One directory, at the end, that accounts for the whole file; no parts on other disks.
2. Names are relative, without empty parts, ``.`` and ``..``, at most as long as torch's reader
   keeps (it cuts longer ones), and unique after case folding and Unicode normalisation: torch
   finds members by ``mz_zip_reader_locate_file``, which folds ASCII case.
3. Members lie before the directory and do not overlap; what is stored has the size that it claims.
4. Every member's own header agrees with the directory on its name and method.
5. Names are compared as written: ``Data/sample_inputs/model.pt`` is not
   ``data/sample_inputs/model.pt`` here, although torch's reader treats them as equal.

Sources: PKWARE APPNOTE 6.3.10, sections 4.3.7 (local header), 4.3.12 (directory), 4.3.14 to 4.3.16
(ends), 4.5.3 (zip64 field); caffe2/serialize/inline_container.cc and .h for what torch reads and
writes, and the records that every writer adds; ``_save`` in torch/serialization.py;
torch/csrc/jit/serialization/export_module.cpp; torch/csrc/export/pt2_archive_constants.h and
``package_pt2`` in torch/export/pt2_archive/_package.py.
"""

import re
import struct
import unicodedata
import zlib
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Literal

from msgspec import Struct, structs

from tui_profiler.archive.reading import limits
from tui_profiler.archive.reading.file_contents import Checksum
from tui_profiler.archive.reading.file_region import ArchiveError, Region

STORED = 0
DEFLATED = 8

_ENTRY = struct.Struct("<4s6H3I5H2I")
_ENTRY_SIGNATURE = b"PK\x01\x02"
_LOCAL = struct.Struct("<4s5H3I2H")
_LOCAL_SIGNATURE = b"PK\x03\x04"
_ENCRYPTED = 0x1 | 0x40 | 0x2000
_UTF8 = 0x800
_IN_ZIP64 = 0xFFFFFFFF
_ZIP64_FIELD = 1
_LONGEST_NAME = 511
"""Bytes: ``MZ_ZIP_MAX_ARCHIVE_FILENAME_SIZE`` less the zero at the end."""


class Member(Struct, frozen=True, gc=False):
    """One member of a zip file, as the directory has it."""

    name: str
    method: int
    crc: int
    stored_bytes: int
    """In the file, compressed or not."""
    bytes: int
    """Once read."""
    header: int
    """Offset of its own header in the region of the zip."""
    room: int
    """Offset of whatever comes behind it: no byte of it may lie there."""


class Zip(Struct, frozen=True):
    """A zip file whose directory was read and found sound."""

    region: Region
    members: dict[str, Member]
    """By name without the root folder, in the order of the directory."""
    root: str
    """The folder that all members lie in, with its slash; empty where there is none."""

    def values(self, member: Member) -> Region:
        """Return the bytes of a member as they lie in the file."""
        return self.region.part(self.start(member), member.stored_bytes, self.place(member))

    def start(self, member: Member) -> int:
        """Return the offset in the region of the zip of a member's first byte."""
        name = member.name.encode()
        if member.header + _LOCAL.size + len(name) > member.room:
            raise self.error(member, "has no room for its header")
        head = self.region.read(member.header, _LOCAL.size + len(name))
        signature, _, _, method, _, _, _, _, _, name_bytes, extra_bytes = _LOCAL.unpack_from(head)
        if signature != _LOCAL_SIGNATURE:
            raise self.error(member, f"has no header at byte {member.header}")
        if name_bytes != len(name) or head[_LOCAL.size :] != name or method != member.method:
            raise self.error(member, "has a header that disagrees with the directory")
        start: int = member.header + _LOCAL.size + len(name) + extra_bytes
        if start + member.stored_bytes > member.room:
            raise self.error(member, "overlaps what comes behind it")
        return start

    def place(self, member: Member) -> str:
        """Return the member as the place of an error."""
        outer = f"{self.region.where}, " if self.region.where else ""
        return f"{outer}member {member.name[:200]!a}"

    def error(self, member: Member, what: str) -> ArchiveError:
        """Return the error that says ``what`` is wrong with a member."""
        return ArchiveError(what, self.region.file, self.place(member))


def read_zip(region: Region) -> Zip:
    """Return the directory of a zip file; one that breaks a rule above is refused."""
    directory, count = _directory_region(region)
    data = directory.read(0, directory.size)
    entries = list(_entries(data, count, directory))
    _check_names([entry.name for entry in entries], directory)
    members = _with_room(entries, directory.start - region.start, directory)
    root = _root(entries)
    archive = Zip(region, {member.name[len(root) :]: member for member in members}, root)
    for member in members:
        archive.start(member)
    return archive


_SMALL_BYTES = 64


def read_member(archive: Zip, name: str) -> Region:
    """Return the bytes of a member that must be there and not compressed."""
    member = archive.members.get(name)
    if member is None:
        raise archive.region.error(f"has no member {name[:200]!a}")
    if member.method != STORED:
        sizes = f"{member.bytes} bytes out of {member.stored_bytes}"
        raise archive.error(member, f"is compressed, {sizes}: torch never writes that")
    return archive.values(member)


def inflated(archive: Zip, name: str, most: int) -> bytes:
    """Return the bytes of a member, compressed or not; more than ``most`` are refused.

    However many the directory claims.
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
    """Return those of the named members that there are, if they are a few characters of text."""
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


Writer = Literal["torch.save", "torch.jit.save", "torch.export.save"]

_OF_EVERY_WRITER = (
    r"version|byteorder|\.data/(version|serialization_id)|\.format_version|\.storage_alignment"
)
_NUMBERED = r"(0|[1-9]\d{0,9})"
_MODULE = r"[^\W\d]\w*"
_OF_WRITER: dict[Writer, str] = {
    "torch.save": rf"data\.pkl|data/{_NUMBERED}",
    "torch.jit.save": (
        rf"(data|constants|traced_inputs)(\.pkl|/{_NUMBERED})"
        rf"|code/{_MODULE}(/{_MODULE})*\.py(\.debug_pkl)?|extra/.+"
        # The lite interpreter's; torch.jit.load does not read them.
        rf"|bytecode\.pkl|mobile_debug_handles\.pkl|bytecode/{_NUMBERED}"
    ),
    "torch.export.save": (
        rf"archive_format|archive_version|models/{_MODULE}\.json|extra/.+"
        rf"|data/weights/({_MODULE}_weights_config\.json|weight_{_NUMBERED}|{_MODULE}\.pt)"
        rf"|data/constants/({_MODULE}_constants_config\.json|tensor_{_NUMBERED}|{_MODULE}\.pt)"
        rf"|data/sample_inputs/{_MODULE}\.pt"
    ),
}


def unexpected_members(archive: Zip, writer: Writer) -> Iterator[str]:
    """Name the members that ``writer`` does not write, in the order of the directory."""
    pattern = re.compile(f"{_OF_EVERY_WRITER}|{_OF_WRITER[writer]}", re.ASCII)
    if not archive.root:
        yield from (f"{name[:200]!a} outside of one top folder" for name in archive.members)
        return
    for name in archive.members:
        if not pattern.fullmatch(name):
            yield f"{name[:200]!a}"


def _entries(data: bytes, count: int, directory: Region) -> Iterator[Member]:
    at = 0
    for _ in range(count):
        if at + _ENTRY.size > len(data):
            raise directory.error(f"ends before its {count} entries", at)
        fields = _ENTRY.unpack_from(data, at)
        if fields[0] != _ENTRY_SIGNATURE:
            raise directory.error("has something else where an entry should be", at)
        name_at = at + _ENTRY.size
        extra_at = name_at + fields[10]
        behind = extra_at + fields[11] + fields[12]
        if behind > len(data):
            raise directory.error("ends within an entry", at)
        yield _member(
            fields, data[name_at:extra_at], data[extra_at : extra_at + fields[11]], at, directory
        )
        at = behind
    if at != len(data):
        raise directory.error(f"contains more than the {count} entries that it claims", at)


def _member(
    fields: tuple[int, ...], name: bytes, extra: bytes, at: int, directory: Region
) -> Member:
    _, _, _, flags, method, _, _, crc, stored, size, _, _, _, disk, _, _, header = fields
    try:
        text = name.decode("utf-8" if flags & _UTF8 else "ascii")
    except UnicodeDecodeError as error:
        raise directory.error("has a name that is not text", at) from error
    if flags & _ENCRYPTED:
        raise directory.error(f"says that {text[:200]!a} is encrypted", at)
    if disk not in (0, 0xFFFF):
        raise directory.error(f"says that {text[:200]!a} lies in another file", at)
    if method not in (STORED, DEFLATED):
        raise directory.error(f"says that {text[:200]!a} is compressed by method {method}", at)
    if _IN_ZIP64 in (stored, size, header):
        size, stored, header = _zip64(extra, size, stored, header)
    if method == STORED and stored != size:
        raise directory.error(
            f"gives {text[:200]!a} {stored} bytes in the file and {size} once read, uncompressed",
            at,
        )
    return Member(text, method, crc, stored, size, header, 0)


def _zip64(extra: bytes, size: int, stored: int, header: int) -> tuple[int, int, int]:
    at = 0
    while at + 4 <= len(extra):
        tag, length = struct.unpack_from("<HH", extra, at)
        if tag == _ZIP64_FIELD:
            field = extra[at + 4 : at + 4 + length]
            wide = iter(struct.unpack(f"<{len(field) // 8}Q", field[: len(field) // 8 * 8]))
            # Present in this order, and only those that did not fit. A missing one stays 2**32 - 1.
            size = next(wide, size) if size == _IN_ZIP64 else size
            stored = next(wide, stored) if stored == _IN_ZIP64 else stored
            header = next(wide, header) if header == _IN_ZIP64 else header
            break
        at += 4 + length
    return size, stored, header


def _check_names(names: list[str], directory: Region) -> None:
    seen: set[str] = set()
    for name in names:
        fault = _fault_of(name)
        if fault:
            raise directory.error(f"has the name {name[:200]!a}, which {fault}")
        # Generated code may have classes Foo and foo; no other names differ by case alone. All
        # code is read, so that it does not matter which of the two torch finds.
        parts = name.split("/", 2)
        is_code = len(parts) > 2 and parts[1] == "code" and name.isascii()
        folded = name if is_code else unicodedata.normalize("NFKC", name).casefold()
        if len(folded) > 2 * _LONGEST_NAME:
            raise directory.error(f"has the name {name[:200]!a}, which normalises to a longer one")
        if folded in seen:
            raise directory.error(
                f"has the name {name[:200]!a} twice, ignoring case and Unicode form"
            )
        seen.add(folded)


def _fault_of(name: str) -> str:
    if not name or "\\" in name or name.startswith("/") or ":" in name[:2]:
        return "is not a relative path"
    if len(name.encode()) > _LONGEST_NAME:
        return f"is longer than the {_LONGEST_NAME} bytes that torch reads"
    is_plain = name.isascii() and name.isprintable()
    if not is_plain and any(unicodedata.category(character)[0] == "C" for character in name):
        return "contains a control character"
    parts = name.split("/")
    if ".." in parts:
        return "leads out of the archive"
    if "." in parts or "" in parts:
        return "is not written as torch writes names"
    return ""


def _with_room(entries: list[Member], end: int, directory: Region) -> list[Member]:
    behind = end
    room: dict[str, int] = {}
    for entry in sorted(entries, key=attrgetter("header"), reverse=True):
        least = entry.header + _LOCAL.size + len(entry.name.encode()) + entry.stored_bytes
        if least > behind:
            what = "the directory" if behind == end else "the next member"
            raise directory.error(f"says that {entry.name[:200]!a} overlaps {what}")
        room[entry.name] = behind
        behind = entry.header
    return [structs.replace(entry, room=room[entry.name]) for entry in entries]


def _root(entries: list[Member]) -> str:
    if not entries:
        return ""
    root, slash, _ = entries[0].name.partition("/")
    root += slash
    return root if slash and all(entry.name.startswith(root) for entry in entries) else ""


_END = struct.Struct("<4s4H2IH")
_END_SIGNATURE = b"PK\x05\x06"
_LOCATOR = struct.Struct("<4sIQI")
_LOCATOR_SIGNATURE = b"PK\x06\x07"
_END64 = struct.Struct("<4sQ2H2I4Q")
_END64_SIGNATURE = b"PK\x06\x06"
_LONGEST_COMMENT = 0xFFFF
_LEAST_ENTRY = 46


def _directory_region(zip_region: Region) -> tuple[Region, int]:
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
