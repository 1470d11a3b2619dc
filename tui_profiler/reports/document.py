"""A report for reading, as plain data: what the text and the Markdown are both written from.

Text in it is as the models gave it, and not safe yet: those who write it out make it so.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct


class Facts(Struct, frozen=True):
    """Labels with what there is to be said of each; an empty label goes on with the one before."""

    rows: tuple[tuple[str, str], ...]


class Column(Struct, frozen=True):
    """One column of a table."""

    title: str
    side: Literal["left", "right"] = "right"


class Grid(Struct, frozen=True):
    """A table. Its first column holds names, and gives way where there is no room."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    depths: tuple[int, ...] = ()
    """Of each row, where the rows are a tree; empty where they are none."""
    left_out: int = 0
    """Rows that are not shown."""


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
    """Give a column of names."""
    return Column(title, "left")


def figures(*titles: str) -> tuple[Column, ...]:
    """Give columns of figures."""
    return tuple(Column(title) for title in titles)
