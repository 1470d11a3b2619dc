"""Which nodes a tick tells of, where more were called than one message holds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MOST_NODES = 75_000
"""In one tick: 52 bytes each make 3.9 MB, of the 4 MiB that ``wire.MAX_FRAME_BYTES`` allows."""
LESS_THAN_LEFT_OUT = 2.0
"""A node left out may have taken this many times what one that is sent has, before it is noticed.
Were it 1, the choice would change at every tick, and with it all that a viewer keeps by node."""


def most_time(total: NDArray[np.float64], most: int, before: NDArray[np.intp]) -> NDArray[np.intp]:
    """Give the rows with the most time, ascending; those of before while they still do.

    What is around a node has taken at least its time, so whole paths to the root are kept.

    Args:
        total: (rows,) seconds in all calls so far, inclusive; more rows than ``most``.
        most: rows to give.
        before: (most,) rows that were given last; none at first.
    """
    if len(before) == most:
        is_left_out = np.ones(len(total), bool)
        is_left_out[before] = False
        if total[is_left_out].max() <= LESS_THAN_LEFT_OUT * total[before].min():
            return before
    return np.sort(np.argpartition(total, -most)[-most:])
