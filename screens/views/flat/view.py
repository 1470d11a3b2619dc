"""What a flat table shows: its rows as they are filtered and ordered, and the cursor."""

from tui_profiler.queries.cost.flat import (
    BYS,
    COLUMN_WORDS,
    By,
    Column,
    FlatRow,
    FlatTable,
    default_column,
    in_order,
)
from tui_profiler.queries.tree import filter as filters
from tui_profiler.session import Session

SORT_WORDS: dict[Column, str] = {
    **{column: f"by {title}" for column, (title, _) in COLUMN_WORDS.items()},
    "own": "by self time",
    "total": "by total time",
    "share": "by share",
    "cpu": "by CPU time",
    "gpu": "by GPU time",
    "allocated": "by allocated bytes",
    "parameters": "by parameters",
    "macs": "by MACs",
    "flops": "by FLOPs",
    "input": "by elements of the input",
    "output": "by elements of the output",
}


class FlatView:
    """Which rows are shown, in which order, and which one the cursor is on."""

    def __init__(self) -> None:
        self.by: By = "module"
        self.text = ""
        """What was typed as a filter."""
        self.table: FlatTable | None = None
        self.rows: tuple[FlatRow, ...] = ()
        """In the order that is shown."""
        self.column: Column = "own"
        self.descending = True
        self._chosen: tuple[Column, bool] | None = None
        self._key: tuple[str, int] | None = None
        """Of the row under the cursor."""
        self.chosen_columns: dict[By, tuple[Column, ...]] = {}
        """Of the user's choice; none leaves it to the width."""

    def take(self, session: Session, table: FlatTable, *, keeps_order: bool) -> None:
        """Take a newer table.

        Args:
            session: that it is of.
            table: all rows.
            keeps_order: rows that were there stay where they are.
        """
        before = self.rows if keeps_order and self.table is not None else ()
        is_same = self.table is not None and self.table.by == table.by
        self.table = table
        self.arrange(session)
        if before and is_same:
            place = {row.key: at for at, row in enumerate(before)}
            last = len(place)
            self.rows = tuple(sorted(self.rows, key=lambda row: place.get(row.key, last)))

    def arrange(self, session: Session) -> None:
        """Choose and order the rows anew."""
        if self.table is None:
            return
        usual = (default_column(session, self.by), True)
        self.column, self.descending = self._chosen or usual
        rows = in_order(self.table.rows, self.column, descending=self.descending)
        if filters.read_filter(self.text).terms:
            found = frozenset(filters.matches(session, self.text, operators=self.by == "operator"))
            rows = tuple(
                row
                for row in rows
                if not found.isdisjoint(row.nodes)
                or (row.callers and filters.matches_name(self.text, row.name))
            )
        self.rows = rows

    @property
    def at(self) -> int:
        """Place of the cursor; 0 where its row is not shown."""
        return next((at for at, row in enumerate(self.rows) if row.key == self._key), 0)

    @property
    def row(self) -> FlatRow | None:
        """The row under the cursor."""
        return self.rows[self.at] if self.rows else None

    def point_to(self, node: int) -> None:
        """Put the cursor on the row of a node; where none is, on the first row."""
        row = self.row
        if row is not None and self._key is not None and node in row.nodes:
            return
        row = next((row for row in self.rows if node in row.nodes), None)
        self._key = row.key if row is not None else None

    def move(self, by: int) -> FlatRow | None:
        """Move the cursor by so many rows, no further than the ends."""
        if not self.rows:
            return None
        row = self.rows[min(max(self.at + by, 0), len(self.rows) - 1)]
        self._key = row.key
        return row

    def next_by(self) -> By:
        """Show what is grouped in the next way."""
        self.by = BYS[(BYS.index(self.by) + 1) % len(BYS)]
        self.table, self.rows, self._key = None, (), None
        self._chosen = None
        return self.by

    def sort_by(self, session: Session, column: Column, *, descending: bool) -> None:
        """Order by a column."""
        self._chosen = (column, descending)
        self.arrange(session)
