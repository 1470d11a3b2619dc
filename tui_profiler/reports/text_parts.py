"""Small parts of a text report."""

from __future__ import annotations

from collections.abc import Callable

from tui_profiler.messages import Figure, Unknown
from tui_profiler.text import fit, safe
from tui_profiler.units import UNAVAILABLE

LABEL_CELLS = 17


def heading(title: str, provenance: str) -> str:
    """Give the first line of a section: what it holds and where its figures are from."""
    return f"{title} -- {provenance}" if provenance else title


def field(label: str, text: str) -> str:
    """Give a line with a label."""
    return f"  {label:<{LABEL_CELLS}}{text}"


def figure(value: Figure, written: Callable[[float], str]) -> str:
    """Give a figure, or a dash and the reason why there is none."""
    if isinstance(value, Unknown):
        return f"{UNAVAILABLE} ({safe(value.reason)})"
    return written(value)


def in_cells(line: str, cells: int) -> str:
    """Cut a line to so many cells, without blanks at its end."""
    return fit(line, cells).rstrip()
