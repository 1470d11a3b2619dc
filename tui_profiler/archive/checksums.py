"""Compares every byte of a file with its checksums, where the format has any."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from tui_profiler.archive.inspection import structure_of
from tui_profiler.archive.reading.file_contents import Problem, Verdict
from tui_profiler.archive.reading.file_region import Region, open_file
from tui_profiler.archive.reading.zips import STORED, Member, Zip, read_zip

_PIECE_BYTES = 8 << 20


class _Over(Exception):
    """Nobody waits for the verdict any more."""


def verify(path: Path, is_over: Callable[[], bool] = lambda: False) -> Verdict:
    """Read all of a file or directory, and say if its bytes are those that were written.

    Files of torch.save, torch.jit and torch.export have a CRC-32 for each member. safetensors,
    legacy files and bare pickles have none: they are not read, and the verdict says so.

    Args:
        path: As for ``structure_of``.
        is_over: Asked after each piece; once true, the rest is not read, nor is there a verdict.

    Raises:
        ArchiveError: The structure itself is damaged.
    """
    found = structure_of(path)
    if found.checksum == "none in this format":
        return Verdict("none in this format")
    problems: list[Problem] = []
    has_checksums = False
    for file in found.files:
        with open_file(Path(file)) as region:
            if region.read(0, min(region.size, 2)) != b"PK":
                continue
            has_checksums = True
            try:
                problems += _verify_zip(read_zip(region), is_over)
            except _Over:
                return Verdict("not checked")
    if problems:
        return Verdict("failed", tuple(problems))
    return Verdict("verified" if has_checksums else "none in this format")


def _verify_zip(archive: Zip, is_over: Callable[[], bool]) -> list[Problem]:
    problems = []
    for member in archive.members.values():
        values = archive.values(member)
        crc, size = _crc(member, values, is_over)
        if crc != member.crc or size != member.bytes:
            what = f"has the CRC-32 {crc:08x}, and was written with {member.crc:08x}"
            if size != member.bytes:
                what = f"cannot be decompressed to the {member.bytes} bytes that were written"
            problems.append(Problem(archive.region.file, archive.place(member), what))
    return problems


def _crc(member: Member, values: Region, is_over: Callable[[], bool]) -> tuple[int, int]:
    """Return CRC-32 and the number of a member's bytes; -1 where they cannot be decompressed."""
    crc = size = at = 0
    stream = None if member.method == STORED else zlib.decompressobj(-zlib.MAX_WBITS)
    while at < values.size and size <= member.bytes:
        piece = values.read(at, min(_PIECE_BYTES, values.size - at))
        at += len(piece)
        for data in (piece,) if stream is None else _decompressed(stream, piece):
            crc = zlib.crc32(data, crc)
            size += len(data)
            # A small member can become a huge one: no more of it than the directory says.
            if size > member.bytes:
                break
        if is_over():
            raise _Over
    if stream is not None and not stream.eof:
        return crc, -1
    return crc, size


def _decompressed(stream: zlib._Decompress, piece: bytes) -> Iterator[bytes]:
    while piece:
        try:
            yield stream.decompress(piece, _PIECE_BYTES)
        except zlib.error:
            return
        piece = stream.unconsumed_tail
