"""A flat table as a section: modules by self time, classes, operators by name."""

from __future__ import annotations

from tui_profiler.figures.units import (
    UNAVAILABLE,
    TimeColumn,
    count,
    duration,
    in_column,
    shape,
    size,
    thousands,
    time_column,
)
from tui_profiler.messages import Figure, Unknown, known
from tui_profiler.queries.cost.flat import (
    NO_SELF_TIME,
    By,
    FlatRow,
    FlatTable,
    default_column,
    flat_table,
    interrupted_words,
)
from tui_profiler.reports.document import Column, Grid, Note, Section, figures, names, short
from tui_profiler.reports.text.sections.figure_text import percent
from tui_profiler.session import Session

TITLES: dict[By, str] = {
    "module": "modules, flat",
    "class": "modules by class",
    "operator": "operators by name",
}
_MOST_REASONS = 3


def flat_sections(
    session: Session, by: By, *, top: int | None = None, is_short: bool = False
) -> tuple[Section, ...]:
    """Return the flat table of the whole model.

    Args:
        session: as it was left.
        by: what a row stands for.
        top: only so many rows, the first ones.
        is_short: only the columns that a terminal of 76 cells has room for.
    """
    table = flat_table(session, by)
    rows = table.rows[:top]
    grid = flat_grid(session, table, rows, is_short=is_short)
    notes = tuple(Note(why) for why in why_absent(rows))
    return (Section(TITLES[by], says(session, table), (grid, *notes)),)


def says(session: Session, table: FlatTable) -> str:
    """Return where the figures are from, and what the rows are ordered by."""
    column, tick = default_column(session, table.by), session.tick
    if isinstance(table.seconds, Unknown) or tick is None:
        return f"on paper, by {'FLOPs' if column == 'flops' else column}"
    timings = session.timings
    if column == "own" and timings is not None:
        of = f"{thousands(tick.mean_forwards)} forwards"
        how = f"means of {of}" if timings.is_mean else "medians"
        return f"by self time, {how}; {duration(table.seconds)} per forward"
    if column == "total":
        operators = session.operators
        how = "means" if operators is not None and operators.has_means else "medians"
        windows = operators.times.windows if operators is not None else 0
        of = f"{how} of {thousands(windows)} operator window{'s' * (windows != 1)}"
        whole = f"{duration(table.seconds)} per forward"
        interrupted = interrupted_words(session, table)
        return f"by total time, {of}; {whole}{interrupted and ', '}{interrupted}"
    return "on paper, by FLOPs: no operator was timed"


def why_absent(rows: tuple[FlatRow, ...]) -> tuple[str, ...]:
    """Return why times are absent, a sentence for each reason; operators have no column of self."""
    found: dict[str, list[str]] = {}
    for row in rows:
        for name, figure in (("total", row.total), ("self", row.own)):
            if isinstance(figure, Unknown) and figure.reason != NO_SELF_TIME:
                words = found.setdefault(figure.reason, [])
                words += [name] * (name not in words)
    said = tuple(f"{' and '.join(words)} time {UNAVAILABLE}: {why}" for why, words in found.items())
    more = len(said) - _MOST_REASONS
    return (*said[:_MOST_REASONS], *((f"and {more} more reasons",) if more > 0 else ()))


def flat_grid(
    session: Session, table: FlatTable, rows: tuple[FlatRow, ...], *, is_short: bool = False
) -> Grid:
    """Return rows of a table as cells.

    Args:
        session: whose model it is.
        table: all rows.
        rows: those that are shown, in their order.
        is_short: only the columns that a terminal of 76 cells has room for.
    """
    unit = times_unit(table)
    wide = not is_short
    times = f"total {unit.unit}", f"self {unit.unit}"
    is_op = table.by == "operator"
    columns: list[Column] = [short(names(table.by), table.by, 0)]
    if wide and table.by == "module":
        columns.append(names("class"))
    if table.by == "class":
        columns.append(short(Column("modules"), "modules", 8))
    columns.append(short(Column("calls"), "calls", 6))
    columns.append(short(Column(times[0]), times[0], 10))
    if not is_op:
        columns.append(short(Column(times[1]), times[1], 10))
    columns.append(short(Column("%"), "%", 6))
    if not is_op:
        columns.append(short(Column("parameters"), "param", 7))
    columns += figures("MAC") if wide else ()
    columns += [short(Column("FLOP"), "FLOP", 7), short(Column("bytes"), "bytes", 10)]
    columns += [Column("shape", "left")] if wide else []

    def cells(row: FlatRow) -> tuple[str, ...]:
        return (
            row_name(session, row),
            *([row.type] if wide and table.by == "module" else []),
            *([thousands(len(row.nodes))] if table.by == "class" else []),
            thousands(row.calls),
            seconds_cell(row.total, unit),
            *([] if is_op else [seconds_cell(row.own, unit)]),
            percent(known(row.share)),
            *([] if is_op else [count(row.parameters)]),
            *([_figure(row.macs)] if wide else []),
            _figure(row.flops),
            _bytes(row.bytes_moved),
            *([_shape(row)] if wide else []),
        )

    return Grid(
        tuple(columns), tuple(map(cells, rows)), left_out=max(len(table.rows) - len(rows), 0)
    )


def times_unit(table: FlatTable) -> TimeColumn:
    """Return the unit of all times of a table."""
    return time_column(max((known(row.total) or 0.0 for row in table.rows), default=0.0))


def row_name(session: Session, row: FlatRow) -> str:
    """Return the name of a row; of the model itself, which has no path, its name."""
    if row.name or session.tree is None:
        return row.name
    return session.tree.nodes[row.nodes[0]].name


def seconds_cell(figure: Figure, unit: TimeColumn) -> str:
    """Return a time in its column, a dash where there is none."""
    return UNAVAILABLE if isinstance(figure, Unknown) else in_column(figure, unit)


def _figure(figure: Figure) -> str:
    return UNAVAILABLE if isinstance(figure, Unknown) else count(figure)


def _bytes(figure: Figure) -> str:
    return UNAVAILABLE if isinstance(figure, Unknown) else size(figure)


def _shape(row: FlatRow) -> str:
    return shape(row.shape) if row.shape is not None else "several"
