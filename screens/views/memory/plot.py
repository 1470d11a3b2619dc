"""The drawing of memory over one forward: columns of live bytes, the peak, weights, block names.

1. The plot begins after a margin of ``MARGIN`` cells and ends one cell before the right end.
2. Greys only: tensors are faint, scratch memory is muted, the step under the cursor is ink and goes
   on through the band of the weights, so that it is found without colours as well.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby

from msgspec import Struct

from tui_profiler.figures.units import size, thousands
from tui_profiler.formatting.canvas import ASCII
from tui_profiler.formatting.text import fit, middle, safe, width
from tui_profiler.queries.forward.memory import Column, blocks, columns, module_at, peak_step, place
from tui_profiler.session import Tree
from tui_profiler.session.columns import Memory

from ...widgets.lines import EMPTY, Line, Span, line_width
from ...widgets.rows import Look

MARGIN = 10
"""Cells before the first column: a blank, eight of the scale, its line."""
_EIGHTHS = 8
_TICK_BYTES = 64
"""The least bytes between two marks of the scale."""


class Plot(Struct, frozen=True, eq=False):
    """What is drawn, and where the cursor is."""

    look: Look
    tree: Tree
    memory: Memory
    step: int
    """Under the cursor."""
    weights: float
    """Bytes in parameters and buffers."""

    @property
    def cells(self) -> int:
        """Columns of the plot."""
        return max(self.look.cells - MARGIN - 1, 1)


def plot_lines(plot: Plot, rows: int) -> tuple[Line, ...]:
    """Return ``rows`` lines of columns, then the band of the weights and the names of blocks."""
    cursor = place(plot.memory, plot.step, plot.cells)
    lines = column_lines(columns(plot.memory, plot.cells), rows, cursor, plot.look)
    texts = ("weights, constant through the forward", "weights")
    return (*lines, band(texts, plot.weights, cursor, plot.look), _names(plot))


def column_lines(
    drawn: Sequence[Column], rows: int, cursor: tuple[int, int], look: Look
) -> tuple[Line, ...]:
    """Return ``rows`` lines of columns behind a scale; ``cursor`` is its first and last column."""
    tick, tick_rows = _scale(max(column.whole for column in drawn), rows)
    heights = [_heights(column, tick, tick_rows) for column in drawn]
    return tuple(
        (*_margin(row, tick, tick_rows, look), *_row(heights, row, cursor, look))
        for row in range(rows - 1, -1, -1)
    )


def peak_line(plot: Plot) -> Line:
    """Return row above the plot: what the peak is, and where; as much as fits beside its mark."""
    memory = plot.memory
    step = peak_step(memory)
    at = MARGIN + place(memory, step, plot.cells)[0]
    label: Line = (
        (f"peak {total_text(plot, step)}", "strong ink"),
        (f"  {place_text(plot, step)}", "ink"),
        (f"  {step_text(memory, step)}", "muted"),
    )
    return marked(at, label, plot.look)


def marked(at: int, label: Line, look: Look) -> Line:
    """Return the row with the mark of the peak in a cell, and as much beside it as fits."""
    mark, cells = (look.glyphs.peak, "accent"), look.cells
    for count in range(len(label), 0, -1):
        part = label[:count]
        taken = line_width(part) + 1
        if at + 1 + taken < cells:
            return ((" " * at, "ink"), mark, (" ", "ink"), *part)
        if at > taken:
            return ((" " * (at - taken), "ink"), *part, (" ", "ink"), mark)
    return ((" " * at, "ink"), mark)


def total_text(plot: Plot, step: int) -> str:
    """Return all that is alive at a step; at least that, where scratch memory is not known."""
    least = "" if plot.memory.knows_workspace else "≥ "
    return least + size(plot.weights + plot.memory.whole[step])


def place_text(plot: Plot, step: int) -> str:
    """Return the module whose operator a step is; its name where it is the root."""
    node = plot.tree.nodes[module_at(plot.tree, plot.memory, step)]
    return middle(safe(node.path or node.name), 40, plot.look.glyphs.ellipsis)


def step_text(memory: Memory, step: int) -> str:
    """Return which operator call a step is, and of how many."""
    return f"step {thousands(memory.ordinals[step] + 1)} of {thousands(memory.steps.calls)}"


def _scale(most: int, rows: int) -> tuple[int, int]:
    """Return the bytes between two marks, a power of two, and the rows between them."""
    tick = _TICK_BYTES
    while tick * 4 <= most or rows * tick < most:
        tick *= 2
    return tick, max(rows * tick // max(most, 1), 1)


def _heights(column: Column, tick: int, tick_rows: int) -> tuple[int, int]:
    """Return eighths of rows: of what is in tensors, and of everything."""
    live, whole = (
        max(round(value / tick * tick_rows * _EIGHTHS), min(value, 1))
        for value in (column.live, column.whole)
    )
    return live, whole


def _margin(row: int, tick: int, tick_rows: int, look: Look) -> Line:
    marks, rest = divmod(row + 1, tick_rows)
    if rest:
        return ((" " * (MARGIN - 1), "muted"), (look.glyphs.divider, "hairline"))
    digits, unit = size(marks * tick).split()
    digits = digits.rstrip("0").rstrip(".") if "." in digits else digits
    return ((f"+{digits} {unit}".rjust(MARGIN - 1), "muted"), (look.glyphs.tick, "hairline"))


def _row(
    heights: Sequence[tuple[int, int]], row: int, cursor: tuple[int, int], look: Look
) -> list[Span]:
    cells = []
    for at, (live, whole) in enumerate(heights):
        filled = min(max(whole - row * _EIGHTHS, 0), _EIGHTHS)
        tensors = min(max(live - row * _EIGHTHS, 0), filled)
        is_scratch = filled - tensors > tensors
        text = look.glyphs.levels[filled]
        if is_scratch and look.glyphs == ASCII:
            text = "w"
        role = "ink" if cursor[0] <= at <= cursor[1] else "muted" if is_scratch else "faint"
        cells.append((text, role if filled else "ink"))
    return _joined(cells)


def band(texts: Sequence[str], constant: float, cursor: tuple[int, int], look: Look) -> Line:
    """Return the row of what is there all the time; its text keeps off the cursor.

    Args:
        texts: the first that fits is written.
        constant: bytes.
        cursor: its first and last column.
        look: what is looked at.
    """
    glyphs, cells = look.glyphs, max(look.cells - MARGIN - 1, 1)
    middle_cell = cells // 2
    is_left = cursor[0] >= middle_cell
    room = cursor[0] - 1 if is_left else cells - cursor[1] - 2
    text = next((f" {text} " for text in texts if len(text) + 2 <= room), "")
    start = 0 if is_left else max(cells - len(text), 0)
    row = [" "] * cells
    row[start : start + len(text)] = text
    full = glyphs.levels[-1]
    drawn = [
        (full, "ink") if cursor[0] <= at <= cursor[1] else (letter, "muted panel")
        for at, letter in enumerate(row)
    ]
    figure = size(constant).rjust(MARGIN - 1)
    return ((figure, "muted"), (glyphs.tick, "hairline"), *_joined(drawn))


def _names(plot: Plot) -> Line:
    """Return the row of block names; of names that meet, the one with more steps is written."""
    found = sorted(blocks(plot.tree, plot.memory), key=lambda one: -one.steps)
    starts = [(place(plot.memory, one.first, plot.cells)[0], one.name) for one in found]
    return names_line(starts, plot.look)


def names_line(starts: Iterable[tuple[int, str]], look: Look) -> Line:
    """Return the row of names below the columns that they begin at; the first of two that meet."""
    cells, mark = max(look.cells - MARGIN - 1, 1), look.glyphs.begin
    row = [""] * cells
    for at, name in starts:
        text = mark + safe(name)
        stop = at + width(text)
        if stop <= cells and not any(row[max(at - 1, 0) : stop + 1]):
            row[at] = text
            row[at + 1 : stop] = ["\0"] * (stop - at - 1)
    drawn = "".join(part or " " for part in row).replace("\0", "")
    return ((" " * MARGIN, "ink"), (fit(drawn, cells), "muted")) if drawn.strip() else EMPTY


def _joined(cells: Sequence[Span]) -> list[Span]:
    """Join neighbours of one role."""
    runs = groupby(cells, key=lambda cell: cell[1])
    return [("".join(text for text, _ in run), role) for role, run in runs]
