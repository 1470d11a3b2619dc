"""A report for reading, as plain data: what text, Markdown and the table are all written from.

Text in it is as the models gave it, and not safe yet: those who write it out make it so.
"""

from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace


class Facts(Struct, frozen=True):
    """Labels with what there is to be said of each; an empty label goes on with the one before."""

    rows: tuple[tuple[str, str], ...]


class Column(Struct, frozen=True):
    """One column of a table."""

    title: str
    side: Literal["left", "right"] = "right"
    short: str = ""
    """Its title in the table."""
    cells: int = 0
    """Its width in the table; 0 for a first column that takes the rest of the line."""


class Grid(Struct, frozen=True):
    """A table. Its first column holds names, and gives way where there is no room.

    A row with fewer cells than columns ends in a sentence.
    """

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    depths: tuple[int, ...] = ()
    """Of each row, where the rows are a tree; empty where they are none."""
    left_out: int = 0
    """Rows that are not shown."""
    asides: tuple[str, ...] = ()
    """What follows the first cell of each row in the table, where there is room for it."""


class Note(Struct, frozen=True):
    """A sentence."""

    text: str


Part: TypeAlias = Facts | Grid | Note


class Section(Struct, frozen=True):
    """One section of a report."""

    title: str
    provenance: str
    """Where its figures are from: ``on paper``, ``measured on this machine``."""
    parts: tuple[Part, ...]


def names(title: str) -> Column:
    """Return a column of names."""
    return Column(title, "left")


def figures(*titles: str) -> tuple[Column, ...]:
    """Return columns of figures."""
    return tuple(Column(title) for title in titles)


def short(column: Column, title: str, cells: int) -> Column:
    """Return a column that the table has as well, under its own title and so many cells wide."""
    return replace(column, short=title, cells=cells)
