"""What a Textual app shows, as plain text."""

from __future__ import annotations

import html
import re
from pathlib import Path

from textual.app import App
from textual.geometry import Size
from textual.pilot import Pilot

GOLDEN = Path(__file__).parent / "golden"
CELL = re.compile(
    r'<text class="[^"]*" x="([\d.]+)" y="[\d.]+" textLength="[\d.]+" '
    r'clip-path="url\(#[\w-]*line-(\d+)\)">(.*?)</text>'
)
CELL_WIDTH = 12.2


def screen_text(app: App[int]) -> str:
    """The screen, from Textual's public SVG export; trailing blanks are left out."""
    rows: dict[int, list[str]] = {}
    for x, line, text in CELL.findall(app.export_screenshot()):
        row = rows.setdefault(int(line), [])
        column = round(float(x) / CELL_WIDTH)
        row += " " * (column - len(row))
        row[column:] = html.unescape(text).replace("\xa0", " ")
    return "\n".join("".join(rows.get(y, [])).rstrip() for y in range(app.size.height)) + "\n"


async def resize(pilot: Pilot[int], columns: int, rows: int) -> None:
    """Resize the terminal, and wait until the screen is laid out anew: a timer of Textual's does
    that, for which the pilot does not wait where other programs keep this one from running."""
    await pilot.resize_terminal(columns, rows)
    while pilot.app.screen._compositor.size != Size(columns, rows):
        await pilot.pause()
    await pilot.pause()
