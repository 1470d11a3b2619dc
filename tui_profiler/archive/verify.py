"""Compares every byte of a file with its checksums, where the format has any."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from tui_profiler.archive.inspection import structure_of
from tui_profiler.archive.reading.file_contents import Problem, Verdict
from tui_profiler.archive.reading.file_region import Region, open_file
from tui_profiler.archive.reading.zips import STORED, Member, Zip, read_zip

Progress = Callable[[int, int], None]
"""Is told the bytes read so far and the bytes that there are."""

_PIECE_BYTES = 8 << 20


def verify(path: Path, progress: Progress | None = None) -> Verdict:
    """Read all of a file or directory, and say if its bytes are those that were written.

    Files of torch.save, torch.jit and torch.export have a CRC-32 for each member. safetensors,
    legacy files and bare pickles have none: they are not read, and the verdict says so.

    Args:
        path: As for ``structure_of``.
        progress: Called after each piece; what it raises ends the reading.

    Raises:
        ArchiveError: The structure itself is damaged.
    """
    found = structure_of(path)
    if found.checksum == "none in this format":
        return Verdict("none in this format")
    count = _Count(sum(Path(file).stat().st_size for file in found.files), progress)
    problems: list[Problem] = []
    has_checksums = False
    for file in found.files:
        with open_file(Path(file)) as region:
            behind = count.done + region.size
            if region.read(0, min(region.size, 2)) == b"PK":
                problems += _verify_zip(read_zip(region), count)
                has_checksums = True
            # Headers, directories and files without checksums.
            count.add(behind - count.done)
    if problems:
        return Verdict("failed", tuple(problems), count.done)
    return Verdict("verified" if has_checksums else "none in this format", (), count.done)


class _Count:
    """How much was read of how much."""

    def __init__(self, total: int, progress: Progress | None) -> None:
        self.done = 0
        self._total = total
        self._progress = progress

    def add(self, count: int) -> None:
        """Count bytes, and tell."""
        self.done += count
        if self._progress is not None:
            self._progress(self.done, self._total)


def _verify_zip(archive: Zip, count: _Count) -> list[Problem]:
    problems = []
    for member in archive.members.values():
        values = archive.values(member)
        crc, size = _crc(member, values, count)
        if crc != member.crc or size != member.bytes:
            what = f"has the CRC-32 {crc:08x}, and was written with {member.crc:08x}"
            if size != member.bytes:
                what = f"cannot be decompressed to the {member.bytes} bytes that were written"
            problems.append(Problem(archive.region.file, archive.place(member), what))
    return problems


def _crc(member: Member, values: Region, count: _Count) -> tuple[int, int]:
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
        count.add(len(piece))
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
