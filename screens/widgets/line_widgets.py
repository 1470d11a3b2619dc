"""Widgets that show lines and repaint only those that changed, and those that many screens have."""

from collections.abc import Callable, Iterable
from itertools import zip_longest

from msgspec.structs import replace
from rich.color import Color as RichColor
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.cache import LRUCache
from textual.color import Color
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from tui_profiler.formatting.canvas import ASCII, UNICODE

from ..terminal.painting import runs
from .key_bar import key_at
from .lines import EMPTY, Line, as_painted, ink
from .rows import Look

MOST_STRIPS = 160
_ATTRIBUTES = {
    "strong": Style(bold=True),
    "underline": Style(underline=True),
    "reverse": Style(reverse=True),
}


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
        is_ascii = getattr(self.app, "glyphs", UNICODE) == ASCII
        line = as_painted(line, cells, is_ascii=is_ascii)
        return Strip([Segment(part, self.role_style(role)) for part, role in line], cells)

    def role_style(self, role: str) -> Style:
        """Return the style of a role in the theme that is on."""
        style = self._styles.get(role)
        if style is None:
            has_no_backgrounds = self.app.no_color or self.app.current_theme.ansi
            drawn = ink(role, shows_backgrounds=not has_no_backgrounds)
            style = sum((_ATTRIBUTES[one] for one in drawn.attributes), self.rich_style)
            if drawn.colour:
                style += Style(color=self._theme_colour(drawn.colour))
            if drawn.background:
                style += Style(bgcolor=self._theme_colour(drawn.background))
            self._styles[role] = style
        return style

    def _theme_colour(self, variable: str) -> RichColor:
        # Component classes would do the same at the price of matching the stylesheet against each
        # role of each widget: a third of the time to the first frame.
        return Color.parse(self.app.theme_variables[variable]).rich_color


class Panel(LinesWidget):
    """Shows what a function draws, anew in each size."""

    DEFAULT_CSS = """
    Panel { width: 1fr; }
    """

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._shown: tuple[Look, Callable[[Look, int], Iterable[Line]]] | None = None

    def show(self, look: Look, draw: Callable[[Look, int], Iterable[Line]]) -> None:
        """Show what is drawn of a look in this width, given how many rows there are."""
        self._shown = look, draw
        self.draw()

    def on_resize(self) -> None:
        """Draw for the new size."""
        self.draw()

    def draw(self) -> None:
        """Draw once more."""
        cells, rows = self.size
        if self._shown is not None and cells > 2 and rows > 0:
            look, draw = self._shown
            self.lines = draw(replace(look, cells=cells), rows)


class KeyBar(LinesWidget):
    """Shows rows with keys; a click on a key, or on its label, presses it."""

    class Pressed(Message):
        """A key was clicked."""

        def __init__(self, key: str) -> None:
            super().__init__()
            self.key = key
            """As it is written."""

    def on_click(self, event: events.Click) -> None:
        """Press what is under the mouse."""
        line = self.lines[event.y] if event.y < len(self.lines) else EMPTY
        if key := key_at(line, event.x):
            event.stop()
            self.post_message(self.Pressed(key))
