"""How far a tensor's bytes could be pressed together: what theory allows, and what a codec does."""

from __future__ import annotations

import zlib

import numpy as np
import torch

from tui_profiler.messages.parameters import Compression, Sampled
from tui_profiler.probe.parameters.rows import evenly
from tui_profiler.probe.parameters.values import Values

SAMPLE_BYTES = 1 << 17
PLACES = 4
"""That a sample is taken from: the codec looks back 32 KiB at most."""
LEVEL = 6


def compression(values: Values) -> Compression | None:
    """Press a sample; None where there are no values."""
    sample = _sample(values)
    size = values.dtype.itemsize
    count = sample.size // size
    if not count:
        return None
    planes = np.ascontiguousarray(sample.reshape(count, size).T)
    entropy = sum(_entropy_bits(plane) for plane in planes)
    return Compression(
        entropy_bits=entropy,
        bound=entropy / (8 * size),
        codec=f"zlib {LEVEL}",
        ratio=len(zlib.compress(sample.data, LEVEL)) / sample.size,
        planes_ratio=len(zlib.compress(planes.data, LEVEL)) / sample.size,
        sampled=Sampled(count, values.rows * values.columns),
    )


def _sample(values: Values) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    """Give bytes of whole values, from some places evenly apart."""
    row_bytes = values.columns * values.dtype.itemsize
    total = values.rows * row_bytes
    if total <= SAMPLE_BYTES:
        return _bytes(values.block(0, values.rows))
    each = SAMPLE_BYTES // PLACES
    if row_bytes >= each:
        most = each // values.dtype.itemsize
        return np.concatenate(
            [_bytes(values.block(row, row + 1)[:, :most]) for row in evenly(PLACES, values.rows)]
        )
    rows = max(1, each // row_bytes)
    starts = evenly(PLACES, values.rows - rows + 1)
    return np.concatenate([_bytes(values.block(start, start + rows)) for start in starts])


def _bytes(block: torch.Tensor) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    flat = block.contiguous().view(-1).view(torch.uint8).cpu().numpy()
    return flat.copy()


def _entropy_bits(plane: np.ndarray[tuple[int], np.dtype[np.uint8]]) -> float:
    counts = np.bincount(plane, minlength=256)
    shares = counts[counts > 0] / plane.size
    return float(-(shares * np.log2(shares)).sum()) + 0.0
