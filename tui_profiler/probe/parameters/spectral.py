"""Spectral norm: exact for small matrices, by Lanczos iteration for large ones.

Source: Golub and Van Loan, Matrix Computations, 4th edition, section 10.1; on AᵀA, with full
reorthogonalisation. Up to rounding, the largest Ritz value is at most the largest eigenvalue.
"""

import math
from collections.abc import Callable

import numpy as np
import torch

from tui_profiler.messages import Unknown
from tui_profiler.messages.parameters import Spectral
from tui_profiler.probe.parameters.values import Values, finite_blocks, real

MOST_EXACT_VALUES = 1 << 15
TOLERANCE = 1e-4
"""Residual of an eigenvector of AᵀA over its eigenvalue; half of it for the singular value."""
MOST_ITERATIONS = 100
MOST_RESIDUAL = 1e-2
"""Up to this, a result that did not converge is reported with its residual."""
MOST_HELD_BYTES = 1 << 24
"""Of a matrix kept in memory as float32; a larger one is read again in each iteration."""

_MOST_HELD_NUMBERS = 1 << 23
"""Values of all vectors of an iteration."""
_LEAST_ITERATIONS = 8
_MOST_COLUMNS = 1 << 22


def spectral(values: Values, check: Callable[[], None]) -> Spectral | None:
    """Return the norm of a tensor without NaN or infinite values; None where it is empty.

    Args:
        values: the tensor.
        check: raises if the work was stopped.
    """
    rows, columns = values.rows, values.columns
    if not rows * columns:
        return None
    if min(rows, columns) == 1:
        whole = torch.cat([block.double().flatten().cpu() for _, block in finite_blocks(values)])
        return Spectral(float(whole.norm()), "vector", rows, columns)
    if values.dtype.is_complex:
        reason = Unknown("not computed for complex matrices")
        return Spectral(reason, "svd", rows, columns)
    if rows * columns <= MOST_EXACT_VALUES:
        matrix = real(values.block(0, rows)).double().cpu()
        return Spectral(float(torch.linalg.svdvals(matrix)[0]), "svd", rows, columns)
    if columns > _MOST_COLUMNS:
        return Spectral(Unknown(f"rows of {columns} values are too long"), "lanczos", rows, columns)
    return _lanczos(_Square(values, check), rows, columns)


class _Square:
    """Products with AᵀA, by blocks of rows: each is read once per product."""

    def __init__(self, values: Values, check: Callable[[], None]) -> None:
        self._values = values
        self._check = check
        is_held = values.rows * values.columns * 4 <= MOST_HELD_BYTES
        self._held = [block.clone() for _, block in finite_blocks(values)] if is_held else None

    def times(self, vector: torch.Tensor) -> torch.Tensor:
        """Return AᵀA·v in float64."""
        result = torch.zeros_like(vector)
        every = (
            self._held if self._held is not None else (b for _, b in finite_blocks(self._values))
        )
        for block in every:
            self._check()
            result += (block.T @ (block @ vector.to(block))).to(vector)
        return result


def _lanczos(square: _Square, rows: int, columns: int) -> Spectral:
    most = min(MOST_ITERATIONS, columns, max(_MOST_HELD_NUMBERS // columns, _LEAST_ITERATIONS))
    # A separate generator: torch's state belongs to the user.
    start = torch.randn(columns, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    basis = [start / start.norm()]
    diagonal: list[float] = []
    beside: list[float] = []
    largest, residual = 0.0, math.inf
    for _ in range(most):
        product = square.times(basis[-1])
        diagonal.append(float(product @ basis[-1]))
        kept = torch.stack(basis)
        for _ in range(2):
            product -= kept.T @ (kept @ product)
        length = float(product.norm())
        largest, residual = _ritz(diagonal, beside, length)
        if residual <= TOLERANCE * largest or not length:
            break
        beside.append(length)
        basis.append(product / length)
    if not largest:
        return Spectral(0.0, "lanczos", rows, columns, len(diagonal), 0.0)
    reached = residual / largest
    norm = math.sqrt(largest)
    if reached > MOST_RESIDUAL:
        reason = f"not converged after {len(diagonal)} iterations: known to {reached:.1%}"
        return Spectral(Unknown(reason), "lanczos", rows, columns, len(diagonal), reached)
    return Spectral(norm, "lanczos", rows, columns, len(diagonal), reached)


def _ritz(diagonal: list[float], beside: list[float], length: float) -> tuple[float, float]:
    """Return the largest Ritz value and its residual."""
    whole = np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1)
    found, vectors = np.linalg.eigh(whole)
    return max(float(found[-1]), 0.0), length * abs(float(vectors[-1, -1]))
