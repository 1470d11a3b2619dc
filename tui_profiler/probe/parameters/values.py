"""Values of one tensor, wherever they lie, in pieces or as rows: from memory, or from a file.

1. No more than a piece is ever copied, whatever the size of the tensor.
2. Values that lie in one place count once: an expanded tensor is as large as what it lies in.
3. A file is read, never mapped: one that is cut shorter meanwhile is an error and not a signal.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

PIECE_VALUES = 1 << 20
"""Read at once on the CPU: 4 MiB of float32; counting patterns has a price for each piece."""
DEVICE_PIECE_VALUES = 1 << 24
MOST_WHOLE_BYTES = 1 << 28
"""Of a tensor in a file that does not lie in rows: it is read whole, or not at all."""


class Values(Protocol):
    """What a tensor's values are asked for."""

    dtype: torch.dtype
    rows: int
    """Length of the first axis; 1 for fewer than two axes."""
    columns: int
    """Values in a row: all other axes."""

    def pieces(self) -> Iterator[torch.Tensor]:
        """Yield all values as (values,), in any order; a piece is good until the next."""
        ...

    def block(self, start: int, stop: int) -> torch.Tensor:
        """Return rows as (rows, columns); good until the next call."""
        ...


def rows_and_columns(shape: Sequence[int]) -> tuple[int, int]:
    """Return a tensor's form as a matrix: first axis by all others; a vector is one row."""
    if len(shape) < 2:
        return 1, math.prod(shape)
    return shape[0], math.prod(shape[1:])


class InMemory:
    """Values of a tensor that is there."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor = collapsed(tensor.detach())
        self.dtype = tensor.dtype
        self.rows, self.columns = rows_and_columns(self._tensor.shape)

    def pieces(self) -> Iterator[torch.Tensor]:
        """Yield all values, as they lie where they lie without gaps."""
        size = PIECE_VALUES if self._tensor.device.type == "cpu" else DEVICE_PIECE_VALUES
        pending = [self._tensor]
        while pending:
            part = pending.pop()
            flat = _flat(part)
            if flat is not None:
                yield from torch.split(flat, size) if flat.numel() else ()
            elif part.numel() <= size:
                yield part.reshape(-1)
            else:
                half = part.shape[0] // 2
                first = part[0] if half == 0 else part[:half]
                pending += [first] if half == 0 else [part[half:], first]

    def block(self, start: int, stop: int) -> torch.Tensor:
        """Return rows as a matrix."""
        if self._tensor.dim() < 2:
            return self._tensor.reshape(1, -1)
        return self._tensor[start:stop].reshape(-1, self.columns)


class InFile:
    """Values that lie in a file, row-major and without gaps.

    Args:
        descriptor: of the open file; whoever opened it closes it.
        offset: bytes from the file's beginning to the first value.
    """

    def __init__(
        self, descriptor: int, offset: int, dtype: torch.dtype, shape: Sequence[int]
    ) -> None:
        self._descriptor = descriptor
        self._offset = offset
        self.dtype = dtype
        self.rows, self.columns = rows_and_columns(shape)

    def pieces(self) -> Iterator[torch.Tensor]:
        """Yield all values; each piece is read over the one before."""
        total = self.rows * self.columns
        room = torch.empty(min(total, PIECE_VALUES), dtype=self.dtype)
        for start in range(0, total, PIECE_VALUES):
            piece = room[: total - start]
            self._read(start, piece)
            yield piece

    def block(self, start: int, stop: int) -> torch.Tensor:
        """Read rows."""
        room = torch.empty((min(stop, self.rows) - start, self.columns), dtype=self.dtype)
        self._read(start * self.columns, room)
        return room

    def _read(self, start: int, room: torch.Tensor) -> None:
        if not room.numel():
            return
        place = self._offset + start * room.element_size()
        into = memoryview(room.view(-1).view(torch.uint8).numpy().data)
        while into:
            count = os.preadv(self._descriptor, [into], place)
            if not count:
                raise OSError("the file became shorter while it was read")
            into, place = into[count:], place + count


def in_file_with_strides(
    descriptor: int, offset: int, dtype: torch.dtype, shape: Sequence[int], strides: Sequence[int]
) -> InMemory:
    """Read a tensor that does not lie row by row, whole; the look has checked where it ends."""
    reach = 1 + sum(stride * (axis - 1) for stride, axis in zip(strides, shape, strict=True))
    flat = InFile(descriptor, offset, dtype, (1, reach)).block(0, 1).view(-1)
    return InMemory(flat.as_strided(tuple(shape), tuple(strides)))


def collapsed(tensor: torch.Tensor) -> torch.Tensor:
    """Return tensor without the repetitions of expanded axes, and never larger than its storage."""
    for axis, (size, stride) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
        if stride == 0 and size > 1:
            tensor = tensor.narrow(axis, 0, 1)
    reach = _reach(tensor)
    if tensor.numel() > reach:  # Its windows overlap: what they lie in, once.
        return tensor.as_strided((reach,), (1,))
    return tensor


def _reach(tensor: torch.Tensor) -> int:
    if not tensor.numel():
        return 0
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    return 1 + sum(stride * (size - 1) for size, stride in pairs)


def _flat(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return the values as they lie; None where there are gaps between them."""
    if tensor.is_contiguous():
        return tensor.view(-1)
    if tensor.numel() == _reach(tensor):  # Each place once: collapsed has seen to that.
        return tensor.as_strided((tensor.numel(),), (1,))
    return None


@dataclass(frozen=True)
class Subject:
    """A tensor, its names, and how to get at its values."""

    owner: str
    """Dotted path of the module that owns it."""
    name: str
    """Full name."""
    shape: tuple[int, ...]
    dtype: str
    bytes: int
    """Of its values where they lie: those of an expanded tensor once."""
    storage_bytes: int
    alignment: int
    """0 where not known."""
    is_buffer: bool
    is_contiguous: bool
    shared_with: str
    """Full name under which the same values were seen first; empty elsewhere."""
    values: Callable[[], Values] | None
    """Returns access to them; None where there are none."""
    heads: int = 0
    """Of the attention that its rows belong to; 0 elsewhere or where not known."""
    why_none: str = ""
    """Why there are none."""


_MOST_ALIGNMENT = 4096


def alignment_of(place: int) -> int:
    """Return the largest power of two, up to a page, that divides an address or an offset."""
    return min(place & -place, _MOST_ALIGNMENT) if place else _MOST_ALIGNMENT


BLOCK_VALUES = 1 << 18


def blocks(values: Values) -> Iterator[tuple[int, torch.Tensor]]:
    """Yield (index of the first row, (rows, columns)) until all rows were there."""
    for start, block in finite_blocks(values):
        yield start, _without_others(block)


def finite_blocks(values: Values) -> Iterator[tuple[int, torch.Tensor]]:
    """Yield the same of values that are known to be finite."""
    each = max(1, BLOCK_VALUES // max(values.columns, 1))
    for start in range(0, values.rows, each):
        yield start, _as_real(values.block(start, min(start + each, values.rows)))


def picked(values: Values, rows: Sequence[int]) -> Iterator[torch.Tensor]:
    """Yield some rows as (rows, columns), neighbours together, in blocks."""
    each = max(1, BLOCK_VALUES // max(values.columns, 1))
    start = 0
    while start < len(rows):
        stop = start + 1
        while stop < len(rows) and stop - start < each and rows[stop] == rows[stop - 1] + 1:
            stop += 1
        yield real(values.block(rows[start], rows[stop - 1] + 1))
        start = stop


def evenly(count: int, of: int) -> list[int]:
    """Return so many indices out of 0 to ``of``, evenly picked, first and last among them."""
    if count >= of:
        return list(range(of))
    if count <= 1:
        return [0][:count]
    return [index * (of - 1) // (count - 1) for index in range(count)]


def real(block: torch.Tensor) -> torch.Tensor:
    """Return float32 or float64 numbers: what is not finite is 0, complex values are two."""
    return _without_others(_as_real(block))


def _as_real(block: torch.Tensor) -> torch.Tensor:
    if block.is_complex():
        block = torch.view_as_real(block).reshape(block.shape[0], -1)
    if block.dtype not in (torch.float32, torch.float64):
        wide = torch.float32 if block.is_floating_point() else torch.float64
        block = block.to(wide)
    return block


def _without_others(block: torch.Tensor) -> torch.Tensor:
    if not bool(block.sum().isfinite()):  # Or finite numbers whose sum is not: no harm.
        block = block.nan_to_num(0.0, 0.0, 0.0)
    return block
