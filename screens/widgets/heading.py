"""Headings of tables: which column lies where, and what a number or a click orders the rows by.

Every table that can be ordered has one: it draws the heading with the mark of the order, and says
what is ordered by when a key or the mouse chooses a column. The first time a column is ordered by
in its own direction, the second time in the other one.
"""

from __future__ import annotations

from msgspec import Struct

from tui_profiler.formatting.canvas import UNICODE, Glyphs
from tui_profiler.formatting.text import fit, width

from .lines import Line, Span


class Order(Struct, frozen=True):
    """What rows are ordered by."""

    column: str
    descending: bool = False

    @property
    def reversed(self) -> Order:
        """The other way round."""
        return Order(self.column, descending=not self.descending)


class Title(Struct, frozen=True):
    """One column's title."""

    text: str
    cells: int
    """Of the column, with the blanks before it."""
    column: str = ""
    """What a key or a click orders by; empty: nothing. Several titles may order by the same, the
    mark stands at the first one."""
    gap: int = 1
    """Blanks before it."""
    is_left: bool = False
    """Whether it begins at the left end of its cells."""
    is_text: bool = False
    """Whether it is ordered from A to Z first; figures begin with the largest."""
    role: str = "muted"
    """Of its text, unless it is the order."""
    usual: str = ""
    """What follows when it was ordered by in both directions: an order that is of no column."""


class Heading(Struct, frozen=True):
    """The titles of a table from left to right, and what it is ordered by."""

    titles: tuple[Title, ...]
    order: Order
    x: int = 0
    """First cell of the first column in the view."""
    y: int = 0
    """Row of the view."""

    @property
    def columns(self) -> tuple[str, ...]:
        """What can be ordered by, from left to right, each once."""
        return tuple(dict.fromkeys(title.column for title in self.titles if title.column))

    def line(self, glyphs: Glyphs = UNICODE) -> Line:
        """Return the row; the column that is the order stands out, with the direction."""
        spans: list[Span] = []
        is_marked = False
        for title in self.titles:
            is_order = bool(title.column) and title.column == self.order.column
            is_first, is_marked = is_order and not is_marked, is_marked or is_order
            text = self._marked(title, glyphs) if is_first else title.text
            spans.append((placed(text, title, glyphs), "strong ink" if is_first else title.role))
        return tuple(spans)

    def way(self, glyphs: Glyphs = UNICODE) -> str:
        """Return the mark of the direction."""
        return glyphs.down if self.order.descending else glyphs.up

    def numbered(self, number: int) -> Order | None:
        """Return the order after a number key; None where no column has the number.

        Args:
            number: 1 is the first column that can be ordered by.
        """
        return self._chosen(self.columns[number - 1]) if 1 <= number <= len(self.columns) else None

    def clicked(self, x: int, y: int) -> Order | None:
        """Return the order after a click in a cell of the view; None where no column lies there."""
        at = self.x
        for title in self.titles:
            if y == self.y and at <= x < at + title.cells:
                return self._chosen(title.column) if title.column else None
            at += title.cells
        return None

    def following(self) -> Order:
        """Return the order by the next column, after the last one by the first again."""
        every = [*self.columns]
        usual = [title.usual for title in self.titles if title.usual]
        every = [*every, *usual]
        at = every.index(self.order.column) if self.order.column in every else -1
        return self._first(every[(at + 1) % len(every)])

    def _chosen(self, column: str) -> Order:
        """Return the order after a column was chosen: its own direction, the other, the usual."""
        first = self._first(column)
        if self.order.column != column:
            return first
        usual = next(title.usual for title in self.titles if title.column == column)
        if usual and self.order.descending != first.descending:
            return Order(usual)
        return self.order.reversed

    def _first(self, column: str) -> Order:
        title = next((title for title in self.titles if title.column == column), None)
        return Order(column, descending=title is not None and not title.is_text)

    def _marked(self, title: Title, glyphs: Glyphs) -> str:
        """Return a title with the direction; where there is no room for both, the unit goes."""
        text, way = title.text, self.way(glyphs)
        room = title.cells - min(title.gap, 1)
        tried = (text, text.replace(" ", ""), text.split(" ")[0])
        return next((way + one for one in tried if width(way + one) <= room), way + tried[-1])


def placed(text: str, title: Title, glyphs: Glyphs = UNICODE) -> str:
    """Return a text in the cells of a column; one that is long takes the blanks before it."""
    if title.is_left:
        return " " * title.gap + fit(text, title.cells - title.gap, glyphs.ellipsis)
    if width(text) > title.cells:
        return fit(text, title.cells, glyphs.ellipsis)
    return " " * (title.cells - width(text)) + text
