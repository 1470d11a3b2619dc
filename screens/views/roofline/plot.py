"""The plot of the roofline: axes, roofs, points, and the name of the selected node beside it.

1. A cell shows one thing; what comes later covers what came before: roofs, points, labels, and the
   selected node last.
2. A label lies within the plot, and where it hides the fewest points.
"""

from collections.abc import Iterator

from msgspec import Struct

from tui_profiler.figures.units import intensity, rate, share
from tui_profiler.formatting.canvas import Glyphs
from tui_profiler.formatting.plot import Axis, Dots, decade_label
from tui_profiler.formatting.text import width
from tui_profiler.queries.cost.bound_classes import KINDS
from tui_profiler.queries.cost.roofline import NodeRoofline, Roof
from tui_profiler.queries.cost.roofline_view import LARGE, RooflineView, Spot
from tui_profiler.queries.training.backward_roofline import BACKWARD
from tui_profiler.queries.tree.names import fitted

from ...widgets.lines import Line
from ...widgets.rows import Look, mark_of

SCALE = 8
"""Cells left of the plot: a blank, the labels of the decades, the axis."""
BELOW = 2
"""Rows below the plot: the axis and its labels."""
LEAST_COLUMNS, LEAST_ROWS = 24, 5
"""Of the plot itself; smaller says nothing."""
_DASH = 3
_PREFIXES = ((1e12, "T", 12), (1e9, "G", 9), (1e6, "M", 6), (1.0, "", 0))


class Grid:
    """Cells with a character and a role each."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self._characters = [[" "] * columns for _ in range(rows)]
        self._roles = [["ink"] * columns for _ in range(rows)]

    def put(self, column: int, row: int, character: str, role: str) -> None:
        """Fill one cell with a character of one cell."""
        self._characters[row][column] = character
        self._roles[row][column] = role

    def write(self, column: int, row: int, text: str, role: str) -> None:
        """Write safe text that fits from ``column`` on."""
        last = column
        for character in text:
            cells = width(character)
            if cells == 0:
                self._characters[row][last] += character
                continue
            for at in range(column, column + cells):
                self.put(at, row, "", role)
            self._characters[row][column] = character
            last, column = column, column + cells

    def is_blank(self, column: int, row: int, cells: int) -> bool:
        """Say if a run of cells within the grid is empty."""
        inside = 0 <= row < self.rows and column >= 0 and column + cells <= self.columns
        return inside and self.taken(column, row, cells) == 0

    def taken(self, column: int, row: int, cells: int) -> int:
        """Return how many cells of a run are not empty."""
        return sum(c != " " for c in self._characters[row][column : column + cells])

    def line(self, row: int) -> Line:
        """Return one row as a line."""
        spans: list[tuple[str, str]] = []
        for character, role in zip(self._characters[row], self._roles[row], strict=True):
            if spans and (spans[-1][1] == role or character in ("", " ")):
                spans[-1] = (spans[-1][0] + character, spans[-1][1])
            else:
                spans.append((character, role))
        return tuple(spans)


class Scale(Struct, frozen=True):
    """In which unit the axis of rates is written."""

    unit: str
    power: int
    """Of ten: what the unit's prefix stands for."""


def scale_of(axis: Axis) -> Scale:
    """Choose the unit by the upper end: its figures have at most four digits."""
    _, prefix, power = next(
        (each for each in _PREFIXES if 10**axis.high >= each[0] * 10), _PREFIXES[-1]
    )
    return Scale(f"{prefix}FLOP/s", power)


def plot_lines(
    look: Look,
    view: RooflineView,
    at: NodeRoofline | None,
    rows: int,
    beside: RooflineView | None = None,
) -> list[Line]:
    """Return ``rows`` lines of ``look.cells`` with the plot, its axes and their labels.

    Args:
        look: the session, the width and the set of characters.
        view: the points, the roofs and the axes.
        at: the selected node, None where there is none.
        rows: lines, those of the lower axis included.
        beside: points of the other direction.
    """
    columns, high = look.cells - SCALE - 2, rows - BELOW
    grid = Grid(columns, high)
    _draw_roofs(grid, view, look.glyphs)
    if beside is not None:
        _draw_points(grid, beside, look)
    _draw_points(grid, view, look)
    _label_roofs(grid, view)
    if beside is not None:
        _mark_other(grid, beside, look)
    if at is not None:
        _draw_selected(grid, view, at, look)
    return [*_framed(grid, view.y, look.glyphs), *_below(view, columns, look)]


def _framed(grid: Grid, axis: Axis, glyphs: Glyphs) -> Iterator[Line]:
    power = scale_of(axis).power
    labels = {_row(axis, 10.0**decade, grid.rows): decade for decade in axis.decades()}
    for row in range(grid.rows):
        decade = labels.get(row)
        label = decade_label(decade - power) if decade is not None else ""
        tick = glyphs.divider if decade is None else glyphs.axes[1]
        yield (
            (label.rjust(SCALE - 1), "muted"),
            (tick, "hairline"),
            *grid.line(row),
            ("  ", "ink"),
        )


def _row(axis: Axis, value: float, rows: int) -> int | None:
    """Return the row of a value, counted from the top; None beyond the axis."""
    height = rows - axis.place(value, rows)
    return min(int(height + 1e-9), rows - 1) if -1e-9 <= height <= rows + 1e-9 else None


def _draw_roofs(grid: Grid, view: RooflineView, glyphs: Glyphs) -> None:
    main, others = _shown_roofs(view)
    if not main and view.roofs.bytes_per_second:
        main = [Roof("", 10 ** (view.y.high + 1), 0.0)]  # Only the slope is known.
    if main:
        dots = Dots(grid.columns, grid.rows, glyphs.dots)
        for _, bytes_per_second in view.roofs.caches:
            dots.curve(_heights(dots, view, main[0], bytes_per_second, flat=False), _DASH)
        _put_dots(grid, dots, "faint")
    for drawn, role, dash in ((others, "faint", _DASH), (main, "muted", 0)):
        dots = Dots(grid.columns, grid.rows, glyphs.dots)
        for roof in drawn:
            memory = view.roofs.bytes_per_second
            dots.curve(_heights(dots, view, roof, memory, slope=not dash), dash)
        _put_dots(grid, dots, role)


def _put_dots(grid: Grid, dots: Dots, role: str) -> None:
    for row in range(grid.rows):
        for column in range(grid.columns):
            if (character := dots.at(column, row)) != " ":
                grid.put(column, row, character, role)


def _shown_roofs(view: RooflineView) -> tuple[list[Roof], list[Roof]]:
    """Return the roofs that the model computes under, and higher ones that it could."""
    every = view.roofs.compute
    main = [roof for roof in every if roof.flops] or list(every[:1])
    highest = max((roof.flops_per_second for roof in main), default=0.0)
    return main, [r for r in every if r not in main and r.flops_per_second > highest]


def _heights(
    dots: Dots,
    view: RooflineView,
    roof: Roof,
    rate: float | None,
    *,
    slope: bool = True,
    flat: bool = True,
) -> Iterator[tuple[int, float]]:
    """Yield the dots of one roof from the left, with or without its slope and what is flat.

    Args:
        dots: that are set.
        view: the axes.
        roof: which one.
        rate: bytes per second of the slope; None where it is not known.
        slope: whether the dots of the slope are wanted.
        flat: whether those right of it are.
    """
    across, down = dots.columns * dots.across, dots.rows * dots.down
    x, y = view.x, view.y
    for dot in range(across):
        at = 10 ** (x.low + (x.high - x.low) * (dot + 0.5) / across)
        reach = at * rate if rate else roof.flops_per_second
        if not (slope if reach < roof.flops_per_second else flat):
            continue
        height = down - y.place(min(reach, roof.flops_per_second), down)
        if -down < height < 2 * down:
            yield dot, height


def _draw_points(grid: Grid, view: RooflineView, look: Look) -> None:
    for spot in view.spots(grid.columns, grid.rows).spots:
        role = (spot.kind or "muted") if spot.size else "faint"
        glyph = point_of(spot, look.glyphs, is_backward=view.work is BACKWARD)
        grid.put(spot.column, spot.row, glyph, role)


def point_of(spot: Spot, glyphs: Glyphs, *, is_backward: bool = False) -> str:
    """Return a point by what holds it back and by its size: no colour is needed to tell it.

    Points of a backward tell by their character that they are: the list has the bound's sign.
    """
    is_large = spot.size == LARGE
    if is_backward:
        return glyphs.back[is_large]
    if spot.kind is None:
        return glyphs.points[is_large]
    return mark_of(spot.kind, glyphs) if is_large else glyphs.small[KINDS.index(spot.kind)]


def _label_roofs(grid: Grid, view: RooflineView) -> None:
    """Name the flat roofs left of where they begin, and the slope above its middle."""
    slope = view.roofs.bytes_per_second
    main, others = _shown_roofs(view)
    for roof in (*main, *others):
        text = f"{roof.dtype}  {rate(roof.flops_per_second, 'FLOP/s')}"
        ridge = roof.flops_per_second / slope if slope else 10**view.x.low
        row = _row(view.y, roof.flops_per_second, grid.rows)
        end = int(view.x.place(ridge, grid.columns)) - 1
        role = "muted" if roof in main else "faint"
        if row is not None:
            _label(grid, text, end, row, role)
    if slope:
        _label_slope(grid, view, f"memory  {rate(slope, 'B/s')}", slope)
    for name, bytes_per_second in view.roofs.caches:
        text = f"{name}  {rate(bytes_per_second, 'B/s')}"
        _label_slope(grid, view, text, bytes_per_second, "faint")


def _label(grid: Grid, text: str, end: int, row: int, role: str) -> bool:
    """Write a label that ends before ``end`` where it is free, one row up or not at all."""
    start = end - width(text)
    for at in (row, row - 1):
        if grid.is_blank(start - 1, at, width(text) + 2):
            grid.write(start, at, text, role)
            return True
    return False


def _label_slope(
    grid: Grid, view: RooflineView, text: str, slope: float, role: str = "muted"
) -> None:
    for row in sorted(range(grid.rows), key=lambda row: abs(row - grid.rows * 0.45)):
        power = view.y.high - (row + 0.5) / grid.rows * (view.y.high - view.y.low)
        end = int(view.x.place(10**power / slope, grid.columns)) - 2
        if end < grid.columns and _label(grid, text, end, row, role):
            return


def _draw_selected(grid: Grid, view: RooflineView, at: NodeRoofline, look: Look) -> None:
    if not at.intensity or not at.achieved:
        return
    column = view.x.cell(at.intensity, grid.columns)
    row = _row(view.y, at.achieved, grid.rows)
    if column is None or row is None:
        return
    reached = f"  {share(at.share)}" if at.share is not None else ""
    room = max(min(grid.columns - width(reached), 44), 1)
    text = fitted(at.name, room, look.glyphs.ellipsis) + reached
    cells = width(text)
    found = _free_place(grid, column, row, cells)
    if found is not None:
        start, line = found
        between = range(min(line, row) + 1, max(line, row))
        if all(grid.is_blank(column, each, 1) for each in between):
            for each in between:
                grid.put(column, each, look.glyphs.divider, "accent")
        for edge in (start - 1, start + cells):
            if 0 <= edge < grid.columns:
                grid.put(edge, line, " ", "ink")
        grid.write(start, line, text, "strong ink")
    grid.put(column, row, look.glyphs.points[2], "strong accent")


def _mark_other(grid: Grid, view: RooflineView, look: Look) -> None:
    """Mark the point of the selected node in the other direction."""
    at = view.node(look.node)
    if at is None or not at.intensity or not at.achieved:
        return
    column, row = view.x.cell(at.intensity, grid.columns), _row(view.y, at.achieved, grid.rows)
    if column is not None and row is not None:
        is_backward = view.work is BACKWARD
        mark = look.glyphs.back[1] if is_backward else look.glyphs.points[1]
        grid.put(column, row, mark, "strong accent")


def _free_place(grid: Grid, column: int, row: int, cells: int) -> tuple[int, int] | None:
    """Return the first cell and the row for a label of the point at (column, row): rule 2."""
    over = max(0, min(column - cells // 2, grid.columns - cells))
    places = [(over, row + 2), (over, row + 3), (column + 2, row), (column - cells - 1, row)]
    places += [(over, row - 2), (over, row - 3), (over, row + 1), (over, row - 1)]
    inside = [
        (start, line)
        for start, line in places
        if 0 <= line < grid.rows and start >= 0 and start + cells <= grid.columns
    ]

    def hidden(place: tuple[int, int]) -> int:
        start, line = place
        way = range(min(line, row) + 1, max(line, row))
        crossed = sum(grid.taken(column, each, 1) for each in way)
        return grid.taken(start, line, cells) + 2 * crossed

    return min(inside, key=hidden, default=None)


def _below(view: RooflineView, columns: int, look: Look) -> tuple[Line, Line]:
    """Return the lower axis and its labels: the unit, the ridge, and the decades that have room."""
    glyphs = look.glyphs
    axis = Grid(columns, 1)
    labels = Grid(columns + 2, 1)  # A label may reach over the end of the axis.
    axis.write(0, 0, glyphs.rule * columns, "hairline")
    unit = "FLOP/B"
    labels.write(columns - len(unit), 0, unit, "muted")
    ridge = view.roofs.ridge
    at = view.x.cell(ridge, columns) if ridge else None
    if ridge and at is not None:
        figure, mark = intensity(ridge), glyphs.axes[3]
        left = f"ridge {figure} {mark}"
        places = ((f"{mark} ridge {figure}", at), (left, at + 1 - width(left)))
        for text, start in (places[0], (f"{mark} {figure}", at), places[1]):
            if labels.is_blank(start - 1 if start else 0, 0, width(text) + 2):
                labels.write(start, 0, text, "muted")
                break
    for decade in view.x.decades():
        place = view.x.cell(10.0**decade, columns)
        if place is None:
            continue
        axis.put(place, 0, glyphs.axes[2], "hairline")
        text = decade_label(decade)
        start = max(place - len(text) // 2, 0)
        if labels.is_blank(max(start - 1, 0), 0, len(text) + 2):
            labels.write(start, 0, text, "muted")
    margin = (" " * (SCALE - 1), "ink")
    return (
        (margin, (glyphs.axes[0], "hairline"), *axis.line(0), ("  ", "ink")),
        (margin, (" ", "ink"), *labels.line(0)),
    )
