"""A report for reading, as lines for a terminal or a text file.

1. No line is wider than the cells that are asked for, and none holds anything but safe text.
2. Names are cut first; figures never.
"""

from collections.abc import Iterator

from tui_profiler.figures.units import thousands
from tui_profiler.formatting.text import fit, middle, safe, width, wrap
from tui_profiler.reports.document import Facts, Grid, Note, Part, Section

LEAST_COLUMNS = 90
"""A narrower terminal wraps the lines: better than losing figures."""

LABEL_CELLS = 17
_MOST_LINES = 6
"""Of one field."""
_LEAST_NAME = 14
_MOST_INDENT = 24
_LEAST_WORDS, _MOST_WORDS = 8, 28
"""Cells of a column of names that is not the first."""
_GAP = 2


def as_text(title: str, sections: tuple[Section, ...], columns: int) -> tuple[str, ...]:
    """Return the report as lines.

    Args:
        title: of the whole report.
        sections: in their order.
        columns: cells of the widest line; at least 90 are taken.
    """
    cells = max(columns, LEAST_COLUMNS)
    name = in_cells(safe(title), cells)
    lines = [name, "=" * width(name)]
    for number, section in enumerate(sections, start=1):
        lines += ["", *_section(number, section, cells)]
    return tuple(lines)


def _section(number: int, section: Section, cells: int) -> Iterator[str]:
    says = f" -- {section.provenance}" if section.provenance else ""
    line = in_cells(safe(f"{number}. {section.title}{says}"), cells)
    yield line
    yield "-" * width(line)
    for place, part in enumerate(section.parts):
        if place:
            yield ""
        yield from part_lines(part, cells)


def part_lines(part: Part, cells: int) -> Iterator[str]:
    """Yield the lines of one part."""
    match part:
        case Note(text=text):
            yield from wrap(safe(text), cells)
        case Facts(rows=rows):
            for label, text in rows:
                yield from wrap_field(field(safe(label), safe(text)), cells)
        case Grid():
            yield from _grid(part, cells)


def _grid(grid: Grid, cells: int) -> Iterator[str]:
    rows = [tuple(map(safe, row)) for row in grid.rows]
    titles = tuple(column.title for column in grid.columns)
    widths = [max(map(width, each)) for each in zip(titles, *rows, strict=True)]
    rest = _make_room(grid, widths, cells - _LEAST_NAME)
    indents = [min(2 * depth, _MOST_INDENT) for depth in grid.depths] or [0] * len(rows)
    wanted = max((width(row[0]) + by for row, by in zip(rows, indents, strict=True)), default=0)
    room = max(min(max(wanted, width(titles[0])), cells - rest), _LEAST_NAME)
    yield in_cells(fit(titles[0], room) + _figures(grid, titles, widths), cells)
    for row, wish in zip(rows, indents, strict=True):
        indent = min(wish, max(room - min(width(row[0]), _LEAST_NAME), 0))
        name = " " * indent + fit(middle(row[0], room - indent), room - indent)
        yield in_cells(name + _figures(grid, row, widths), cells)
    if grid.left_out:
        yield f"and {thousands(grid.left_out)} more"


def _make_room(grid: Grid, widths: list[int], most: int) -> int:
    """Narrow the columns of names, all but the first; return the cells of all but the first."""
    words = [at for at, column in enumerate(grid.columns) if at and column.side == "left"]
    for at in words:
        widths[at] = min(widths[at], _MOST_WORDS)
    while (rest := sum(each + _GAP for each in widths[1:])) > most:
        widest = max(words, key=widths.__getitem__, default=0)
        if not words or widths[widest] <= _LEAST_WORDS:
            break
        widths[widest] -= 1
    return rest


def _figures(grid: Grid, row: tuple[str, ...], widths: list[int]) -> str:
    """Return all cells but the first, each in its column."""
    found = []
    for column, cell, cells in zip(grid.columns[1:], row[1:], widths[1:], strict=True):
        blanks = " " * (cells - width(cell))
        shown = fit(middle(cell, cells), cells) if column.side == "left" else blanks + cell
        found.append(" " * _GAP + shown)
    return "".join(found)


def heading(title: str, provenance: str) -> str:
    """Return the heading of a section: its title and the source of its figures."""
    return f"{title} -- {provenance}" if provenance else title


def field(label: str, text: str) -> str:
    """Return a line with a label, at least one space and the text."""
    return f"  {label:<{LABEL_CELLS - 1}} {text}"


def wrap_field(line: str, cells: int) -> list[str]:
    """Return a line that fits: a labelled text continues below its start, anything else is cut."""
    indent = 2 + LABEL_CELLS
    label, text = line[:indent], line[indent:]
    if width(line) <= cells or not line.startswith("  ") or width(label) != indent:
        return [in_cells(line, cells)]
    gap = " " * text.startswith(" ")  # After a label that fills its column.
    parts = _folded(text.strip(), cells - indent - len(gap))
    if len(parts) > _MOST_LINES:
        parts = [*parts[: _MOST_LINES - 1], fit(f"{parts[_MOST_LINES - 1]} …", cells - indent)]
    return [
        f"{label + gap if place == 0 else ' ' * indent}{part}".rstrip()
        for place, part in enumerate(parts)
    ]


def _folded(text: str, cells: int) -> list[str]:
    """Break at commas; what is longer than a line, between words."""
    lines = [""]
    for part in text.replace(", ", ",\0").split("\0"):
        joined = f"{lines[-1]} {part}".strip()
        if width(joined) <= cells:
            lines[-1] = joined
        else:
            lines += wrap(part, cells)
    return lines if lines[0] else lines[1:]


def in_cells(line: str, cells: int) -> str:
    """Cut a line to so many cells, without blanks at its end."""
    return fit(line, cells).rstrip()
