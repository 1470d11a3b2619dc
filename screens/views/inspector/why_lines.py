"""The answer to ``i``: where the figures of the selected node come from, or why there are none."""

from msgspec import Struct

from tui_profiler.queries.panel.provenance import why
from tui_profiler.queries.tree.columns import ColumnName
from tui_profiler.session import Session

from ...widgets.lines import Line
from ...widgets.rows import Look, labelled

_LABEL = 12
"""Cells of a figure's name: ``no formula``."""


class Why(Struct, frozen=True):
    """What was asked, and which page of the answer is read."""

    columns: tuple[ColumnName, ...] = ()
    """Of the tree: energy is explained where a column shows it."""
    nodes: int = 1
    """That the selected row sums over."""
    page: int = 0

    def hint(self, pages: int) -> str:
        """Return how the answer is left, and how the rest of it is reached."""
        if pages == 1:
            return "any key closes"
        is_last = self.page >= pages - 1
        return f"{self.page + 1} of {pages}: {'any key closes' if is_last else 'i for more'}"

    def answer(self, session: Session, node: int) -> tuple[tuple[str, str], ...]:
        """Return (figure, where it comes from)."""
        told = why(session, node, self.columns)
        if self.nodes == 1:
            return told
        return (("row", f"sums of {self.nodes} equal nodes; below, of the first"), *told)


def why_pages(look: Look, asked: Why, rows: int) -> tuple[tuple[Line, ...], ...]:
    """Return the answer in pages of at most ``rows`` lines, none of them cut."""
    told = asked.answer(look.session, look.node)
    lines = [line for label, text in told for line in labelled(label, text, look, _LABEL)]
    rows = max(rows, 1)
    return tuple(tuple(lines[at : at + rows]) for at in range(0, len(lines), rows))
