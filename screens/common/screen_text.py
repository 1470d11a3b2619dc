"""What a screen shows, as rows of text: put together from its widgets, which all draw lines."""

from __future__ import annotations

from textual.widget import Widget

from tui_profiler.formatting.text import fit

from ..widgets.lines import LinesWidget, exact, text


def screen_rows(screen: Widget) -> tuple[str, ...]:
    """Give the rows from the top, blank ends left out."""
    rows: list[list[tuple[int, str]]] = [[] for _ in range(screen.size.height)]
    for widget in screen.query(LinesWidget):
        region = widget.region
        for y, line in enumerate(widget.lines[: region.height]):
            if region.width and 0 <= region.y + y < len(rows):
                rows[region.y + y].append((region.x, text(exact(line, region.width))))
    return tuple(_joined(parts).rstrip() for parts in rows)


def _joined(parts: list[tuple[int, str]]) -> str:
    row = ""
    for x, part in sorted(parts):
        row = fit(row, x) + part
    return row
