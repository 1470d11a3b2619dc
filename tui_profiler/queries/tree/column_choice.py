"""Choosing columns: which are shown and in which order, as a value that keys change."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from tui_profiler.queries.tree.columns import COLUMN_NAMES, ColumnName


class ColumnChoice(Struct, frozen=True):
    """All columns in the user's order, and which of them are shown."""

    order: tuple[ColumnName, ...]
    shown: frozenset[ColumnName]
    cursor: int = 0
    """Place in ``order``."""

    @property
    def columns(self) -> tuple[ColumnName, ...]:
        """Those that are shown, from left to right."""
        return tuple(name for name in self.order if name in self.shown)


def begun(shown: tuple[ColumnName, ...]) -> ColumnChoice:
    """Begin with the columns that are shown, the others after them in their usual order."""
    rest = tuple(name for name in COLUMN_NAMES if name not in shown)
    return ColumnChoice((*shown, *rest), frozenset(shown))


def stepped(choice: ColumnChoice, by: int) -> ColumnChoice:
    """Move the cursor by so many places."""
    return replace(choice, cursor=max(0, min(choice.cursor + by, len(choice.order) - 1)))


def toggled(choice: ColumnChoice) -> ColumnChoice:
    """Show the column under the cursor, or hide it; the last one that is shown stays."""
    shown = choice.shown ^ {choice.order[choice.cursor]}
    return replace(choice, shown=shown) if shown else choice


def carried(choice: ColumnChoice, by: int) -> ColumnChoice:
    """Carry the column under the cursor by so many places; the cursor goes with it."""
    to = max(0, min(choice.cursor + by, len(choice.order) - 1))
    order = list(choice.order)
    order.insert(to, order.pop(choice.cursor))
    return replace(choice, order=tuple(order), cursor=to)
