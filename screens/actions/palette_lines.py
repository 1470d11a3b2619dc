"""The palette's rows: what was typed, then the commands that fit it, on the panel's colour."""

from __future__ import annotations

from collections.abc import Sequence

from tui_profiler.formatting.canvas import UNICODE, Glyphs
from tui_profiler.formatting.text import safe
from tui_profiler.session import EMPTY as NOTHING

from ..widgets.lines import EMPTY, Line, exact, line_width, with_role
from ..widgets.offer_lines import shortened
from ..widgets.rows import Look, finished, row
from .commands import Command

NAME_CELLS = 28
CARET = "▏"


def palette_lines(
    found: Sequence[Command], selected: int, typed: str, size: tuple[int, int], glyphs: Glyphs
) -> tuple[Line, ...]:
    """Return exactly as many lines of exactly as many cells as ``size`` says.

    Args:
        found: what fits, the best first.
        selected: position of the one under the cursor.
        typed: what was typed.
        size: cells and rows.
        glyphs: the set to draw with.
    """
    cells, rows = size
    look = Look(NOTHING, 0, 0.0, cells, glyphs)
    room = max(rows - 3, 1)
    first = max(0, min(selected - room // 2, len(found) - room))
    shown = found[first : first + room]
    lines = [
        _title(len(found), typed, look),
        EMPTY,
        *(_command(one, at == selected, look) for at, one in enumerate(shown, start=first)),
    ]
    if not found:
        nothing = f'no command matches "{safe(typed)}"'
        lines.append(row(((nothing, "muted"), ("  esc clears", "faint")), EMPTY, look))
    drawn = finished(lines, look, rows)
    return tuple(line if _is_marked(line) else with_role(line, "panel") for line in drawn)


def _title(count: int, typed: str, look: Look) -> Line:
    caret = CARET if look.glyphs == UNICODE else "_"
    left: Line = ((": ", "strong accent"), (safe(typed), "ink"), (caret, "accent"))
    if not typed:
        left = (*left, (" type part of a command's name", "faint"))
    return row(left, ((f"{count}", "faint"),), look)


def _command(command: Command, is_selected: bool, look: Look) -> Line:
    ellipsis = look.glyphs.ellipsis
    name_cells = min(NAME_CELLS, look.inner // 2)
    refused = bool(command.why_not)
    ink = "strong accent" if is_selected else "strong ink"
    name: Line = ((safe(command.name), "faint" if refused else ink),)
    written = command.key.replace(UNICODE.enter, look.glyphs.enter)
    key: Line = ((written, "faint" if refused else "strong accent"),)
    room = look.inner - 2 - name_cells - line_width(key) - 2
    words = f"not now: {safe(command.why_not)}" if refused else command.help
    said: Line = ((shortened(words, room, ellipsis), "faint" if refused else "muted"),)
    line: Line = (
        *exact(name, name_cells, ellipsis),
        (" ", "ink"),
        *exact(said, max(room, 0), ellipsis),
        ("  ", "ink"),
        *key,
    )
    mark = (look.glyphs.cursor if is_selected else " ", "accent")
    drawn = (mark, (" ", "ink"), *exact(line, look.inner - 1, ellipsis), (" ", "ink"))
    return with_role(drawn, "cursor") if is_selected else drawn


def _is_marked(line: Line) -> bool:
    return all("cursor" in role for _, role in line)
