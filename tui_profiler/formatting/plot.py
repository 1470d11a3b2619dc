"""A log-log plot as text: axes that keep still, decades to label, and dots finer than a cell.

1. An axis begins and ends at half decades; a value's place is counted from its low end.
2. Dots are counted from the left and from the top; what lies outside is not drawn.
"""

import math
from collections.abc import Iterable

from msgspec import Struct

STEP = 0.5
"""Decades: where an axis may begin or end."""
LEAST_DECADES = 2.0
MOST_DECADES = 6.0
"""A wider axis would press everything else together."""
SLACK_DECADES = 1.0
"""An axis is shortened only when so much of it has become empty."""


class Axis(Struct, frozen=True):
    """A logarithmic axis, from 10 ** low to 10 ** high."""

    low: float
    high: float

    def place(self, value: float, cells: int) -> float:
        """Return where a value above 0 lies on an axis of so many cells, from its low end."""
        return (math.log10(value) - self.low) / (self.high - self.low) * cells

    def cell(self, value: float, cells: int) -> int | None:
        """Return the cell that a value lies in, None where it is beyond the axis."""
        place = self.place(value, cells)
        if not -1e-9 <= place <= cells + 1e-9:
            return None
        return min(max(int(place + 1e-9), 0), cells - 1)

    def decades(self) -> range:
        """Return the powers of ten on the axis."""
        return range(math.ceil(self.low - 1e-9), math.floor(self.high + 1e-9) + 1)


def axis_for(least: float, greatest: float) -> Axis:
    """Return the shortest axis that holds two values above 0: at least two decades, at most six.

    Of a wider range the upper end is kept.
    """
    low = math.floor(math.log10(least) / STEP + 1e-9) * STEP
    high = math.ceil(math.log10(greatest) / STEP - 1e-9) * STEP
    high = max(high, low + STEP)
    missing = LEAST_DECADES - (high - low)
    if missing > 0:
        low -= missing
    return Axis(max(low, high - MOST_DECADES), high)


def keep_axis(before: Axis | None, wanted: Axis) -> Axis:
    """Keep an axis while it holds what is wanted and is not much too long at either end."""
    if before is None:
        return wanted
    low, high = before.low, before.high
    if not 0 <= wanted.low - low < SLACK_DECADES:
        low = wanted.low
    if not 0 <= high - wanted.high < SLACK_DECADES:
        high = wanted.high
    if high - low > MOST_DECADES:
        return wanted
    return Axis(low, high)


def decade_label(exponent: int) -> str:
    """Return a power of ten in at most six characters: ``1000``, ``0.01``, ``1e-5``."""
    if 0 <= exponent <= 5:
        return str(10**exponent)
    return f"{10.0**exponent:.{-exponent}f}" if -4 <= exponent < 0 else f"1e{exponent}"


_SIZES = {"braille": (2, 4), "blocks": (1, 2), "ascii": (1, 2)}
_BRAILLE_BITS = (0x01, 0x08, 0x02, 0x10, 0x04, 0x20, 0x40, 0x80)
"""From left to right, then down: Unicode 15, 'Braille Patterns', U+2800."""
_CHARACTERS = {
    "braille": "".join(
        chr(0x2800 + sum(bit for place, bit in enumerate(_BRAILLE_BITS) if mask >> place & 1))
        for mask in range(256)
    ).replace("\u2800", " "),
    # Halves alone: quarters are not in code page 437.
    "blocks": " ▀▄█",
    # Not the full stop: in ASCII that is a point.
    "ascii": " ',;",
}


class Dots:
    """A picture of dots, several to a cell."""

    def __init__(self, columns: int, rows: int, kind: str = "braille") -> None:
        self.columns, self.rows = columns, rows
        self.across, self.down = _SIZES[kind]
        """Dots of one cell."""
        self._characters = _CHARACTERS[kind]
        self._masks = [0] * (columns * rows)

    def set(self, x: int, y: int) -> None:
        """Draw one dot."""
        column, row = x // self.across, y // self.down
        if 0 <= column < self.columns and 0 <= row < self.rows:
            place = y % self.down * self.across + x % self.across
            self._masks[row * self.columns + column] |= 1 << place

    def curve(self, heights: Iterable[tuple[int, float]], dash: int = 0) -> None:
        """Draw one dot a column, and what is between two columns that follow each other.

        Args:
            heights: (x, y) of neighbouring columns of dots, from the left.
            dash: dots that are drawn and then left out in turn; 0 draws all.
        """
        before: int | None = None
        for x, height in heights:
            y = math.floor(height)
            if not dash or x // dash % 2 == 0:
                first = y if before is None or before == y else before + (1 if y > before else -1)
                for between in range(min(first, y), max(first, y) + 1):
                    self.set(x, between)
            before = y

    def at(self, column: int, row: int) -> str:
        """Return the character of a cell, a blank where there is no dot."""
        return self._characters[self._masks[row * self.columns + column]]
