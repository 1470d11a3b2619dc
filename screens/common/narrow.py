"""When a terminal is too small for the roomy form of a screen, the same for all of them."""

from __future__ import annotations

from textual.geometry import Size

NARROW_COLUMNS, NARROW_ROWS = 100, 30
"""Below either the stylesheet leaves no blank rows around a view, and no status."""


def is_narrow(size: Size) -> bool:
    """Whether what stands beside the main part of a screen must lie below it, or go."""
    return size.width < NARROW_COLUMNS or size.height < NARROW_ROWS
