"""The histogram of a tensor, from the table of its values."""

from __future__ import annotations

import numpy as np

from tui_profiler.messages.parameters import HISTOGRAM_BINS, Histogram
from tui_profiler.probe.parameters.distribution import Counts, Distribution, Numbers


def histogram(table: Distribution, minimum: float, maximum: float) -> Histogram | None:
    """Give at most 64 bins between the least and the largest value; None where there are none."""
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
    # Halves first: the range of the largest numbers is more than a number can be.
    shares = np.linspace(0.0, 1.0, HISTOGRAM_BINS + 1)
    wanted = minimum * (1 - shares) + maximum * shares
    inner = np.unique(table.representable_towards_0(wanted[1:-1]))
    inside = inner[(inner > minimum) & (inner < maximum)]
    return np.concatenate([[minimum], inside, [maximum]])


def _below(table: Distribution, edges: Numbers) -> Counts:
    """Count the values below each edge; those on it are on its side away from 0."""
    upto = np.concatenate([[0], np.cumsum(table.counts)])
    upwards = np.searchsorted(table.near, edges, "left")
    downwards = np.searchsorted(table.near, edges, "right")
    found: Counts = upto[np.where(edges < 0, downwards, upwards)]
    found[0], found[-1] = 0, upto[-1]
    return found
