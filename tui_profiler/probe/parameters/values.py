"""Values of one tensor in memory or in a file, in pieces or as rows.

1. At most a piece is copied, whatever the size of the tensor.
2. Values in one place count once: an expanded tensor is as large as its storage.
3. A file is read, never mapped: truncation meanwhile is an error, not a signal.
"""

import math
import os
from collections.abc import Iterator, Sequence
from typing import Protocol

import torch

PIECE_VALUES = 1 << 20
"""On the CPU: 4 MiB of float32; counting patterns has a cost per piece."""
DEVICE_PIECE_VALUES = 1 << 24
MOST_WHOLE_BYTES = 1 << 28
"""Of a non-contiguous tensor in a file: it is read whole, or not at all."""


class Values(Protocol):
    """Access to the values of a tensor."""

    dtype: torch.dtype
    rows: int
    """Length of the first axis; 1 for fewer than two axes."""
    columns: int
    """Values in a row: all other axes."""

    def pieces(self) -> Iterator[torch.Tensor]:
        """Yield all values as (values,), in any order; a piece is valid until the next."""
        ...

    def block(self, start: int, stop: int) -> torch.Tensor:
        """Return rows as (rows, columns); valid until the next call."""
        ...


def rows_and_columns(shape: Sequence[int]) -> tuple[int, int]:
    """Return the shape as a matrix: first axis by all others; a vector is one row."""
    if len(shape) < 2:
        return 1, math.prod(shape)
    return shape[0], math.prod(shape[1:])


class InMemory:
    """Values of a tensor in memory."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor = collapsed(tensor.detach())
        self.dtype = tensor.dtype
        self.rows, self.columns = rows_and_columns(self._tensor.shape)

    def pieces(self) -> Iterator[torch.Tensor]:
        """Yield all values, in storage order where there are no gaps."""
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
    """Values in a file, row-major and contiguous.

    Args:
        descriptor: of the open file; the caller closes it.
        offset: of the first value, in bytes.
    """

    def __init__(
        self, descriptor: int, offset: int, dtype: torch.dtype, shape: Sequence[int]
    ) -> None:
        self._descriptor = descriptor
        self._offset = offset
        self.dtype = dtype
        self.rows, self.columns = rows_and_columns(shape)

    def pieces(self) -> Iterator[torch.Tensor]:
        """Yield all values; each piece overwrites the previous one."""
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


def collapsed(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor without expanded axes, and never larger than its storage."""
    for axis, (size, stride) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
        if stride == 0 and size > 1:
            tensor = tensor.narrow(axis, 0, 1)
    whole = reach(tensor.shape, tensor.stride())
    if tensor.numel() > whole:  # Its windows overlap: their storage, once.
        return tensor.as_strided((whole,), (1,))
    return tensor


def reach(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Return the places of a storage from a tensor's first value to its last; 0 without values."""
    if 0 in shape:
        return 0
    return 1 + sum(stride * (size - 1) for size, stride in zip(shape, strides, strict=True))


def _flat(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return the values in storage order; None where there are gaps."""
    if tensor.is_contiguous():
        return tensor.view(-1)
    if tensor.numel() == reach(tensor.shape, tensor.stride()):  # Each place once, by collapsed.
        return tensor.as_strided((tensor.numel(),), (1,))
    return None


BLOCK_VALUES = 1 << 18


def blocks(values: Values) -> Iterator[tuple[int, torch.Tensor]]:
    """Yield (index of the first row, (rows, columns)) of all rows; NaN and infinity become 0."""
    for start, block in finite_blocks(values):
        yield start, _without_others(block)


def finite_blocks(values: Values) -> Iterator[tuple[int, torch.Tensor]]:
    """Yield the same of values known to be finite."""
    each = max(1, BLOCK_VALUES // max(values.columns, 1))
    for start in range(0, values.rows, each):
        yield start, _as_real(values.block(start, min(start + each, values.rows)))


def picked(values: Values, rows: Sequence[int]) -> Iterator[torch.Tensor]:
    """Yield some rows as (rows, columns), in blocks of neighbours."""
    each = max(1, BLOCK_VALUES // max(values.columns, 1))
    start = 0
    while start < len(rows):
        stop = start + 1
        while stop < len(rows) and stop - start < each and rows[stop] == rows[stop - 1] + 1:
            stop += 1
        yield real(values.block(rows[start], rows[stop - 1] + 1))
        start = stop


def evenly(count: int, of: int) -> list[int]:
    """Return so many evenly spaced indices below ``of``, the first and the last included."""
    if count >= of:
        return list(range(of))
    if count <= 1:
        return [0][:count]
    return [index * (of - 1) // (count - 1) for index in range(count)]


def real(block: torch.Tensor) -> torch.Tensor:
    """Return float32 or float64: NaN and infinity become 0, a complex value is two."""
    return _without_others(_as_real(block))


def _as_real(block: torch.Tensor) -> torch.Tensor:
    if block.is_complex():
        block = torch.view_as_real(block).reshape(block.shape[0], -1)
    if block.dtype not in (torch.float32, torch.float64):
        wide = torch.float32 if block.is_floating_point() else torch.float64
        block = block.to(wide)
    return block


def _without_others(block: torch.Tensor) -> torch.Tensor:
    if not bool(block.sum().isfinite()):  # Or finite values with an infinite sum: no harm.
        block = block.nan_to_num(0.0, 0.0, 0.0)
    return block
