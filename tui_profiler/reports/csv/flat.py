"""A flat table as CSV or TSV: plain numbers, an empty cell for what is not known."""

from __future__ import annotations

import csv
import io

from tui_profiler.figures.units import shape_cell
from tui_profiler.messages import Figure, Unknown
from tui_profiler.queries.cost.flat import By, FlatRow, flat_table
from tui_profiler.reports.csv.nodes import as_text
from tui_profiler.session import Session

COLUMNS = (
    *("model", "by", "name", "type", "nodes", "calls", "total_s", "self_s", "share"),
    *("parameters", "macs", "flops", "bytes", "output_shape"),
)


def flat_csv(session: Session, by: By, *, with_titles: bool, top: int | None = None) -> str:
    """Return the flat table of a model; several models are one table.

    Args:
        session: as it was left.
        by: what a row stands for.
        with_titles: begin with the names of the columns, as the first model does.
        top: only so many rows, the first ones.
    """
    rows = flat_table(session, by).rows[:top]
    return rows_text(session, by, rows, with_titles=with_titles)


def rows_text(
    session: Session,
    by: By,
    rows: tuple[FlatRow, ...],
    *,
    with_titles: bool = True,
    delimiter: str = ",",
) -> str:
    """Return rows of a flat table as text, a line for each.

    Args:
        session: whose model it is.
        by: what a row stands for.
        rows: in their order.
        with_titles: begin with the names of the columns.
        delimiter: a comma, or a tab.
    """
    out = io.StringIO()
    lines = csv.writer(out, delimiter=delimiter, lineterminator="\n")
    if with_titles:
        lines.writerow(COLUMNS)
    model = as_text(session.model.name) if session.model is not None else ""
    lines.writerows((model, by, *_cells(row)) for row in rows)
    return out.getvalue()


def _cells(row: FlatRow) -> tuple[object, ...]:
    return (
        *(as_text(row.name), as_text(row.type), len(row.nodes), row.calls),
        *map(_digits, (row.total, row.own, row.share)),
        *(row.parameters, _whole(row.macs), _whole(row.flops), _whole(row.bytes_moved)),
        shape_cell(row.shape) if row.shape is not None else "",
    )


def _digits(figure: Figure) -> str:
    return "" if isinstance(figure, Unknown) else f"{figure:.6g}"


def _whole(figure: Figure) -> object:
    return "" if isinstance(figure, Unknown) else figure
