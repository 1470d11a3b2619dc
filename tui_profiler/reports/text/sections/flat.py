"""A flat table as a section: modules by self time, classes, operators by name."""

from tui_profiler.figures import units
from tui_profiler.messages import Unknown, known
from tui_profiler.queries.cost import flat
from tui_profiler.reports.document import Column, Grid, Note, Section, names, short
from tui_profiler.reports.text.sections.figure_text import percent
from tui_profiler.session import Session

TITLES: dict[flat.By, str] = {
    "module": "modules, flat",
    "class": "modules by class",
    "operator": "operators by name",
}
_MOST_REASONS = 3


def flat_sections(
    session: Session, by: flat.By, *, top: int | None = None, is_short: bool = False
) -> tuple[Section, ...]:
    """Return the flat table of the whole model.

    Args:
        session: as it was left.
        by: what a row stands for.
        top: only so many rows, the first ones.
        is_short: only the columns that a terminal of 76 cells has room for.
    """
    table = flat.flat_table(session, by)
    rows = table.rows[:top]
    grid = flat_grid(session, table, rows, is_short=is_short)
    notes = tuple(Note(why) for why in why_absent(rows))
    return (Section(TITLES[by], says(session, table), (grid, *notes)),)


def says(session: Session, table: flat.FlatTable) -> str:
    """Return where the figures are from, and what the rows are ordered by."""
    is_on_gpu = session.is_timed_on_gpu
    session = flat.timed_as(session, table.by)
    column, tick = flat.default_column(session, table.by), session.tick
    if isinstance(table.seconds, Unknown) or tick is None:
        return f"on paper, by {'FLOPs' if column == 'flops' else column}"
    if column not in ("own", "total", "share"):
        return "on paper, by FLOPs: no operator was timed"
    of_base = f"by self time {table.base.words}"
    order = of_base if column == "share" else f"by {flat.COLUMN_WORDS[column][0]} time"
    whole = f"{units.duration(table.seconds)} per forward"
    timings, operators = session.timings, session.operators
    if table.by != "operator":
        of = f"{units.thousands(tick.mean_forwards)} forwards"
        how = f"means of {of}" if timings is not None and timings.is_mean else "medians"
        return f"{order}, {how}; {whole}{' on the GPU' if is_on_gpu else ''}"
    how = "means" if operators is not None and operators.has_means else "medians"
    windows = operators.times.windows if operators is not None else 0
    of = f"{how} of {units.thousands(windows)} operator window{'s' * (windows != 1)}"
    interrupted = flat.interrupted_words(session, table)
    on = " of the host, which enqueues kernels" if is_on_gpu else ""
    return f"{order}, {of}; {whole}{on}{interrupted and ', '}{interrupted}"


def why_absent(rows: tuple[flat.FlatRow, ...]) -> tuple[str, ...]:
    """Return why times are absent, a sentence for each reason."""
    found: dict[str, list[str]] = {}
    for row in rows:
        for name, figure in (("total", row.total), ("self", row.own)):
            if isinstance(figure, Unknown):
                words = found.setdefault(figure.reason, [])
                words += [name] * (name not in words)
    said = tuple(
        f"{' and '.join(words)} time {units.UNAVAILABLE}: {why}" for why, words in found.items()
    )
    more = len(said) - _MOST_REASONS
    return (*said[:_MOST_REASONS], *((f"and {more} more reasons",) if more > 0 else ()))


def flat_grid(
    session: Session,
    table: flat.FlatTable,
    rows: tuple[flat.FlatRow, ...],
    *,
    is_short: bool = False,
) -> Grid:
    """Return rows of a table as cells.

    Args:
        session: whose model it is.
        table: all rows.
        rows: those that are shown, in their order.
        is_short: only the columns that a terminal of 76 cells has room for.
    """
    times = times_unit(table)
    usual = flat.usual_columns(table)
    shown: list[flat.Column] = ["name", *(one for one in usual if one in _SHORT or not is_short)]
    return Grid(
        tuple(_column(column, table, times) for column in shown),
        tuple(tuple(flat_cell(session, row, one, times) for one in shown) for row in rows),
        left_out=max(len(table.rows) - len(rows), 0),
    )


_SHORT: dict[flat.Column, int] = {
    "nodes": 8,
    "calls": 6,
    "total": 10,
    "own": 10,
    "share": 6,
    "parameters": 7,
    "flops": 7,
    "bytes": 10,
}
"""Cells of the columns of a short table."""


def _column(column: flat.Column, table: flat.FlatTable, times: units.TimeColumn) -> Column:
    if column == "name":
        return short(names(table.by), table.by, 0)
    title = flat.title_of(table, column)
    if column == "class":
        return names(title)
    if column in flat.SHAPES:
        return Column(title, "left")
    if column == "parameters":
        return short(Column("parameters"), "param", _SHORT[column])
    if column in flat.TIMES:
        title = f"{title} {times.unit}"
    return short(Column(title), title, _SHORT[column]) if column in _SHORT else Column(title)


def times_unit(table: flat.FlatTable) -> units.TimeColumn:
    """Return the unit of all times of a table."""
    return units.aligned_times(max((known(row.total) or 0.0 for row in table.rows), default=0.0))


def row_name(session: Session, row: flat.FlatRow) -> str:
    """Return the name of a row; of the model itself, which has no path, its name."""
    if row.name or session.tree is None or not row.nodes:
        return row.name
    return session.tree.nodes[row.nodes[0]].name


def flat_cell(
    session: Session, row: flat.FlatRow, column: flat.Column, times: units.TimeColumn
) -> str:
    """Return the cell of a row in a column, a dash for what is not known."""
    match column:
        case "name":
            return row_name(session, row)
        case "class":
            return row.type
        case "share":
            return percent(known(row.share))
        case "input" | "output":
            axes = row.input if column == "input" else row.output
            several = "several" if row.nodes else units.UNAVAILABLE
            return several if axes is None else units.shape(axes)
    figure = flat.figure_of(row, column)
    if isinstance(figure, Unknown):
        return units.UNAVAILABLE
    if column in flat.TIMES:
        return units.in_column(figure, times)
    if column in ("allocated", "bytes"):
        return units.size(figure)
    if column in ("nodes", "calls") and figure < _MOST_IN_FULL:
        return units.thousands(int(figure))
    return units.count(figure)


_MOST_IN_FULL = 100_000
