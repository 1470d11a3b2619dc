"""Rows of a tensor as a matrix, in blocks that fit, as finite real numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from tui_profiler.probe.parameters.values import Values

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
    """Give so many indices out of 0 to ``of``, evenly picked, first and last among them."""
    if count >= of:
        return list(range(of))
    if count <= 1:
        return [0][:count]
    return [index * (of - 1) // (count - 1) for index in range(count)]


def real(block: torch.Tensor) -> torch.Tensor:
    """Give float32 or float64 numbers: what is not finite is 0, complex values are two."""
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
