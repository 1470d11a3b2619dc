"""Prunable values and channels at a given error of the norm; outlier and duplicate channels."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from tui_profiler.messages import Figure, Unknown
from tui_profiler.messages.parameters import MOST_CHANNEL_NORMS, Channels, Pruned, PrunedChannels
from tui_profiler.probe.parameters.distribution import Distribution, Numbers
from tui_profiler.probe.parameters.values import BLOCK_VALUES, Values, blocks, evenly, picked

LOSSES = (0.01, 0.05, 0.1, 0.2)
"""‖w − pruned‖₂ / ‖w‖₂"""


def pruned(table: Distribution, count: int) -> tuple[Pruned, ...]:
    """Return the share of prunable values at each error; empty where all are 0."""
    if table.step is None and table.counts.size == count:
        return _of_single_values(np.abs(table.near))
    near, far = np.abs(table.near), np.abs(table.far)
    order = np.argsort(near, kind="stable")
    near, far, counts = near[order], far[order], table.counts[order].astype(np.float64)
    largest = float(far[-1]) if far.size else 0.0
    if not largest:
        return ()
    near, far = near / largest, far / largest
    # Within a step, values count as uniform: the mean of x² between its ends.
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
    """Return the same for a table with one row per value."""
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
    """Return the share where a row is many equal values: whole values of the last row."""
    allowed = loss**2 * lost[-1] * (1 + 1e-12)
    row = int(np.searchsorted(lost, allowed, "right")) - 1
    if row >= counts.size:
        return 1.0
    each = squares[row] / counts[row]
    more = np.floor((allowed - lost[row]) / each) if each else counts[row]
    return float((gone[row] + min(more, counts[row])) / gone[-1])


def pruned_channels(norms: Numbers) -> tuple[PrunedChannels, ...]:
    """Return the number of prunable channels at each error, smallest norms first.

    Args:
        norms: (channels,).
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


OUTLIER = 6.0
"""Times the median of the channels' largest magnitudes."""
ALIKE = 0.999
"""Least cosine of near-duplicate rows."""
_MOST_COMPARED = 1024
_MOST_COMPARED_VALUES = 1 << 20
_MOST_PRODUCTS = 1 << 29
"""Multiplications for comparing all pairs of rows."""
_MOST_NAMED = 8


@dataclass(frozen=True)
class _Sizes:
    """Of each row."""

    norms: Numbers
    """(rows,): L2 norm."""
    largest: Numbers
    """(rows,): largest magnitude."""


def sizes(values: Values, check: Callable[[], None]) -> _Sizes:
    """Return the norm and the largest magnitude of each row."""
    norms, largest = np.empty(values.rows), np.empty(values.rows)
    for start, block in blocks(values):
        check()
        found = torch.linalg.vector_norm(block, dim=1, dtype=torch.float64)
        most = block.abs().amax(1) if block.shape[1] else found
        norms[start : start + len(block)] = found.cpu().numpy()
        largest[start : start + len(block)] = most.double().cpu().numpy()
    return _Sizes(norms, largest)


def channels(values: Values, found: _Sizes, heads: int, check: Callable[[], None]) -> Channels:
    """Return the statistics of a tensor's channels.

    Args:
        values: the tensor.
        found: sizes of its rows.
        heads: in its rows; 0 where there are none, or not known.
        check: raises if the work was stopped.
    """
    odd = _outliers(found.largest)
    alike, compared = _near_duplicates(values, found, check)
    rising = np.sort(found.norms)[evenly(MOST_CHANNEL_NORMS, values.rows)]
    by_head = heads if heads and values.rows % heads == 0 else 0
    return Channels(
        count=values.rows,
        size=values.columns,
        norms=rising.astype("<f4").tobytes(),
        dead=int((found.largest == 0).sum()),
        outliers=len(odd),
        first_outliers=tuple(odd[:_MOST_NAMED]),
        pruned=pruned_channels(found.norms),
        near_duplicates=alike,
        compared=compared,
        heads=by_head,
        head_norms=_head_norms(found.norms, by_head),
    )


def _outliers(largest: Numbers) -> list[int]:
    usual = float(np.median(largest))
    odd = np.flatnonzero(largest > OUTLIER * usual)
    return [int(index) for index in odd[np.argsort(-largest[odd], kind="stable")]]


def _head_norms(norms: Numbers, heads: int) -> tuple[float, ...]:
    """Return the norm of each head."""
    if not heads:
        return ()
    return tuple(math.sqrt(one) for one in (norms**2).reshape(heads, -1).sum(1).tolist())


def _near_duplicates(
    values: Values, found: _Sizes, check: Callable[[], None]
) -> tuple[Figure, int]:
    """Count near-duplicates among as many evenly picked rows as a short time allows."""
    alive = [int(index) for index in np.flatnonzero(found.largest > 0)]
    fit = math.isqrt(_MOST_PRODUCTS // max(values.columns, 1))
    most = min(_MOST_COMPARED, fit, _MOST_COMPARED_VALUES // max(values.columns, 1))
    if len(alive) < 2 or most < 2 or values.columns < 2:
        return Unknown("no two rows can be compared"), 0
    rows = [alive[place] for place in evenly(most, len(alive))]
    norms = torch.from_numpy(found.norms[rows]).float()
    parts = []
    for part in picked(values, rows):
        check()
        parts.append(part.float())
    matrix = torch.cat(parts).cpu() / norms[:, None].clamp_min(torch.finfo(torch.float32).tiny)
    alike = torch.zeros(len(rows), dtype=torch.bool)
    step = max(1, BLOCK_VALUES // len(rows))
    for start in range(0, len(rows), step):
        check()
        cosines = (matrix[start : start + step] @ matrix.T).abs_()
        earlier = torch.tril(cosines, diagonal=start - 1)
        alike[start : start + step] = (earlier > ALIKE).any(1)
    return float(alike.sum()), len(rows)
