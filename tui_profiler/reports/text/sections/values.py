"""Health of values: the last training step that was read, module by module, and the first NaN."""

from tui_profiler.figures.units import UNAVAILABLE, duration, thousands
from tui_profiler.messages import Unknown
from tui_profiler.queries.training.values import (
    COLUMNS,
    ValueColumn,
    nan_words,
    value_rows,
    value_text,
)
from tui_profiler.reports.document import Column, Facts, Grid, Section
from tui_profiler.reports.text.sections import figure_text
from tui_profiler.session import Session

_TITLES: dict[ValueColumn, str] = {
    "largest": "max abs",
    "rms": "RMS",
    "zeros": "zeros %",
    "gradient": "grad RMS",
    "parameters": "param grad RMS",
    "update": "update",
    "nan": "NaN %",
    "inf": "Inf %",
}


def values_sections(session: Session, top: int | None = None) -> tuple[Section, ...]:
    """Return the section of values; none where nobody asked for them.

    Args:
        session: as it was left.
        top: only so many modules, the first in execution order.
    """
    if session.values is None:
        return ()
    found = value_rows(session)
    rows = tuple(
        (one.path or "(model)", *(value_text(one.figure(column), column) for column in COLUMNS))
        for one in found[:top]
    )
    titles = (Column("module", "left"), *(Column(_TITLES[column]) for column in COLUMNS))
    table = Grid(titles, rows, left_out=len(found) - len(rows))
    return (Section("health of values", "measured in one training step", (_step(session), table)),)


def _step(session: Session) -> Facts:
    assert session.values is not None
    values = session.values.values
    norm = values.gradient_norm
    unknown = f"{UNAVAILABLE} ({norm.reason})" if isinstance(norm, Unknown) else ""
    read = f"{thousands(values.step)}, {thousands(values.steps)} read, {duration(values.seconds)}"
    return figure_text.facts(
        ("step", read),
        ("gradient norm", unknown or f"{norm:.3g}"),
        ("first NaN", nan_words(session) or "none in the steps that were read"),
        ("not read", values.why_no_parameters or values.why_not_all),
    )
