"""When a terminal is too small for the roomy form of a screen, the same for all of them."""

NARROW_COLUMNS, NARROW_ROWS = 100, 30
"""Below either the stylesheet leaves no blank rows around a view, and no status."""


def is_narrow(size: tuple[int, int]) -> bool:
    """Whether what stands beside the main part of a screen must lie below it, or go.

    Args:
        size: columns and rows, such as Textual's ``Size``.
    """
    columns, rows = size
    return columns < NARROW_COLUMNS or rows < NARROW_ROWS
