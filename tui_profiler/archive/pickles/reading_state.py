"""The state of reading one pickle: where it is, its stack, its memo, what it has named."""

from __future__ import annotations

from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING
from collections.abc import Callable

from tui_profiler.archive.pickles.values import Named, Persistent, Skipped
from tui_profiler.archive.reading import limits
from tui_profiler.archive.reading.file_region import Region
from tui_profiler.archive.reading.limits import ArchiveError

CHUNK_BYTES = 256 << 10
"""Read at once. Memory is compared with its limit once a chunk."""
_TAIL_BYTES = 16
"""More than the fixed part of any opcode's arguments."""
_FAR_ENTRY_BYTES = 120

# Bytes of one object in CPython 3.11 on 64 bits, with what the collector keeps of it and its place
# in a list; measured by sys.getsizeof.
LIST_BYTES = 81
MAPPING_BYTES = 57
MADE_BYTES = 81
TUPLE_BYTES = 65
TEXT_BYTES = 58
NUMBER_BYTES = 41
SLOT_BYTES = 9


class PickleState:
    """What the opcodes of one pickle work on. Positions count from the start of the chunk."""

    __slots__ = (
        "base",
        "chunk",
        "far_memo",
        "marks",
        "memo",
        "memory",
        "named",
        "ordered_dict",
        "persistents",
        "position",
        "refill_at",
        "region",
        "stack",
    )

    def __init__(self, region: Region, start: int) -> None:
        self.region = region
        self.base = start
        """Offset in the region of the chunk's first byte."""
        self.chunk = b""
        self.refill_at = 0
        """From this position on, another chunk is needed before an opcode is read."""
        self.position = 0
        """Of the opcode that is being carried out."""
        self.stack: list[object] = []
        self.marks: list[int] = []
        self.memo: list[object] = []
        self.far_memo: dict[int, object] = {}
        """Entries that were not put in order; honest pickles have none."""
        self.named: dict[str, Named] = {}
        self.ordered_dict = Named("")
        """The name of OrderedDict, once the pickle has imported it; until then no value at all."""
        self.persistents: list[Persistent] = []
        self.memory = limits.PICKLE_BYTES
        """Bytes that may still be taken."""

    def error(self, what: str) -> ArchiveError:
        """Return the error that says ``what`` is wrong at this opcode."""
        return self.region.error(what, self.base + self.position)

    def refill(self, position: int) -> int:
        """Read the chunk that begins at ``position``, which becomes the returned one.

        Raises:
            ArchiveError: There is nothing more, or memory is used up.
        """
        if self.memory < 0:
            raise self.error("builds more than the structure of any model")
        self.base += position
        self.position = 0
        left = self.region.size - self.base
        if left <= 0:
            raise self.error("ends without the opcode that ends a pickle")
        self.chunk = self.region.read(self.base, min(left, CHUNK_BYTES))
        size = len(self.chunk)
        self.refill_at = size if size == left else size - _TAIL_BYTES
        return 0

    def take(self, position: int, count: int) -> bytes:
        """Return ``count`` bytes from ``position`` on, within the chunk or not.

        Raises:
            ArchiveError: There are not so many.
        """
        self.memory -= count
        data = self.chunk[position : position + count]
        if len(data) < count:
            return self.region.read(self.base + position, count)
        return data

    def text(self, position: int, count: int, encoding: str) -> str | Skipped:
        """Return a text; one that is too long is passed over.

        Lone surrogates, which a pickle may hold, are written out: no wire or file takes them.

        Raises:
            ArchiveError: There are not so many bytes.
        """
        if count > limits.TEXT_BYTES:
            return self.skipped(position, count)
        return self.take(position, count).decode(encoding, "backslashreplace")

    def skipped(self, position: int, count: int) -> Skipped:
        """Pass over bytes.

        Raises:
            ArchiveError: There are not so many.
        """
        if self.base + position + count > self.region.size:
            raise self.error(f"claims {count} bytes, and the pickle ends before them")
        return Skipped(count)

    def line(self, position: int) -> tuple[bytes, int]:
        """Return the bytes up to the end of the line, and the position behind it.

        Raises:
            ArchiveError: The line has no end, or is too long.
        """
        end = self.chunk.find(b"\n", position, position + limits.LINE_BYTES)
        if end >= 0:
            return self.chunk[position:end], end + 1
        left = self.region.size - self.base - position
        data = self.region.read(self.base + position, min(max(left, 0), limits.LINE_BYTES))
        end = data.find(b"\n")
        if end < 0:
            raise self.error("holds a line without an end")
        return data[:end], position + end + 1

    def put(self, index: int) -> None:
        """Remember the top of the stack under a number."""
        if index == len(self.memo):
            self.memo.append(self.stack[-1])
        elif index < len(self.memo):
            self.memo[index] = self.stack[-1]
        else:
            self.far_memo[index] = self.stack[-1]
            self.memory -= _FAR_ENTRY_BYTES

    def get(self, index: int) -> object:
        """Return what is remembered under a number.

        Raises:
            ArchiveError: Nothing is.
        """
        if index < len(self.memo):
            return self.memo[index]
        if index in self.far_memo:
            return self.far_memo[index]
        raise self.error(f"asks for entry {index} of its memo, which is not there")

    def since_mark(self) -> list[object]:
        """Take everything above the last mark from the stack."""
        mark = self.marks.pop()
        taken = self.stack[mark:]
        del self.stack[mark:]
        self.memory -= 9 * len(taken)
        return taken

    def name(self, module: str, name: str) -> Named:
        """Return the value that stands for an import, with Python 2's names made Python 3's.

        Raises:
            ArchiveError: There are too many different ones.
        """
        if (module, name) in NAME_MAPPING:
            module, name = NAME_MAPPING[(module, name)]
        full = f"{IMPORT_MAPPING.get(module, module)}.{name}"
        known = self.named.get(full)
        if known is None:
            if len(self.named) >= limits.GLOBALS:
                raise self.error(f"imports more than {limits.GLOBALS} different names")
            known = self.named[full] = Named(full)
            if full == "collections.OrderedDict":
                self.ordered_dict = known
        return known


Opcode = Callable[[PickleState, int], int]
"""Carries out an opcode whose arguments begin at a position, and gives the next one's position."""
