"""Lines of coloured text, and the widget that shows them and repaints only those that changed.

1. A line is spans of (text, role). A role is a meaning, not a colour: the theme gives the colour.
2. Text in a line is safe already (``tui_profiler.formatting.text``); nothing here parses markup.
   What was forgotten is written out where a row is painted, the one way to the terminal.
3. Functions of this file are pure and count terminal cells, not characters.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import zip_longest
from typing import TypeAlias

from rich.color import Color as RichColor
from rich.segment import Segment
from rich.style import Style
from textual.cache import LRUCache
from textual.color import Color
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from tui_profiler.formatting import text as texts
from tui_profiler.formatting.canvas import ASCII, UNICODE
from tui_profiler.formatting.text import fit, printable, width

from ..terminal.painting import runs

Span: TypeAlias = tuple[str, str]
"""Text and its role: a colour, with ``strong``, ``underline``, ``reverse``, ``cursor`` or
``blurred`` (the row's background) before or after it: ``strong compute``, ``muted cursor``."""
Line: TypeAlias = tuple[Span, ...]

EMPTY: Line = ()
COLOURS = {
    "ink": "foreground",
    "muted": "ink-muted",
    "faint": "ink-faint",
    "hairline": "hairline",
    "accent": "accent",
    "error": "error",
    "warning": "warning",
    "compute": "bound-compute",
    "memory": "bound-memory",
    "overhead": "bound-overhead",
    "unexplained": "bound-unexplained",
    "idle": "bound-idle",
    "waiting": "bound-idle",
}
"""Role of a text to variable of the theme."""
BACKGROUNDS = {"cursor": "row-cursor", "blurred": "row-cursor-blurred", "panel": "panel"}
MOST_STRIPS = 160
_ATTRIBUTES = {
    "strong": Style(bold=True),
    "underline": Style(underline=True),
    "reverse": Style(reverse=True),
}


def text(line: Line) -> str:
    """Return a line without its roles."""
    return "".join(part for part, _ in line)


def line_width(line: Line) -> int:
    """Return the number of cells that a line takes."""
    return sum(width(part) for part, _ in line)


def cut(line: Line, cells: int, ellipsis: str = "…") -> Line:
    """Cut a line to at most ``cells`` at its end; what is cut ends in an ellipsis."""
    if line_width(line) <= cells:
        return line
    kept: list[Span] = []
    room = max(cells, 0)
    for part, role in line:
        taken = width(part)
        # One more cell must stay for the ellipsis, unless this span is the one that is cut.
        if taken + width(ellipsis) > room:
            kept.append((fit(part + ellipsis + " " * room, room, ellipsis), role))
            break
        kept.append((part, role))
        room -= taken
    return tuple(kept)


def exact(line: Line, cells: int, ellipsis: str = "…") -> Line:
    """Cut or fill a line to exactly ``cells``."""
    line = cut(line, cells, ellipsis)
    missing = cells - line_width(line)
    return (*line, (" " * missing, "ink")) if missing > 0 else line


def spread(left: Line, right: Line, cells: int, ellipsis: str = "…") -> Line:
    """Set ``right`` against the right end; ``left`` yields where both do not fit."""
    right = cut(right, cells, ellipsis)
    room = cells - line_width(right)
    if right and line_width(left) >= room:
        left = cut(left, max(room - 1, 0), ellipsis)
    return (*exact(left, room, ellipsis), *right)


def in_ascii(line: Line) -> Line:
    """Return a line in ASCII, as wide as before."""
    return tuple((texts.in_ascii(part), role) for part, role in line)


def with_role(line: Line, role: str) -> Line:
    """Add a role to every span, such as the background of the row under the cursor."""
    return tuple((part, f"{own} {role}") for part, own in line)


class LinesWidget(Widget):
    """Shows ``lines``; each is cut or filled to the widget's width.

    Setting ``lines`` compares them with the former ones and repaints the rows that differ.
    """

    DEFAULT_CSS = """
    LinesWidget { background: $background; color: $foreground; }
    """

    def __init__(
        self, *, name: str | None = None, id: str | None = None, classes: str | None = None
    ) -> None:
        super().__init__(name=name, id=id, classes=classes)
        self._lines: tuple[Line, ...] = ()
        self._strips: LRUCache[Line, Strip] = LRUCache(MOST_STRIPS)
        """By line, not by row: where a tree is scrolled, all but one row is there already."""
        self._styles: dict[str, Style] = {}
        self._painted_width = -1

    @property
    def lines(self) -> tuple[Line, ...]:
        """The lines that are shown, from the top."""
        return self._lines

    @lines.setter
    def lines(self, lines: Iterable[Line]) -> None:
        before, self._lines = self._lines, tuple(lines)
        if before is self._lines:
            return
        both = enumerate(zip_longest(before, self._lines))
        changed = {y for y, (was, now) in both if was != now}
        if changed:
            cells = self.size.width
            self.refresh(*(Region(0, run.start, cells, len(run)) for run in runs(changed)))

    def notify_style_update(self) -> None:
        """Forget what was drawn in the colours of another theme."""
        self._styles.clear()
        self._strips.clear()
        super().notify_style_update()

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw rows as they are.

        Textual would look for a border, padding, tint and opacity around each, which no style sheet
        of ours sets: with the cache of strips a scrolled tree is drawn in 5 ms instead of 12.
        """
        filters, background = self.app.get_line_filters(), self.background_colors[1]
        (first, stop), cells = crop.column_span, self.size.width
        strips = []
        for y in crop.line_range:
            strip = self._strip(y, cells)
            for each in filters:
                strip = strip.apply_filter(each, background)
            strips.append(strip.crop(first, stop))
        return strips

    def render_line(self, y: int) -> Strip:
        """Draw one row."""
        return self._strip(y, self.size.width)

    def _strip(self, y: int, cells: int) -> Strip:
        if cells != self._painted_width:
            self._strips.clear()
            self._painted_width = cells
        line = self._lines[y] if y < len(self._lines) else EMPTY
        strip = self._strips.get(line)
        if strip is None:
            strip = self._strips[line] = self.drawn(line, cells)
        return strip

    def drawn(self, line: Line, cells: int) -> Strip:
        """Draw a line that was not drawn lately."""
        line = exact(tuple((printable(part), role) for part, role in line), cells)
        line = in_ascii(line) if getattr(self.app, "glyphs", UNICODE) == ASCII else line
        return Strip([Segment(part, self.role_style(role)) for part, role in line], cells)

    def role_style(self, role: str) -> Style:
        """Return the style of a role in the theme that is on."""
        style = self._styles.get(role)
        if style is None:
            style = self.rich_style
            words = role.split()
            if "cursor" in words and (self.app.no_color or self.app.current_theme.ansi):
                # A background of the theme's would not be seen; inks would be as many backgrounds.
                style += _ATTRIBUTES["reverse"]
                words = [word for word in words if word in _ATTRIBUTES]
            for word in words:
                if word in _ATTRIBUTES:
                    style += _ATTRIBUTES[word]
                elif word in COLOURS:
                    style += Style(color=self._theme_colour(COLOURS[word]))
                elif word in BACKGROUNDS:
                    style += Style(bgcolor=self._theme_colour(BACKGROUNDS[word]))
            self._styles[role] = style
        return style

    def _theme_colour(self, variable: str) -> RichColor:
        # Component classes would do the same at the price of matching the stylesheet against each
        # role of each widget: a third of the time to the first frame.
        return Color.parse(self.app.theme_variables[variable]).rich_color
