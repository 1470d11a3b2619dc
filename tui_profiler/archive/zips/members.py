"""The members of a zip of torch's: their kinds by name, and the small texts among them read.

Names are compared as written. ``Data/sample_inputs/model.pt`` is not
``data/sample_inputs/model.pt`` here, although torch's reader treats them as equal.

Sources: ``_save`` in torch/serialization.py; torch/csrc/jit/serialization/export_module.cpp;
torch/csrc/export/pt2_archive_constants.h and ``package_pt2`` in
torch/export/pt2_archive/_package.py; caffe2/serialize/inline_container.h for the records that
every writer adds.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator
from typing import Literal

from tui_profiler.archive.reading.file_contents import Checksum
from tui_profiler.archive.reading.file_region import Region
from tui_profiler.archive.reading.limits import ArchiveError
from tui_profiler.archive.zips.directory import STORED, Zip

_SMALL_BYTES = 64


def read_member(archive: Zip, name: str) -> Region:
    """Return the bytes of a member that is not compressed.

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
    """Return the bytes of a member, compressed or not, if there are at most ``most``.

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
