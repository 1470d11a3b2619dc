"""A comparison as one JSON object on one line, by the rules of the report (``report.py``).

A difference is B less A, a ratio B over A. ``docs/compare.schema.json`` is made from its Structs.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec.structs import asdict

from tui_profiler.messages import Kind, Unknown
from tui_profiler.queries.compare import comparison
from tui_profiler.queries.compare.alignment import AlignedNode, Change
from tui_profiler.queries.compare.comparison import former_path
from tui_profiler.queries.compare.side import Side
from tui_profiler.reports import json_values

Inexact: TypeAlias = Literal["at most", "at least", "about"]
SCHEMA: Literal["tui-profiler/compare/1"] = "tui-profiler/compare/1"


class SideOfTwo(json_values.Closed, frozen=True):
    """One side of the comparison."""

    label: str
    """As given on the command line."""
    settings: dict[str, str]


class Setting(json_values.Closed, frozen=True):
    """A setting that differs."""

    name: str
    a: str | None
    b: str | None


class Figures(json_values.Closed, frozen=True, kw_only=True):
    """A figure of both sides."""

    a: json_values.Known[float]
    b: json_values.Known[float]
    difference: json_values.Known[float]
    """B - A."""
    ratio: json_values.Known[float]
    """B / A."""
    noise: bool | None
    """Whether the difference is within 1.96 standard errors; null if they are not known."""
    doubt: str | None
    """Why the times are not ranked: they do not add up, or their standard error is above 25 %; null
    if they are ranked."""
    a_bounded: Inexact | None
    """Whether A is an upper bound, a lower bound or approximate; null if it is exact."""
    b_bounded: Inexact | None
    difference_bounded: Inexact | None
    """The same for difference and ratio."""


class Total(Figures, frozen=True):
    """A total of both models."""

    name: str
    """Its path in the report."""
    unit: comparison.Unit


class Changes(json_values.Closed, frozen=True):
    """Number of modules by kind of change."""

    changed: json_values.Count
    moved: json_values.Count
    appeared: json_values.Count
    vanished: json_values.Count
    same: json_values.Count


class ComparedLayer(json_values.Closed, frozen=True):
    """A module or operator of one or both sides."""

    path: str
    kind: Kind
    type: str
    depth: json_values.Count
    change: Change
    former_path: str | None
    """Former path of a moved module."""
    seconds: Figures
    """Median per forward, all calls together, child modules included."""
    macs: Figures
    """Multiply-accumulates."""
    flops: Figures
    """FLOP; a multiply-add is two."""
    memory: Figures
    """Bytes moved."""
    parameters: Figures
    """Parameters, as scalars."""


class CompareReport(json_values.Closed, frozen=True):
    """Two sides, as `tui-profiler compare --format json` prints them on one line.

    Times are seconds, sizes bytes. A difference is B - A, a ratio is B / A. A figure that is not
    known is null, and `unavailable` has the reason.
    """

    schema: Literal["tui-profiler/compare/1"]
    a: SideOfTwo
    b: SideOfTwo
    settings: list[Setting]
    """Settings that differ."""
    measured_in_turns: bool
    """Both were measured in turns, so that other load affected both."""
    totals: Annotated[list[Total], json_values.entries("name={name}")]
    modules: json_values.Known[Changes]
    worst_by: comparison.FigureName | None
    """The figure by which --top selects layers."""
    layers: json_values.Known[Annotated[list[ComparedLayer], json_values.EACH]]
    unavailable: dict[str, str]
    """Path to the reason."""


def compare_json(
    compared: comparison.Comparison, *, top: int | None = None, in_turns: bool = False
) -> str:
    """Return a comparison without a line end.

    Args:
        compared: Two sides.
        top: Only so many layers, those that differ most by themselves.
        in_turns: Both were measured in turns.
    """
    return json_values.one_line(compare_as_json(compared, top=top, in_turns=in_turns))


def compare_as_json(
    compared: comparison.Comparison, *, top: int | None = None, in_turns: bool = False
) -> dict[str, json_values.Json]:
    """Return the same as plain values."""
    counted = comparison.change_counts(compared)
    why = Unknown(compared.why_no_alignment)
    report = CompareReport(
        schema=SCHEMA,
        a=_side(compared.a),
        b=_side(compared.b),
        settings=[
            Setting(name=name, a=a or None, b=b or None)
            for name, a, b in comparison.different_settings(compared)
        ],
        measured_in_turns=in_turns,
        totals=[_total(row) for row in comparison.total_rows(compared)],
        modules=Changes(**{str(change): number for change, number in counted.items()})
        if counted
        else why,
        worst_by=comparison.default_figure(compared) if counted else None,
        layers=_layers(compared, top),
        unavailable={},
    )
    return json_values.plain(report)


def _side(side: Side) -> SideOfTwo:
    return SideOfTwo(label=side.label, settings=dict(side.settings))


def _total(row: comparison.TotalRow) -> Total:
    figures = _figures(row.pair, row.pair.difference)
    return Total(name=row.name, unit=row.unit, **asdict(figures))


def _figures(pair: comparison.Pair, difference: float | None) -> Figures:
    return Figures(
        a=pair.a,
        b=pair.b,
        difference=json_values.or_why(difference, "a side is not known"),
        ratio=json_values.or_why(pair.ratio, "a side is not known, or A is 0"),
        noise=pair.noise,
        doubt=pair.doubt or None,
        a_bounded=pair.a_reading or None,
        b_bounded=pair.b_reading or None,
        difference_bounded=pair.reading or None,
    )


def _layers(compared: comparison.Comparison, top: int | None) -> list[ComparedLayer] | Unknown:
    alignment = compared.alignment
    if alignment is None:
        return Unknown(compared.why_no_alignment)
    chosen: list[int] | range = range(len(alignment.nodes))
    if top is not None:
        chosen = [
            one.index
            for one in comparison.worst(compared, comparison.default_figure(compared), top)
        ]
    return [_layer(compared, alignment.nodes[index]) for index in chosen]


def _layer(compared: comparison.Comparison, one: AlignedNode) -> ComparedLayer:
    node = comparison.node_of(compared, one)

    def figures(name: comparison.FigureName) -> Figures:
        pair = comparison.figure_pair(compared, one, name)
        return _figures(pair, comparison.row_difference(one, pair))

    return ComparedLayer(
        path=node.path,
        kind=node.kind,
        type=node.type,
        depth=one.depth,
        change=one.change,
        former_path=former_path(compared, one) if one.change == "moved" else None,
        seconds=figures("seconds"),
        macs=figures("macs"),
        flops=figures("flops"),
        memory=figures("memory"),
        parameters=figures("parameters"),
    )
