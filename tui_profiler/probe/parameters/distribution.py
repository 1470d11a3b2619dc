"""Distribution of values: the table behind histogram, pruning and near zeros.

It has a row per value (types of up to 16 bits, and small tensors), or per step of the magnitude:
the first 8 significant bits, of either sign. So one pass is enough for all of them, and its size
does not depend on the tensor's.
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tui_profiler.messages.parameters import HISTOGRAM_BINS, Histogram

Numbers = NDArray[np.float64]
Counts = NDArray[np.int64]
Step: TypeAlias = type[np.float32] | type[np.float64]


@dataclass(frozen=True)
class Distribution:
    """The finite values of a tensor."""

    near: Numbers
    """(rows,): value nearest to 0 of each row, ascending."""
    far: Numbers
    """(rows,): end of each row away from 0, exclusive; as ``near`` where a row is one value."""
    counts: Counts
    """(rows,): values in each row, never 0."""
    step: Step | None = None
    """Rows are steps of the magnitude of this type; None where each is one value."""
    representable: Numbers | None = None
    """Every finite value of a narrow floating-point type, ascending; None for others."""

    def representable_towards_0(self, values: Numbers) -> Numbers:
        """Return the nearest representable values towards 0, where those are known."""
        known = self.representable
        if known is None:
            return self.parted(values)
        down = known[np.maximum(np.searchsorted(known, values, "right") - 1, 0)]
        up = known[np.minimum(np.searchsorted(known, values, "left"), known.size - 1)]
        return np.where(values < 0, up, down)

    def parted(self, values: Numbers) -> Numbers:
        """Return the nearest row boundaries towards 0."""
        if self.step == np.float32:
            single = values.astype(np.float32).view(np.uint32) >> np.uint32(16) << np.uint32(16)
            return single.view(np.float32).astype(np.float64)
        if self.step == np.float64:
            double = values.view(np.uint64) >> np.uint64(45) << np.uint64(45)
            return double.view(np.float64)
        return values


def distribution(
    near: Numbers,
    far: Numbers,
    counts: Counts,
    step: Step | None = None,
    representable: Numbers | None = None,
) -> Distribution:
    """Return a table of rows in any order, without empty rows and infinite values."""
    kept = (counts > 0) & np.isfinite(near)
    near, far, counts = near[kept], far[kept], counts[kept]
    # Two rows begin at 0, one per sign: ``far`` orders them.
    order = np.lexsort((far, near))
    return Distribution(near[order], far[order], counts[order], step, representable)


def of_values(values: Numbers) -> Distribution:
    """Return the table of few finite values, one row each."""
    rising = np.sort(values)
    return Distribution(rising, rising, np.ones(rising.size, np.int64))


def histogram(table: Distribution, minimum: float, maximum: float) -> Histogram | None:
    """Return at most 64 bins between minimum and maximum; None where there are no values."""
    if not table.counts.size:
        return None
    edges = _edges(table, minimum, maximum)
    counts = np.diff(_below(table, edges))
    shares = counts[counts > 0] / counts.sum()
    return Histogram(
        edges=edges.astype("<f8").tobytes(),
        counts=counts.astype("<u8").tobytes(),
        entropy_bits=float(-(shares * np.log2(shares)).sum()) + 0.0,
    )


def _edges(table: Distribution, minimum: float, maximum: float) -> Numbers:
    if minimum == maximum:
        return np.array([minimum, maximum])
    # Weighted ends: the difference of the largest numbers would overflow.
    shares = np.linspace(0.0, 1.0, HISTOGRAM_BINS + 1)
    wanted = minimum * (1 - shares) + maximum * shares
    inner = np.unique(table.representable_towards_0(wanted[1:-1]))
    inside = inner[(inner > minimum) & (inner < maximum)]
    return np.concatenate([[minimum], inside, [maximum]])


def _below(table: Distribution, edges: Numbers) -> Counts:
    """Count the values below each edge; one on an edge is on its side away from 0."""
    upto = np.concatenate([[0], np.cumsum(table.counts)])
    upwards = np.searchsorted(table.near, edges, "left")
    downwards = np.searchsorted(table.near, edges, "right")
    found: Counts = upto[np.where(edges < 0, downwards, upwards)]
    found[0], found[-1] = 0, upto[-1]
    return found
