"""The palette: every command by name. Typing searches, enter runs the one under the cursor."""

from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from tui_profiler.formatting.canvas import UNICODE, Glyphs
from tui_profiler.formatting.text import safe
from tui_profiler.session import EMPTY as NOTHING

from ..widgets.line_widgets import LinesWidget
from ..widgets.lines import EMPTY, Line, exact, line_width, with_role
from ..widgets.offer_lines import shortened
from ..widgets.prompt import MAX_LENGTH
from ..widgets.rows import Look, finished, first_row, row
from .commands import Command, matching

MOST_CELLS, MOST_ROWS = 120, 20


class PaletteScreen(ModalScreen[Command | None]):
    """Lies over the screen that it was opened from; dismissed with the command that was chosen."""

    CSS = """
    PaletteScreen { background: transparent; }
    PaletteScreen #palette { background: $panel; offset: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,ctrl+p", "dismiss(None)", show=False),
        Binding("up", "move(-1)", show=False),
        Binding("down", "move(1)", show=False),
        Binding("pageup", "move(-10)", show=False),
        Binding("pagedown", "move(10)", show=False),
        Binding("enter", "choose", show=False),
    ]

    def __init__(self, found: tuple[Command, ...], glyphs: Glyphs = UNICODE) -> None:
        super().__init__()
        self._commands = self._found = found
        self._glyphs = glyphs
        self._typed = ""
        self._selected = 0

    def compose(self) -> ComposeResult:
        """One panel."""
        yield LinesWidget(id="palette")

    def on_mount(self) -> None:
        """Show every command."""
        self._search("")

    def on_resize(self) -> None:
        """Take the room that there is."""
        self._draw()

    def on_key(self, event: events.Key) -> None:
        """Search for what is typed."""
        if event.key == "backspace":
            self._search(self._typed[:-1])
        elif event.key == "ctrl+u":
            self._search("")
        elif event.character is not None and event.character.isprintable():
            self._search(self._typed + event.character)
        else:
            return
        event.stop()

    def on_paste(self, event: events.Paste) -> None:
        """Search for what is pasted, its first line."""
        line = event.text.split("\n", maxsplit=1)[0]
        self._search(self._typed + "".join(filter(str.isprintable, line)))

    def action_move(self, by: int) -> None:
        """Move the cursor."""
        self._selected = max(0, min(self._selected + by, len(self._found) - 1))
        self._draw()

    def action_choose(self) -> None:
        """Leave with the command under the cursor; one that is refused says why already."""
        if self._found and not self._found[self._selected].why_not:
            self.dismiss(self._found[self._selected])

    def _search(self, typed: str) -> None:
        self._typed = typed[:MAX_LENGTH]
        self._found, self._selected = matching(self._typed, self._commands), 0
        self._draw()

    def _draw(self) -> None:
        cells, rows = min(self.size.width, MOST_CELLS), min(self.size.height - 2, MOST_ROWS)
        if cells > 4 and rows > 0:
            panel = self.query_one("#palette", LinesWidget)
            panel.styles.width, panel.styles.height = cells, rows
            panel.lines = palette_lines(
                self._found, self._selected, self._typed, (cells, rows), self._glyphs
            )


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
    first = first_row(selected, len(found), room)
    shown = found[first : first + room]
    lines = [
        _title(len(found), typed, look),
        EMPTY,
        *(_command(one, at == selected, look) for at, one in enumerate(shown, start=first)),
    ]
    if not found:
        nothing = f'no command matches "{safe(typed)}"'
        lines.append(row(((nothing, "muted"), ("  esc closes", "faint")), EMPTY, look))
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
