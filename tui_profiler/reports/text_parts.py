"""Small parts of a text report."""

from __future__ import annotations

from collections.abc import Callable

from tui_profiler.figures.units import UNAVAILABLE
from tui_profiler.formatting.text import fit, safe, width, wrap
from tui_profiler.messages import Figure, Unknown

LABEL_CELLS = 17
_MOST_LINES = 6
"""Of one field."""


def heading(title: str, provenance: str) -> str:
    """Return the first line of a section: what it holds and where its figures are from."""
    return f"{title} -- {provenance}" if provenance else title


def field(label: str, text: str) -> str:
    """Return a line with a label."""
    return f"  {label:<{LABEL_CELLS}}{text}"


def figure(value: Figure, written: Callable[[float], str]) -> str:
    """Return a figure, or a dash and the reason why there is none."""
    if isinstance(value, Unknown):
        return f"{UNAVAILABLE} ({safe(value.reason)})"
    return written(value)


def folded(line: str, cells: int) -> list[str]:
    """Return a line that fits: what has a label goes on below its text, anything else is cut."""
    indent = 2 + LABEL_CELLS
    label, text = line[:indent], line[indent:]
    if width(line) <= cells or not line.startswith("  ") or width(label) != indent:
        return [in_cells(line, cells)]
    parts = _folded(text.strip(), cells - indent)
    if len(parts) > _MOST_LINES:
        parts = [*parts[: _MOST_LINES - 1], fit(f"{parts[_MOST_LINES - 1]} …", cells - indent)]
    return [
        f"{label if place == 0 else ' ' * indent}{part}".rstrip()
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
