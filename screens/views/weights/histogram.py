"""The histogram of a weight's values, at any width."""

from __future__ import annotations

from array import array

from tui_profiler.formatting.canvas import sparkline
from tui_profiler.messages.parameters import Histogram, Moments

from ...widgets.lines import EMPTY, Line
from ...widgets.rows import Look, row
from .cells import statistic


def histogram_lines(look: Look, histogram: Histogram, moments: Moments, rows: int) -> list[Line]:
    """Draw the counts over the range of the values, and its ends below."""
    shown = histogram_columns(histogram, look.inner)
    drawn = sparkline(shown, max((one or 0.0 for one in shown), default=0.0), rows, look.glyphs)
    low, high = statistic(moments.minimum), statistic(moments.maximum)
    return [
        *(row(((line, "ink"),), EMPTY, look) for line in drawn),
        row(((low, "muted"),), ((high, "muted"),), look),
    ]


def histogram_columns(histogram: Histogram, cells: int) -> list[float | None]:
    """Share the bins out over so many columns, each bin evenly over its width; None is empty."""
    counts = array("Q")
    counts.frombytes(histogram.counts[: len(histogram.counts) // 8 * 8])
    if not counts or cells < 1:
        return []
    bins = len(counts)
    found: list[float | None] = []
    for column in range(cells):
        low, high = column * bins / cells, (column + 1) * bins / cells
        inside = 0.0
        for at in range(int(low), min(int(high) + 1, bins)):
            inside += counts[at] * max(min(high, at + 1) - max(low, at), 0.0)
        found.append(inside or None)
    return found
