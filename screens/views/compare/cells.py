"""What every row of the compare screen is made of: four columns of figures, and their colours."""

from __future__ import annotations

from msgspec import Struct

from tui_profiler.formatting.text import width
from tui_profiler.queries.compare.comparison import Comparison, Pair
from tui_profiler.queries.compare.rows import View
from tui_profiler.queries.panel.state import State

from ...widgets.lines import EMPTY, Line, exact, line_width
from ...widgets.rows import Look

WIDE = 100
FIGURE, DIFFERENCE, RATIO = 10, 12, 8
NARROW_FIGURE, NARROW_DIFFERENCE, NARROW_RATIO = 9, 10, 7
BAR = 12


class SideLook(Struct, frozen=True):
    """What the head says of one side."""

    label: str
    words: str
    """What it is, in a few words; safe."""
    state: State
    complaint: str
    """Why it is of no more use; empty while it is."""


class CompareLook(Struct, frozen=True, eq=False):
    """What the view is drawn from."""

    compared: Comparison
    view: View
    visible: tuple[int, ...]
    sides: tuple[SideLook, SideLook]
    turns: str
    """What is done now, in a few words."""


def delta(look: Look) -> str:
    """Return the title of the column of differences."""
    return "B-A" if look.glyphs.dash == "-" else "B−A"


def figure_roles(pair: Pair, difference: float | None) -> tuple[str, str, str, str]:
    """Return the colours: more is a warning, less is not, what is not ranked is neither."""
    if not difference or not pair.is_ranked:
        return ("muted", "muted", "faint", "faint")
    role = "warning" if difference > 0 else "accent"
    return ("ink", "ink", f"strong {role}", role)


def figure_cells(texts: tuple[str, str, str, str], roles: tuple[str, ...], look: Look) -> Line:
    """Return A, B, the difference and the ratio, each in its column."""
    cells = (FIGURE, FIGURE, DIFFERENCE, RATIO)
    if look.cells < WIDE:
        cells = (NARROW_FIGURE, NARROW_FIGURE, NARROW_DIFFERENCE, NARROW_RATIO)
    return tuple(
        (" " * max(room - width(text), 1) + text, role)
        for text, room, role in zip(texts, cells, roles, strict=True)
    )


def with_figures(
    left: Line, cells: Line, look: Look, bar: Line = EMPTY, *, pad: bool = True
) -> Line:
    """Return a row: names, figures, and at the right end a bar where there is room for one."""
    is_wide = look.cells >= WIDE
    right = (*cells, *exact((("  ", "ink"), *bar), BAR + 2)) if is_wide else cells
    room = look.cells - 1 - line_width(right)
    padded = ((" ", "ink"), *left) if pad else left
    return (*exact(padded, max(room, 1), look.glyphs.ellipsis), *right, (" ", "ink"))
