"""How much could be 0 for a given loss of norm: values one by one, and whole channels."""

from __future__ import annotations

import numpy as np

from tui_profiler.messages.parameters import Pruned, PrunedChannels
from tui_profiler.probe.parameters.distribution import Distribution, Numbers

LOSSES = (0.01, 0.05, 0.1, 0.2)
"""‖w − pruned‖₂ / ‖w‖₂"""


def pruned(table: Distribution, count: int) -> tuple[Pruned, ...]:
    """Give the share of values that could be 0; nothing where all are 0 already."""
    if table.step is None and table.counts.size == count:
        return _of_single_values(np.abs(table.near))
    near, far = np.abs(table.near), np.abs(table.far)
    order = np.argsort(near, kind="stable")
    near, far, counts = near[order], far[order], table.counts[order].astype(np.float64)
    largest = float(far[-1]) if far.size else 0.0
    if not largest:
        return ()
    near, far = near / largest, far / largest
    # Within a step values are as good as evenly spread: the mean of x² between its ends.
    squares = counts * (near * near + near * far + far * far) / 3
    lost = np.concatenate([[0.0], np.cumsum(squares)])
    gone = np.concatenate([[0.0], np.cumsum(counts)])
    if table.step is None:
        return tuple(
            Pruned(loss, _whole_values(lost, gone, squares, counts, loss)) for loss in LOSSES
        )
    wanted = [loss**2 * lost[-1] for loss in LOSSES]
    shares = np.interp(wanted, lost, gone) / count
    zero = float(counts[far == 0].sum()) / count
    return tuple(
        Pruned(loss, max(float(share), zero)) for loss, share in zip(LOSSES, shares, strict=True)
    )


def _of_single_values(magnitudes: Numbers) -> tuple[Pruned, ...]:
    """Give the same where each row of the table is one of few values."""
    rising = np.sort(magnitudes)
    if not rising.size or not rising[-1]:
        return ()
    lost = np.cumsum((rising / rising[-1]) ** 2)
    allowed = [loss**2 * float(lost[-1]) * (1 + 1e-12) for loss in LOSSES]
    found = np.searchsorted(lost, allowed, "right") / rising.size
    return tuple(Pruned(loss, float(share)) for loss, share in zip(LOSSES, found, strict=True))


def _whole_values(
    lost: Numbers, gone: Numbers, squares: Numbers, counts: Numbers, loss: float
) -> float:
    """Give the share where each row is one value: of the row in which it ends, whole values."""
    allowed = loss**2 * lost[-1] * (1 + 1e-12)
    row = int(np.searchsorted(lost, allowed, "right")) - 1
    if row >= counts.size:
        return 1.0
    each = squares[row] / counts[row]
    more = np.floor((allowed - lost[row]) / each) if each else counts[row]
    return float((gone[row] + min(more, counts[row])) / gone[-1])


def pruned_channels(norms: Numbers) -> tuple[PrunedChannels, ...]:
    """Give how many channels could go, the least norms first.

    Args:
        norms: (channels,), of each.
    """
    squares = np.sort(norms / (norms.max() or 1.0)) ** 2
    lost = np.cumsum(squares)
    if not lost[-1]:
        return ()
    allowed = [loss**2 * lost[-1] for loss in LOSSES]
    found = np.searchsorted(lost, allowed, "right")
    return tuple(
        PrunedChannels(loss, int(channels)) for loss, channels in zip(LOSSES, found, strict=True)
    )
