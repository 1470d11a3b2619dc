"""The rows of a tensor, one for each output channel: how large, how alike, which could go."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from tui_profiler.messages import Figure, Unknown
from tui_profiler.messages.parameters import MOST_CHANNEL_NORMS, Channels
from tui_profiler.probe.parameters.distribution import Numbers
from tui_profiler.probe.parameters.pruning import pruned_channels
from tui_profiler.probe.parameters.rows import BLOCK_VALUES, blocks, evenly, picked
from tui_profiler.probe.parameters.values import Values

OUTLIER = 6.0
"""Times the median of the channels' largest magnitudes."""
ALIKE = 0.999
"""Cosine of two rows from which on they are near-duplicates."""
MOST_COMPARED = 1024
MOST_COMPARED_VALUES = 1 << 20
MOST_PRODUCTS = 1 << 29
"""Multiplications of all rows that are compared with each other."""
_MOST_NAMED = 8


@dataclass(frozen=True)
class Sizes:
    """Of each row."""

    norms: Numbers
    """(rows,): L2 norm."""
    largest: Numbers
    """(rows,): largest magnitude."""


def sizes(values: Values, check: Callable[[], None]) -> Sizes:
    """Go through all rows."""
    norms, largest = np.empty(values.rows), np.empty(values.rows)
    for start, block in blocks(values):
        check()
        found = torch.linalg.vector_norm(block, dim=1, dtype=torch.float64)
        most = block.abs().amax(1) if block.shape[1] else found
        norms[start : start + len(block)] = found.cpu().numpy()
        largest[start : start + len(block)] = most.double().cpu().numpy()
    return Sizes(norms, largest)


def channels(values: Values, found: Sizes, heads: int, check: Callable[[], None]) -> Channels:
    """Give what the sizes of rows tell, and which rows are alike.

    Args:
        values: the tensor.
        found: sizes of its rows.
        heads: that its rows are divided into; 0 where they are not, or it is not known.
        check: raises where nobody waits any more.
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
    """Give the norm of the rows of each head."""
    if not heads:
        return ()
    return tuple(math.sqrt(one) for one in (norms**2).reshape(heads, -1).sum(1).tolist())


def _near_duplicates(values: Values, found: Sizes, check: Callable[[], None]) -> tuple[Figure, int]:
    """Compare rows with each other: as many as can be in reasonable time, evenly picked."""
    alive = [int(index) for index in np.flatnonzero(found.largest > 0)]
    fit = math.isqrt(MOST_PRODUCTS // max(values.columns, 1))
    most = min(MOST_COMPARED, fit, MOST_COMPARED_VALUES // max(values.columns, 1))
    if len(alive) < 2 or most < 2 or values.columns < 2:
        return Unknown("there are no two rows that can be compared"), 0
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
