"""A comparison as one JSON object on one line, by the rules of the report (``report.py``).

A difference is B less A, a ratio B over A. ``docs/compare.schema.json`` describes it.
"""

from __future__ import annotations

import json

from tui_profiler.queries.compare.alignment import AlignedNode
from tui_profiler.queries.compare.comparison import (
    FIGURES,
    Comparison,
    Pair,
    change_counts,
    default_figure,
    different_settings,
    figure_pair,
    former_path,
    node_of,
    row_difference,
    total_rows,
    worst,
)
from tui_profiler.queries.compare.side import Side
from tui_profiler.reports.json_values import Json, Unavailable

SCHEMA = "tui-profiler/compare/1"


def compare_json(compared: Comparison, *, top: int | None = None, in_turns: bool = False) -> str:
    """Give a comparison without a line end.

    Args:
        compared: two sides.
        top: give only so many layers, those that differ most by themselves.
        in_turns: both were measured in turns.
    """
    found = compare_as_json(compared, top=top, in_turns=in_turns)
    text = json.dumps(found, allow_nan=False, separators=(",", ":"))
    return text.replace("\x7f", "\\u007f")


def compare_as_json(
    compared: Comparison, *, top: int | None = None, in_turns: bool = False
) -> dict[str, Json]:
    """Give the same as plain values."""
    unavailable = Unavailable()
    counted = change_counts(compared)
    return {
        "schema": SCHEMA,
        "a": _side(compared.a),
        "b": _side(compared.b),
        "settings": [
            {"name": name, "a": a or None, "b": b or None}
            for name, a, b in different_settings(compared)
        ],
        "measured_in_turns": in_turns,
        "totals": [
            {
                "name": row.name,
                "unit": row.unit,
                **_figures(f"totals[name={row.name}]", row.pair, row.pair.difference, unavailable),
            }
            for row in total_rows(compared)
        ],
        "modules": {str(change): number for change, number in counted.items()}
        if counted
        else unavailable.missing("modules", compared.why_no_alignment),
        "worst_by": default_figure(compared) if counted else None,
        "layers": _layers(compared, top, unavailable),
        "unavailable": unavailable.reasons,
    }


def _side(side: Side) -> Json:
    return {"label": side.label, "settings": dict(side.settings)}


def _figures(
    at: str, pair: Pair, difference: float | None, unavailable: Unavailable
) -> dict[str, Json]:
    return {
        "a": unavailable.figure(f"{at}.a", pair.a),
        "b": unavailable.figure(f"{at}.b", pair.b),
        "difference": unavailable.figure(f"{at}.difference", difference, "a side is not known"),
        "ratio": unavailable.figure(f"{at}.ratio", pair.ratio, "a side is not known, or A is 0"),
        "noise": pair.noise,
        "doubt": pair.doubt or None,
    }


def _layers(compared: Comparison, top: int | None, unavailable: Unavailable) -> Json:
    alignment = compared.alignment
    if alignment is None:
        return unavailable.missing("layers", compared.why_no_alignment)
    chosen: list[int] | range = range(len(alignment.nodes))
    if top is not None:
        chosen = [one.index for one in worst(compared, default_figure(compared), top)]
    return [_layer(compared, alignment.nodes[index], unavailable) for index in chosen]


def _layer(compared: Comparison, one: AlignedNode, unavailable: Unavailable) -> Json:
    node = node_of(compared, one)
    found: dict[str, Json] = {
        "path": node.path,
        "kind": node.kind,
        "type": node.type,
        "depth": one.depth,
        "change": one.change,
        "former_path": former_path(compared, one) if one.change == "moved" else None,
    }
    for name in FIGURES:
        pair = figure_pair(compared, one, name)
        at = f"layers[].{name}"
        found[name] = _figures(at, pair, row_difference(one, pair), unavailable)
    return found
