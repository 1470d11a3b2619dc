"""Which columns the tree shows at a width, and how wide each is: every row adds up to the width.

A row: cursor 1 | indent, fold, name, type | columns, each with the gap before it | pad | divider.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

Form: TypeAlias = Literal["wide", "narrow", "tiny"]
ColumnName: TypeAlias = Literal[
    "params", "macs", "bytes", "intensity", "seconds", "trend", "p95", "share", "bar", "bound"
]

LONGEST_NAME = 44
"""Wider, and the eye loses the row on its way to the figures."""


class Column(Struct, frozen=True):
    """One column."""

    name: ColumnName
    cells: int
    gap: int
    """Blank cells before it."""


class Columns(Struct, frozen=True):
    """What one row is made of, from left to right; the sum is ``cells``."""

    cells: int
    name_cells: int
    """Indent, fold, name and type together."""
    columns: tuple[Column, ...]
    pad: int
    """Blank cells after the last column."""
    divider: bool

    @property
    def bar_cells(self) -> int:
        """Cells of the bar, 0 where there is none."""
        return next((column.cells for column in self.columns if column.name == "bar"), 0)


_PARAMS = Column("params", 6, 1)
_MACS = Column("macs", 6, 1)
_BYTES = Column("bytes", 9, 1)
_INTENSITY = Column("intensity", 6, 1)
_SECONDS = Column("seconds", 6, 1)
_SECONDS_APART = Column("seconds", 6, 2)
_TREND = Column("trend", 1, 0)
_P95 = Column("p95", 7, 0)
_SHARE = Column("share", 4, 0)
_SHARE_APART = Column("share", 4, 1)
_BAR = Column("bar", 12, 2)
_SHORT_BAR = Column("bar", 8, 2)
_LONG_BAR = Column("bar", 16, 2)
_BOUND = Column("bound", 1, 1)


class _Choice(Struct, frozen=True):
    """A set of columns, and the least room for names that makes it worth having."""

    least_name: int
    longest_bar: int
    columns: tuple[Column, ...]


_MEASURES = (_SECONDS_APART, _TREND, _P95, _SHARE_APART, _BAR, _BOUND)
_WIDE = (
    _Choice(30, 32, (_PARAMS, _MACS, _BYTES, _INTENSITY, *_MEASURES)),
    _Choice(30, 32, (_PARAMS, _MACS, _BYTES, *_MEASURES)),
    _Choice(40, 32, (_PARAMS, _MACS, *_MEASURES)),
    _Choice(26, 32, (_PARAMS, _MACS, _SECONDS, _TREND, _SHARE, _BAR, _BOUND)),
    _Choice(20, 10, (_PARAMS, _MACS, _SECONDS, _TREND, _SHARE, _SHORT_BAR, _BOUND)),
    _Choice(15, 10, (_MACS, _SECONDS, _TREND, _SHARE, _SHORT_BAR, _BOUND)),
    _Choice(12, 0, (_SECONDS, _TREND, _SHARE, _BOUND)),
)
_NARROW = (
    _Choice(LONGEST_NAME, 32, (_PARAMS, _MACS, _SECONDS_APART, _TREND, _SHARE, _LONG_BAR, _BOUND)),
    _Choice(28, 32, (_MACS, _SECONDS_APART, _TREND, _SHARE, _LONG_BAR, _BOUND)),
    _Choice(20, 16, (_MACS, _SECONDS_APART, _TREND, _SHARE, _SHORT_BAR, _BOUND)),
    _Choice(12, 0, (_SECONDS, _TREND, _SHARE, _BOUND)),
)
_TINY = (_Choice(0, 0, (_SECONDS, _TREND, _SHARE)),)
_CHOICES: dict[Form, tuple[_Choice, ...]] = {"wide": _WIDE, "narrow": _NARROW, "tiny": _TINY}
_PARAMETERS = (
    _Choice(26, 32, (_PARAMS, _BYTES, _SHARE_APART, _LONG_BAR)),
    _Choice(14, 10, (_PARAMS, _BYTES, _SHARE_APART, _SHORT_BAR)),
    _Choice(10, 0, (_PARAMS, _SHARE)),
)
_PADS: dict[Form, int] = {"wide": 2, "narrow": 2, "tiny": 1}
_CURSOR = 1


def columns_for(cells: int, form: Form, *, has_forward: bool = True) -> Columns:
    """Choose the columns for a row of ``cells``; names come first, then more figures, then bars.

    Args:
        cells: of the row.
        form: of the screen.
        has_forward: parameters alone have neither work nor times.
    """
    divider = form == "wide"
    edge = _PADS[form] + divider
    choices = _CHOICES[form] if has_forward else _PARAMETERS
    chosen = next(
        (choice for choice in choices if _room(cells, choice, edge) >= choice.least_name), None
    )
    if chosen is None:
        return _names_only(cells, divider=divider)
    room = _room(cells, chosen, edge)
    bar = next((column for column in chosen.columns if column.name == "bar"), None)
    columns = chosen.columns
    if bar is not None:
        # A long name is worth more than a long bar, up to the length that names may have.
        wanted = LONGEST_NAME if chosen.longest_bar > 16 else chosen.least_name
        more = max(0, min(room - wanted, chosen.longest_bar - bar.cells))
        room -= more
        wider = Column("bar", bar.cells + more, bar.gap)
        columns = tuple(wider if column is bar else column for column in columns)
    name_cells = min(room, LONGEST_NAME) if bar is not None else room
    return Columns(cells, name_cells, columns, _PADS[form] + room - name_cells, divider)


def _room(cells: int, choice: _Choice, edge: int) -> int:
    return cells - _CURSOR - edge - sum(column.cells + column.gap for column in choice.columns)


def _names_only(cells: int, *, divider: bool) -> Columns:
    """Give what is left where not even the figures fit."""
    room = max(cells - _CURSOR, 0)
    with_divider = divider and room > 1
    return Columns(cells, room - with_divider, (), 0, with_divider)
