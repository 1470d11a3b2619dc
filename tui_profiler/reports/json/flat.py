"""A flat table as one JSON object on one line: the contract that other programs read.

Names and units never change within one ``schema``; ``docs/flat.schema.json`` is made from the
Structs of this file.
"""

from __future__ import annotations

from typing import Literal

from tui_profiler.messages import Failed, Figure, Unknown
from tui_profiler.queries.cost.flat import By, FlatRow, flat_table
from tui_profiler.reports import json_values
from tui_profiler.session import Session

SCHEMA: Literal["tui-profiler/flat/1"] = "tui-profiler/flat/1"
_MODEL_UNKNOWN = "the model was not loaded"


class FlatEntry(json_values.Closed, frozen=True):
    """A module, all modules of a class, or all operators of a name, in one forward."""

    name: str
    """Path of a module, empty for the model itself; class; name of an operator."""
    type: str | None
    """Class of a module; null for an operator."""
    nodes: json_values.Above0
    """Modules or operators that it stands for, each at every place where it is called from."""
    calls: json_values.Count
    total_s: json_values.Known[json_values.Size]
    """With everything inside; of nodes inside each other only the outermost."""
    self_s: json_values.Known[json_values.Size]
    """Without the time of modules inside: those of all modules add up to seconds. Null for
    operators: operator windows time each with the operators that it calls."""
    share: json_values.Known[json_values.Share]
    """Of seconds: self time of modules, total time of operators."""
    parameters: json_values.Count | None
    """Owned by the modules themselves; a shared one counts at its first owner. Null for an
    operator."""
    macs: json_values.Known[json_values.Count]
    """Of the modules' own operators."""
    flops: json_values.Known[json_values.Count]
    bytes: json_values.Known[json_values.Count]
    """Read and written by the modules' own operators."""
    output_shape: json_values.Known[tuple[json_values.Count, ...]]
    """Of the first output, every axis; null where it differs between the nodes."""


class FlatReport(json_values.Closed, frozen=True):
    """A flat table, as `tui-profiler report --by` prints it with `--format json` on one line.

    Times are seconds of one forward, sizes bytes, shares 0 to 1. A figure that is not known is null
    and `unavailable` says why, by path.
    """

    schema: Literal["tui-profiler/flat/1"]
    model: str
    type: json_values.Known[str]
    device: json_values.Known[str]
    by: By
    seconds: json_values.Known[json_values.Size]
    """Of one forward: the mean over one set of forwards."""
    forwards: json_values.Count
    """In that set; 0 without times."""
    operator_windows: json_values.Count
    """Forwards in which operators were timed."""
    rows: list[FlatEntry]
    """Most self time first, operators by total time, without times by FLOPs."""
    left_out: json_values.Count
    """Rows that --top leaves out."""
    unavailable: dict[str, str]
    """Reasons by path: `rows[].self_s` speaks of every row in which that is null, `rows[2].self_s`
    of one."""


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
    facts, tick, operators = session.model, session.tick, session.operators
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
        unavailable={f"rows[].{field}": why for field, why in reasons.items()},
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


def _shared_reasons(rows: tuple[FlatRow, ...]) -> dict[str, str]:
    """Return the fields that have one reason in all rows in which they are null."""
    found: dict[str, set[str]] = {}
    for row in rows:
        for field, figure in _figures(row).items():
            if isinstance(figure, Unknown):
                found.setdefault(field, set()).add(figure.reason)
    return {field: reasons.pop() for field, reasons in found.items() if len(reasons) == 1}


def _figures(row: FlatRow) -> dict[str, Figure]:
    times = {"total_s": row.total, "self_s": row.own, "share": row.share}
    return {**times, "macs": row.macs, "flops": row.flops, "bytes": row.bytes_moved}


def _entry(row: FlatRow, by: By, shared: dict[str, str]) -> FlatEntry:
    told = {
        field: json_values.TOLD_ABOVE if isinstance(figure, Unknown) and field in shared else figure
        for field, figure in _figures(row).items()
    }
    return FlatEntry(
        name=row.name,
        type=row.type or None,
        nodes=len(row.nodes),
        calls=row.calls,
        total_s=told["total_s"],
        self_s=told["self_s"],
        share=told["share"],
        parameters=None if by == "operator" else row.parameters,
        macs=_whole(told["macs"]),
        flops=_whole(told["flops"]),
        bytes=_whole(told["bytes"]),
        output_shape=json_values.or_why(row.shape, "it differs between the nodes, or is not known"),
    )


def _whole(figure: Figure) -> int | Unknown:
    return figure if isinstance(figure, Unknown) else int(figure)
