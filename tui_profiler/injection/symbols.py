"""Where functions of a library lie in the memory of a process that has it mapped.

Read from the symbol table that its own loader uses (ELF-64, little endian), never from debug data.
"""

import mmap
import struct
from collections.abc import Collection
from typing import NamedTuple

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_PROGRAM = struct.Struct("<IIQQQQQQ")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_IDENTITY = b"\x7fELF\x02\x01"
"""64 bits, little endian."""
_LOAD, _DYNAMIC_SYMBOLS = 1, 11
"""``PT_LOAD`` and ``SHT_DYNSYM`` of elf(5)."""
MACHINES = {62: "x86_64", 183: "aarch64"}


class SymbolError(Exception):
    """A file is not a library whose symbols can be read."""


class Mapping(NamedTuple):
    """A file of ``/proc/PID/maps``, where its first byte lies."""

    start: int
    path: str


def mappings(maps: str) -> list[Mapping]:
    """Return the files that a process has mapped from their first byte on, as it says itself."""
    found = []
    for line in maps.splitlines():
        fields = line.split(maxsplit=5)  # A path may hold blanks.
        if len(fields) == 6 and int(fields[2], 16) == 0 and fields[5].startswith("/"):
            found.append(Mapping(int(fields[0].partition("-")[0], 16), fields[5]))
    return found


def addresses(path: str, start: int, names: Collection[str]) -> dict[str, int]:
    """Return where those of the names lie that a file defines.

    Args:
        path: of the file.
        start: address of its first byte.
        names: of functions or variables.

    Raises:
        OSError: it cannot be read.
        SymbolError: it is not what it should be.
    """
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as data:
        try:
            return {name: start + offset for name, offset in _defined(data, names)}
        except (struct.error, ValueError) as error:
            raise SymbolError(f"{path}: {error}") from error


def _defined(data: mmap.mmap, names: Collection[str]) -> list[tuple[str, int]]:
    header = _HEADER.unpack_from(data)
    if not header[0].startswith(_IDENTITY):
        raise ValueError("not a 64-bit ELF file")
    programs, sections, program_count, section_count = header[5], header[6], header[10], header[12]
    bases = [
        program[3] - program[2]
        for program in _table(data, _PROGRAM, programs, program_count)
        if program[0] == _LOAD and program[2] == 0
    ]
    if not bases:
        raise ValueError("no segment has its first byte")
    wanted = {name.encode(): name for name in names}
    every = list(_table(data, _SECTION, sections, section_count))
    found = []
    for section in every:
        if section[1] != _DYNAMIC_SYMBOLS:
            continue
        strings = every[section[6]][4]
        for symbol in _table(data, _SYMBOL, section[4], section[5] // _SYMBOL.size):
            if symbol[3] == 0:  # It is another library's.
                continue
            begin = strings + symbol[0]
            name = wanted.get(data[begin : data.find(b"\0", begin)])
            if name is not None:
                found.append((name, symbol[4] - bases[0]))
    return found


def _table(data: mmap.mmap, row: struct.Struct, begin: int, count: int) -> list[tuple[int, ...]]:
    size = count * row.size
    if begin + size > len(data):
        raise ValueError("it is shorter than its tables")
    return list(row.iter_unpack(data[begin : begin + size]))
