"""A flat table as one JSON object on one line: the contract that other programs read.

Names and units never change within one ``schema``; ``docs/flat.schema.json`` is made from the
Structs of this file.
"""

from typing import Literal

from msgspec import field

from tui_profiler.messages import Failed, Figure, Unknown
from tui_profiler.queries.cost.flat import By, FlatRow, flat_table
from tui_profiler.reports import json_values
from tui_profiler.session import Session

SCHEMA: Literal["tui-profiler/flat/1"] = "tui-profiler/flat/1"
_MODEL_UNKNOWN = "the model was not loaded"
_NO_SHAPE = "it differs between the nodes, or is not known"


class FlatEntry(json_values.Closed, frozen=True):
    """A module, all modules of a class, or all operators of a name, in one forward."""

    name: str
    """Path of a module, empty for the model itself; class; name of an operator."""
    type: str | None
    """Class of a module; null for an operator."""
    nodes: json_values.Count
    """Number of modules or operators of the tree in this row, one per module that calls it; 0 for
    an operator that only other operators call."""
    calls: json_values.Count
    total: json_values.Known[json_values.Size] = field(name="total_s")
    """Total time; nested nodes count once, by the outermost."""
    own: json_values.Known[json_values.Size] = field(name="self_s")
    """Time outside child modules or called operators; the self times of all rows add up to seconds.
    """
    share: json_values.Known[json_values.Share]
    """Share of seconds: self time; total time of operators without a self time."""
    cpu: json_values.Known[json_values.Size] = field(name="self_cpu_s")
    """CPU time of the thread outside child modules: mean over the occasional forwards in which
    every call reads it. Null for operators."""
    gpu: json_values.Known[json_values.Size] = field(name="gpu_s")
    """GPU time, child modules included: median, from events."""
    allocated: json_values.Known[json_values.Count] = field(name="allocated_bytes")
    """Allocated, freed or not, child modules included; measured."""
    parameters: json_values.Count | None
    """Owned directly by the modules; a shared parameter counts at its first owner. Null for an
    operator."""
    macs: json_values.Known[json_values.Count]
    """Of the operators that the modules call directly."""
    flops: json_values.Known[json_values.Count]
    bytes_moved: json_values.Known[json_values.Count] = field(name="bytes")
    """Read and written by the operators that the modules call directly."""
    input_shape: json_values.Known[tuple[json_values.Count, ...]]
    """Shape of the first input; null if it differs between the nodes."""
    output_shape: json_values.Known[tuple[json_values.Count, ...]]
    """Shape of the first output; null if it differs between the nodes."""


class FlatReport(json_values.Closed, frozen=True):
    """A flat table, as `tui-profiler report --by` prints it with `--format json` on one line.

    Times are seconds per forward, sizes bytes, shares 0 to 1. A figure that is not known is null,
    and `unavailable` has the reason, by path.
    """

    schema: Literal["tui-profiler/flat/1"]
    model: str
    type: json_values.Known[str]
    device: json_values.Known[str]
    by: By
    seconds: json_values.Known[json_values.Size]
    """Per forward: the mean over one set of forwards; of operators, the sum of their self times."""
    forwards: json_values.Count
    """Forwards in that set; 0 without times."""
    operator_windows: json_values.Count
    """Forwards in which operators were timed (operator windows)."""
    rows: list[FlatEntry]
    """Largest self time first; without times by FLOPs."""
    left_out: json_values.Count
    """Rows omitted by --top."""
    unavailable: dict[str, str]
    """Reasons by path: `rows[].self_s` applies to every row in which it is null, `rows[2].self_s`
    to one row."""


def flat_json(session: Session, name: str, by: By, *, top: int | None = None) -> str:
    """Return the flat table of a model, without a line end.

    Args:
        session: as it was left.
        name: what was typed for the model.
        by: what a row stands for.
        top: only so many rows, the first ones.
    """
    table = flat_table(session, by)
    rows = table.rows[:top]
    reasons = _shared_reasons(rows)
    facts, tick, operators = session.model, session.tick, session.host_operators
    report = FlatReport(
        schema=SCHEMA,
        model=facts.name if facts is not None else name,
        type=facts.type if facts is not None else Unknown(_MODEL_UNKNOWN),
        device=facts.device if facts is not None else Unknown(_MODEL_UNKNOWN),
        by=by,
        seconds=table.seconds,
        forwards=tick.mean_forwards if tick is not None else 0,
        operator_windows=operators.times.windows if operators is not None else 0,
        rows=[_entry(row, by, reasons) for row in rows],
        left_out=len(table.rows) - len(rows),
        unavailable={f"rows[].{_KEYS[name]}": why for name, why in reasons.items()},
    )
    return json_values.one_line(json_values.plain(report))


def flat_json_failed(name: str, by: By, failed: Failed) -> str:
    """Return the object of a model that failed before its tree was whole."""
    report = FlatReport(
        schema=SCHEMA,
        model=name,
        type=Unknown(_MODEL_UNKNOWN),
        device=Unknown(_MODEL_UNKNOWN),
        by=by,
        seconds=Unknown(failed.what),
        forwards=0,
        operator_windows=0,
        rows=[],
        left_out=0,
        unavailable={"rows": failed.what},
    )
    return json_values.one_line(json_values.plain(report))


_TIMES = ("total", "own", "share", "cpu", "gpu")
_COUNTS = ("allocated", "macs", "flops", "bytes_moved")
_KEYS = {one.name: one.key for one in json_values.fields(FlatEntry)}


def _shared_reasons(rows: tuple[FlatRow, ...]) -> dict[str, str]:
    """Return the fields that have one reason in all rows in which they are null."""
    found: dict[str, set[str]] = {}
    for row in rows:
        for name in (*_TIMES, *_COUNTS):
            figure = getattr(row, name)
            if isinstance(figure, Unknown):
                found.setdefault(name, set()).add(figure.reason)
    return {name: reasons.pop() for name, reasons in found.items() if len(reasons) == 1}


def _entry(row: FlatRow, by: By, shared: dict[str, str]) -> FlatEntry:
    figures = {name: getattr(row, name) for name in _TIMES}
    figures |= {name: _whole(getattr(row, name)) for name in _COUNTS}
    for name, figure in figures.items():
        if isinstance(figure, Unknown) and name in shared:
            figures[name] = json_values.TOLD_ABOVE
    return json_values.fill(
        FlatEntry,
        row,
        **figures,
        nodes=len(row.nodes),
        parameters=None if by == "operator" else row.parameters,
        input_shape=json_values.or_why(row.input, _NO_SHAPE),
        output_shape=json_values.or_why(row.output, _NO_SHAPE),
    )


def _whole(figure: Figure) -> int | Unknown:
    return figure if isinstance(figure, Unknown) else int(figure)
