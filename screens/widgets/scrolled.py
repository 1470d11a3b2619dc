"""More lines than rows: the keyboard moves through them, the divider at the right says where."""

from collections.abc import Sequence

from tui_profiler.formatting.canvas import UNICODE, Glyphs

from .line_widgets import LinesWidget
from .lines import Line, exact
from .rows import edge, thumb_rows


class ScrolledLines(LinesWidget):
    """Shows as many of its lines as fit; the last column is the divider and the scrollbar."""

    DEFAULT_CSS = """
    ScrolledLines { width: 1fr; height: 1fr; }
    """

    def __init__(
        self, glyphs: Glyphs = UNICODE, *, id: str | None = None, classes: str | None = None
    ) -> None:
        super().__init__(id=id, classes=classes)
        self.glyphs = glyphs
        self.top = 0
        """The first line that is shown."""
        self._all: Sequence[Line] = ()

    @property
    def is_at_end(self) -> bool:
        """Whether the last line is shown."""
        return self.top + self.size.height >= len(self._all)

    def show(self, lines: Sequence[Line]) -> None:
        """Show other lines, from where the reader is."""
        self._all = lines
        self.move(0)

    def move(self, rows: int) -> None:
        """Move by so many lines, no further than the ends."""
        height = max(self.size.height, 1)
        self.top = max(0, min(self.top + rows, len(self._all) - height))
        thumb = thumb_rows(len(self._all), self.top, height)
        cells = max(self.size.width - 1, 0)
        shown = self._all[self.top : self.top + height]
        blank: list[Line] = [()] * (height - len(shown))
        self.lines = tuple(
            (*exact(line, cells, self.glyphs.ellipsis), edge(y in thumb, self.glyphs))
            for y, line in enumerate([*shown, *blank])
        )

    def to_start(self) -> None:
        """Go to the first line."""
        self.move(-self.top)

    def to_end(self) -> None:
        """Go to the last line."""
        self.move(len(self._all))
